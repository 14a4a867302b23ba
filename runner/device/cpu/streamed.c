/* Matrix products of a few rows, as decoding has them: every weight is read from memory once, at
 * its speed, and meets all rows in registers, or in the second cache where they are more
 * (packed.c). The sums of a row are made in one order, whatever
 * other rows, threads and shards there are: a text's tokens do not depend on its neighbours.
 *
 * Ends of lines that fill no block of vectors are copied into one, behind them zeros: there is no
 * other arithmetic than that of whole blocks. */
#include "runner/device/cpu/streamed.h"

#include "core/base/device.h"
#include "core/base/number.h"

#include <string.h>

enum {
    MOST_ROWS = 32,
    BLOCK_ROWS = 128,         /* of more rows so many at a time: their x stays in the second cache,
                                 and packing takes little beside them */
    GROUP = LEAST_PACKED - 1, /* rows that meet a weight at once; of a line the next ones find it in
                                 the first cache */
    WIDE = REGISTERS / 4,     /* vectors of sums, of one row alone */
    NARROW = REGISTERS / 8,   /* and of GROUP rows each */
    LINES = 8,                /* of a part; even */
    PART_BYTES = 512,       /* of each of those lines, and along a line whose elements are summed */
    COLUMNS_AT_ONCE = 128,  /* of a thread at least: two cache lines of bf16 and more */
    LONG_RUN_BYTES = 65536, /* of a line: as fast as any longer one */
    BLOCK_COLUMNS = 8192,   /* whose segments one thread adds up; of many rows fewer */
    FEWER_COLUMNS = 2048,
    ROW_BYTES = 4 << 20, /* of scratch: x of the first thread's; behind it everyone's sums */
    PACK_AT = SW_CPU_SCRATCH_BYTES - PACK_BYTES, /* a thread's packed weights */
    SUM_BYTES = PACK_AT - ROW_BYTES,
    MOST_X = ROW_BYTES / 4 - MOST_ROWS * 2 * LANES, /* elements of rows, and of results */
    MOST_Y = SUM_BYTES / 4 - MOST_ROWS * (BLOCK_COLUMNS + 2 * LANES)
};

/* A program that counts on rows of either size being alike has them all made here. */
_Static_assert((int64_t)MOST_ROWS >= SW_CPU_LIKE_ROWS, "rows that programs take to be alike");
_Static_assert((int64_t)MOST_X >= SW_CPU_LIKE_ELEMS && (int64_t)MOST_Y >= SW_CPU_LIKE_ELEMS,
               "and their elements");

/* ---- Weights [k, n]: their lines are added up ---- */

static const char no_weights[4 * LANES * WIDE]; /* behind the last line of an odd k */

/* What is read: `depth` lines from `line` on, at `at`, `stride` bytes apart. */
struct strip {
    int64_t line, depth, stride;
    const char *at;
    struct ahead *ahead;
};

/* sum[rows, blocks] += x[rows, depth] weights[depth, blocks], sums being `width` apart, all of them
 * in registers. */
INLINE void add_tile(const struct streamed *s, const enum kind kind, const int rows,
                     const int blocks, const struct strip *strip, float *sum, int64_t width)
{
    const int vectors = blocks * vectors_of(kind), step = kind == PAIRS ? 2 : 1;
    const int64_t depth = strip->depth, stride = strip->stride;
    const int64_t x_stride = kind == PAIRS ? s->padded / 2 : s->padded;
    const float *restrict x = s->x + strip->line / step;
    vec total[GROUP][WIDE];
    EACH(i, rows)
    EACH(v, vectors) total[i][v] = load(sum + i * width + v * LANES);
    for (int64_t d = 0; d < depth; d += step) {
        const char *at = strip->at + d * stride;
        ask_ahead(strip->ahead, step * blocks * block_bytes(kind));
        vec w[WIDE];
        const char *second = d + 1 < depth ? at + stride : no_weights;
        EACH(b, blocks)
        {
            const int64_t place = b * block_bytes(kind);
            if (kind == FLOATS) {
                w[b] = load((const float *)(const void *)(at + place));
            } else if (kind == WIDENED) {
                EACH(half, 2) w[2 * b + half] = widen(at + place, half);
            } else if (kind == BYTES) {
                EACH(half, 2) w[2 * b + half] = widen_bytes(at + place, half);
            } else {
#ifdef __AVX512BF16__
                const bits even = *(const loose_bits *)(const void *)(at + place);
                const bits odd = *(const loose_bits *)(const void *)(second + place);
                EACH(half, 2) w[2 * b + half] = (vec)interleave(even, odd, half);
#else
                (void)second;
#endif
            }
        }
        EACH(i, rows)
        {
            const float *at_row = x + i * x_stride + d / step;
#ifdef __AVX512BF16__
            if (kind == PAIRS) {
                const bits pair = *(const loose_word *)(const void *)at_row - (bits){0};
                EACH(v, vectors) total[i][v] = add_pairs(total[i][v], (bits)w[v], pair);
                continue;
            }
#endif
            const vec left = splat(*at_row);
            EACH(v, vectors) total[i][v] = multiply_add(left, w[v], total[i][v]);
        }
    }
    EACH(i, rows)
    EACH(v, vectors) store(sum + i * width + v * LANES, total[i][v]);
}

