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

/* Seconds of a product by its grid, without a launch; 0: it has none, or is smaller than its first
 * point. */
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

/* What a product or attention of a step reached of what its grid says. */
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

/* Of every product of the steps that were measured, by the bytes of its step. */
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

/* Of attention; of shorter sequences than the grid's nothing. */
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

/* Where steps begin of which caches hold no part that shows: each of the machines that were tried
 * has caches of 32 MiB and less for a core. */
static const double far_bytes = 0x1p30;

/* The median share of the products in a row whose steps move bytes of the same power of two, or are
 * far; *bytes: their mean; returns how many there are. */
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

/* Caches hold less of a larger step: where a point is above those before it, all of them have their
 * mean, as many products as each is of. */
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
        weight[blocks] = total; /* of a block from here on, which is no later than i */
        sum[blocks] = mean;
        ends[blocks++] = i;
    }
    for (int32_t i = 0, b = 0; i < curve->count; i++) {
        curve->point[i].fraction = sum[b];
        b += i == (int32_t)ends[b] ? 1 : 0;
    }
}

/* The curve, and where none of the steps was far, that they are as fast as what is known, or as by
 * themselves. */
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

/* The curve of what was reached, which it sorts, and how far off times by it are: the median, and
 * the mean of measured / predicted - 1. */
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
