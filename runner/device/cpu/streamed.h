/* Internal to the CPU device's products of a few rows: vectors, how weights meet rows, and what is
 * asked of the memory ahead. In a header, so that each file has the instructions inside its loops.
 */
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
    SEGMENT = 512, /* lines that are added up before they meet the sum of those before */
    DEPTH = 32,    /* rows of x have zeros behind k to a multiple of it: whole blocks and pairs */
    PACK_BYTES = 512 << 10, /* that packed weights, or sums along lines, have of a thread's */
    LEAST_PACKED = REGISTERS < 32 ? 5 : 8, /* rows for which packing pays, ... */
    LEAST_PACKED_BYTES = 5,                /* ... of 8 bits, which are widened once */
    MOST_AMX_LINES = 1 << 16, /* of weights in tiles: a whole tile of so long rows has room */
    BLOCK_ROWS = 128,  /* of more rows so many at a time: their x stays in the second cache, and
                          packing takes little beside them */
    AHEAD_BYTES = 8192 /* of weights that are asked for before they are needed: memory answers in
                          about 200 ns */
};

/* ROWS(n) for each number of rows that meet packed weights, or those in tiles, at once. */
#if REGISTER_COUNT == 32
#define EACH_NUMBER_OF_ROWS(ROWS)                                                                  \
    ROWS(1)                                                                                        \
    ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#else
#define EACH_NUMBER_OF_ROWS(ROWS) ROWS(1) ROWS(2) ROWS(3) ROWS(4)
#endif

/* How weights meet rows: as floats; bf16 widened to floats; bf16 in pairs along k, which the
 * processor multiplies with pairs of bf16 rows and adds in fp32; int8 (BYTES) or e4m3 (CODES)
 * widened to floats, or to pairs of bf16, which has room for all of their numbers, and whose sums
 * get their scales at the end; blocks of 4 bits, in tiles (NIBBLES). */
enum kind { FLOATS, WIDENED, PAIRS, BYTES, BYTE_PAIRS, CODES, CODE_PAIRS, NIBBLES, NIBBLE_PAIRS };

INLINE bool in_pairs(const enum kind kind)
{
    return kind == PAIRS || kind == BYTE_PAIRS || kind == CODE_PAIRS || kind == NIBBLE_PAIRS;
}

/* Of 8 bits. */
INLINE bool is_narrow(const enum kind kind)
{
    return kind == BYTES || kind == BYTE_PAIRS || kind == CODES || kind == CODE_PAIRS;
}

INLINE bool is_coded(const enum kind kind)
{
    return kind == CODES || kind == CODE_PAIRS;
}

/* Lines that meet a row's element or pair. */
INLINE int64_t lines_of_step(const enum kind kind)
{
    return in_pairs(kind) ? 2 : 1;
}

struct streamed {
    int64_t m, n, k, stride; /* of the weights' lines, of blocks of 4 bits lines of them, ... */
    int64_t column_stride;   /* ... and their columns; of those alone */
    int64_t padded;          /* k, whole blocks: floats from one row of x to the next */
    /* [m, padded]; of pairs uint32_t [m, padded / 2]. Groups of rows one behind the other, of each
     * [padded, rows of the group]; of weights [n, k] [blocks, rows, elements of a block] */
    const float *x;
    const char *weights;
};

INLINE vec load(const float *from)
{
    return *(const loose_vec *)from;
}

/* Once, though two instructions use it. */
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

/* a * b + sum, rounded once where the processor can. By name: compilers tuned for some processors
 * contract one copy of a loop and leave another's chains of sums apart, and rows would differ. */
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

/* Weights are taken in blocks of one vector of floats, of all others of two: of as many bytes as a
 * vector has, of 8 bits half of them. */
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

/* A block of bf16 is two vectors: those at even places and those at odd ones, which are the lower
 * and the upper half of the words that are read, so that widening costs a shift or a mask. */
INLINE vec widen(const void *weights, const int half)
{
    const bits words = *(const loose_bits *)weights;
    return (vec)(half == 0 ? words << 16 : words & 0xffff0000u);
}

/* e4m3 in the lower bytes of words whose other bits are copies of its sign: the floats of that
 * magnitude are 2^-120 of what it says, subnormals too (core/base/quantize.h). */
