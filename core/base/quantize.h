/* Numbers in 8 bits with a scale: a number is q s, with q in 8 bits and s in fp32, where s = max|x|
 * / most over the numbers that share it, `most` being the format's largest number, and q = x / s,
 * rounded once to the nearest of the format, ties to even, and limited to -most .. most, which
 * matters where s is subnormal. Zero stays zero. If one of the numbers is not finite, the scale is
 * NaN and the numbers are zeros, so that the fault shows; the scale is 0 where max|x| / most
 * underflows.
 *
 * int8: integers from -127 to 127; the error is at most s / 2, for any size. e4m3: OCP's FP8 E4M3,
 * a sign, four bits of exponent (bias 7) and three of mantissa: up to 448; subnormals are multiples
 * of 2^-9 below 2^-6; no infinities; the NaNs 0x7f and 0xff are never made, so kernels do not test
 * for them. The error is at most 1 / 16 of the number, or s 2^-10 if more. A code's magnitude
 * shifted left by 7, with its sign at bit 15, is the fp16 of 2^-8 times its value.
 *
 * Weights have a scale for each output of a matrix, over all of its inputs, on any ranks. The
 * result depends on the matrix alone, not on the mesh. A cache uses int8: core/ir/serving.h. Pure
 * functions; any thread. */
#ifndef SW_QUANTIZE_H
#define SW_QUANTIZE_H

#include "core/base/words.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SW_INT8_MOST = 127, SW_E4M3_MOST = 448 };

/* True if numbers of that type have such scales. */
static inline bool sw_has_scales(enum sw_dtype dtype)
{
    return dtype == SW_I8 || dtype == SW_E4M3;
}

/* most: the largest |x|; infinite or NaN if a number is not finite. */
static inline float sw_int8_scale(double most)
{
    return isfinite(most) ? (float)(most / SW_INT8_MOST) : NAN;
}

/* In double, which rounds once: a quotient in fp32 may become a tie that it is not. scale > 0, x
 * finite. */
static inline int8_t sw_int8_of(double x, float scale)
{
    static const double shift = 0x1.8p52; /* adding it rounds to an integer */
    const double most = SW_INT8_MOST;
    double q = x / (double)scale;
    q = q < most ? q : most;
    q = q > -most ? q : -most;
    return (int8_t)(int32_t)(q + shift - shift);
}

static inline float sw_e4m3_scale(double most)
{
    return isfinite(most) ? (float)(most / SW_E4M3_MOST) : NAN;
}

/* Like sw_int8_of. The number added to |q| has a last place equal to e4m3's at that size, so that
 * the sum counts such places: 8 to 16 of them, fewer for subnormals, and 16 are 8 of the next size.
 */
static inline uint8_t sw_e4m3_of(double x, float scale)
{
    enum { MANTISSA = 52, BIAS = 1023 };
    const uint64_t lowest = BIAS - 6;
    const double most = SW_E4M3_MOST, q = x / (double)scale;
    double size = fabs(q) < most ? fabs(q) : most, shift;
    uint64_t sign, bits, shift_bits;
    memcpy(&sign, &q, sizeof sign);
    memcpy(&bits, &size, sizeof bits);
    const uint64_t own = bits >> MANTISSA, exponent = own > lowest ? own : lowest;
    shift_bits = (exponent + MANTISSA - 3) << MANTISSA | 1ull << (MANTISSA - 1);
    memcpy(&shift, &shift_bits, sizeof shift);
    size += shift;
    memcpy(&bits, &size, sizeof bits);
    return (uint8_t)(sign >> 63 << 7 | (bits - shift_bits + (exponent - lowest) * 8));
}

/* Uses the fp32 of 2^-120 times the value. */
static inline float sw_e4m3_value(uint8_t code)
{
    const uint32_t size = code & 0x7f, bits = size << 20 | (uint32_t)(code & 0x80) << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return size == 0x7f ? NAN : value * 0x1p120f;
}

/* Either format. */
static inline float sw_quantize_scale(enum sw_dtype dtype, double most)
{
    return dtype == SW_E4M3 ? sw_e4m3_scale(most) : sw_int8_scale(most);
}

/* True if weights of that type have fewer bits than their source: 8, or 4 (int4.h). */
static inline bool sw_is_quantized(enum sw_dtype dtype)
{
    return sw_has_scales(dtype) || dtype == SW_I4;
}

/* max(most, |x|) over x [count]; infinity if a number is not finite. */
float sw_quantize_most(float most, const float *x, int64_t count);
/* to [count], one byte each: zeros if the scale is 0 or NaN. */
void sw_quantize(enum sw_dtype dtype, const float *x, int64_t count, float scale, void *to);

#endif
