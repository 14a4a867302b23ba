/* Matrix products of few rows, as decoding has one of each text: every weight is read once, and how
 * fast depends on the rows that it is multiplied with and on whether a cache still has it from the
 * token before. */
#include "core/cost/cost.h"

#include <math.h>

static bool reads_cache(const struct sw_program *p, const struct sw_op *op)
{
    for (int32_t i = 0; i < op->n_in; i++)
        if (op->in[i].value >= 0 && p->values[op->in[i].value].role == SW_ROLE_CACHE)
            return true;
    return false;
}

double sw_cost_serving_bytes(const struct sw_program *p)
{
    double bytes = 0;
    bool serves = false;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            const enum sw_op_class cost_class = sw_op_info(op->kind)->cost_class;
            if (cost_class != SW_CLASS_MATMUL && cost_class != SW_CLASS_ATTENTION)
                continue;
            bytes += sw_program_runs(p, region, op) * (double)sw_op_cost(p, op).memory_bytes;
            serves = serves || reads_cache(p, op);
        }
    }
    return serves ? bytes : 0;
}

/* Between the points of one number of rows as with every curve (curve.c). */
static double bandwidth_at(const struct sw_few_rows_point *point, int32_t count, double bytes)
{
    if (bytes <= point[0].bytes)
        return point[0].bandwidth;
    for (int32_t i = 1; i < count; i++) {
        const struct sw_few_rows_point *a = &point[i - 1], *b = &point[i];
        if (bytes <= b->bytes)
            return a->bandwidth +
                   (b->bandwidth - a->bandwidth) * log(bytes / a->bytes) / log(b->bytes / a->bytes);
    }
    return point[count - 1].bandwidth;
}

double sw_cost_few_rows_bandwidth(const struct sw_few_rows *few, double rows, double bytes)
{
    double rows_before = 0, before = 0; /* seconds of a byte */
    for (int32_t i = 0, end; i < few->count; i = end) {
        const struct sw_few_rows_point *first = &few->point[i];
        for (end = i + 1; end < few->count && few->point[end].rows == first->rows;)
            end++;
        const double here = 1 / bandwidth_at(first, end - i, bytes);
        if (rows <= first->rows && i == 0)
            return 1 / here;
        /* the products of another row take as long again: straight in the rows */
        if (rows <= first->rows)
            return 1 /
                   (before + (here - before) * (rows - rows_before) / (first->rows - rows_before));
        rows_before = first->rows;
        before = here;
    }
    return 0;
}

double sw_cost_few_rows_seconds(const struct sw_program *p, const struct sw_op *op,
                                const struct sw_profile_config *profile)
{
    if (op->kind != SW_OP_LINEAR && op->kind != SW_OP_LINEAR_T)
        return -1;
    const enum sw_dtype dtype = p->values[op->in[1].value].dtype;
    const struct sw_few_rows *few =
        dtype == SW_BF16_T ? &profile->few_rows_bf16 : &profile->few_rows_fp32;
    struct sw_product product[SW_OP_MAX_PRODUCTS];
    if (few->count == 0 || (dtype != SW_F32 && dtype != SW_BF16_T))
        return -1;
    (void)sw_op_info(op->kind)->products(p, op, product);
    if (product[0].m > few->point[few->count - 1].rows)
        return -1;
    const double bytes = sw_cost_serving_bytes(p);
    if (!(bytes > 0))
        return -1;
    return product[0].n * product[0].k * (double)sw_dtype_bytes(dtype) /
           sw_cost_few_rows_bandwidth(few, product[0].m, bytes);
}
