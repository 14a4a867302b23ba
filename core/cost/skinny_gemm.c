/* Reads of decode, weights and cached keys and values: each once, at a rate that depends on the
 * rows that each meets, and on the processor's cache still holding it from the token before. */
#include "core/base/quantize.h"
#include "core/cost/cost.h"
#include "core/ir/walk.h"

#include <math.h>
#include <string.h>

struct sw_op_met sw_cost_met(const struct sw_program *p, const struct sw_op *op,
                             const struct sw_workload *workload)
{
    const struct sw_op_info *info = sw_op_info(op->kind);
    return info->met != NULL ? info->met(p, op, workload) : (struct sw_op_met){1, 1};
}

double sw_cost_serving_bytes(const struct sw_program *p, const struct sw_workload *workload)
{
    double bytes = 0;
    bool serves = false;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        const struct sw_op *op = &p->ops[w.op];
        const enum sw_op_class cost_class = sw_op_info(op->kind)->cost_class;
        serves = serves || sw_op_reads(p, op, SW_ROLE_CACHE);
        if (cost_class == SW_CLASS_MATMUL || cost_class == SW_CLASS_ATTENTION)
            bytes += sw_walk_count(p, &p->regions[w.region], op) *
                     (double)sw_op_cost(p, op).memory_bytes * sw_cost_met(p, op, workload).bytes;
    }
    return serves ? bytes : 0;
}

/* Rate between the points of one number of rows, as for every curve (curve.c). */
static double bandwidth_at(const struct sw_skinny_gemm_point *point, int32_t count, double bytes)
{
    if (bytes <= point[0].bytes)
        return point[0].bandwidth;
    for (int32_t i = 1; i < count; i++) {
        const struct sw_skinny_gemm_point *a = &point[i - 1], *b = &point[i];
        if (bytes <= b->bytes)
            return a->bandwidth +
                   (b->bandwidth - a->bandwidth) * log(bytes / a->bytes) / log(b->bytes / a->bytes);
    }
    return point[count - 1].bandwidth;
}

double sw_cost_skinny_gemm_bandwidth(const struct sw_skinny_gemm *skinny, double rows, double bytes)
{
    double rows_before = 0, before = 0; /* seconds of a byte */
    for (int32_t i = 0, end; i < skinny->count; i = end) {
        const struct sw_skinny_gemm_point *first = &skinny->point[i];
        for (end = i + 1; end < skinny->count && skinny->point[end].rows == first->rows;)
            end++;
        const double here = 1 / bandwidth_at(first, end - i, bytes);
        if (rows <= first->rows && i == 0)
            return 1 / here;
        /* each further row takes the same time again */
        if (rows <= first->rows)
            return 1 /
                   (before + (here - before) * (rows - rows_before) / (first->rows - rows_before));
        rows_before = first->rows;
        before = here;
    }
    return 0;
}

/* Elements of weights, without their padding, or of the cache that the op holds. */
static double held_elems(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_product product[SW_OP_MAX_PRODUCTS];
    const int64_t rows = p->values[op->in[0].value].local[0];
    double sum = 0;
    if (sw_op_info(op->kind)->products != NULL) {
        (void)sw_op_info(op->kind)->products(p, op, product);
        return product[0].n * product[0].k;
    }
    for (int32_t i = 1; i <= sw_op_info(op->kind)->held; i++) {
        const struct sw_value *v = &p->values[op->in[i].value];
        double elems = 1;
        for (uint8_t d = 0; d < v->ndim; d++)
            elems *= (double)v->local[d];
        if (v->local[0] > rows) /* in a cache, only the slots of the rows */
            elems *= (double)rows / (double)v->local[0];
        sum += elems;
    }
    return sum;
}

/* True if the last dimension of the held operand is in the result; else products run along it. */
static bool keeps_last(const struct sw_program *p, const struct sw_op *op)
{
    const char *held = strchr(sw_op_factors(p, op), ',') + 1, *result = strstr(held, "->");
    const char last = held[strcspn(held, ",-") - 1];
    const char *found = strchr(result, last), *end = strchr(result, '|');
    return found != NULL && (end == NULL || found < end);
}