/* All rows, fewer than LEAST_PACKED, of `vectors` vectors. */
INLINE void add_rows(const struct streamed *s, const enum kind kind, const int vectors,
                     const struct strip *strip, float *sum, int64_t width)
{
    const int blocks = vectors / vectors_of(kind);
    switch (s->m) {
    case 1:
        add_tile(s, kind, 1, blocks, strip, sum, width);
        break;
    case 2:
        add_tile(s, kind, 2, blocks, strip, sum, width);
        break;
    case 3:
        add_tile(s, kind, 3, blocks, strip, sum, width);
        break;
    default:
        add_tile(s, kind, GROUP, blocks, strip, sum, width);
        break;
    }
}

/* `bytes` of the strip's lines; whole blocks. */
INLINE void add_part(const struct streamed *s, const enum kind kind, struct strip strip,
                     int64_t bytes, float *sum, int64_t width)
{
    const int64_t block = block_bytes(kind), some = NARROW * block / vectors_of(kind);
    const int64_t many = (s->m == 1 ? WIDE : NARROW) * block / vectors_of(kind);
    for (int64_t left = bytes, step; left > 0; left -= step) {
        step = left >= many ? many : left >= some ? some : block;
        if (step == many && s->m == 1)
            add_tile(s, kind, 1, WIDE / vectors_of(kind), &strip, sum, width);
        else if (step == some)
            add_rows(s, kind, NARROW, &strip, sum, width);
        else
            add_rows(s, kind, vectors_of(kind), &strip, sum, width);
        strip.at += step;
        sum += step / bytes_of(kind);
    }
}

/* Lines [first, end) of columns [column, column + width) into y[m, padded], zeros before. */
INLINE void add_lines(const struct streamed *s, const enum kind kind, int64_t first, int64_t end,
                      int64_t column, int64_t width, float *y, int64_t padded)
{
    const int64_t element = bytes_of(kind), stride = s->stride * element;
    const int64_t whole = width / block_elems(kind) * block_elems(kind), bytes = whole * element;
    const char *weights = s->weights + column * element;
    for (int64_t line = first; line < end; line += LINES) {
        const int64_t depth = end - line < LINES ? end - line : LINES;
        const char *lines = weights + line * stride;
        for (int64_t begin = 0; begin < bytes; begin += PART_BYTES) {
            const int64_t next = begin + PART_BYTES < bytes ? begin + PART_BYTES : bytes;
            const bool is_last = next == bytes;
            struct ahead ahead = {.line = is_last ? lines + depth * stride : lines + next,
                                  .stride = stride,
                                  .bytes = PART_BYTES < bytes ? PART_BYTES : bytes,
                                  .lines = is_last && line + depth >= s->k ? 0 : depth};
            const struct strip strip = {line, depth, stride, lines + begin, &ahead};
            add_part(s, kind, strip, next - begin, y + begin / element, padded);
        }
        if (whole < width) {
            char part[LINES][4 * LANES] = {{0}};
            struct ahead nothing = {0};
            for (int64_t d = 0; d < depth; d++)
                memcpy(part[d], lines + d * stride + bytes, (size_t)((width - whole) * element));
            const struct strip strip = {line, depth, 4 * LANES, part[0], &nothing};
            add_rows(s, kind, vectors_of(kind), &strip, y + whole, padded);
        }
    }
}

