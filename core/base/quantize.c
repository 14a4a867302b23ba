#include "core/base/quantize.h"

#include <string.h>

float sw_int8_most(float most, const float *x, int64_t count)
{
    int finite = 1;
    for (int64_t i = 0; i < count; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        finite &= size < INFINITY; /* false of NaN, too */
        most = size > most ? size : most;
    }
    return finite ? most : INFINITY;
}

void sw_int8_quantize(const float *restrict x, int64_t count, float scale, int8_t *restrict to)
{
    if (!(scale > 0)) {
        memset(to, 0, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = sw_int8_of((double)x[i], scale);
}
