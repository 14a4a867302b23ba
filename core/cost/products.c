/* Measured shares of matrix products and attention, interpolated between measured sizes. */
#include "core/cost/cost.h"

#include <math.h>

/* Position of a size on an ascending side: `share` of the way, in the logarithm, from point *at to
 * the next. */
static double find_interval(const double *side, int32_t count, double size, int32_t *at)
{
    *at = 0;
    if (count == 1)
        return 0;
    size = size < side[0] ? side[0] : size > side[count - 1] ? side[count - 1] : size;
    while (*at < count - 2 && size > side[*at + 1])
        ++*at;
    return log(size / side[*at]) / log(side[*at + 1] / side[*at]);
}

/* The eight points around a size: shares and weights. */
static void corners(const struct sw_products *p, double rows, double columns, double depth,
                    double weight[8], double share[8])
{
    int32_t r, n, k;
    const double y = find_interval(p->row, p->rows, rows, &r),
                 x = find_interval(p->column, p->columns, columns, &n),
                 z = find_interval(p->depth, p->depths, depth, &k);
    for (int32_t i = 0; i < 8; i++) {
        const int32_t up = i & 1, right = i >> 1 & 1, deep = i >> 2;
        const int32_t at = p->depths > 1 ? k + deep : 0; /* with a single depth, all weight is
                                                            on it */
        weight[i] = (up ? y : 1 - y) * (right ? x : 1 - x) * (deep ? z : 1 - z);
        share[i] = p->share[((r + up) * p->columns + n + right) * p->depths + at];
    }
}

double sw_cost_products_share(const struct sw_products *p, double rows, double columns,
                              double depth)
{
    double weight[8], share[8], sum = 0;
    corners(p, rows, columns, depth, weight, share);
    for (int32_t i = 0; i < 8; i++)
        sum += weight[i] * share[i];
    return sum;
}

double sw_cost_attention_grid_share(const struct sw_products *p, double rows, double columns,
                                    double depth)
{
    double weight[8], share[8], sum = 0;
    corners(p, rows, columns, depth, weight, share);
    for (int32_t i = 0; i < 8; i++)
        sum += weight[i] * log(share[i]);
    return exp(sum);
}
