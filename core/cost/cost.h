/* Prices a laid-out program on a cluster (docs/architecture.md, Cost): walks the ops of one rank on
 * two streams, compute and communication, as the runner issues them.
 *
 * Compute: the roofline max(flops / (peak x efficiency), bytes / (bandwidth x efficiency)) + launch
 * latency. Collectives: launch + latency of their steps + bytes / bandwidth of the slowest link
 * that the group spans, see links.h.
 *
 * Contention: all collectives of a rank, over any axes, and the hops of its rings take turns on the
 * communication stream, in the order of issue, as in the runner (one stream of NCCL, one queue of
 * calls):
 *     start = max(end of the one before, when compute has issued it), end = start + its seconds
 * and a ring's first hop starts behind pending collectives (sw_ring_delay). Axes that share a NIC
 * or a switch (tp over nodes beside fsdp's prefetched gathers) take the sum of their times: no link
 * carries two messages of a rank at once. Seconds assume that all groups run at once and share the
 * ports of a node (sw_links_crossing). Axes that share no link take turns, too, since the runner
 * has one stream. Owns nothing; every number comes from the program, an op's cost rule or the
 * cluster description. */
#ifndef SW_COST_COST_H
#define SW_COST_COST_H

#include "core/base/device.h"
#include "core/config/config.h"
#include "core/cost/links.h"
#include "core/cost/traffic.h"
#include "core/ir/op.h"
#include "core/programs/program_set.h"

enum { SW_COST_MAX_REGIONS = 12 };

struct sw_region_cost {
    char name[SW_NAME_BYTES];
    double seconds;         /* a whole step: all iterations and micro-steps */
    double compute_seconds; /* part: the compute stream computes */
    double exposed_seconds; /* part: the compute stream waits for communication */
};

/* Parts of one rank's step, in seconds: the walk counts each op at its position, with its slowdown
 * by communication. weights + cache + rest is the busy time of the compute stream and, with
 * `waiting`, the step. */
struct sw_cost_parts {
    double weights;   /* matrix products */
    double cache;     /* ops that read or write a cache of keys and values */
    double rest;      /* the other ops, and waits of the device for its host */
    double waiting;   /* waits for messages */
    double gathers;   /* collectives of weights, each alone; `waiting` is less if some are hidden */
    double reduces;   /* all other collectives, each alone */
    double latency;   /* part of these: seconds for zero bytes */
    int64_t messages; /* collectives that do not gather weights */
};

struct sw_cost {
    double step_seconds, compute_seconds;
    struct sw_cost_parts parts;
    double band_low_seconds, band_high_seconds; /* the step's 10th and 90th percentile */
    bool band_measured;                         /* true if the band is from the profile's own
                                                   runs */
    const char *band_note;                      /* reason for a wider band than the profile's; NULL:
                                                   none */
    const char *profile;                        /* the profile's name, in the cluster's memory;
                                                   never NULL */
    const char *calibration;                    /* source of its constants, in the cluster's memory;
                                                   never NULL */
    int32_t profile_runs;                       /* number of its measured runs; 0: not given */
    double profile_error;                       /* mean error over runs left out of the fit; 0: not
                                                   given */
    const char *note;                           /* sw_profile_note, in the cluster's memory; never
                                                   NULL */
    double exposed_seconds[SW_AXIS_COUNT];      /* waits, by axes of the awaited collective */
    double communication_bytes[SW_AXIS_COUNT];  /* bytes sent by one rank in a step; a group
                                                   over several axes counts for each in
                                                   proportion to size - 1 */
    /* Tokens of a block that a ring over sp needs to hide its hops on its outermost link; ring_link
     * empty: no ring, or all of it on the innermost link. */
    char ring_link[SW_NAME_BYTES]; /* cut short if too long */
    double ring_block_tokens, ring_needs_tokens;
    int32_t region_count;
    struct sw_region_cost region[SW_COST_MAX_REGIONS];
};

/* Parameters of a program's model, independent of precision and copies in the state. */
double sw_cost_parameters(const struct sw_program *program);

/* The program must be laid out. workload: of a serving program; NULL for others, and if unknown.
 * Errors (SW_ENVIRONMENT): memory; more regions than SW_COST_MAX_REGIONS. */
int sw_cost_price(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, struct sw_cost *out, struct sw_error *err);

/* Seconds of the pause in which the state goes to the ranks that write it: the program `save`,
 * alone; *links (may be NULL): messages in it. Errors (SW_ENVIRONMENT): as sw_cost_price; the set
 * has no such program. */
int sw_cost_save_seconds(const struct sw_program_set *set, const struct sw_cluster_config *cluster,
                         double *seconds, double *links, struct sw_error *err);

