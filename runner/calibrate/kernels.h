/* What a device's kernels reach, measured where they work: whole training steps of small
 * transformers run through the production executor, and every op's time is taken by its kind and
 * size.
 *
 * Sizes are those of the op's row (core/ops), so a price made of the curves and the same
 * rule gives back the measured time. All ranks of a job measure at the same time: what they take
 * from each other (cores, caches, memory bandwidth) is in the figures, as it is in training. Owns
 * nothing that lasts. */
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

/* Bucket b holds the calls whose size is in [2^(b + first), 2^(b + 1 + first)); the first and the
 * last also hold what is beyond. */
enum { SW_RATE_BUCKETS = 28, SW_RATE_FIRST_LOG2 = 10 };

/* Sums over calls; a call's seconds are the median of several. */
struct sw_rate_bucket {
    double calls, size, seconds;
};

/* What decoding reads (skinny_gemm.h): by kind (enum sw_skinny_kind) and precision, by rows (1, 2,
 * 4, 8, 16, and those of the program `read`) and by the size of the program. Sums over calls;
 * `reads` of what a token reads in all. */
enum {
    SW_SKINNY_GEMM_COUNTS = 6,
    SW_SKINNY_GEMM_SIZES = 6,
    SW_SKINNY_GEMM_WIDE = 128, /* of `read` */
    SW_SKINNY_GEMM_WIDE_SIZES =
        2, /* of which that is measured: arithmetic counts, not the caches */
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
/* Doubles only, as below. */
struct sw_skinny_gemm_rates {
    struct sw_skinny_gemm_bucket bucket[SW_SKINNY_KINDS][SW_RATE_DTYPES][SW_SKINNY_GEMM_COUNTS]
                                       [SW_SKINNY_GEMM_SIZES];
    double wall_seconds, busy_seconds;
};

/* One grid (grid.h) of matrix products or attention: of each point a rank's seconds, summed over
 * ranks, in the order of struct sw_products; of the side that costs `levels` sizes were measured,
 * 0: nothing; of `missed` points a rank's clock saw no time, which a sum over ranks does not tell.
 * Doubles only. */
enum {
    SW_PRODUCT_TOKENS = 4,
    SW_PRODUCT_WIDTHS = 5,
    SW_GRID_POINTS = SW_PRODUCT_TOKENS * SW_PRODUCT_WIDTHS * SW_PRODUCT_WIDTHS
};
struct sw_grid_rates {
    double seconds[SW_GRID_POINTS];
    double levels, missed, wall_seconds, busy_seconds;
};

/* A product of the programs, as a step that moves step_bytes (sw_cost_step_bytes) runs it: what a
 * grid is tried on, which it was not made of. Of the ranks the sums, as of everything; all but the
 * seconds are the same on each. */
enum { SW_STEP_PRODUCTS = 512 };
struct sw_step_product {
    double kind, m, n, k, step_bytes, calls, seconds;
};

/* Attention of the programs, alike; m, n and k are the size of a point of its grid (attention.h).
 */
enum { SW_STEP_ATTENTIONS = 128 };
_Static_assert((int)SW_STEP_ATTENTIONS <= (int)SW_STEP_PRODUCTS, "room for either");

/* Doubles only: ranks add theirs up. Seconds count the compute thread at work, not the time in
 * which other threads had its core; `wall` over `busy` says how much longer steps took. */
struct sw_kernel_rates {
    struct sw_rate_bucket bucket[SW_RATE_COUNT][SW_RATE_BUCKETS];
    /* Rotary embeddings, which take sines besides the memory that they move, and of how many. */
    struct sw_rate_bucket rope[SW_RATE_BUCKETS];
    double angles;
    double wall_seconds, busy_seconds;       /* of the same steps */
    double fp32_seconds, bf16_seconds;       /* of the same matrix products */
    double least_seconds;                    /* of the shortest op, over ranks: a sum */
    double programs, steps;                  /* measured, over ranks: sums */
    struct sw_skinny_gemm_rates skinny_gemm; /* of the CPU device, as are products */
    struct sw_grid_rates products[SW_PRODUCT_KINDS][SW_RATE_DTYPES];
    struct sw_grid_rates attention[SW_ATTENTION_PHASES][SW_RATE_DTYPES];
    double step_products; /* sum over ranks of how many there are; in fp32, of one product each */
    struct sw_step_product step_product[SW_STEP_PRODUCTS];
    double step_attentions;
    struct sw_step_product step_attention[SW_STEP_ATTENTIONS]; /* kind: its phase */
};

int32_t sw_rate_bucket_index(double size);

/* The curve that an op belongs to, -1: none. */
int32_t sw_rate_kind(const struct sw_op *op);

/* Products of equal size that the op is priced as, 1 where it is none. */
int32_t sw_rate_parts(const struct sw_program *program, const struct sw_op *op);

/* Adds `calls` calls of an op of the program that together took `seconds`. unit: what counts as 1
 * to the buckets, so that larger devices have theirs at larger sizes. */
void sw_rate_add(struct sw_kernel_rates *rates, const struct sw_program *program,
                 const struct sw_op *op, double calls, double seconds, double unit);

/* Step `number` of a program that trains, on tokens of no meaning below vocab_size. Errors: as
 * sw_executor_run. */
int sw_rate_step(struct sw_executor *executor, int64_t vocab_size, int64_t number,
                 struct sw_error *err);

/* Collective over `world` (all ranks measure the same); every rank gets the sums over all ranks.
 * Takes about `seconds`, at least one small program. Errors: memory, the device's, the
 * collectives'. */
int sw_calibrate_kernels(struct sw_device *device, struct sw_comm *world, double seconds,
                         struct sw_kernel_rates *out, struct sw_error *err);

#endif
