#include "core/base/quantize.h"

#include <string.h>

float sw_quantize_most(float most, const float *x, int64_t count)
{
    int finite = 1;
    for (int64_t i = 0; i < count; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        finite &= size < INFINITY; /* false for NaN, too */
        most = size > most ? size : most;
    }
    return finite ? most : INFINITY;
}

void sw_quantize(enum sw_dtype dtype, const float *restrict x, int64_t count, float scale,
                 void *restrict to)
{
    int8_t *const integers = to;
    uint8_t *const codes = to;
    if (!(scale > 0))
        memset(to, 0, (size_t)count);
    else if (dtype == SW_E4M3)
        for (int64_t i = 0; i < count; i++)
            codes[i] = sw_e4m3_of((double)x[i], scale);
    else
        for (int64_t i = 0; i < count; i++)
            integers[i] = sw_int8_of((double)x[i], scale);
}
