#include "runner/calibrate/products.h"

#include "runner/collective/comm.h"

#include <string.h>

/* Tokens of a micro-batch, and widths of weights: shards, heads, whole layers. Shares are
 * interpolated by the logarithm. */
static const double token_counts[SW_PRODUCT_TOKENS] = {32, 128, 512, 2048};
static const double widths[SW_PRODUCT_WIDTHS] = {32, 64, 128, 256, 1024};

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

struct timing {
    struct sw_grid_memory memory;
    enum sw_product_kind kind;
    enum sw_dtype dtype;
};

/* Tensor [1, rows, columns] of activations or [rows, columns] of weights. */
static struct sw_tensor tensor(struct sw_grid_region *region, enum sw_dtype dtype, bool weight,
                               double rows, double columns)
{
    const int64_t m = (int64_t)rows, n = (int64_t)columns;
    const int64_t weights[4] = {m, n}, activations[4] = {1, m, n};
    return sw_grid_tensor(region, dtype, weight ? 2 : 3, weight ? weights : activations);
}

/* y = x W; dx = dy W^T; dW = x^T dy, summed in fp32. */
static void make_operands(struct timing *t, const struct sw_product *s, struct sw_tensor in[2],
                          struct sw_tensor *out)
{
    const bool gradient = t->kind == SW_PRODUCT_LINEAR_DW;
    if (gradient) {
        in[0] = tensor(&t->memory.far, t->dtype, false, s->k, s->m);
        in[1] = tensor(&t->memory.near, t->dtype, false, s->k, s->n);
    } else {
        const bool transposed = t->kind == SW_PRODUCT_LINEAR_T;
        in[0] = tensor(&t->memory.near, t->dtype, false, s->m, s->k);
        in[1] = tensor(&t->memory.near, t->dtype, true, transposed ? s->n : s->k,
                       transposed ? s->k : s->n);
    }
    *out = tensor(&t->memory.results, gradient ? SW_F32 : t->dtype, gradient, s->m, s->n);
}

static void sizes(const void *context, int32_t levels, struct sw_products *out)
{
    const struct timing *t = context;
    sw_products_sizes(t->kind, levels, out);
}

static double flops(const void *context, const struct sw_product *s)
{
    (void)context;
    return 2 * s->m * s->n * s->k;
}

static int run(void *context, const struct sw_product *s, double *seconds, struct sw_error *err)
{
    static const enum sw_op_kind kinds[SW_PRODUCT_KINDS] = {SW_OP_LINEAR, SW_OP_LINEAR_T,
                                                            SW_OP_LINEAR_DW};
    struct timing *t = context;
    const struct sw_op op = {.kind = kinds[t->kind], .n_in = 2, .n_out = 1};
    struct sw_tensor in[2], out;
    make_operands(t, s, in, &out);
    const struct sw_step step = {.step = 1};
    const struct sw_call call = {.op = &op, .in = in, .out = &out, .step = &step};
    return sw_grid_call(&t->memory, &call, seconds, err);
}

int sw_calibrate_products(struct sw_device *device, struct sw_comm *world,
                          enum sw_product_kind kind, enum sw_rate_dtype dtype, double seconds,
                          struct sw_grid_rates *out, struct sw_error *err)
{
    static const enum sw_dtype dtypes[SW_RATE_DTYPES] = {SW_F32, SW_BF16_T};
    struct timing t = {.kind = kind, .dtype = dtypes[dtype]};
    const struct sw_grid_source source = {.context = &t,
                                          .sizes = sizes,
                                          .flops = flops,
                                          .run = run,
                                          .levels = SW_PRODUCT_TOKENS,
                                          .middle = {.m = 256, .n = 256, .k = 256}};
    int status = sw_grid_memory_make(&t.memory, device, t.dtype, err);
    if (status == 0)
        status = sw_grid_time(&source, world, seconds, out, err);
    sw_grid_memory_free(&t.memory);
    return status;
}