enum sw_cost_stream { SW_STREAM_COMPUTE, SW_STREAM_COMMUNICATION, SW_STREAM_WAIT };
/* Kinds of work of the compute stream. */
enum sw_cost_work { SW_WORK_WEIGHTS, SW_WORK_CACHE, SW_WORK_REST, SW_WORKS };

/* An op's properties for a price, independent of sizes and the axis order. */
struct sw_cost_step {
    int32_t first_equal; /* sw_program_first_equal_op; the op itself if it communicates */
    int16_t ends;        /* a collective, or a wait for it: index among awaited collectives */
    uint8_t stream;      /* enum sw_cost_stream */
    uint8_t when;        /* sw_walk_when */
    uint8_t work;        /* enum sw_cost_work */
    sw_axis_set axes;    /* axes of the ranks it communicates with, those of size 1 too */
    bool of_batch;       /* compute stream: sw_traffic_op_of_batch */
    bool talks;          /* compute stream: true for a ring or an exchange */
    bool of_weights;     /* true for a collective that reads a parameter */
};

/* Cache of recent products' seconds, shared by prices of several programs on one cluster. All zero
 * at first. */
enum { SW_COST_PRODUCTS = 256 };
struct sw_cost_shared {
    struct sw_cost_product {
        struct sw_product size; /* m 0: empty entry */
        enum sw_dtype dtype;
        double step_bytes, seconds;
    } product[SW_COST_PRODUCTS];
};

/* Parts that prices of a program share. seconds and sent depend on its sizes, the accelerator and
 * the workload, not on the axis order: each entry is computed when first needed, at the first of
 * equal ops; a new workload clears the seconds. The program must have been laid out or resized.
 * Call sw_cost_known_reset after every change of sizes; the caller calls sw_cost_known_free. */
struct sw_cost_known {
    double step_bytes;             /* sw_cost_step_bytes; < 0: unknown */
    struct sw_workload workload;   /* workload of the seconds */
    struct sw_cost_shared *shared; /* the caller's; NULL: none */
    double *compute_seconds;       /* [op_count]: sw_cost_compute_seconds; < 0: unknown */
    struct sw_traffic_sent *sent;  /* [op_count]: traffic.h */
    struct sw_cost_step *step;     /* [op_count] */
    int32_t *first; /* [first_count]: first ops of each cost; only these have entries */
    int32_t first_count;
    int32_t ends; /* number of collectives told apart by step->ends */
    bool once;    /* true if some ops run in the last micro-step only */
};
/* Errors (SW_ENVIRONMENT): memory; then there is nothing to free. */
int sw_cost_known_make(const struct sw_program *program, struct sw_cost_known *out,
                       struct sw_error *err);
void sw_cost_known_free(struct sw_cost_known *known); /* accepts an empty one */
/* Forgets sizes. */
void sw_cost_known_reset(struct sw_cost_known *known);
/* Sets the workload, and forgets seconds of another one. NULL: an empty workload. */
void sw_cost_known_meets(struct sw_cost_known *known, const struct sw_workload *workload);
/* sw_cost_compute_seconds of op i under the current workload. */
double sw_cost_known_seconds(struct sw_cost_known *known, const struct sw_program *program,
                             int32_t i, const struct sw_cluster_config *cluster,
                             const struct sw_workload *workload);
/* sw_cost_price with known parts; the program needs only sizes. */
int sw_cost_price_known(const struct sw_program *program, const struct sw_cluster_config *cluster,
                        const struct sw_workload *workload, struct sw_cost_known *known,
                        struct sw_cost *out, struct sw_error *err);
/* One op as issued by the walk; extrapolated iterations have none. */
struct sw_cost_event {
    int32_t op, region, layer, micro_step; /* see core/ir/walk.h */
    enum sw_cost_stream stream;
    double issued;     /* time at which the compute stream reached it */
    double start, end; /* seconds from the start of the step */
};
struct sw_cost_observer {
    void (*event)(void *context, const struct sw_cost_event *event);
    void *context;
};
/* sw_cost_price that reports every op to an observer. */
int sw_cost_trace(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, const struct sw_cost_observer *observer,
                  struct sw_cost *out, struct sw_error *err);

/* "sp crosses 'ib': ..." with numbers if the ring's blocks are shorter than needed; else "".
 * Returns buffer. */
const char *sw_cost_warning(const struct sw_cost *cost, char *buffer, size_t buffer_bytes);

/* Seconds of one op alone, for tests and for explain. */
double sw_cost_op_seconds(const struct sw_program *program, const struct sw_op *op,
                          const struct sw_cluster_config *cluster,
                          const struct sw_workload *workload);

/* Seconds of an op that is no collective, with its launch; ring attention without its hops. */
double sw_cost_compute_seconds(const struct sw_program *program, const struct sw_op *op,
                               const struct sw_cluster_config *cluster,
                               const struct sw_workload *workload);

