/* Internal to the CPU device's skinny products: vectors, conversions of weights, prefetch
 * distances. A header, so that the compiler can inline the instructions into loops. */
#ifndef SW_DEVICE_CPU_STREAMED_H
#define SW_DEVICE_CPU_STREAMED_H

#include "core/base/number.h"
#include "runner/device/cpu/cpu.h"
#include "runner/device/cpu/tables.h"

#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__FMA__)
#include <immintrin.h>
#endif
#ifdef __AVX512BF16__
#define HAS_PAIRS true
#else
#define HAS_PAIRS false
#endif

#if defined(__AVX512F__)
#define REGISTER_COUNT 32
enum { LANES = 16 };
#elif defined(__AVX__)
#define REGISTER_COUNT 16
enum { LANES = 8 };
#else
#define REGISTER_COUNT 16
enum { LANES = 4 };
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t loose_bits __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
typedef uint32_t loose_word __attribute__((may_alias));
typedef int8_t loose_bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
#define INLINE static inline __attribute__((always_inline))
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

enum {
    REGISTERS = REGISTER_COUNT,
    LINE_BYTES = 64,
    SEGMENT = 512,          /* lines added up before they join the earlier sum */
    DEPTH = 32,             /* rows of x are zero padded to a multiple: whole blocks and pairs */
    PACK_BYTES = 512 << 10, /* thread's scratch for packed weights or sums along lines */
    LEAST_PACKED = REGISTERS < 32 ? 5 : 8, /* fewest rows that repay packing, ... */
    LEAST_PACKED_BYTES = 5,                /* ... for 8 bits, which are widened once */
    MOST_AMX_LINES = 1 << 16, /* most lines of tiled weights: a tile of such rows has room */
    BLOCK_ROWS = 128,  /* most rows at once: their x stays in the second-level cache, and packing is
                        * cheap beside them */
    AHEAD_BYTES = 8192 /* prefetch distance in weights: memory answers in about 200 ns */
};

/* Expands ROWS(n) for each number of rows multiplied at once with packed or tiled weights. */
#if REGISTER_COUNT == 32
#define EACH_NUMBER_OF_ROWS(ROWS)                                                                  \
    ROWS(1)                                                                                        \
    ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#else
#define EACH_NUMBER_OF_ROWS(ROWS) ROWS(1) ROWS(2) ROWS(3) ROWS(4)
#endif

/* Form in which weights are multiplied: floats; bf16 widened to floats; bf16 in pairs along k,
 * multiplied with pairs of bf16 rows and added in fp32; int8 (BYTES) or e4m3 (CODES) widened to
 * floats, or exactly to pairs of bf16, their sums scaled at the end; tiled blocks of 4 bits
 * (NIBBLES). */
enum kind { FLOATS, WIDENED, PAIRS, BYTES, BYTE_PAIRS, CODES, CODE_PAIRS, NIBBLES, NIBBLE_PAIRS };

INLINE bool in_pairs(const enum kind kind)
{
    return kind == PAIRS || kind == BYTE_PAIRS || kind == CODE_PAIRS || kind == NIBBLE_PAIRS;
}

/* True for 8 bits. */
INLINE bool is_narrow(const enum kind kind)
{
    return kind == BYTES || kind == BYTE_PAIRS || kind == CODES || kind == CODE_PAIRS;
}

INLINE bool is_coded(const enum kind kind)
{
    return kind == CODES || kind == CODE_PAIRS;
}

/* Lines per element or pair of a row. */
INLINE int64_t lines_of_step(const enum kind kind)
{
    return in_pairs(kind) ? 2 : 1;
}

struct streamed {
    int64_t m, n, k, stride; /* stride: of the weights' lines, for 4 bits of lines of blocks */
    int64_t column_stride;   /* between columns of blocks, for 4 bits only */
    int64_t padded;          /* k rounded up to whole blocks: row length of x in floats */
    /* [m, padded]; pairs: uint32_t [m, padded / 2]. Consecutive groups of rows, each [padded, rows
     * of the group]; for weights [n, k] [blocks, rows, elements of a block] */
    const float *x;
    const char *weights;
};

INLINE vec load(const float *from)
{
    return *(const loose_vec *)from;
}

/* Loads once, even if two instructions use the value. */
INLINE bits load_bits(const char *from)
{
    bits words = *(const loose_bits *)(const void *)from;
#ifdef __AVX512F__
    __asm__("" : "+v"(words));
#endif
    return words;
}

