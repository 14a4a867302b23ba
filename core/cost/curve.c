/* Measured shares of a peak, interpolated between measured sizes. */
#include "core/cost/cost.h"

#include <math.h>

double sw_cost_efficiency(const struct sw_curve *curve, double size, double fallback)
{
    const int32_t n = curve->count;
    if (n == 0)
        return fallback;
    if (size <= curve->point[0].size)
        return curve->point[0].fraction;
    for (int32_t i = 1; i < n; i++) {
        const struct sw_curve_point *a = &curve->point[i - 1], *b = &curve->point[i];
        if (size <= b->size)
            return a->fraction +
                   (b->fraction - a->fraction) * log(size / a->size) / log(b->size / a->size);
    }
    return curve->point[n - 1].fraction;
}
