#include "runner/calibrate/products.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "runner/calibrate/fill.h"
#include "runner/calibrate/links.h"
#include "runner/calibrate/timer.h"
#include "runner/collective/comm.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PASSES = 15, MIN_PASSES = 3 };

/* Tokens of a micro-batch and widths of weights: shards, heads, whole layers. Between them shares
 * go with the logarithm. */
static const double token_counts[SW_PRODUCT_TOKENS] = {32, 128, 512, 2048};
static const double widths[SW_PRODUCT_WIDTHS] = {32, 64, 128, 256, 1024};

/* What the op before made, weights of a layer and results move through as much memory as a last
 * cache may hold. What forward kept for backward was last touched a step ago: it moves through
 * more. */
enum { NEAR_BYTES = 16 << 20, FAR_BYTES = 64 << 20 };

void sw_products_sizes(enum sw_product_kind kind, int32_t tokens, struct sw_products *out)
{
    const bool gradient = kind == SW_PRODUCT_LINEAR_DW;
    *out = (struct sw_products){.rows = gradient ? SW_PRODUCT_WIDTHS : tokens,
                                .columns = SW_PRODUCT_WIDTHS,
                                .depths = gradient ? tokens : SW_PRODUCT_WIDTHS};
    memcpy(out->row, gradient ? widths : token_counts, (size_t)out->rows * sizeof *out->row);
    memcpy(out->column, widths, sizeof widths);
    memcpy(out->depth, gradient ? token_counts : widths, (size_t)out->depths * sizeof *out->depth);
}

/* Where the next call's operands or results are. */
struct region {
    char *memory;
    int64_t bytes, at;
};

static void *take(struct region *region, int64_t bytes)
{
    bytes = sw_align(bytes, SW_ARENA_ALIGNMENT);
    if (region->at + bytes > region->bytes)
        region->at = 0;
    void *here = region->memory + region->at;
    region->at += bytes;
    return here;
}

struct timing {
    struct sw_device *device;
    enum sw_product_kind kind;
    enum sw_dtype dtype;
    struct region near, far, results;
    double clock; /* seconds that reading it takes */
};

/* [1, rows, columns] of activations, [rows, columns] of weights. */
static struct sw_tensor tensor(struct region *region, enum sw_dtype dtype, bool weight, double rows,
                               double columns)
{
    const int64_t elems = (int64_t)(rows * columns);
    struct sw_tensor t = {.dtype = dtype, .ndim = weight ? 2 : 3, .size = {1}, .elems = elems};
    t.data = take(region, elems * (int64_t)sw_dtype_bytes(dtype));
    t.size[t.ndim - 2] = (int64_t)rows;
    t.size[t.ndim - 1] = (int64_t)columns;
    memcpy(t.global, t.size, sizeof t.global);
    return t;
}

/* y = x W; dx = dy W^T; dW = x^T dy, which is summed in fp32. */
static void make_operands(struct timing *t, const struct sw_product *s, struct sw_tensor in[2],
                          struct sw_tensor *out)
{
    const bool gradient = t->kind == SW_PRODUCT_LINEAR_DW;
    if (gradient) {
        in[0] = tensor(&t->far, t->dtype, false, s->k, s->m);
        in[1] = tensor(&t->near, t->dtype, false, s->k, s->n);
    } else {
        const bool transposed = t->kind == SW_PRODUCT_LINEAR_T;
        in[0] = tensor(&t->near, t->dtype, false, s->m, s->k);
        in[1] =
            tensor(&t->near, t->dtype, true, transposed ? s->n : s->k, transposed ? s->k : s->n);
    }
    *out = tensor(&t->results, gradient ? SW_F32 : t->dtype, gradient, s->m, s->n);
}

/* One product. *seconds: the compute thread at work. */
static int run(struct timing *t, const struct sw_product *s, double *seconds, struct sw_error *err)
{
    static const enum sw_op_kind kinds[SW_PRODUCT_KINDS] = {SW_OP_LINEAR, SW_OP_LINEAR_T,
                                                            SW_OP_LINEAR_DW};
    const struct sw_op op = {.kind = kinds[t->kind], .n_in = 2, .n_out = 1};
    struct sw_tensor in[2], out;
    make_operands(t, s, in, &out);
    const struct sw_step step = {.step = 1};
    const struct sw_call call = {.op = &op, .in = in, .out = &out, .step = &step};
    const double begin = sw_clock_busy();
    if (t->device->vtable->run[op.kind](t->device, &call, err) != 0 ||
        t->device->vtable->synchronize(t->device, err) != 0)
        return -1;
    const double took = sw_clock_busy() - begin - t->clock;
    *seconds = took > 0 ? took : 0;
    return 0;
}

struct sw_product sw_products_point(const struct sw_products *grid, int32_t i)
{
    return (struct sw_product){.m = grid->row[i / (grid->columns * grid->depths)],
                               .n = grid->column[i / grid->depths % grid->columns],
                               .k = grid->depth[i % grid->depths]};
}

