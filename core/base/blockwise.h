/* Numbers in 8 bits by blocks: dynamic quantization of Dettmers et al. 2022 ("8-bit Optimizers via
 * Block-wise Quantization"). A block of consecutive numbers in a row has their largest magnitude,
 * `most`, in fp32. A number x is stored as the code, 0 to 255, of the table's entry nearest to x /
 * most, of two equally near the lower; it reads back as that entry times `most`.
 *
 * The table has 0, 1 and, for each decade from 10^-7 to 1, the middles of equal parts of 0.1 to 1
 * times it: 64 parts of the largest decade and half as many of each lower one, with both signs;
 * without a sign twice as many parts. So the error of an entry is at most 0.7 % of `most`, and
 * small numbers keep digits over seven decades.
 *
 * Blocks belong to the whole tensor: their length depends only on the length of its rows, so it is
 * the same on every mesh. Pure functions; any thread. */
#ifndef SW_BLOCKWISE_H
#define SW_BLOCKWISE_H

#include <stdbool.h>
#include <stdint.h>

enum { SW_BLOCKWISE_CODES = 256, SW_BLOCKWISE_MOST = 128, SW_BLOCKWISE_LEAST = 16 };

struct sw_blockwise_table {
    float value[SW_BLOCKWISE_CODES];      /* ascending */
    float middle[SW_BLOCKWISE_CODES - 1]; /* middle between an entry and the next */
};

/* has_sign: true for numbers of both signs, false for numbers that are not negative. */
void sw_blockwise_fill(bool has_sign, struct sw_blockwise_table *out);

/* Numbers of a block in rows of that length: the largest power of two, SW_BLOCKWISE_LEAST to
 * SW_BLOCKWISE_MOST, such that an eighth of a row is whole blocks, so that up to eight ranks may
 * share it; else a quarter, half, or the row. 0: none fits. */
int64_t sw_blockwise_elems(int64_t row_elems);

/* The code of x / most; NaN has code 0. least: smallest code: 1 for non-zero squares whose roots
 * are divisors, so that none of them becomes 0. */
static inline uint8_t sw_blockwise_code(const struct sw_blockwise_table *table, float ratio,
                                        int32_t least)
{
    int32_t code = 0;
    for (int32_t half = SW_BLOCKWISE_CODES / 2; half > 0; half /= 2)
        code += ratio > table->middle[code + half - 1] ? half : 0;
    return (uint8_t)(code > least ? code : least);
}

#endif