/* ---- Weights [n, k]: each of their lines makes one result of every row ---- */

/* sum[rows, lines] += x[rows, length] . weights[lines, length], lane by lane, from element j of x
 * on; of weights from `at` on, `stride` bytes apart. */
INLINE void multiply_part(const struct streamed *s, const enum kind kind, const int rows,
                          const int lines, int64_t row, int64_t j, int64_t length, const char *at,
                          int64_t stride, struct ahead *ahead, vec (*sum)[2 * GROUP])
{
    const int64_t x_stride = kind == PAIRS ? s->padded / 2 : s->padded;
    const float *restrict x = s->x + row * x_stride + (kind == PAIRS ? j / 2 : j);
    const int halves = kind == WIDENED || kind == BYTES ? 2 : 1;
    for (int64_t i = 0; i < length; i += block_elems(kind), at += block_bytes(kind)) {
        if (row == 0)
            ask_ahead(ahead, lines * block_bytes(kind));
        EACH(l, lines)
        EACH(half, halves)
        {
            const char *from = at + l * stride;
            const vec w = kind == WIDENED ? widen(from, half)
                          : kind == BYTES ? widen_bytes(from, half)
                          : kind == PAIRS ? (vec)(*(const loose_bits *)(const void *)from)
                                          : load((const float *)(const void *)from);
            EACH(r, rows)
#ifdef __AVX512BF16__
            if (kind == PAIRS)
                sum[r][l] = add_pairs(sum[r][l], (bits)w, (bits)load(x + r * x_stride + i / 2));
            else
#endif
                sum[r][l] = multiply_add(load(x + r * x_stride + i + half * LANES), w, sum[r][l]);
        }
    }
}

/* Halves are added to halves. By name: compilers go through memory. */
INLINE float sum_lanes(vec value)
{
#if defined(__AVX512F__) || defined(__AVX2__)
#if defined(__AVX512F__)
    const __m512d all = (__m512d)value;
    const __m256 eight =
        (__m256)_mm512_castpd512_pd256(all) + (__m256)_mm512_extractf64x4_pd(all, 1);
#else
    const __m256 eight = (__m256)value;
#endif
    const __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    const __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
#else
    float lane[LANES];
    store(lane, value);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lane[i] += lane[i + n];
    return lane[0];
#endif
}

/* y[rows, lines] = x[rows] . weights[lines] for rows from `row` and lines from `line` on. */
INLINE void multiply_lines(const struct streamed *s, const enum kind kind, const int rows,
                           const int lines, int64_t row, int64_t line, float *y, int64_t width)
{
    const int64_t element = bytes_of(kind), k = s->k, stride = s->stride * element;
    const int64_t whole = k / block_elems(kind) * block_elems(kind);
    const char *weights = s->weights + line * stride;
    vec total[GROUP][2 * GROUP];
    EACH(i, rows)
    EACH(l, lines) total[i][l] = (vec){0};
    const int64_t run = PART_BYTES / element;
    for (int64_t begin = 0; begin < k; begin += run) {
        const bool is_last = begin + run >= k;
        const int64_t end = is_last ? whole : begin + run;
        struct ahead ahead = {.line = is_last ? weights + lines * stride : weights + end * element,
                              .stride = stride,
                              .bytes = run < k ? PART_BYTES : whole * element,
                              .lines = lines};
        vec sum[GROUP][2 * GROUP];
        EACH(i, rows)
        EACH(l, lines) sum[i][l] = (vec){0};
        multiply_part(s, kind, rows, lines, row, begin, end - begin, weights + begin * element,
                      stride, &ahead, sum);
        if (is_last && whole < k) {
            char part[2 * GROUP][4 * LANES] = {{0}};
            ahead.lines = 0;
            EACH(l, lines)
            memcpy(part[l], weights + l * stride + whole * element,
                   (size_t)((k - whole) * element));
            multiply_part(s, kind, rows, lines, row, whole, block_elems(kind), part[0], 4 * LANES,
                          &ahead, sum);
        }
        EACH(i, rows)
        EACH(l, lines) total[i][l] += sum[i][l];
    }
    EACH(i, rows)
    EACH(l, lines) y[(row + i) * width + l] = sum_lanes(total[i][l]);
}

