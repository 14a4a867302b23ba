#include "runner/calibrate/scale.h"

#include "core/base/number.h"
#include "core/cost/cost.h"
#include "runner/calibrate/attention.h"

#include <math.h>
#include <stdlib.h>

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Seconds of a product by its grid, without launch; 0: no grid, or smaller than its first point. */
static double seconds_by_grid(const struct sw_calibration *c, const struct sw_products *grid,
                              const struct sw_product *s)
{
    if (grid->rows == 0 || s->m < grid->row[0] || s->n < grid->column[0] || s->k < grid->depth[0])
        return 0;
    const double computing = 2 * s->m * s->n * s->k / c->fp32_flops;
    const double moving = 4 * (s->m * s->k + s->k * s->n + s->m * s->n) / c->memory_bandwidth;
    return (computing > moving ? computing : moving) /
           sw_cost_products_share(grid, s->m, s->n, s->k);
}

/* Fraction of its grid's rate that a product or attention reached in a step. */
struct reached {
    double step_bytes, share;
};

static int compare_reached(const void *a, const void *b)
{
    const struct reached *p = a, *q = b;
    if (p->step_bytes != q->step_bytes)
        return p->step_bytes < q->step_bytes ? -1 : 1;
    return sw_compare_doubles(&p->share, &q->share);
}

/* Collects every product of the measured steps with its step's bytes. */
static int32_t find_products(const struct sw_kernel_rates *rates, int32_t ranks,
                             const struct sw_calibration *c,
                             struct reached reached[SW_STEP_PRODUCTS])
{
    int32_t count = 0;
    for (int32_t i = 0; i < (int32_t)(rates->step_products / ranks + 0.5); i++) {
        const struct sw_step_product *p = &rates->step_product[i];
        const struct sw_product s = {.m = p->m / ranks, .n = p->n / ranks, .k = p->k / ranks};
        const struct sw_products *grid = c->products[(int32_t)(p->kind / ranks + 0.5)];
        const double priced = seconds_by_grid(c, &grid[SW_RATE_FP32], &s);
        const double took = p->seconds / p->calls / c->share - c->launch_latency_s;
        if (priced > 0 && took > 0)
            reached[count++] = (struct reached){p->step_bytes / ranks, priced / took};
    }
    return count;
}

/* Collects attention, except sequences shorter than the grid's. */
static int32_t find_attention(const struct sw_kernel_rates *rates, int32_t ranks,
                              const struct sw_calibration *c,
                              struct reached reached[SW_STEP_PRODUCTS])
{
    int32_t count = 0;
    for (int32_t i = 0; i < (int32_t)(rates->step_attentions / ranks + 0.5); i++) {
        const struct sw_step_product *p = &rates->step_attention[i];
        const struct sw_product s = {.m = p->m / ranks, .n = p->n / ranks, .k = p->k / ranks};
        const enum sw_attention_phase phase = (int32_t)(p->kind / ranks + 0.5);
        const struct sw_products *grid = &c->attention_by_size[phase][SW_RATE_FP32];
        const double took = p->seconds / p->calls / c->share - c->launch_latency_s;
        if (grid->rows == 0 || s.n < grid->column[0] || took <= 0)
            continue;
        const double priced = sw_attention_flops(phase, &s) /
                              (c->fp32_flops * sw_cost_products_share(grid, s.m, s.n, s.k));
        reached[count++] = (struct reached){p->step_bytes / ranks, priced / took};
    }
    return count;
}

/* Bytes of a step beyond the effect of caches: the machines tried have at most 32 MiB of cache per
 * core. */
static const double far_bytes = 0x1p30;

/* Median share of the next products whose steps move bytes of one power of two, or are far; *bytes:
 * their mean. Returns their number. */
static int32_t next_octave(const struct reached *from, int32_t count, double *bytes, double *share)
{
    double shares[SW_STEP_PRODUCTS], sum = 0;
    const bool far = from[0].step_bytes >= far_bytes;
    const double end = far ? INFINITY : exp2(floor(log2(from[0].step_bytes)) + 1);
    int32_t n = 0;
    for (; n < count && from[n].step_bytes < end; n++) {
        shares[n] = from[n].share;
        sum += from[n].step_bytes;
    }
    qsort(shares, (size_t)n, sizeof *shares, sw_compare_doubles);
    *bytes = far ? far_bytes : sum / n;
    *share = shares[n / 2];
    return n;
}

