/* Weights in 4 bits: a block of 32 numbers along a matrix's inputs, counted in the whole matrix,
 * has a scale s and integers q of -8 to 7; a number is q s. 18 bytes a block, 4.5 bits a number.
 *
 * A scale is a bf16 of either sign with a significand of five bits, so that q s is exactly a bf16:
 * a matrix in 4 bits is a bf16 matrix, and multiplying it directly or widening it first gives the
 * same numbers. Candidates are all such scales by which the block's largest number has magnitude 6
 * to 9; the one with the least sum of squared errors is taken, of equals the smallest, with the
 * sign that makes the largest number negative. q is the nearest integer, ties to even, limited to
 * its range. Zeros stay zeros, and numbers that are a block's already stay unchanged. The short
 * scale costs 1 % of the mean squared error of normally distributed numbers, which is 0.905 times
 * that of llama.cpp's Q4_0 (also 18 bytes; ggml-quants.c: quantize_row_q4_0_ref).
 *
 * A block with a number that is not finite has NaN as scale and zeros, so that the fault shows; one
 * whose scale would be no normal number is zeros. Pure functions; any thread. */
#ifndef SW_INT4_H
#define SW_INT4_H

#include <stdint.h>

enum { SW_INT4_GROUP = 32, SW_INT4_LEAST = -8, SW_INT4_MOST = 7 };

struct sw_int4_block {
    uint16_t scale;                   /* bf16 */
    uint8_t codes[SW_INT4_GROUP / 2]; /* q + 8: number 2 i in the lower half of byte i, 2 i + 1
                                         in the upper */
};
_Static_assert(sizeof(struct sw_int4_block) == 18, "nothing between blocks");

void sw_int4_quantize(const float x[SW_INT4_GROUP], struct sw_int4_block *out);

/* Quantizes x [count, SW_INT4_GROUP] to as many blocks, at any address. */
void sw_int4_quantize_blocks(const float *x, int64_t count, void *blocks);

/* Integer i of a block. */
static inline int32_t sw_int4_code(const struct sw_int4_block *block, int32_t i)
{
    return (int32_t)(block->codes[i / 2] >> i % 2 * 4 & 15) + SW_INT4_LEAST;
}

/* Number i of a block, a bf16. */
float sw_int4_value(const struct sw_int4_block *block, int32_t i);

#endif
