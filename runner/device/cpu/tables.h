/* Internal to the CPU device's skinny products: bf16 of numbers of 8 bits, for processors with byte
 * look-ups (AVX512_VBMI), products of bytes with bit matrices (GFNI) and products of bf16 pairs. */
#ifndef SW_DEVICE_CPU_TABLES_H
#define SW_DEVICE_CPU_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__AVX512BF16__) && defined(__AVX512VBMI__) && defined(__GFNI__)
#include <immintrin.h>

#define HAS_TABLES 1
#define EXPONENT(v)                                                                                \
    ((v) < 2    ? 127                                                                              \
     : (v) < 4  ? 128                                                                              \
     : (v) < 8  ? 129                                                                              \
     : (v) < 16 ? 130                                                                              \
     : (v) < 32 ? 131                                                                              \
     : (v) < 64 ? 132                                                                              \
                : 133)
#define BF16(v) ((v) == 0 ? 0 : (EXPONENT(v) << 7) + (((v) << (134 - EXPONENT(v))) & 127))
#define LOWER(v) BF16(v) & 255
#define UPPER(v) BF16(v) >> 8
/* e4m3: subnormals are integer multiples of 2^-9 */
#define OF_CODE(v)                                                                                 \
    ((v) == 0 ? 0 : (v) < 8 ? BF16(v) - (9 << 7) : (((v) >> 3) + 120) << 7 | ((v)&7) << 4)
#define LOWER_OF_CODE(v) OF_CODE(v) & 255
#define UPPER_OF_CODE(v) OF_CODE(v) >> 8
#define FOUR(of, v) of(v), of((v) + 1), of((v) + 2), of((v) + 3)
#define SIXTEEN(of, v) FOUR(of, v), FOUR(of, (v) + 4), FOUR(of, (v) + 8), FOUR(of, (v) + 12)
#define ALL(of) SIXTEEN(of, 0), SIXTEEN(of, 16), SIXTEEN(of, 32), SIXTEEN(of, 48)
#define EIGHT(of) FOUR(of, 0), FOUR(of, 4)
/* Bit matrices: a byte, the highest first, selects the bits that add up to result bit 0, 1, ... */
#define SHIFT_LEFT 0x0000000001020408 /* bit i + 4 is bit i */
#define UPPER_CODE 0x1020404040404080 /* bits 0 and 1 are 4 and 5, 2 to 5 and 6 are 6, 7 is 7 */

/* bf16's low and high bytes of the integers 0 .. 63, and of e4m3's subnormals. */
static const _Alignas(64) uint8_t lower_bytes[2][64] = {{ALL(LOWER)}, {EIGHT(LOWER_OF_CODE)}};
static const _Alignas(64) uint8_t upper_bytes[2][64] = {{ALL(UPPER)}, {EIGHT(UPPER_OF_CODE)}};

/* bf16 bytes of 64 numbers of e4m3 (coded) or int8, none of which is -128 (core/base/quantize.h).
 * Numbers outside the tables are computed: an integer of 64 or more is shifted left by one; a
 * magnitude v of e4m3 becomes (v >> 4) + 60 and v << 4, each by a bit matrix. The look-ups take the
 * lowest six bits. */
static inline __attribute__((always_inline)) void look_up_bytes(const bool coded, __m512i all,
                                                                __m512i *low, __m512i *high)
{
    const __m512i *lower = (const void *)lower_bytes[coded];
    const __m512i *upper = (const void *)upper_bytes[coded];
    const __m512i size = coded ? all : _mm512_abs_epi8(all);
    const __mmask64 listed = _mm512_testn_epi8_mask(size, _mm512_set1_epi8(coded ? 0x78 : 0x40));
    const __m512i shifted =
        coded ? _mm512_gf2p8affine_epi64_epi8(all, _mm512_set1_epi64(SHIFT_LEFT), 0)
              : _mm512_add_epi8(size, size);
    const __m512i exponent =
        coded ? _mm512_gf2p8affine_epi64_epi8(all, _mm512_set1_epi64(UPPER_CODE), 0x3c)
              : _mm512_set1_epi8(0x42);
    const __m512i unsigned_high = _mm512_mask_permutexvar_epi8(exponent, listed, size, *upper);
    *low = _mm512_mask_permutexvar_epi8(shifted, listed, size, *lower);
    *high = _mm512_ternarylogic_epi32(unsigned_high, all, _mm512_set1_epi8((char)0x80), 0xf8);
}

/* Widens 64 numbers of 8 bits to bf16 in to[128]. In order: a permutation undoes the interleaving
 * within quarters of a vector. Otherwise the order is that of PAIRS (streamed.h), the first halves
 * of all quarters before the second halves, which saves an instruction. */
static inline __attribute__((always_inline)) void
widen_64_bytes(const bool coded, const bool in_order, const void *at, void *to)
{
    const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0), from = _mm512_loadu_si512(at);
    __m512i low, high;
    look_up_bytes(coded, in_order ? _mm512_permutexvar_epi64(order, from) : from, &low, &high);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi8(low, high));
    _mm512_storeu_si512((char *)to + 64, _mm512_unpackhi_epi8(low, high));
}

/* Byte indices that pair numbers i and 32 + i from low[64] and high[64]. */
#define PAIR(i) (i), 64 + (i), 32 + (i), 96 + (i)
#define FOUR_PAIRS(i) PAIR(i), PAIR((i) + 1), PAIR((i) + 2), PAIR((i) + 3)
#define ALL_PAIRS(i) FOUR_PAIRS(i), FOUR_PAIRS((i) + 4), FOUR_PAIRS((i) + 8), FOUR_PAIRS((i) + 12)
static const _Alignas(64) uint8_t pairs_of_lines[2][64] = {{ALL_PAIRS(0)}, {ALL_PAIRS(16)}};
#else
#define HAS_TABLES 0
#endif

#ifdef __AVX512BF16__
/* bf16 of the integers of 4 bits, twice: only an index's lowest four bits count. */
static const _Alignas(64) uint16_t int4_numbers[32] = {
    0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000,
    0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040,
    0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0};

/* Pair j of four from eight lines, 16 columns. */
static inline __attribute__((always_inline)) __m512i look_up_pairs(__m512i words, const int j)
{
    return _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * (unsigned)j),
                                    *(const __m512i *)(const void *)int4_numbers);
}

/* Widens a group of 4 bits (int4_tiles.h) to 16 pairs of bf16 lines, 32 columns; exact. Prefetches
 * the bytes `ahead` behind. */
static inline __attribute__((always_inline)) void widen_int4_group(const char *at, int64_t ahead,
                                                                   char *to)
{
    __m512 scale[2];
    for (int v = 0; v < 2; v++)
        scale[v] = _mm512_castsi512_ps(_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(at + 32 * v))), 16));
    for (int b = 0; b < 9 * 64; b += 64)
        __builtin_prefetch(at + ahead + b, 0, 2);
    for (int e = 0; e < 8; e++) /* eights of lines, two vectors each */
        for (int j = 0; j < 4; j++) {
            const __m512i pairs = look_up_pairs(_mm512_loadu_si512(at + 64 + 64 * e), j);
            const __m512i low = _mm512_castps_si512(_mm512_mul_ps(
                              _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), scale[e % 2])),
                          high = _mm512_castps_si512(
                              _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(
                                                pairs, _mm512_set1_epi32((int)0xffff0000))),
                                            scale[e % 2]));
            _mm512_storeu_si512(
                to + (e / 2 * 4 + j) * 128 + e % 2 * 64,
                _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(low, 16), high));
        }
}
#endif

#endif