INLINE void store(float *to, vec value)
{
    *(loose_vec *)to = value;
}

INLINE vec splat(float value)
{
    return value - (vec){0};
}

/* a * b + sum, rounded once if the processor can. Explicit: for some processors compilers contract
 * one copy of a loop only, and rows would differ. */
INLINE vec multiply_add(vec a, vec b, vec sum)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
    return a * b + sum;
#endif
}

INLINE int64_t bytes_of(const enum kind kind)
{
    return kind == FLOATS ? 4 : is_narrow(kind) ? 1 : 2;
}

/* Elements of a block: one vector of FLOATS, else two vectors of floats, loaded from a vector's
 * bytes, or half of one for 8 bits. */
INLINE int64_t block_elems(const enum kind kind)
{
    return kind == FLOATS ? LANES : 2 * LANES;
}

INLINE int64_t block_bytes(const enum kind kind)
{
    return block_elems(kind) * bytes_of(kind);
}

INLINE int vectors_of(const enum kind kind)
{
    return kind == FLOATS ? 1 : 2;
}

/* Widens half of a bf16 block to floats: even elements are the lower halves of its words, odd ones
 * the upper, so a shift or a mask is enough. */
INLINE vec widen(const void *weights, const int half)
{
    const bits words = *(const loose_bits *)weights;
    return (vec)(half == 0 ? words << 16 : words & 0xffff0000u);
}

/* Widens e4m3 in the lower bytes of words whose other bits copy its sign: as a float the magnitude
 * is 2^-120 of its value, subnormals too (core/base/quantize.h). */
INLINE vec widen_codes(bits words)
{
    return (vec)(words << 20 & 0x87ffffffu) * 0x1p120f;
}

/* Widens half of a block of 8 bits, in order. Explicit: compilers may go through int16. e4m3 goes
 * through fp16, whose subnormals are cheap. */
INLINE vec widen_bytes(const enum kind kind, const char *weights, const int half)
{
    const char *from = weights + half * LANES;
    if (is_coded(kind)) {
#if defined(__AVX512F__)
        const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)from));
        const __m256i codes =
            _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbfff));
        return (vec)_mm512_cvtph_ps(codes) * 256.0f;
#elif defined(__AVX2__) && defined(__F16C__)
        const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)from));
        const __m128i codes = _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16((short)0xbfff));
        return (vec)_mm256_cvtph_ps(codes) * 256.0f;
#else
        const loose_bytes *bytes = (const void *)from;
        return widen_codes((bits) __builtin_convertvector(*bytes, integers));
#endif
    }
#if defined(__AVX512F__)
    const __m128i bytes = _mm_loadu_si128((const void *)from);
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#elif defined(__AVX2__)
    const __m128i bytes = _mm_loadl_epi64((const void *)from);
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
#else
    return __builtin_convertvector(*(const loose_bytes *)(const void *)from, vec);
#endif
}

#ifdef __AVX512BF16__
INLINE vec add_pairs(vec sum, bits a, bits b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* Pairs elements of two lines; interleaves within quarters of a vector. */
INLINE bits interleave(bits a, bits b, const int half)
{
    return half == 0 ? (bits)_mm512_unpacklo_epi16((__m512i)a, (__m512i)b)
                     : (bits)_mm512_unpackhi_epi16((__m512i)a, (__m512i)b);
}
#endif

/* Rounds floats of 8-bit numbers to bf16 pairs; exact. */
INLINE vec pair_up(vec first, vec second)
{
    return (vec)((bits)first >> 16 | ((bits)second & 0xffff0000u));
}

/* Pairs half of two lines' blocks of 8 bits. */
INLINE vec pair_lines(const enum kind kind, const char *first, const char *second, const int half)
{
#if HAS_TABLES
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)first)),
                           _mm256_loadu_si256((const void *)second), 1);
    __m512i low, high;
    look_up_bytes(is_coded(kind), both, &low, &high);
    return (vec)_mm512_permutex2var_epi8(low, *(const __m512i *)(const void *)pairs_of_lines[half],
                                         high);
#else
    return pair_up(widen_bytes(kind, first, half), widen_bytes(kind, second, half));
#endif
}

/* Pairs adjacent elements of an e4m3 block: shifts magnitudes left by 4 and adds 120 to exponents;
 * subnormals, without exponent bits, come from a table. */
