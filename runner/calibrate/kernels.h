/* Kernel rates of a device in real use: training steps of small transformers on the production
 * executor, every op timed by kind and size.
 *
 * Sizes are those of the op's row (core/ops), so the curves and that row reproduce the measured
 * time. All ranks of a job measure at once: figures include contention (cores, caches, memory
 * bandwidth), as in training. Owns nothing lasting. */
#ifndef SW_CALIBRATE_KERNELS_H
#define SW_CALIBRATE_KERNELS_H

#include "core/config/config.h"
#include "runner/rank/execute.h"

enum sw_rate_kind {
    SW_RATE_MATMUL,    /* size: flops */
    SW_RATE_ATTENTION, /* size: flops */
    SW_RATE_ATTENTION_BACKWARD,
    SW_RATE_MEMORY, /* size: bytes */
    SW_RATE_COUNT
};

/* Bucket b holds calls of sizes in [2^(b + first), 2^(b + 1 + first)); the first and last also hold
 * those beyond. */
enum { SW_RATE_BUCKETS = 28, SW_RATE_FIRST_LOG2 = 10 };

/* Sums over calls; a call counts the median seconds of its samples. */
struct sw_rate_bucket {
    double calls, size, seconds;
};

/* Reads of decoding (skinny_gemm.h): by kind (enum sw_skinny_kind) and precision, by rows (1, 2, 4,
 * 8, 16, and those of the program `read`), and by program size. Sums over calls; `reads`: sum of a
 * token's total reads. */
enum {
    SW_SKINNY_GEMM_COUNTS = 6,
    SW_SKINNY_GEMM_SIZES = 6,
    SW_SKINNY_GEMM_WIDE = 128,     /* rows of `read` */
    SW_SKINNY_GEMM_WIDE_SIZES = 2, /* sizes measured for it: arithmetic counts, not caches */
    SW_SKINNY_GEMM_POINTS =
        (SW_SKINNY_GEMM_COUNTS - 1) * SW_SKINNY_GEMM_SIZES + SW_SKINNY_GEMM_WIDE_SIZES
};
static inline int32_t sw_skinny_gemm_rows(int32_t index) /* below SW_SKINNY_GEMM_COUNTS */
{
    return index == SW_SKINNY_GEMM_COUNTS - 1 ? SW_SKINNY_GEMM_WIDE : 1 << index;
}
struct sw_skinny_gemm_bucket {
    double calls, bytes, seconds, reads;
};
/* Doubles only: ranks add theirs up. */
struct sw_skinny_gemm_rates {
    struct sw_skinny_gemm_bucket bucket[SW_SKINNY_KINDS][SW_RATE_DTYPES][SW_SKINNY_GEMM_COUNTS]
                                       [SW_SKINNY_GEMM_SIZES];
    double wall_seconds, busy_seconds;
};

/* A grid (grid.h) of matrix products or attention: each point's seconds, summed over ranks, in the
 * order of struct sw_products. levels: sizes measured of the expensive side, 0: none. missed:
 * points for which a rank's clock saw no time, which the sum hides. Doubles only. */
enum {
    SW_PRODUCT_TOKENS = 4,
    SW_PRODUCT_WIDTHS = 5,
    SW_GRID_POINTS = SW_PRODUCT_TOKENS * SW_PRODUCT_WIDTHS * SW_PRODUCT_WIDTHS
};
struct sw_grid_rates {
    double seconds[SW_GRID_POINTS];
    double levels, missed, wall_seconds, busy_seconds;
};

/* A product of the programs in a step that moves step_bytes (sw_cost_step_bytes): a test of the
 * grid, not part of it. Sums over ranks; all but the seconds are equal on every rank. */
enum { SW_STEP_PRODUCTS = 512 };
struct sw_step_product {
    double kind, m, n, k, step_bytes, calls, seconds;
};

/* The same for attention; m, n, k: size of a point of its grid (attention.h). */
enum { SW_STEP_ATTENTIONS = 128 };
_Static_assert((int)SW_STEP_ATTENTIONS <= (int)SW_STEP_PRODUCTS, "room for either");

/* Doubles only: ranks add theirs up. Seconds count the compute thread's busy time, not time when
 * other threads had its core; `wall` over `busy` tells how much longer steps took. */
struct sw_kernel_rates {
    struct sw_rate_bucket bucket[SW_RATE_COUNT][SW_RATE_BUCKETS];
    /* Rotary embeddings, which compute sines besides moving memory; number of angles. */
    struct sw_rate_bucket rope[SW_RATE_BUCKETS];
    double angles;
    double wall_seconds, busy_seconds;       /* both of the same steps */
    double fp32_seconds, bf16_seconds;       /* the same matrix products in both */
    double least_seconds;                    /* the shortest op's, summed over ranks */
    double programs, steps;                  /* number measured, summed over ranks */
    struct sw_skinny_gemm_rates skinny_gemm; /* CPU device only, like products */
    struct sw_grid_rates products[SW_PRODUCT_KINDS][SW_RATE_DTYPES];
    struct sw_grid_rates attention[SW_ATTENTION_PHASES][SW_RATE_DTYPES];
    double step_products; /* number, summed over ranks; fp32, ops of a single product */
    struct sw_step_product step_product[SW_STEP_PRODUCTS];
    double step_attentions;
    struct sw_step_product step_attention[SW_STEP_ATTENTIONS]; /* kind: phase */
};

int32_t sw_rate_bucket_index(double size);

/* Curve of an op; -1: none. */
int32_t sw_rate_kind(const struct sw_op *op);

/* Number of equal products that prices the op; 1 if it is none. */
int32_t sw_rate_parts(const struct sw_program *program, const struct sw_op *op);

/* Adds `calls` calls of an op that took `seconds` together. unit: size that buckets count as 1, so
 * that larger devices use larger sizes. */
void sw_rate_add(struct sw_kernel_rates *rates, const struct sw_program *program,
                 const struct sw_op *op, double calls, double seconds, double unit);

/* Runs step `number` of a training program on arbitrary tokens below vocab_size. Errors: see
 * sw_executor_run. */
int sw_rate_step(struct sw_executor *executor, int64_t vocab_size, int64_t number,
                 struct sw_error *err);

/* Collective over `world` (all ranks measure the same); every rank gets the sums over all ranks.
 * Takes about `seconds`; runs at least one small program. Errors: memory, the device's, the
 * collectives'. */
int sw_calibrate_kernels(struct sw_device *device, struct sw_comm *world, double seconds,
                         struct sw_kernel_rates *out, struct sw_error *err);

#endif