int32_t sw_products_points(const struct sw_products *grid)
{
    return grid->rows * grid->columns * grid->depths;
}

static double flops_of(const struct sw_products *grid)
{
    double sum = 0;
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        sum += 2 * s.m * s.n * s.k;
    }
    return sum;
}

/* How many numbers of tokens can be afforded, from the rate of a product of middle size. */
static int find_tokens(struct timing *t, struct sw_comm *world, double seconds, int32_t *tokens,
                       struct sw_error *err)
{
    const struct sw_product middle = {.m = 256, .n = 256, .k = 256};
    struct sw_products grid;
    double took = 0;
    for (int32_t i = 0; i < 2; i++) /* the first makes the kernel */
        if (run(t, &middle, &took, err) != 0)
            return -1;
    double rate = 2 * middle.m * middle.n * middle.k / (took > 1e-9 ? took : 1e-9) / world->size;
    if (sw_calibrate_sum(world, &rate, 1, err) != 0)
        return -1;
    *tokens = SW_PRODUCT_TOKENS;
    sw_products_sizes(t->kind, *tokens, &grid);
    while (*tokens > 2 && flops_of(&grid) * (1 + MIN_PASSES) / rate > seconds)
        sw_products_sizes(t->kind, --*tokens, &grid);
    return 0;
}

/* Every product once. */
static int pass(struct timing *t, const struct sw_products *grid, double *samples,
                struct sw_error *err)
{
    for (int32_t i = 0; i < sw_products_points(grid); i++) {
        const struct sw_product s = sw_products_point(grid, i);
        if (run(t, &s, &samples[(size_t)i * MAX_PASSES], err) != 0)
            return -1;
    }
    return 0;
}

/* Samples of one product lie a whole pass apart: what disturbs the machine for a moment is in one
 * of them, and the median is of the others. */
static int time_grid(struct timing *t, struct sw_comm *world, double seconds,
                     struct sw_product_rates *rates, struct sw_error *err)
{
    double samples[SW_PRODUCT_POINTS * MAX_PASSES];
    struct sw_products grid;
    int32_t tokens, passes = 0;
    if (find_tokens(t, world, seconds, &tokens, err) != 0)
        return -1;
    sw_products_sizes(t->kind, tokens, &grid);
    if (pass(t, &grid, samples, err) != 0 || /* makes the kernels */
        (world->size > 1 && world->vtable->barrier(world, err) != 0))
        return -1;
    const double wall = sw_clock_now(), busy = sw_clock_busy();
    while (passes < MAX_PASSES && (passes < MIN_PASSES || sw_clock_now() - wall < seconds))
        if (pass(t, &grid, samples + passes++, err) != 0)
            return -1;
    rates->wall_seconds = sw_clock_now() - wall;
    rates->busy_seconds = sw_clock_busy() - busy;
    rates->tokens = tokens;
    for (int32_t i = 0; i < sw_products_points(&grid); i++) {
        double *of_point = samples + (size_t)i * MAX_PASSES;
        qsort(of_point, (size_t)passes, sizeof *of_point, sw_compare_doubles);
        rates->seconds[i] = of_point[passes / 2];
        rates->missed += rates->seconds[i] > 0 ? 0 : 1;
    }
    return sw_calibrate_sum(world, (double *)rates, sizeof *rates / sizeof(double), err);
}

static int make_region(const struct timing *t, struct region *region, int64_t bytes,
                       enum sw_dtype dtype, struct sw_error *err)
{
    *region = (struct region){t->device->vtable->allocate(t->device, (size_t)bytes), bytes, 0};
    if (region->memory == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for products to be timed");
    return sw_calibrate_fill(t->device, region->memory, bytes, dtype, err);
}

static void free_region(const struct timing *t, struct region *region)
{
    if (region->memory != NULL)
        t->device->vtable->release(t->device, region->memory);
}

int sw_calibrate_products(struct sw_device *device, struct sw_comm *world,
                          enum sw_product_kind kind, enum sw_few_dtype dtype, double seconds,
                          struct sw_product_rates *out, struct sw_error *err)
{
    static const enum sw_dtype dtypes[SW_FEW_DTYPES] = {SW_F32, SW_BF16_T};
    struct timing t = {.device = device, .kind = kind, .dtype = dtypes[dtype]};
    int status = -1;
    memset(out, 0, sizeof *out);
    t.clock = sw_timer_clock();
    if (make_region(&t, &t.near, NEAR_BYTES, t.dtype, err) == 0 &&
        make_region(&t, &t.far, FAR_BYTES, t.dtype, err) == 0 &&
        make_region(&t, &t.results, NEAR_BYTES, SW_F32, err) == 0)
        status = time_grid(&t, world, seconds, out, err);
    free_region(&t, &t.near);
    free_region(&t, &t.far);
    free_region(&t, &t.results);
    return status;
}