INLINE vec pair_codes(const char *weights)
{
#ifdef __AVX512BF16__
    static const _Alignas(64)
        uint16_t subnormals[32] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60};
    const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)weights));
    const __m512i size = _mm512_and_si512(_mm512_slli_epi16(wide, 4), _mm512_set1_epi16(0x7f0));
    const __m512i normal = _mm512_add_epi16(size, _mm512_set1_epi16(120 << 7));
    const __m512i pairs = _mm512_mask_permutexvar_epi16(
        normal, _mm512_testn_epi16_mask(wide, _mm512_set1_epi16(0x78)), wide,
        *(const __m512i *)(const void *)subnormals);
    return (vec)_mm512_ternarylogic_epi32(pairs, wide, _mm512_set1_epi16((short)0x8000), 0xf8);
#else
    (void)weights;
    return (vec){0};
#endif
}

/* Index of a row's element i among the sums or operands of its blocks. */
INLINE int64_t deal(const enum kind kind, int64_t i)
{
    const int64_t in = i % (2 * LANES), begin = i - in;
    if (kind == WIDENED)
        return begin + in % 2 * LANES + in / 2;
    return kind == PAIRS ? begin + in / 4 % 2 * LANES + in / 8 * 4 + in % 4 : i;
}

/* Puts a block of sums into the order of its columns. */
INLINE void undeal(const enum kind kind, const float *from, float *to)
{
    if (kind == PAIRS)
        EACH(q, LANES / 2)
    memcpy(to + 4 * q, from + q % 2 * LANES + q / 2 * 4, 4 * sizeof *to);
    else if (kind == WIDENED) EACH(i, LANES)
    {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[LANES + i];
    }
    else memcpy(to, from, 2 * LANES * sizeof *to);
}

/* Rows per group of m when lines are added up; the last group may be smaller; fewer than
 * LEAST_PACKED rows are one group. */
int64_t sw_cpu_packed_group(int64_t m);

/* Destination of segment sums: each its own [m, padded], `apart` from the previous; 0: all added in
 * place, in order. */
struct sums {
    float *data;
    int64_t padded, apart;
};

/* Adds lines [first, end) of columns [column, column + width) to y, in packed.c; `pack`: the
 * thread's PACK_BYTES. `first` begins a segment. Same sums, to the bit, as streamed.c gives fewer
 * rows. */
void sw_cpu_add_packed(const struct streamed *s, enum kind kind, int64_t first, int64_t end,
                       int64_t column, int64_t width, const struct sums *y, char *pack);

/* Rows per group of m for weights [n, k]; the last group may be smaller. */
int64_t sw_cpu_lines_group(int64_t m);

/* Stores x for sw_cpu_multiply_lines, [m, padded]. */
void sw_cpu_put_lines(const struct sw_cpu_matmul *g, enum kind kind, int64_t padded, float *x);

/* y[m, lines], row stride `width`, for lines [line, line + count) of weights [n, k], in lines.c;
 * `sums`: the thread's PACK_BYTES. At most BLOCK_ROWS rows. */
void sw_cpu_multiply_lines(const struct streamed *s, enum kind kind, int64_t line, int64_t count,
                           float *y, int64_t width, char *sums);

/* y[m, padded] for columns [column, column + width), whole panels, of tiled weights (cpu.h), in
 * tiled.c; x as for packed.c; not FLOATS; `wide`: the thread's PACK_BYTES. */
void sw_cpu_multiply_tiles(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                           char *wide, float *y, int64_t padded);

/* sw_cpu_multiply_tiles for weights of 4 bits, NIBBLES or NIBBLE_PAIRS, in tiled_int4.c; untiled
 * ones are tiled on the way, in `pack`, padded with zero columns. */
void sw_cpu_multiply_int4(const struct streamed *s, enum kind kind, bool tiled, int64_t column,
                          int64_t width, char *pack, float *y, int64_t padded);

/* True if AMX makes that product (tiled_amx.c). Depends on plan, build and weights, never on the
 * rows, since its sums differ from those of pairs. */
bool sw_cpu_goes_through_amx(const struct sw_cpu_matmul *g, enum kind kind);

/* Stores the rows in x, in as many bytes as pairs in floats; below, sw_cpu_multiply_tiles by
 * AMX. */
void sw_cpu_put_amx_rows(const struct sw_cpu_matmul *g, void *x);
void sw_cpu_multiply_in_amx(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                            char *wide, float *y, int64_t padded);

#endif