/* Results of `lines` lines for all rows. */
INLINE void multiply_rows(const struct streamed *s, const enum kind kind, const int lines,
                          int64_t line, float *y, int64_t width)
{
    const int64_t groups = (s->m + GROUP - 1) / GROUP, at_once = (s->m + groups - 1) / groups;
    for (int64_t row = 0; row < s->m; row += at_once) {
        const int64_t left = s->m - row;
        switch (left < at_once ? left : at_once) {
        case 1:
            multiply_lines(s, kind, 1, lines, row, line, y, width);
            break;
        case 2:
            multiply_lines(s, kind, 2, lines, row, line, y, width);
            break;
        case 3:
            multiply_lines(s, kind, 3, lines, row, line, y, width);
            break;
        default:
            multiply_lines(s, kind, GROUP, lines, row, line, y, width);
            break;
        }
    }
}

/* Lines [line, line + count) of the weights into y[m, width]. */
INLINE void multiply_all(const struct streamed *s, const enum kind kind, int64_t line,
                         int64_t count, float *y, int64_t width)
{
    enum { AT_ONCE = REGISTERS / 8, MANY = 2 * GROUP }; /* keep the processor's adders busy */
    int64_t l = 0;
    for (; s->m == 1 && l + MANY <= count; l += MANY)
        multiply_lines(s, kind, 1, MANY, 0, line + l, y + l, width);
    for (; l + AT_ONCE <= count; l += AT_ONCE)
        multiply_rows(s, kind, AT_ONCE, line + l, y + l, width);
    for (; l < count; l++)
        multiply_rows(s, kind, 1, line + l, y + l, width);
}

/* ---- Both ---- */

/* A thread's part of a product: some columns and, of weights whose lines are added up, some
 * segments of lines. */
struct task {
    int64_t column, width, segment, segments;
    int64_t padded; /* width, whole blocks */
    float *sums;    /* [segments, m, padded], or of all segments [m, padded] */
    char *pack;     /* PACK_BYTES */
};

static void add_segment(const struct streamed *s, enum kind kind, int64_t segment, int64_t column,
                        int64_t width, float *y, int64_t padded, char *pack)
{
    const int64_t first = segment * SEGMENT, last = first + SEGMENT;
    const int64_t end = last < s->k ? last : s->k;
    if (s->m >= LEAST_PACKED) {
        sw_cpu_add_packed(s, kind, first, end, column, width, y, padded, pack);
        return;
    }
    for (int64_t i = 0; i < s->m; i++)
        memset(y + i * padded, 0, (size_t)sw_align(width, 2 * LANES) * sizeof *y);
    switch (kind) {
    case FLOATS:
        add_lines(s, FLOATS, first, end, column, width, y, padded);
        break;
    case WIDENED:
        add_lines(s, WIDENED, first, end, column, width, y, padded);
        break;
    case BYTES:
        add_lines(s, BYTES, first, end, column, width, y, padded);
        break;
    case PAIRS:
#ifdef __AVX512BF16__
        add_lines(s, PAIRS, first, end, column, width, y, padded);
#endif
        break;
    }
}

/* sum[m, columns] += more[m, columns], `stride` and `more_stride` apart. */
static void add_sums(int64_t m, int64_t columns, float *sum, int64_t stride, const float *more,
                     int64_t more_stride)
{
    for (int64_t i = 0; i < m; i++) {
        float *restrict to = sum + i * stride;
        const float *restrict from = more + i * more_stride;
        for (int64_t j = 0; j < columns; j++)
            to[j] += from[j];
    }
}

