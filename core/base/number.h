/* Small arithmetic that more than one part needs. Pure functions; any thread. */
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

/* A qsort order of doubles, the smallest first; without NaN. */
int sw_compare_doubles(const void *left, const void *right);

#endif
