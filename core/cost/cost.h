/* Prices a laid-out program on a cluster (docs/architecture.md, Cost): walks the ops of one rank on
 * two streams, compute and communication, as the runner issues them.
 *
 * Compute: the roofline max(flops / (peak x efficiency), bytes / (bandwidth x efficiency)) + launch
 * latency. Collectives: launch + latency of their steps + bytes / bandwidth of the slowest link
 * that the group spans, see links.h.
 *
 * Contention: all collectives of a rank, of whichever axes, and the hops of its rings take turns on
 * the communication stream, in the order of issue, as in the runner (one stream of NCCL, one queue
 * of calls):
 *     start = max(end of the one before, when compute has issued it), end = start + its seconds
 * and a ring's first hop starts behind what is under way (sw_ring_delay). So axes that share a NIC
 * or a switch, tp over nodes beside fsdp's prefetched gathers, take the sum of their times over it:
 * no link ever carries two messages of a rank at once. Seconds are those of all groups at once,
 * which share the ports of a node (sw_links_crossing). Axes that share no link take turns, too,
 * since the runner has one stream. Owns nothing; every number comes from the program, an op's
 * cost rule or the cluster description. */
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
    double seconds;         /* of a whole step: all iterations and micro-steps */
    double compute_seconds; /* of that, the compute stream at work */
    double exposed_seconds; /* of that, the compute stream waiting for communication */
};

/* What a step of one rank is made of, seconds: the walk counts each op where it comes to it, with
 * what slows it down. weights + cache + rest are the compute stream at work and, with `waiting`,
 * the step. */
struct sw_cost_parts {
    double weights;   /* matrix products */
    double cache;     /* ops that read or write a cache of keys and values */
    double rest;      /* the others, and what the device waits for its host */
    double waiting;   /* for messages */
    double gathers;   /* of weights, each collective alone: hidden where `waiting` is less */
    double reduces;   /* of everything else, each alone */
    double latency;   /* of these, what messages without a byte would take */
    int64_t messages; /* collectives that are no gathers of weights */
};

struct sw_cost {
    double step_seconds, compute_seconds;
    struct sw_cost_parts parts;
    double band_low_seconds, band_high_seconds; /* the step's 10th and 90th percentile */
    bool band_measured;                         /* true if the profile's own runs tell the band */
    const char *band_note;                 /* why it is wider than the profile's; NULL: it is not */
    const char *profile;                   /* its name; of the cluster, never NULL */
    const char *calibration;               /* what it rests on; of the cluster, never NULL */
    int32_t profile_runs;                  /* measured runs behind it; 0: not told */
    double profile_error;                  /* mean error of those left out; 0: not told */
    const char *note;                      /* sw_profile_note; of the cluster, never NULL */
    double exposed_seconds[SW_AXIS_COUNT]; /* waits, by the axes of what was waited for */
    double communication_bytes[SW_AXIS_COUNT]; /* sent by one rank in a step; a group of several
                                                  axes counts for each in proportion to size - 1 */
    /* A ring over sp hides its hops on its outermost link only behind blocks of ring_needs_tokens;
     * ring_link empty: no ring, or all of it on the innermost link. */
    char ring_link[SW_NAME_BYTES]; /* cut short if need be */
    double ring_block_tokens, ring_needs_tokens;
    int32_t region_count;
    struct sw_region_cost region[SW_COST_MAX_REGIONS];
};

/* Parameters of a program's model, whatever precision and copies its state has them in. */
double sw_cost_parameters(const struct sw_program *program);

/* The program must be laid out. workload: of a program of serving; NULL of others, and where
 * nothing is known of it. Errors (SW_ENVIRONMENT): memory; more regions than SW_COST_MAX_REGIONS.
 */
int sw_cost_price(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, struct sw_cost *out, struct sw_error *err);

/* How long steps pause while the state goes to the ranks that write it: the program `save`, with
 * nothing beside it; *links (may be NULL): of that, messages under way. Errors (SW_ENVIRONMENT): as
 * sw_cost_price; the set has no such program. */
int sw_cost_save_seconds(const struct sw_program_set *set, const struct sw_cluster_config *cluster,
                         double *seconds, double *links, struct sw_error *err);

enum sw_cost_stream { SW_STREAM_COMPUTE, SW_STREAM_COMMUNICATION, SW_STREAM_WAIT };
/* What the compute stream is at work on. */
enum sw_cost_work { SW_WORK_WEIGHTS, SW_WORK_CACHE, SW_WORK_REST, SW_WORKS };

