/* Matrix products of a few rows, as decoding has them: every weight is read once, at the memory's
 * speed, and widened in registers. The sums of a row are made in one order, whatever other rows,
 * threads and shards there are: a text's tokens do not depend on its neighbours. */
#include "core/base/number.h"
#include "runner/device/cpu/cpu.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t loose_bits __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
#define INLINE static inline __attribute__((always_inline))

enum {
    MOST_ROWS = 8,
    DEPTH = 8,             /* weight rows that are summed before the sum is added to the result */
    RUN = 512,             /* likewise along a weight row; a multiple of 2 LANES */
    AHEAD_BYTES = 1024,    /* along a weight row */
    COLUMNS_AT_ONCE = 128, /* of a thread at least: two cache lines of bf16 and more */
    LINE_BYTES = 64,
    HALF_SCRATCH = SW_CPU_SCRATCH_BYTES / 2
};

struct streamed {
    int64_t m, n, k, stride; /* of the weights' lines */
    const float *x;          /* [m, k] */
    const void *weights;
};

INLINE vec load(const float *from)
{
    return *(const loose_vec *)from;
}

INLINE void store(float *to, vec value)
{
    *(loose_vec *)to = value;
}

INLINE vec splat(float value)
{
    return value - (vec){0};
}

/* Weights are taken in blocks of as many bytes as a vector or, of bf16, in two halves: those at
 * even places and those at odd ones, which are the lower and the upper half of the words that are
 * read, so that widening costs a shift or a mask. What they meet is in the same order (deal). */
INLINE int64_t block_elems(const bool narrow)
{
    return narrow ? 2 * LANES : LANES;
}

INLINE vec load_weights(const void *weights, const bool narrow, const int half, int64_t i)
{
    if (!narrow)
        return load((const float *)weights + i);
    const bits words = *(const loose_bits *)((const uint16_t *)weights + i);
    return (vec)(half == 0 ? words << 16 : words & 0xffff0000u);
}

INLINE float load_weight(const void *weights, const bool narrow, int64_t i)
{
    return narrow ? sw_bf16_to_float(((const uint16_t *)weights)[i]) : ((const float *)weights)[i];
}

/* Place of element i of a row whose whole blocks are dealt out; the rest stays as it is. */
INLINE int64_t deal(int64_t i, int64_t n)
{
    const int64_t in_block = i % (2 * LANES);
    return i < n / (2 * LANES) * (2 * LANES) ? i - in_block + in_block % 2 * LANES + in_block / 2
                                             : i;
}

/* ---- Weights [k, n]: their lines are added up ---- */

/* sum[m, width] += x[m, depth] weights[depth, width] from line `line` and column `column` on; of
 * bf16 the columns are dealt out. What the next block wants is asked for ahead: a thread's part of
 * a line may be too short for the processor to see where this goes. */
INLINE void add_lines(const struct streamed *s, const int m, const int depth, const bool narrow,
                      int64_t line, int64_t column, int64_t width, float *restrict sum)
{
    const int64_t element = narrow ? 2 : 4, stride = s->stride, k = s->k;
    const char *lines = (const char *)s->weights + (line * stride + column) * element;
    const float *restrict x = s->x + line;
    int64_t j = 0;
    for (; j + block_elems(narrow) <= width; j += block_elems(narrow)) {
        if (j * element % LINE_BYTES == 0)
            _Pragma("GCC unroll 8") for (int d = 0; d < depth; d++)
                __builtin_prefetch(lines + ((d + depth) * stride + j) * element);
        for (int half = 0; half < (narrow ? 2 : 1); half++) {
            vec block[MOST_ROWS];
            _Pragma("GCC unroll 8") for (int i = 0; i < m; i++) block[i] = (vec){0};
            _Pragma("GCC unroll 8") for (int d = 0; d < depth; d++)
            {
                const vec w = load_weights(lines, narrow, half, d * stride + j);
                _Pragma("GCC unroll 8") for (int i = 0; i < m; i++) block[i] +=
                    splat(x[i * k + d]) * w;
            }
            _Pragma("GCC unroll 8") for (int i = 0; i < m; i++)
            {
                float *to = sum + i * width + j + half * LANES;
                store(to, load(to) + block[i]);
            }
        }
    }
    for (; j < width; j++)
        for (int i = 0; i < m; i++) {
            float block = 0;
            for (int d = 0; d < depth; d++)
                block += x[i * k + d] * load_weight(lines, narrow, d * stride + j);
            sum[i * width + j] += block;
        }
}

