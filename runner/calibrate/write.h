/* Turns measured rates into a profile and writes the YAML that `plan` reads.
 *
 * A file is written to a temporary and renamed when complete: at any time either the old or the
 * whole new file exists. Owns nothing. */
#ifndef SW_CALIBRATE_WRITE_H
#define SW_CALIBRATE_WRITE_H

#include "core/base/device.h"
#include "runner/calibrate/kernels.h"
#include "runner/calibrate/links.h"

#include <stdbool.h>
#include <stdio.h>

struct sw_calibration_point {
    double size, fraction; /* flops or bytes; 0 < fraction <= 1 */
};
struct sw_calibration_curve {
    int32_t count;
    struct sw_calibration_point point[SW_RATE_BUCKETS]; /* ascending */
};

/* Figures of one rank while all ranks of its node work. */
struct sw_calibration {
    double fp32_flops, bf16_flops, memory_bandwidth, launch_latency_s;
    double angle_time_s; /* for rope (struct sw_profile_config) */
    struct sw_calibration_curve curve[SW_RATE_COUNT];
    struct sw_skinny_gemm skinny_gemm[SW_SKINNY_KINDS][SW_RATE_DTYPES];
    struct sw_products products[SW_PRODUCT_KINDS][SW_RATE_DTYPES]; /* rows 0: not measured */
    struct sw_curve products_scale; /* fraction reached in whole steps; count 0: none */
    /* Errors of prices by these for other sizes in such steps: median |error|, mean measured /
     * predicted - 1 */
    double products_error, products_signed_error;
    int32_t products_tried;
    /* The same for attention. */
    struct sw_products attention_by_size[SW_ATTENTION_PHASES][SW_RATE_DTYPES];
    struct sw_curve attention_scale;
    double attention_error, attention_signed_error;
    int32_t attention_tried;
    double share; /* fraction of its time that a rank's thread had a core: below 1 if ranks
                   * outnumber cores; 0: unknown, on GPUs */
};

/* Errors (SW_ENVIRONMENT): an op kind that was never measured. */
int sw_calibration_make(const struct sw_kernel_rates *rates, int32_t ranks,
                        struct sw_calibration *out, struct sw_error *err);

/* Further contents of the files; no date, host or user name. */
struct sw_calibration_facts {
    const char *accelerator_name, *cluster_name;
    bool known;           /* true if in configs/accelerators: the profile is for it only */
    const char *versions; /* e.g. "runner 0.1.0, oneDNN 2.6.3, Open MPI v4.1.4" */
    enum sw_device_kind device;
    const char *notes;          /* comment lines: doubts about kept figures; NULL: none */
    double band_low, band_high; /* from a doubted profile; 0: none */
    const char *basis;          /* comment lines: basis of the figures; NULL: a CPU's */
    int32_t compute_units;      /* multiprocessors; 0: unknown */
    int32_t nodes, ranks_per_node, threads; /* threads per rank */
    int64_t memory_bytes, reserved_bytes;   /* per rank */
    /* cluster only */
    const char *profile_path;                    /* path written in the cluster file */
    const char *partition;                       /* Slurm's; NULL: started by mpirun */
    const struct sw_link_rates *inside, *across; /* links within and between nodes; NULL: none */
};

void sw_calibration_write_profile(FILE *out, const struct sw_calibration *calibration,
                                  const struct sw_calibration_facts *facts);
/* Writes the cluster, including its accelerator. */
void sw_calibration_write_cluster(FILE *out, const struct sw_calibration *calibration,
                                  const struct sw_calibration_facts *facts);

/* Writes through `write` to a temporary beside `path`, then renames it. Errors (SW_ENVIRONMENT):
 * the file cannot be written; `path` stays unchanged. */
int sw_calibration_save(const char *path, void (*write)(FILE *out, const void *context),
                        const void *context, struct sw_error *err);

#endif