/* Makes the curve non-increasing, since caches hold less of a larger step: a point above earlier
 * ones is pooled with them to their mean, weighted by products. */
static void pool(struct sw_curve *curve, double weight[SW_MAX_CURVE])
{
    double ends[SW_MAX_CURVE], sum[SW_MAX_CURVE];
    int32_t blocks = 0;
    for (int32_t i = 0; i < curve->count; i++) {
        double total = weight[i], mean = curve->point[i].fraction;
        for (; blocks > 0 && sum[blocks - 1] < mean; blocks--) {
            const double before = weight[blocks - 1];
            mean = (mean * total + sum[blocks - 1] * before) / (total + before);
            total += before;
        }
        weight[blocks] = total; /* the block starts here, at most at i */
        sum[blocks] = mean;
        ends[blocks++] = i;
    }
    for (int32_t i = 0, b = 0; i < curve->count; i++) {
        curve->point[i].fraction = sum[b];
        b += i == (int32_t)ends[b] ? 1 : 0;
    }
}

/* Builds the curve; without a far step, extends it by the last known value, at most 1. */
static void make_scale(const struct reached *reached, int32_t count, struct sw_curve *scale)
{
    double weight[SW_MAX_CURVE];
    for (int32_t i = 0, n; i < count && scale->count < SW_MAX_CURVE - 1; i += n) {
        struct sw_curve_point *point = &scale->point[scale->count];
        n = next_octave(&reached[i], count - i, &point->size, &point->fraction);
        weight[scale->count++] = n;
    }
    pool(scale, weight);
    if (scale->point[scale->count - 1].size < far_bytes) {
        scale->point[scale->count] =
            (struct sw_curve_point){far_bytes, scale->point[scale->count - 1].fraction};
        scale->count++;
    }
    double *last = &scale->point[scale->count - 1].fraction;
    *last = *last < 1 ? *last : 1;
    for (int32_t i = 0; i < scale->count; i++)
        scale->point[i].fraction = least(scale->point[i].fraction, SW_MAX_PRODUCTS_SCALE);
}

/* Sorts and builds the curve, and its errors: the median, and the mean of measured / predicted - 1.
 * Returns the number of samples. */
static int32_t tell(struct reached *reached, int32_t count, struct sw_curve *scale, double *error,
                    double *signed_error)
{
    double errors[SW_STEP_PRODUCTS];
    if (count == 0)
        return 0;
    qsort(reached, (size_t)count, sizeof *reached, compare_reached);
    make_scale(reached, count, scale);
    for (int32_t i = 0; i < count; i++) {
        const double told = sw_cost_efficiency(scale, reached[i].step_bytes, 1);
        errors[i] = fabs(reached[i].share / told - 1);
        *signed_error += (told / reached[i].share - 1) / count;
    }
    qsort(errors, (size_t)count, sizeof *errors, sw_compare_doubles);
    *error = least(errors[count / 2], SW_MAX_PRODUCTS_SCALE);
    *signed_error = least(*signed_error, SW_MAX_PRODUCTS_SCALE);
    return count;
}

void sw_products_scale_find(const struct sw_kernel_rates *rates, int32_t ranks,
                            struct sw_calibration *out)
{
    struct reached reached[SW_STEP_PRODUCTS];
    const int32_t count = find_products(rates, ranks, out, reached);
    out->products_tried = tell(reached, count, &out->products_scale, &out->products_error,
                               &out->products_signed_error);
}

void sw_attention_scale_find(const struct sw_kernel_rates *rates, int32_t ranks,
                             struct sw_calibration *out)
{
    struct reached reached[SW_STEP_PRODUCTS];
    const int32_t count = find_attention(rates, ranks, out, reached);
    out->attention_tried = tell(reached, count, &out->attention_scale, &out->attention_error,
                                &out->attention_signed_error);
}
