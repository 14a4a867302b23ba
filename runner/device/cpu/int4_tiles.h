/* Internal to the CPU device: a tiled group of weights of 4 bits (tiled_int4.c): its scales, and
 * its integers as pairs of bf16. */
#ifndef SW_DEVICE_CPU_INT4_TILES_H
#define SW_DEVICE_CPU_INT4_TILES_H

#include "core/base/int4.h"
#include "runner/device/cpu/streamed.h"

enum {
    SCALE_BYTES = 2 * SW_TILE_COLUMNS,
    EIGHT_BYTES = 4 * SW_TILE_COLUMNS, /* for 8 lines */
    EIGHTS = SW_INT4_GROUP / 8,
    GROUP_BYTES = SCALE_BYTES + EIGHTS * EIGHT_BYTES
};

/* Stores a block, at any alignment, as a column of a group. */
INLINE void put_block(char *group, int64_t column, const void *block)
{
    struct sw_int4_block b;
    memcpy(&b, block, sizeof b);
    memcpy(group + 2 * column, &b.scale, sizeof b.scale);
    for (int e = 0; e < EIGHTS; e++) {
        uint32_t word = 0;
        for (int i = 0; i < 4; i++) /* a byte holds lines 2 i and 2 i + 1 */
            word |= (uint32_t)(b.codes[4 * e + i] & 15) << 4 * i |
                    (uint32_t)(b.codes[4 * e + i] >> 4) << (16 + 4 * i);
        memcpy(group + SCALE_BYTES + e * EIGHT_BYTES + 4 * column, &word, sizeof word);
    }
}

INLINE void take_block(const char *group, int64_t column, struct sw_int4_block *out)
{
    memcpy(&out->scale, group + 2 * column, sizeof out->scale);
    for (int e = 0; e < EIGHTS; e++) {
        uint32_t word;
        memcpy(&word, group + SCALE_BYTES + e * EIGHT_BYTES + 4 * column, sizeof word);
        for (int i = 0; i < 4; i++)
            out->codes[4 * e + i] =
                (uint8_t)((word >> 4 * i & 15) | (word >> (16 + 4 * i) & 15) << 4);
    }
}

typedef uint16_t loose_halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Scales of as many columns as a vector has lanes. */
INLINE vec load_scales(const char *at)
{
    const loose_halves *scales = (const void *)at;
    return (vec)(__builtin_convertvector(*scales, bits) << 16);
}

#endif