INLINE void add_all_lines(const struct streamed *s, const int m, const bool narrow, int64_t column,
                          int64_t width, float *sum)
{
    int64_t line = 0;
    for (; line + DEPTH <= s->k; line += DEPTH)
        add_lines(s, m, DEPTH, narrow, line, column, width, sum);
    for (; line < s->k; line++)
        add_lines(s, m, 1, narrow, line, column, width, sum);
}

/* ---- Weights [n, k]: each of their lines makes one result of every row ---- */

/* y[i, 0 .. lines) = x[i] . weights[line + 0 .. lines) for m rows, y's rows `stride` apart; for
 * bf16 x is dealt out. */
INLINE void multiply_lines(const struct streamed *s, const int m, const int lines,
                           const bool narrow, int64_t line, float *y, int64_t stride)
{
    const int64_t element = narrow ? 2 : 4, k = s->k;
    const int64_t whole = k / block_elems(narrow) * block_elems(narrow);
    const char *weights = (const char *)s->weights + line * s->stride * element;
    const float *x = s->x;
    vec total[MOST_ROWS][MOST_ROWS];
    _Pragma("GCC unroll 8") for (int i = 0; i < m; i++)
        _Pragma("GCC unroll 8") for (int l = 0; l < lines; l++) total[i][l] = (vec){0};
    for (int64_t begin = 0; begin < whole; begin += RUN) {
        const int64_t end = begin + RUN < whole ? begin + RUN : whole;
        vec sum[MOST_ROWS][MOST_ROWS];
        _Pragma("GCC unroll 8") for (int i = 0; i < m; i++)
            _Pragma("GCC unroll 8") for (int l = 0; l < lines; l++) sum[i][l] = (vec){0};
        for (int64_t j = begin; j < end; j += block_elems(narrow))
            _Pragma("GCC unroll 8") for (int l = 0; l < lines; l++)
            {
                const int64_t at = l * s->stride + j;
                __builtin_prefetch(weights + at * element + AHEAD_BYTES);
                for (int half = 0; half < (narrow ? 2 : 1); half++) {
                    const vec w = load_weights(weights, narrow, half, at);
                    _Pragma("GCC unroll 8") for (int i = 0; i < m; i++) sum[i][l] +=
                        load(x + i * k + j + half * LANES) * w;
                }
            }
        _Pragma("GCC unroll 8") for (int i = 0; i < m; i++)
            _Pragma("GCC unroll 8") for (int l = 0; l < lines; l++) total[i][l] += sum[i][l];
    }
    for (int i = 0; i < m; i++)
        for (int l = 0; l < lines; l++) {
            float result = 0;
            for (int lane = 0; lane < LANES; lane++)
                result += total[i][l][lane];
            for (int64_t j = whole; j < k; j++)
                result += x[i * k + j] * load_weight(weights, narrow, l * s->stride + j);
            y[i * stride + l] = result;
        }
}

/* Lines [line, line + count) of the weights; `at_once` of them keep the processor's adders busy. */
INLINE void multiply_all_lines(const struct streamed *s, const int m, const int at_once,
                               const bool narrow, int64_t line, int64_t count, float *y)
{
    int64_t l = 0;
    for (; l + at_once <= count; l += at_once)
        multiply_lines(s, m, at_once, narrow, line + l, y + l, count);
    for (; l < count; l++)
        multiply_lines(s, m, 1, narrow, line + l, y + l, count);
}

