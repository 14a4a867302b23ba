/* Numbers in 8 bits with a scale: an integer q and a number s in fp32 stand for q s, where
 * s = max|x| / 127 of the numbers that share it, and q = x / s, rounded to the nearest, of ties to
 * the even one. So zero stays zero, -127 .. 127 are used, and a number is off by s / 2 at most
 * (where s is subnormal, q is cut to that range). Numbers among which one is not finite have NaN
 * for a scale and zeros, so that it shows; the scale is 0 where max|x| / 127 underflows.
 *
 * Weights: a scale for each output of a matrix, over all of its inputs, wherever they lie. What a
 * weight becomes depends on its matrix alone, not on the mesh. A cache: core/program/serving.h.
 * Pure functions; any thread. */
#ifndef SW_QUANTIZE_H
#define SW_QUANTIZE_H

#include <math.h>
#include <stdint.h>

enum { SW_INT8_MOST = 127 };

/* most: the largest |x|, infinite or NaN where one is not finite. */
static inline float sw_int8_scale(double most)
{
    return isfinite(most) ? (float)(most / SW_INT8_MOST) : NAN;
}

/* In double, which rounds once: a quotient in fp32 may become a tie that it is not. scale > 0, x
 * finite. */
static inline int8_t sw_int8_of(double x, float scale)
{
    static const double shift = 0x1.8p52; /* what is added to it is rounded to an integer */
    const double most = SW_INT8_MOST;
    double q = x / (double)scale;
    q = q < most ? q : most;
    q = q > -most ? q : -most;
    return (int8_t)(int32_t)(q + shift - shift);
}

/* max(most, |x|) over x [count]; infinity where one is not finite. */
float sw_int8_most(float most, const float *x, int64_t count);
/* to [count]: zeros where the scale is none (0, NaN). */
void sw_int8_quantize(const float *x, int64_t count, float scale, int8_t *to);

#endif