INLINE vec widen_codes(bits words)
{
    return (vec)(words << 20 & 0x87ffffffu) * 0x1p120f;
}

/* Half of a block of 8 bits: one behind the other. By name: compilers may take int16 on the way.
 * e4m3 through fp16, whose subnormals cost processors nothing. */
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

/* Pairs of what stands at one place of two lines: the processor interleaves quarters of a vector.
 */
INLINE bits interleave(bits a, bits b, const int half)
{
    return half == 0 ? (bits)_mm512_unpacklo_epi16((__m512i)a, (__m512i)b)
                     : (bits)_mm512_unpackhi_epi16((__m512i)a, (__m512i)b);
}
#endif

/* Pairs of bf16 of what floats that hold 8 bits say: exactly. */
INLINE vec pair_up(vec first, vec second)
{
    return (vec)((bits)first >> 16 | ((bits)second & 0xffff0000u));
}

/* Half of what blocks of 8 bits of two lines say, in pairs. */
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

/* Pairs of what stands side by side in a block of e4m3: a magnitude shifted left by 4, and 120 more
 * to its exponent; of subnormals, which have no bit of an exponent, as they are listed. */
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

/* Where element i of a row is among the sums or operands of its blocks. */
INLINE int64_t deal(const enum kind kind, int64_t i)
{
    const int64_t in = i % (2 * LANES), begin = i - in;
    if (kind == WIDENED)
        return begin + in % 2 * LANES + in / 2;
    return kind == PAIRS ? begin + in / 4 % 2 * LANES + in / 8 * 4 + in % 4 : i;
}

/* A block of sums in the order of its columns. */
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

/* Rows of a group where lines are added up, of m; the last ones may be fewer, those of fewer than
 * LEAST_PACKED are one. */
int64_t sw_cpu_packed_group(int64_t m);

/* Where sums of segments of lines go: each to its own [m, padded], `apart` from those before; 0:
 * all are added up, one after the other. */
struct sums {
    float *data;
    int64_t padded, apart;
};

/* Lines [first, end) of columns [column, column + width) into y; `pack` is PACK_BYTES of the
 * thread's own. `first` begins a segment. The same sums, to the bit, as streamed.c's of fewer rows:
 * packed.c. */
void sw_cpu_add_packed(const struct streamed *s, enum kind kind, int64_t first, int64_t end,
                       int64_t column, int64_t width, const struct sums *y, char *pack);

/* Rows of weights [n, k] that are gone over together, of m; the last ones may be fewer. */
int64_t sw_cpu_lines_group(int64_t m);

/* x as sw_cpu_multiply_lines takes it, [m, padded]. */
void sw_cpu_put_lines(const struct sw_cpu_matmul *g, enum kind kind, int64_t padded, float *x);

/* y[m, lines], `width` apart, for lines [line, line + count) of weights [n, k]; `sums` is
 * PACK_BYTES of the thread's own. At most BLOCK_ROWS rows: lines.c. */
void sw_cpu_multiply_lines(const struct streamed *s, enum kind kind, int64_t line, int64_t count,
                           float *y, int64_t width, char *sums);

/* Columns [column, column + width), whole panels, of weights that lie in tiles (cpu.h) into y[m,
 * padded]; x as packed.c takes it; not FLOATS; `wide` is PACK_BYTES of the thread's own: tiled.c.
 */
void sw_cpu_multiply_tiles(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                           char *wide, float *y, int64_t padded);

/* The same of weights of 4 bits, NIBBLES or NIBBLE_PAIRS; those that do not lie in tiles are put
 * into some, in `pack`, on the way, and columns behind the last are zeros: tiled_int4.c. */
void sw_cpu_multiply_int4(const struct streamed *s, enum kind kind, bool tiled, int64_t column,
                          int64_t width, char *pack, float *y, int64_t padded);

/* true if the processor's tiles make that product: by what the plan, the build and the weights are,
 * never by the rows, for sums are other ones than those of pairs: tiled_amx.c. */
bool sw_cpu_goes_through_amx(const struct sw_cpu_matmul *g, enum kind kind);

/* Its rows in x, of as many bytes as for pairs in floats; then as sw_cpu_multiply_tiles. */
void sw_cpu_put_amx_rows(const struct sw_cpu_matmul *g, void *x);
void sw_cpu_multiply_in_amx(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                            char *wide, float *y, int64_t padded);

#endif
