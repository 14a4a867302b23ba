/* Turns measured rates into a profile and writes the YAML that `plan` reads.
 *
 * A file is written beside its place and moved there when it is complete: whatever happens, there
 * is the old file or the whole new one. Owns nothing. */
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

/* Figures of one rank while all ranks of its node are at work. */
struct sw_calibration {
    double fp32_flops, bf16_flops, memory_bandwidth, launch_latency_s;
    double angle_time_s; /* of rope (struct sw_profile_config) */
    struct sw_calibration_curve curve[SW_RATE_COUNT];
    struct sw_skinny_gemm skinny_gemm[SW_SKINNY_KINDS][SW_RATE_DTYPES];
    struct sw_products products[SW_PRODUCT_KINDS][SW_RATE_DTYPES]; /* rows 0: not measured */
    struct sw_curve products_scale; /* what they reach in whole steps; count 0: there are none */
    /* Of prices by them of other sizes in such steps: median |error|, mean measured / predicted - 1
     */
    double products_error, products_signed_error;
    int32_t products_tried;
    /* The same of attention. */
    struct sw_products attention_by_size[SW_ATTENTION_PHASES][SW_RATE_DTYPES];
    struct sw_curve attention_scale;
    double attention_error, attention_signed_error;
    int32_t attention_tried;
    double share; /* of its time that a rank's thread had a core: 1, or less when ranks outnumber
                     cores; 0: not told, of GPUs */
};

/* Errors (SW_ENVIRONMENT): a kind of op that was never measured. */
int sw_calibration_make(const struct sw_kernel_rates *rates, int32_t ranks,
                        struct sw_calibration *out, struct sw_error *err);

/* What the files say besides; no date, host or user name. */
struct sw_calibration_facts {
    const char *accelerator_name, *cluster_name;
    bool known; /* the accelerator is one of configs/accelerators: the profile is of that only */
    const char *versions; /* e.g. "runner 0.1.0, oneDNN 2.6.3, Open MPI v4.1.4" */
    enum sw_device_kind device;
    const char *notes;          /* comment lines: what was kept all the same; NULL: nothing */
    double band_low, band_high; /* of a profile that was; 0: not told */
    const char *basis;          /* comment lines: what the figures rest on; NULL: a CPU's */
    int32_t compute_units;      /* multiprocessors; 0: not told */
    int32_t nodes, ranks_per_node, threads; /* threads of a rank */
    int64_t memory_bytes, reserved_bytes;   /* of a rank */
    /* cluster only */
    const char *profile_path;                    /* as the cluster file names it */
    const char *partition;                       /* Slurm's; NULL: started by mpirun */
    const struct sw_link_rates *inside, *across; /* links of a node, between nodes; NULL: none */
};

void sw_calibration_write_profile(FILE *out, const struct sw_calibration *calibration,
                                  const struct sw_calibration_facts *facts);
/* With the accelerator in it. */
void sw_calibration_write_cluster(FILE *out, const struct sw_calibration *calibration,
                                  const struct sw_calibration_facts *facts);

/* Writes through `write` to a new file beside `path`, then renames it. Errors (SW_ENVIRONMENT): the
 * file cannot be written; `path` is then as it was. */
int sw_calibration_save(const char *path, void (*write)(FILE *out, const void *context),
                        const void *context, struct sw_error *err);

#endif