enum sw_skinny_kind sw_cost_skinny_gemm_kind(const struct sw_program *p, const struct sw_op *op)
{
    if (sw_op_info(op->kind)->held == 0)
        return SW_SKINNY_KINDS;
    if (sw_op_info(op->kind)->cost_class == SW_CLASS_ATTENTION)
        return sw_op_reads(p, op, SW_ROLE_CACHE) ? SW_SKINNY_ATTENTION : SW_SKINNY_KINDS;
    return keeps_last(p, op) ? SW_SKINNY_LINEAR : SW_SKINNY_LINEAR_T;
}

/* One multiplication and one addition for each element and row. */
double sw_cost_skinny_gemm_reads(const struct sw_program *p, const struct sw_op *op, double *rows)
{
    const double elems = held_elems(p, op);
    *rows = sw_op_cost(p, op).flops / (2 * elems);
    return elems * sw_dtype_number_bytes(p->values[op->in[1].value].dtype);
}

/* True if measured rates apply. Above the number of rows that a device counts as few, only programs
 * that ask for it use the kernels of few rows; others have usual products. */
static bool is_measured(const struct sw_program *p, const struct sw_skinny_gemm *skinny,
                        double rows)
{
    const double invariant_rows = p->target.invariant_rows; /* 0: not given */
    const bool always_skinny =
        !(invariant_rows > 0) || rows <= invariant_rows || sw_program_is_always_skinny(p);
    return always_skinny && skinny->count > 0 && rows <= skinny->point[skinny->count - 1].rows;
}

/* Weights in 8 or 4 bits, which are not measured: the first row waits for their bytes, at the rate
 * of bf16 (fp32 if there is none); each further row adds the arithmetic of as many elements. each:
 * bytes of one. */
static double narrow_seconds(const struct sw_program *p, const struct sw_skinny_gemm *of_kind,
                             double rows, double elems, double each, double all)
{
    const bool narrow = of_kind[SW_RATE_BF16].count > 0;
    const struct sw_skinny_gemm *skinny = &of_kind[narrow ? SW_RATE_BF16 : SW_RATE_FP32];
    if (!is_measured(p, skinny, rows) || !(all > 0))
        return -1;
    const double first = 1 / sw_cost_skinny_gemm_bandwidth(skinny, 1, all);
    const double more = 1 / sw_cost_skinny_gemm_bandwidth(skinny, rows, all) - first;
    return elems * (each * first + (narrow ? 2 : 4) * (more > 0 ? more : 0));
}

/* True if anything was measured: mostly nothing was, and a search asks for every op. */
static bool has_skinny_gemm(const struct sw_profile_config *profile)
{
    int32_t count = 0;
    for (int32_t kind = 0; kind < SW_SKINNY_KINDS; kind++)
        for (int32_t dtype = 0; dtype < SW_RATE_DTYPES; dtype++)
            count += profile->skinny_gemm[kind][dtype].count;
    return count > 0;
}

double sw_cost_skinny_gemm_seconds(const struct sw_program *p, const struct sw_op *op,
                                   const struct sw_profile_config *profile,
                                   const struct sw_workload *workload)
{
    if (!has_skinny_gemm(profile))
        return -1;
    const enum sw_skinny_kind kind = sw_cost_skinny_gemm_kind(p, op);
    double rows;
    if (kind == SW_SKINNY_KINDS)
        return -1;
    const enum sw_dtype dtype = p->values[op->in[1].value].dtype;
    const struct sw_op_met met = sw_cost_met(p, op, workload);
    const double bytes = sw_cost_skinny_gemm_reads(p, op, &rows) * met.bytes;
    rows *= met.flops / met.bytes;
    const double each = sw_dtype_number_bytes(dtype);
    if (sw_is_quantized(dtype) && kind != SW_SKINNY_ATTENTION)
        return narrow_seconds(p, profile->skinny_gemm[kind], rows, bytes / each, each,
                              sw_cost_serving_bytes(p, workload));
    if (dtype != SW_F32 && dtype != SW_BF16_T)
        return -1;
    const struct sw_skinny_gemm *skinny =
        &profile->skinny_gemm[kind][dtype == SW_F32 ? SW_RATE_FP32 : SW_RATE_BF16];
    if (!is_measured(p, skinny, rows))
        return -1;
    const double all = sw_cost_serving_bytes(p, workload);
    return all > 0 ? bytes / sw_cost_skinny_gemm_bandwidth(skinny, rows, all) : -1;
}