/* ---- Both ---- */

/* Columns [column, column + width) of the result into y[m, width]. */
static void make_columns(const struct streamed *s, bool by_line, bool narrow, int64_t column,
                         int64_t width, float *y)
{
    memset(y, 0, (size_t)(s->m * width) * sizeof *y);
    switch (s->m) {
#define ROWS(m, at_once)                                                                           \
    case m:                                                                                        \
        if (by_line && narrow)                                                                     \
            multiply_all_lines(s, m, at_once, true, column, width, y);                             \
        else if (by_line)                                                                          \
            multiply_all_lines(s, m, at_once, false, column, width, y);                            \
        else if (narrow)                                                                           \
            add_all_lines(s, m, true, column, width, y);                                           \
        else                                                                                       \
            add_all_lines(s, m, false, column, width, y);                                          \
        break;
        ROWS(1, 8)
        ROWS(2, 4)
        ROWS(3, 2)
        ROWS(4, 2)
        ROWS(5, 1)
        ROWS(6, 1)
        ROWS(7, 1)
        ROWS(8, 1)
#undef ROWS
    default:
        break;
    }
}

static bool is_known(enum sw_dtype dtype)
{
    return dtype == SW_F32 || dtype == SW_BF16_T;
}

bool sw_cpu_matmul_is_streamed(const struct sw_cpu_matmul *g)
{
    const int64_t most = HALF_SCRATCH / (int64_t)sizeof(float);
    return g->m <= MOST_ROWS && !g->accumulate && g->a_column == 1 &&
           (g->b_row == 1 || g->b_column == 1) && is_known(g->a_dtype) && is_known(g->b_dtype) &&
           is_known(g->c_dtype) && g->m * g->k <= most && g->m * g->n <= most;
}

/* x[m, k], dealt out for bf16 weights whose lines lie along it. */
static void widen_rows(const struct sw_cpu_matmul *g, bool dealt, float *x)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->k; j++) {
            const int64_t from = i * g->a_row + j;
            x[i * g->k + (dealt ? deal(j, g->k) : j)] =
                load_weight(g->a, g->a_dtype == SW_BF16_T, from);
        }
}

static void put_columns(const struct sw_cpu_matmul *g, bool dealt, int64_t column, int64_t width,
                        const float *y)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t to = i * g->c_row + column + j;
            const float value = y[i * width + (dealt ? deal(j, width) : j)];
            if (g->c_dtype == SW_F32)
                ((float *)g->c)[to] = value;
            else
                ((uint16_t *)g->c)[to] = sw_bf16_from_float(value);
        }
}

void sw_cpu_matmul_streamed(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    const int32_t threads = device->threads;
    const bool by_line = g->b_column != 1, narrow = g->b_dtype == SW_BF16_T;
    float *x = sw_cpu_scratch(device, 0);
    const struct streamed s = {.m = g->m,
                               .n = g->n,
                               .k = g->k,
                               .stride = by_line ? g->b_column : g->b_row,
                               .x = x,
                               .weights = g->b};
    const int64_t even = (g->n + threads - 1) / threads;
    const int64_t share = (even + COLUMNS_AT_ONCE - 1) / COLUMNS_AT_ONCE * COLUMNS_AT_ONCE;
    widen_rows(g, by_line && narrow, x);
    SW_PARALLEL_FOR(threads)
    for (int64_t t = 0; t < threads; t++) {
        const int64_t column = t * share, left = g->n - column;
        const int64_t width = left < share ? left : share;
        float *y = (float *)(void *)((char *)sw_cpu_scratch(device, (int32_t)t) + HALF_SCRATCH);
        if (width <= 0)
            continue;
        make_columns(&s, by_line, narrow, column, width, y);
        put_columns(g, !by_line && narrow, column, width, y);
    }
}
