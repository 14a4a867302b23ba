/* Small arithmetic that several rooms need. Pure functions; any thread. */
#ifndef SW_NUMBER_H
#define SW_NUMBER_H

#include <stdint.h>
#include <string.h>

/* The least multiple of `to` (> 0) that is not below `value` (>= 0). */
static inline int64_t sw_align(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* bf16 is the upper half of an f32. */
static inline float sw_bf16_to_float(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, ties to even; beyond the range infinity; a NaN stays one, quiet, with its sign. */
static inline uint16_t sw_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t quiet = bits >> 16 | 0x40u,
                   rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16; /* no branch: for loops */
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* IEEE binary16: 5 bits of exponent, 10 of fraction. */
static inline float sw_fp16_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    uint32_t bits;
    float value;
    if (rest < 0x0400u) { /* multiples of 2^-24, including 0 */
        value = (float)rest * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    } else {
        bits = (rest << 13) + (rest < 0x7c00u ? 0x38000000u : 0x70000000u);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Like sw_bf16_from_float; numbers below the normal range are rounded to a subnormal or 0. */
static inline uint16_t sw_fp16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
    if (bits >= 0x477ff000u) /* from half a step above the largest number on */
        return (uint16_t)(sign | 0x7c00u);
    if (bits < 0x38800000u) { /* an f32 from 0.5 to 1 has steps of 2^-24 */
        float small;
        memcpy(&small, &bits, sizeof small);
        small += 0.5f;
        memcpy(&bits, &small, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    bits += 0xfffu + (bits >> 13 & 1u);
    return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

/* `value` as f32 if exact, else the neighbouring f32 whose last bit is odd. Rounding that again to
 * bf16 or fp16 gives the number nearest to `value`, which rounding to nearest twice does not (Boldo
 * and Melquiond 2008). */
static inline float sw_float_to_odd(double value)
{
    float nearest = (float)value;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    if ((double)nearest == value || value != value || (bits & 1u) != 0)
        return nearest;
    const double magnitude = value < 0 ? -value : value,
                 found = value < 0 ? -(double)nearest : (double)nearest;
    bits = magnitude > found ? bits + 1 : bits - 1; /* infinity's neighbour is the largest */
    memcpy(&nearest, &bits, sizeof nearest);
    return nearest;
}

/* A qsort order of doubles, the smallest first; without NaN. */
int sw_compare_doubles(const void *left, const void *right);

#endif