/* All segments, added up; a block of columns at a time, so that what is added stays near. */
static void add_segments(const struct streamed *s, enum kind kind, const struct task *t)
{
    const bool fits = s->m <= MOST_ROWS && s->m * (t->padded + BLOCK_COLUMNS) <= SUM_BYTES / 4;
    const int64_t most = fits ? BLOCK_COLUMNS : FEWER_COLUMNS;
    float *more = t->sums + s->m * t->padded;
    for (int64_t begin = 0; begin < t->width; begin += most) {
        const int64_t left = t->width - begin, width = left < most ? left : most;
        const int64_t padded = sw_align(width, 2 * LANES);
        add_segment(s, kind, 0, t->column + begin, width, t->sums + begin, t->padded, t->pack);
        for (int64_t segment = 1; segment < t->segments; segment++) {
            add_segment(s, kind, segment, t->column + begin, width, more, padded, t->pack);
            add_sums(s->m, padded, t->sums + begin, t->padded, more, padded);
        }
    }
}

static void multiply_columns(const struct streamed *s, enum kind kind, const struct task *t)
{
    switch (kind) {
    case FLOATS:
        multiply_all(s, FLOATS, t->column, t->width, t->sums, t->padded);
        break;
    case WIDENED:
        multiply_all(s, WIDENED, t->column, t->width, t->sums, t->padded);
        break;
    case BYTES:
        multiply_all(s, BYTES, t->column, t->width, t->sums, t->padded);
        break;
    case PAIRS:
#ifdef __AVX512BF16__
        multiply_all(s, PAIRS, t->column, t->width, t->sums, t->padded);
#endif
        break;
    }
}

static bool is_known(enum sw_dtype dtype)
{
    return dtype == SW_F32 || dtype == SW_BF16_T;
}

/* How many of a product's rows are made at a time: as many as scratch has room for, blocks of one
 * size where more than one is needed, in whole groups of registers. */
static int64_t block_rows(const struct sw_cpu_matmul *g)
{
    const int64_t k = sw_align(g->k, 2 * LANES), n = sw_align(g->n, COLUMNS_AT_ONCE);
    const int64_t x = ROW_BYTES / 4 / k;
    const int64_t y = SUM_BYTES / 4 / (n + FEWER_COLUMNS);
    const int64_t room = x < y ? x : y, most = room < BLOCK_ROWS ? room : BLOCK_ROWS;
    if (g->m <= most || most == 0)
        return most == 0 ? 0 : g->m;
    const int64_t blocks = (g->m + most - 1) / most, even = (g->m + blocks - 1) / blocks;
    const int64_t whole = sw_align(even, sw_cpu_packed_group(most));
    return whole <= most ? whole : even;
}

bool sw_cpu_matmul_is_streamed(const struct sw_cpu_matmul *g)
{
    /* few rows are made alike whether calls of many are among the plan's or not */
    const bool fits = g->as_few
                          ? block_rows(g) > 0
                          : g->m <= MOST_ROWS && g->m * g->k <= MOST_X && g->m * g->n <= MOST_Y;
    return fits && !g->accumulate && g->a_column == 1 && (g->b_row == 1 || g->b_column == 1) &&
           is_known(g->a_dtype) && (is_known(g->b_dtype) || g->b_dtype == SW_I8) &&
           is_known(g->c_dtype);
}

/* x[m, padded], zeros behind k. */
static void put_rows(const struct sw_cpu_matmul *g, bool by_line, enum kind kind, int64_t padded,
                     float *x)
{
    for (int64_t i = 0; i < g->m; i++) {
        const int64_t from = i * g->a_row;
        if (kind == PAIRS) {
            uint16_t *to = (uint16_t *)x + i * padded;
            memcpy(to, (const uint16_t *)g->a + from, (size_t)g->k * sizeof *to);
            memset(to + g->k, 0, (size_t)(padded - g->k) * sizeof *to);
            continue;
        }
        float *to = x + i * padded;
        memset(to + g->k / (2 * LANES) * (2 * LANES), 0,
               (size_t)(padded - g->k / (2 * LANES) * (2 * LANES)) * sizeof *to);
        for (int64_t j = 0; j < g->k; j++)
            to[by_line ? deal(kind, j) : j] =
                g->a_dtype == SW_BF16_T ? sw_bf16_to_float(((const uint16_t *)g->a)[from + j])
                                        : ((const float *)g->a)[from + j];
    }
}

