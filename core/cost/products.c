/* What matrix products of a size reach, between the sizes at which they were measured. */
#include "core/cost/cost.h"

#include <math.h>

/* Where a size lies on an ascending side: from point *at, `share` of the way in the logarithm. */
static double place(const double *side, int32_t count, double size, int32_t *at)
{
    size = size < side[0] ? side[0] : size > side[count - 1] ? side[count - 1] : size;
    for (*at = 0; *at < count - 2 && size > side[*at + 1];)
        ++*at;
    return log(size / side[*at]) / log(side[*at + 1] / side[*at]);
}

double sw_cost_products_share(const struct sw_products *p, double rows, double columns,
                              double depth)
{
    int32_t r, n, k;
    const double y = place(p->row, p->rows, rows, &r),
                 x = place(p->column, p->columns, columns, &n),
                 z = place(p->depth, p->depths, depth, &k);
    double sum = 0;
    for (int32_t i = 0; i < 8; i++) {
        const int32_t up = i & 1, right = i >> 1 & 1, deep = i >> 2;
        const double weight = (up ? y : 1 - y) * (right ? x : 1 - x) * (deep ? z : 1 - z);
        sum += weight * p->share[((r + up) * p->columns + n + right) * p->depths + k + deep];
    }
    return sum;
}