/* What an op is to a price, whatever its sizes and the axis order. */
struct sw_cost_step {
    int32_t first_equal; /* sw_program_first_equal_op; itself where it talks */
    int16_t ends;        /* a collective, or a wait for it: which of those that are waited for */
    uint8_t stream;      /* enum sw_cost_stream */
    uint8_t when;        /* sw_walk_when */
    uint8_t work;        /* enum sw_cost_work */
    sw_axis_set axes;    /* of ranks that it talks to, those that split nothing as well */
    bool of_batch;       /* of the compute stream: sw_traffic_op_of_batch */
    bool talks;          /* of the compute stream: a ring, or an exchange */
    bool of_weights;     /* a collective that reads a parameter */
};

/* Shared by prices of several programs on one cluster: the seconds of the products that were met
 * last. All zero at first. */
enum { SW_COST_PRODUCTS = 256 };
struct sw_cost_shared {
    struct sw_cost_product {
        struct sw_product size; /* m 0: nothing yet */
        enum sw_dtype dtype;
        double step_bytes, seconds;
    } product[SW_COST_PRODUCTS];
};

/* What several prices of a program have in common. seconds and sent follow from its sizes, the
 * accelerator and the workload, whatever the axis order: each entry is worked out when it is first
 * needed, at the first op of those alike; with another workload the seconds are worked out again.
 * The program must have been laid out or resized. sw_cost_known_reset after every change of sizes;
 * sw_cost_known_free is the caller's. */
struct sw_cost_known {
    double step_bytes;             /* sw_cost_step_bytes; < 0: not yet */
    struct sw_workload workload;   /* that the seconds are of */
    struct sw_cost_shared *shared; /* the caller's; NULL: none */
    double *compute_seconds;       /* [op_count]: sw_cost_compute_seconds; < 0: not yet */
    struct sw_traffic_sent *sent;  /* [op_count]: traffic.h */
    struct sw_cost_step *step;     /* [op_count] */
    int32_t *first; /* [first_count]: ops that are the first that cost what they do: for no other is
                       anything known */
    int32_t first_count;
    int32_t ends; /* collectives that are told apart by step->ends */
    bool once;    /* some ops run in the last micro-step only */
};
/* Errors (SW_ENVIRONMENT): memory; there is nothing to free then. */
int sw_cost_known_make(const struct sw_program *program, struct sw_cost_known *out,
                       struct sw_error *err);
void sw_cost_known_free(struct sw_cost_known *known); /* an empty one too */
/* For other sizes. */
void sw_cost_known_reset(struct sw_cost_known *known);
/* Seconds of another workload are forgotten. NULL: one of nothing. */
void sw_cost_known_meets(struct sw_cost_known *known, const struct sw_workload *workload);
/* sw_cost_compute_seconds of op i, with the workload that the seconds are of. */
double sw_cost_known_seconds(struct sw_cost_known *known, const struct sw_program *program,
                             int32_t i, const struct sw_cluster_config *cluster,
                             const struct sw_workload *workload);
/* sw_cost_price with them; the program's sizes suffice. */
int sw_cost_price_known(const struct sw_program *program, const struct sw_cluster_config *cluster,
                        const struct sw_workload *workload, struct sw_cost_known *known,
                        struct sw_cost *out, struct sw_error *err);
/* One op as the walk issues it; of the iterations that are extrapolated there are none. */
struct sw_cost_event {
    int32_t op, region, layer, micro_step; /* as in core/ir/walk.h */
    enum sw_cost_stream stream;
    double issued;     /* when the compute stream came to it */
    double start, end; /* seconds from the start of the step */
};
struct sw_cost_observer {
    void (*event)(void *context, const struct sw_cost_event *event);
    void *context;
};
/* sw_cost_price that tells an observer every op. */
int sw_cost_trace(const struct sw_program *program, const struct sw_cluster_config *cluster,
                  const struct sw_workload *workload, const struct sw_cost_observer *observer,
                  struct sw_cost *out, struct sw_error *err);

/* "sp crosses 'ib': ..." with the numbers when the ring's blocks are shorter than it needs; else
 * "". Returns buffer. */
const char *sw_cost_warning(const struct sw_cost *cost, char *buffer, size_t buffer_bytes);

/* Times of one op in isolation, for tests and for explain. Seconds. */
double sw_cost_op_seconds(const struct sw_program *program, const struct sw_op *op,
                          const struct sw_cluster_config *cluster,
                          const struct sw_workload *workload);

/* Of an op that is no collective, with its launch; ring attention without its hops. */
double sw_cost_compute_seconds(const struct sw_program *program, const struct sw_op *op,
                               const struct sw_cluster_config *cluster,
                               const struct sw_workload *workload);

/* The same of several ops of one program, the bytes of whose step are worked out once, where the
 * profile asks for them; *step_bytes: < 0 at first. shared: may be NULL. */