/* The same for several ops of one program: the step's bytes are computed once, if the profile needs
 * them; *step_bytes: < 0 at first. shared: may be NULL. */
double sw_cost_compute_seconds_within(const struct sw_program *program, const struct sw_op *op,
                                      const struct sw_cluster_config *cluster,
                                      const struct sw_workload *workload, double *step_bytes,
                                      struct sw_cost_shared *shared);

/* Seconds of a collective's messages beyond the first, which many rows or pieces cause. 0 for every
 * other op. Part of sw_cost_op_seconds. */
double sw_cost_message_seconds(const struct sw_program *program, const struct sw_op *op,
                               const struct sw_cluster_config *cluster);

/* Bytes that the ops of one micro-step move before the same weights are read again, under the
 * workload (NULL: empty): decides if caches hold them. */
double sw_cost_step_bytes(const struct sw_program *program, const struct sw_workload *workload);
/* Phase of an attention op (enum sw_attention_phase); *size: its size in the phase's grid, where
 * the share `met` (1: all) of a cache's positions are met. */
enum sw_attention_phase sw_cost_attention_phase(const struct sw_program *program,
                                                const struct sw_op *op, double met,
                                                struct sw_product *size);
/* Seconds of one product alone, without a launch: by measured sizes (struct sw_products) if given.
 * step_bytes: of its step, as above. */
double sw_cost_product_seconds(const struct sw_cluster_config *cluster, enum sw_dtype dtype,
                               const struct sw_product *product, double step_bytes);
/* Angles of a rotary embedding, each with a sine and a cosine; 0 for every other op. */
double sw_cost_angles(const struct sw_program *program, const struct sw_op *op);
/* Speed of attention with such heads and that many queries of a call, relative to long attention
 * with heads of 128; 1 on devices without tiles. */
double sw_cost_attention_shape(const struct sw_accelerator_config *accelerator, double head_dim,
                               double length);
/* Fraction of peak of a product [m,k] x [k,n] by tiles and the cluster's profile; of causal
 * attention over `length` queries in one kernel call of that many flops (a ring's hop is one
 * call). */
double sw_cost_matmul_share(const struct sw_cluster_config *cluster, double m, double n, double k);
double sw_cost_attention_share(const struct sw_cluster_config *cluster, double flops,
                               double head_dim, double length);

/* Shares of an op's cost under the workload (NULL: empty). */
struct sw_op_met sw_cost_met(const struct sw_program *program, const struct sw_op *op,
                             const struct sw_workload *workload);
/* Bytes of weights and caches that one run of a serving program reads, before it reads the same
 * weights again. 0: a training program. */
double sw_cost_serving_bytes(const struct sw_program *program, const struct sw_workload *workload);
/* Bytes per second if each weight meets that many rows, in a program that reads `bytes` in total;
 * 0: more rows than measured. Linear in the time of a byte between measured numbers of rows. */
double sw_cost_skinny_gemm_bandwidth(const struct sw_skinny_gemm *skinny, double rows,
                                     double bytes);
/* Kind of rate of an op; SW_SKINNY_KINDS: none. */
enum sw_skinny_kind sw_cost_skinny_gemm_kind(const struct sw_program *program,
                                             const struct sw_op *op);
/* For an op with such a rate: bytes that it reads of weights, or of a full cache; *rows: rows that
 * each meets. */
double sw_cost_skinny_gemm_reads(const struct sw_program *program, const struct sw_op *op,
                                 double *rows);
/* Seconds of a serving op, with its added operand but without its launch; -1: no such rate, or
 * fewer rows were measured. */
double sw_cost_skinny_gemm_seconds(const struct sw_program *program, const struct sw_op *op,
                                   const struct sw_profile_config *profile,
                                   const struct sw_workload *workload);

/* Share of the least time of a product (struct sw_products): interpolated in the logarithms of its
 * sizes; beyond the grid, as at its edge. */
double sw_cost_products_share(const struct sw_products *products, double rows, double columns,
                              double depth);

/* The same for a chip's attention, by logarithms of shares: a kernel's start makes shares of small
 * sizes proportional to the size. */
double sw_cost_attention_grid_share(const struct sw_products *grid, double rows, double columns,
                                    double depth);
/* Seconds of attention over a cache in bf16 or int8, without a launch, if the chip's kernels were
 * measured; the share `met` (1: all) of the cache's positions are met. At least the time of the
 * smallest measured size. -1: not measured, another op, or the profile gives attention by size. */
double sw_cost_kernel_grid_seconds(const struct sw_program *program, const struct sw_op *op,
                                   const struct sw_cluster_config *cluster, double met);

/* Fraction of peak at a size: interpolated in the logarithm of the size, constant beyond the ends;
 * `fallback` if nothing was measured. */
double sw_cost_efficiency(const struct sw_curve *curve, double size, double fallback);

#endif