/* The same for packed weights, of each group of rows one element behind the other. */
static void put_groups(const struct sw_cpu_matmul *g, enum kind kind, int64_t padded, float *x)
{
    const int64_t step = kind == PAIRS ? 2 : 1, steps = padded / step;
    const int64_t group = sw_cpu_packed_group(g->m);
    for (int64_t i = 0; i < g->m; i++) {
        const int64_t first = i / group * group, from = i * g->a_row;
        const int64_t rows = g->m - first < group ? g->m - first : group;
        float *to = x + first * steps + (i - first);
        for (int64_t j = 0; j < padded; j += step, to += rows) {
            const int64_t left = g->k - j;
            const uint16_t *narrow = (const uint16_t *)g->a + from + j;
            if (kind == PAIRS) {
                uint16_t pair[2] = {left > 0 ? narrow[0] : 0, left > 1 ? narrow[1] : 0};
                memcpy(to, pair, sizeof pair);
            } else {
                *to = left <= 0                 ? 0
                      : g->a_dtype == SW_BF16_T ? sw_bf16_to_float(*narrow)
                                                : ((const float *)g->a)[from + j];
            }
        }
    }
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

/* So many columns of a row, from sums in their order. */
INLINE void put_sums(const struct sw_cpu_matmul *g, int64_t row, int64_t column, const int width,
                     const float *sums)
{
    float value[2 * LANES];
    for (int j = 0; j < width; j++)
        value[j] = g->scales != NULL ? sums[j] * g->scales[column + j] : sums[j];
    if (g->c_dtype == SW_F32) {
        memcpy((float *)g->c + row * g->c_row + column, value, (size_t)width * sizeof *value);
        return;
    }
    uint16_t *to = (uint16_t *)g->c + row * g->c_row + column;
    for (int j = 0; j < width; j++)
        to[j] = sw_bf16_from_float(value[j]);
}

static void put_columns(const struct sw_cpu_matmul *g, bool by_line, enum kind kind, int64_t column,
                        int64_t width, const float *y, int64_t padded)
{
    const int64_t whole = width / (2 * LANES) * (2 * LANES);
    float sums[2 * LANES];
    for (int64_t i = 0; i < g->m; i++) {
        const float *from = y + i * padded;
        for (int64_t j = 0; j < whole; j += 2 * LANES) {
            undeal(by_line ? FLOATS : kind, from + j, sums);
            put_sums(g, i, column + j, 2 * LANES, sums);
        }
        if (whole < width) {
            undeal(by_line ? FLOATS : kind, from + whole, sums);
            put_sums(g, i, column + whole, (int)(width - whole), sums);
        }
    }
}

/* How threads share a product: in groups of columns times groups of segments. */
struct sharing {
    int64_t columns, groups;
    int64_t width;                   /* of a group of columns */
    int64_t segments, most_segments; /* of all groups; of one */
};

static struct sharing share_out(int64_t n, int64_t segments, int64_t threads, int64_t groups)
{
    const int64_t columns = threads / groups, even = (n + columns - 1) / columns;
    return (struct sharing){.columns = columns,
                            .groups = groups,
                            .width = sw_align(even, COLUMNS_AT_ONCE),
                            .segments = segments,
                            .most_segments = (segments + groups - 1) / groups};
}

/* Memory is read fastest in long runs: lines stay whole where segments can be shared evenly enough,
 * and their sums have room. */
static struct sharing choose_sharing(const struct streamed *s, bool by_line, enum kind kind,
                                     int64_t threads)
{
    const int64_t segments = s->k <= SEGMENT ? 1 : (s->k + SEGMENT - 1) / SEGMENT;
    const struct sharing by_columns = share_out(s->n, segments, threads, 1);
    int64_t groups = threads < segments ? threads : segments;
    if (by_line || by_columns.width * bytes_of(kind) >= LONG_RUN_BYTES)
        return by_columns;
    while (threads % groups != 0 || (segments + groups - 1) / groups * groups * 8 > segments * 9)
        groups--;
    const struct sharing by_segments = share_out(s->n, segments, threads, groups);
    const int64_t sums = by_segments.most_segments * s->m * by_segments.width;
    return sums * (int64_t)sizeof(float) <= SUM_BYTES ? by_segments : by_columns;
}

static struct task task_of(const struct sw_cpu_device *device, const struct streamed *s,
                           const struct sharing *share, int64_t group, int64_t column)
{
    const int64_t first = column * share->width, left = s->n - first;
    const int64_t width = left < 0 ? 0 : left < share->width ? left : share->width;
    const int64_t segment = share->segments * group / share->groups;
    char *scratch = sw_cpu_scratch(device, (int32_t)(group * share->columns + column));
    return (struct task){.column = first,
                         .width = width,
                         .segment = segment,
                         .segments = share->segments * (group + 1) / share->groups - segment,
                         .padded = sw_align(width, 2 * LANES),
                         .sums = (float *)(void *)(scratch + ROW_BYTES),
                         .pack = scratch + PACK_AT};
}

/* The sums of all groups for this group's part of the columns. */
static void join_groups(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g,
                        const struct streamed *s, enum kind kind, const struct sharing *share,
                        int64_t group, int64_t column)
{
    const struct task first = task_of(device, s, share, 0, column);
    const int64_t blocks = first.padded / (2 * LANES);
    const int64_t begin = blocks * group / share->groups * (2 * LANES);
    const int64_t end = blocks * (group + 1) / share->groups * (2 * LANES);
    const int64_t segment = s->m * first.padded;
    for (int64_t other = 0; other < share->groups; other++) {
        const struct task t = task_of(device, s, share, other, column);
        for (int64_t i = other == 0; i < t.segments; i++)
            add_sums(s->m, end - begin, first.sums + begin, first.padded,
                     t.sums + i * segment + begin, first.padded);
    }
    const int64_t width = (end < first.width ? end : first.width) - begin;
    put_columns(g, false, kind, first.column + begin, width, first.sums + begin, first.padded);
}

/* Of rows that scratch has room for. */
static void multiply_block(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    const int32_t threads = device->threads;
    const bool by_line = g->b_column != 1;
    const enum kind kind = g->b_dtype == SW_I8                    ? BYTES
                           : g->b_dtype != SW_BF16_T              ? FLOATS
                           : HAS_PAIRS && g->a_dtype == SW_BF16_T ? PAIRS
                                                                  : WIDENED;
    float *x = sw_cpu_scratch(device, 0);
    const struct streamed s = {.m = g->m,
                               .n = g->n,
                               .k = g->k,
                               .stride = by_line ? g->b_column : g->b_row,
                               .padded = sw_align(g->k, 2 * LANES),
                               .x = x,
                               .weights = g->b};
    const struct sharing share = choose_sharing(&s, by_line, kind, threads);
    if (!by_line && s.m >= LEAST_PACKED)
        put_groups(g, kind, s.padded, x);
    else
        put_rows(g, by_line, kind, s.padded, x);
    SW_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < share.columns * share.groups; i++) {
        const struct task t = task_of(device, &s, &share, i / share.columns, i % share.columns);
        if (by_line)
            multiply_columns(&s, kind, &t);
        else if (share.groups == 1)
            add_segments(&s, kind, &t);
        else
            for (int64_t j = 0; j < t.segments; j++)
                add_segment(&s, kind, t.segment + j, t.column, t.width, t.sums + j * s.m * t.padded,
                            t.padded, t.pack);
        if (share.groups == 1)
            put_columns(g, by_line, kind, t.column, t.width, t.sums, t.padded);
    }
    if (share.groups == 1)
        return;
    SW_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < share.columns * share.groups; i++)
        join_groups(device, g, &s, kind, &share, i / share.columns, i % share.columns);
}

void sw_cpu_matmul_streamed(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    const int64_t most = g->as_few ? block_rows(g) : g->m;
    const int64_t a = g->a_row * (int64_t)sw_dtype_bytes(g->a_dtype);
    const int64_t c = g->c_row * (int64_t)sw_dtype_bytes(g->c_dtype);
    for (int64_t row = 0; row < g->m; row += most) {
        struct sw_cpu_matmul block = *g;
        block.m = g->m - row < most ? g->m - row : most;
        block.a = (const char *)g->a + row * a;
        block.c = (char *)g->c + row * c;
        multiply_block(device, &block);
    }
}