double sw_cost_compute_seconds_within(const struct sw_program *program, const struct sw_op *op,
                                      const struct sw_cluster_config *cluster,
                                      const struct sw_workload *workload, double *step_bytes,
                                      struct sw_cost_shared *shared);

/* What the messages of a collective cost beyond the first: many rows or pieces are many. 0 for
 * every other op. Part of sw_cost_op_seconds. */
double sw_cost_message_seconds(const struct sw_program *program, const struct sw_op *op,
                               const struct sw_cluster_config *cluster);

/* Bytes that the ops of one micro-step move, with what they meet of the workload (NULL: one of
 * nothing), before it comes to the same weights again: what caches can hold of it. */
double sw_cost_step_bytes(const struct sw_program *program, const struct sw_workload *workload);
/* Of an op of attention; *size: where it lies in its phase's grid (enum sw_attention_phase), of a
 * cache's positions `met` are met, 1: all. */
enum sw_attention_phase sw_cost_attention_phase(const struct sw_program *program,
                                                const struct sw_op *op, double met,
                                                struct sw_product *size);
/* One product alone, without a launch: where sizes were measured (struct sw_products), by them.
 * step_bytes: of the step that it is in, as above. */
double sw_cost_product_seconds(const struct sw_cluster_config *cluster, enum sw_dtype dtype,
                               const struct sw_product *product, double step_bytes);
/* Angles that a rotary embedding takes sine and cosine of; 0 of every other op. */
double sw_cost_angles(const struct sw_program *program, const struct sw_op *op);
/* Share of what long attention with heads of 128 reaches that such heads and so many queries of a
 * call do: 1 of devices that are not filled by tiles. */
double sw_cost_attention_shape(const struct sw_accelerator_config *accelerator, double head_dim,
                               double length);
/* Fraction of peak that a product [m,k] x [k,n] reaches by tiles and the cluster's profile; causal
 * attention over `length` queries in one kernel call of so many flops: of a ring one hop. */
double sw_cost_matmul_share(const struct sw_cluster_config *cluster, double m, double n, double k);
double sw_cost_attention_share(const struct sw_cluster_config *cluster, double flops,
                               double head_dim, double length);

/* Shares of an op's cost that the workload meets (NULL: one of nothing). */
struct sw_op_met sw_cost_met(const struct sw_program *program, const struct sw_op *op,
                             const struct sw_workload *workload);
/* Bytes that one run of a program of serving reads in weights and caches: what a token reads before
 * it comes to the same weights again. 0: the program is of training. */
double sw_cost_serving_bytes(const struct sw_program *program, const struct sw_workload *workload);
/* Bytes per second where each meets so many rows, in a program that reads `bytes` in all; 0: more
 * rows than any that was measured. Between measured numbers of rows the time of a byte is
 * interpolated linearly.
 */
double sw_cost_skinny_gemm_bandwidth(const struct sw_skinny_gemm *skinny, double rows,
                                     double bytes);
/* Which of the rates an op has; SW_SKINNY_KINDS: none. */
enum sw_skinny_kind sw_cost_skinny_gemm_kind(const struct sw_program *program,
                                             const struct sw_op *op);
/* Of an op that has one: bytes that it reads of weights, or of a full cache; *rows that each meets.
 */
double sw_cost_skinny_gemm_reads(const struct sw_program *program, const struct sw_op *op,
                                 double *rows);
/* Of an op of serving, with what is added to it but without its launch; -1: it has no such rate, or
 * none of as many rows was measured. */
double sw_cost_skinny_gemm_seconds(const struct sw_program *program, const struct sw_op *op,
                                   const struct sw_profile_config *profile,
                                   const struct sw_workload *workload);

/* Share of the least time that a product reaches (struct sw_products): interpolated in the
 * logarithms of its sizes; beyond the grid, as at its edge. */
double sw_cost_products_share(const struct sw_products *products, double rows, double columns,
                              double depth);

/* The same of a chip's attention, by the logarithms of the shares: a kernel's start makes those of
 * small sizes go with the size. */
double sw_cost_attention_grid_share(const struct sw_products *grid, double rows, double columns,
                                    double depth);
/* Of an op of attention over a cache in bf16 or int8, without a launch, where the chip's kernels
 * were measured; of a cache's positions `met` are met, 1: all. No less than the smallest size that
 * was measured takes. -1: they were not, it is none, or the profile tells attention by size. */
double sw_cost_kernel_grid_seconds(const struct sw_program *program, const struct sw_op *op,
                                   const struct sw_cluster_config *cluster, double met);

/* Fraction of peak at a size: interpolated in the logarithm of the size, constant beyond the ends;
 * `fallback` where nothing was measured. */
double sw_cost_efficiency(const struct sw_curve *curve, double size, double fallback);

#endif
