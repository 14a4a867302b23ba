/* Skinny matrix products, as in decoding: every weight is read from memory once, at memory speed,
 * and multiplied with all rows in registers or, for more rows, in caches (packed.c; lines.c for
 * weights [n, k]). A row's sums have one order, independent of other rows, threads and shards: a
 * sequence's tokens do not depend on its neighbours.
 *
 * Partial blocks at the ends of lines are copied and zero padded: all arithmetic is on whole
 * blocks. */
#include "runner/device/cpu/streamed.h"

#include "core/base/device.h"
#include "core/base/number.h"
#include "core/base/quantize.h"

#include <string.h>

enum {
    MOST_ROWS = 32,
    GROUP = LEAST_PACKED - 1, /* most rows per load of a weight */
    WIDE = REGISTERS / 4,     /* vectors of sums for a single row */
    NARROW = REGISTERS / 8,   /* for each of up to four rows */
    NARROWEST = 2,            /* for each of more rows */
    LINES = 8,                /* lines per part; even */
    PART_BYTES = 512,         /* bytes of each line in a part */
    STRIP_SUMS = 4096,        /* sums of a strip of columns: fit the first-level cache */
    COLUMNS_AT_ONCE = 128,    /* least columns per thread: two cache lines of bf16 or more */
    LONG_RUN_BYTES = 65536,   /* run of a line as fast as any longer one */
    BLOCK_COLUMNS = 8192,     /* columns whose segments one thread adds up; fewer for many rows */
    FEWER_COLUMNS = 2048,
    ROW_BYTES = 4 << 20, /* scratch for x in the first thread's, then each thread's sums */
    PACK_AT = SW_CPU_SCRATCH_BYTES - PACK_BYTES, /* offset of a thread's packed weights */
    SUM_BYTES = PACK_AT - ROW_BYTES,
    WHOLE_COLUMNS = SW_TILE_COLUMNS,            /* multiple for sums: whole vectors, panels of 4
                                                 * bits */
    MOST_X = ROW_BYTES / 4 - MOST_ROWS * DEPTH, /* most elements of rows, and of results */
    MOST_Y = SUM_BYTES / 4 - MOST_ROWS * (BLOCK_COLUMNS + WHOLE_COLUMNS)
};

/* Rows that programs assume batch invariant are all made here. */
_Static_assert((int64_t)MOST_ROWS >= SW_CPU_INVARIANT_ROWS, "rows that programs take to be alike");
_Static_assert((int64_t)MOST_X >= SW_CPU_INVARIANT_ELEMS &&
                   (int64_t)MOST_Y >= SW_CPU_INVARIANT_ELEMS,
               "and their elements");

/* Pairs take half of floats' room: the rest of MOST_X pads rows to whole tiles, a line apart. */
_Static_assert((MOST_X + MOST_ROWS * DEPTH) * 2 + 15 * 2 * (int64_t)MOST_AMX_LINES +
                       (BLOCK_ROWS + 15) * (int64_t)LINE_BYTES <=
                   ROW_BYTES,
               "whole tiles of rows");

/* ---- Weights [k, n]: their lines are added up ---- */

static const char no_weights[4 * LANES * WIDE]; /* second line of the last pair if k is odd */

/* Lines to read: `depth` from `line`, at `at`, `stride` bytes apart; prefetches as many from
 * `next`. */
struct strip {
    int64_t line, depth, stride;
    const char *at, *next;
};

/* sum[rows, blocks] += x[rows, depth] weights[depth, blocks], all sums in registers, row stride
 * `width`. The loop is unrolled so that each line has its own load instructions, which hardware
 * prefetchers track. */
INLINE void add_tile(const struct streamed *s, const enum kind kind, const int rows,
                     const int blocks, const struct strip *strip, float *sum, int64_t width)
{
    const int vectors = blocks * vectors_of(kind), step = (int)lines_of_step(kind);
    const int64_t depth = strip->depth, stride = strip->stride;
    const float *restrict x = s->x + strip->line / step * rows;
    vec total[GROUP][WIDE];
    EACH(i, rows)
    EACH(v, vectors) total[i][v] = load(sum + i * width + v * LANES);
    _Pragma("GCC unroll 8") for (int64_t d = 0; d < depth; d += step)
    {
        const char *at = strip->at + d * stride, *next = strip->next + d * stride;
        EACH(b, blocks)
        if (b * block_bytes(kind) % LINE_BYTES == 0)
            EACH(i, step) __builtin_prefetch(next + i * stride + b * block_bytes(kind), 0, 2);
        vec w[WIDE];
        const char *second = d + 1 < depth ? at + stride : no_weights;
        EACH(b, blocks)
        {
            const int64_t offset = b * block_bytes(kind);
            if (kind == FLOATS) {
                w[b] = load((const float *)(const void *)(at + offset));
            } else if (kind == WIDENED) {
                EACH(half, 2) w[2 * b + half] = widen(at + offset, half);
            } else if (is_narrow(kind) && !in_pairs(kind)) {
                EACH(half, 2) w[2 * b + half] = widen_bytes(kind, at + offset, half);
            } else if (is_narrow(kind)) {
                EACH(half, 2)
                w[2 * b + half] = pair_lines(kind, at + offset, second + offset, half);
            } else {
#ifdef __AVX512BF16__
                const bits even = *(const loose_bits *)(const void *)(at + offset);
                const bits odd = *(const loose_bits *)(const void *)(second + offset);
                EACH(half, 2) w[2 * b + half] = (vec)interleave(even, odd, half);
#else
                (void)second;
#endif
            }
        }
        EACH(i, rows)
        {
#ifdef __AVX512BF16__
            if (in_pairs(kind)) {
                const bits pair =
                    *(const loose_word *)(const void *)(x + d / step * rows + i) - (bits){0};
                EACH(v, vectors) total[i][v] = add_pairs(total[i][v], (bits)w[v], pair);
                continue;
            }
#endif
            const vec left = splat(x[d / step * rows + i]);
            EACH(v, vectors) total[i][v] = multiply_add(left, w[v], total[i][v]);
        }
    }
    EACH(i, rows)
    EACH(v, vectors) store(sum + i * width + v * LANES, total[i][v]);
}

/* Adds all rows, fewer than LEAST_PACKED, for `vectors` vectors; above four rows NARROWEST at
 * most. */
INLINE void add_rows(const struct streamed *s, const enum kind kind, const int vectors,
                     const struct strip *strip, float *sum, int64_t width)
{
    const int blocks = vectors / vectors_of(kind);
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (n <= 4 || vectors <= NARROWEST)                                                        \
            add_tile(s, kind, n, blocks, strip, sum, width);                                       \
        break;
    switch (s->m) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
#if REGISTER_COUNT == 32
        ROWS(5)
        ROWS(6)
        ROWS(7)
#endif
    default:
        break;
    }
#undef ROWS
}

/* Adds `bytes` of the strip's lines, whole blocks. */
INLINE void add_part(const struct streamed *s, const enum kind kind, struct strip strip,
                     int64_t bytes, float *sum, int64_t width)
{
    const int64_t vector = block_bytes(kind) / vectors_of(kind);
    const int64_t some = (s->m <= 4 ? NARROW : NARROWEST) * vector;
    const int64_t many = s->m == 1 ? WIDE * vector : some;
    for (int64_t left = bytes, step; left > 0; left -= step) {
        step = left >= many ? many : left >= some ? some : block_bytes(kind);
        if (step == many && s->m == 1)
            add_tile(s, kind, 1, WIDE / vectors_of(kind), &strip, sum, width);
        else if (s->m <= 4 && step == some)
            add_rows(s, kind, NARROW, &strip, sum, width);
        else if (step == some)
            add_rows(s, kind, NARROWEST, &strip, sum, width);
        else
            add_rows(s, kind, vectors_of(kind), &strip, sum, width);
        strip.at += step;
        strip.next += step;
        sum += step / bytes_of(kind);
    }
}

/* Lines [first, end) of a segment from some column, `bytes` of each, processed in strips. */
struct segment {
    const char *at; /* at line 0 */
    int64_t first, end, stride, bytes, strip;
};

/* Prefetch address AHEAD_BYTES after the part at `line` and `offset`: as far down its strip or,
 * after the last line, from the top of the next strip or segment. */
INLINE const char *find_next(const struct segment *s, int64_t line, int64_t offset, int64_t k)
{
    const int64_t apart = AHEAD_BYTES / s->strip / LINES * LINES;
    const int64_t later = line + (apart > LINES ? apart : LINES), top = s->first + later - s->end;
    if (later < s->end)
        return s->at + later * s->stride + offset;
    if (offset / s->strip * s->strip + s->strip < s->bytes)
        return s->at + (top < s->end ? top : s->first) * s->stride + offset + s->strip;
    return s->at + (later < k ? later : line) * s->stride + offset % s->strip;
}

/* Adds the columns after the last whole block, at most one block. */
INLINE void add_rest(const struct streamed *s, const enum kind kind, const struct segment *segment,
                     int64_t width, float *y, int64_t padded)
{
    for (int64_t line = segment->first; line < segment->end; line += LINES) {
        const int64_t left = segment->end - line, depth = left < LINES ? left : LINES;
        const char *from = segment->at + line * segment->stride + segment->bytes;
        char part[LINES][4 * LANES] = {{0}};
        for (int64_t d = 0; d < depth; d++)
            memcpy(part[d], from + d * segment->stride, (size_t)(width * bytes_of(kind)));
        const struct strip strip = {line, depth, 4 * LANES, part[0], part[0]};
        add_part(s, kind, strip, block_bytes(kind), y, padded);
    }
}

/* Adds lines [first, end) of columns [column, column + width) into y[m, padded], which is zeroed
 * first. */
INLINE void add_lines(const struct streamed *s, const enum kind kind, int64_t first, int64_t end,
                      int64_t column, int64_t width, float *y, int64_t padded)
{
    const int64_t element = bytes_of(kind);
    const int64_t whole = width / block_elems(kind) * block_elems(kind);
    const int64_t strip = sw_align(STRIP_SUMS / s->m * element, PART_BYTES);
    const struct segment segment = {.at = s->weights + column * element,
                                    .first = first,
                                    .end = end,
                                    .stride = s->stride * element,
                                    .bytes = whole * element,
                                    .strip = strip};
    for (int64_t begin = 0; begin < segment.bytes; begin += strip) {
        const int64_t next = begin + strip < segment.bytes ? begin + strip : segment.bytes;
        for (int64_t line = first; line < end; line += LINES) {
            const int64_t depth = end - line < LINES ? end - line : LINES;
            for (int64_t offset = begin; offset < next; offset += PART_BYTES) {
                const struct strip part = {line, depth, segment.stride,
                                           segment.at + line * segment.stride + offset,
                                           find_next(&segment, line, offset, s->k)};
                add_part(s, kind, part, next - offset < PART_BYTES ? next - offset : PART_BYTES,
                         y + offset / element, padded);
            }
        }
    }
    if (whole < width)
        add_rest(s, kind, &segment, width - whole, y + whole, padded);
}

/* ---- Both ---- */

/* A thread's part of a product: some columns and, if lines are added up, some segments. */
struct task {
    int64_t column, width, segment, segments;
    int64_t padded; /* width in whole blocks */
    float *sums;    /* [segments, m, padded], or [m, padded] over all segments */
    char *pack;     /* PACK_BYTES */
};

static void add_segment(const struct streamed *s, enum kind kind, int64_t segment, int64_t column,
                        int64_t width, float *y, int64_t padded)
{
    const int64_t first = segment * SEGMENT, last = first + SEGMENT;
    const int64_t end = last < s->k ? last : s->k;
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
    case BYTE_PAIRS:
#ifdef __AVX512BF16__
        add_lines(s, BYTE_PAIRS, first, end, column, width, y, padded);
#endif
        break;
    case CODES:
        add_lines(s, CODES, first, end, column, width, y, padded);
        break;
    case CODE_PAIRS:
#ifdef __AVX512BF16__
        add_lines(s, CODE_PAIRS, first, end, column, width, y, padded);
#endif
        break;
    case NIBBLES: /* only tiled: tiled_int4.c */
    case NIBBLE_PAIRS:
        break;
    }
}

/* sum[m, columns] += more[m, columns], row strides `stride` and `more_stride`. */
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

/* Adds up all segments, a block of columns at a time, so that addends stay in cache. */
static void add_up_segments(const struct streamed *s, enum kind kind, const struct task *t)
{
    const bool fits = s->m <= MOST_ROWS && s->m * (t->padded + BLOCK_COLUMNS) <= SUM_BYTES / 4;
    const int64_t most = fits ? BLOCK_COLUMNS : FEWER_COLUMNS;
    float *more = t->sums + s->m * t->padded;
    for (int64_t begin = 0; begin < t->width; begin += most) {
        const int64_t left = t->width - begin, width = left < most ? left : most;
        const int64_t padded = sw_align(width, 2 * LANES);
        add_segment(s, kind, 0, t->column + begin, width, t->sums + begin, t->padded);
        for (int64_t segment = 1; segment < t->segments; segment++) {
            add_segment(s, kind, segment, t->column + begin, width, more, padded);
            add_sums(s->m, padded, t->sums + begin, t->padded, more, padded);
        }
    }
}

/* Computes all segments of a task: added up over all groups, or, if `apart`, each by itself. */
static void add_segments(const struct streamed *s, enum kind kind, const struct task *t, bool apart)
{
    const int64_t first = t->segment * SEGMENT, last = first + t->segments * SEGMENT;
    const struct sums y = {t->sums, t->padded, apart ? s->m * t->padded : 0};
    if (s->m >= (is_narrow(kind) && in_pairs(kind) ? LEAST_PACKED_BYTES : LEAST_PACKED))
        sw_cpu_add_packed(s, kind, first, last < s->k ? last : s->k, t->column, t->width, &y,
                          t->pack);
    else if (!apart)
        add_up_segments(s, kind, t);
    else
        for (int64_t j = 0; j < t->segments; j++)
            add_segment(s, kind, t->segment + j, t->column, t->width, t->sums + j * y.apart,
                        t->padded);
}

static bool is_known(enum sw_dtype dtype)
{
    return dtype == SW_F32 || dtype == SW_BF16_T;
}

/* Rows of a product per pass: as many as scratch holds, in equal blocks, in whole register
 * groups. */
static int64_t block_rows(const struct sw_cpu_matmul *g)
{
    const int64_t k = sw_align(g->k, DEPTH), n = sw_align(g->n, COLUMNS_AT_ONCE);
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
    /* skinny products stay alike whether or not the plan has calls of many rows */
    const bool fits = g->always_skinny
                          ? block_rows(g) > 0
                          : g->m <= MOST_ROWS && g->m * g->k <= MOST_X && g->m * g->n <= MOST_Y;
    return fits && !g->accumulate && g->a_column == 1 &&
           (g->tiled || g->b_row == 1 || g->b_column == 1) && is_known(g->a_dtype) &&
           (is_known(g->b_dtype) || sw_is_quantized(g->b_dtype)) && is_known(g->c_dtype);
}

/* Stores x[m, padded], zero padded behind k, interleaved within each group of rows. */
static void put_groups(const struct sw_cpu_matmul *g, enum kind kind, int64_t padded, float *x)
{
    const int64_t step = lines_of_step(kind), steps = padded / step;
    const int64_t group = sw_cpu_packed_group(g->m);
    const bool paired = in_pairs(kind);
    for (int64_t i = 0; i < g->m; i++) {
        const int64_t first = i / group * group, from = i * g->a_row;
        const int64_t rows = g->m - first < group ? g->m - first : group;
        float *to = x + first * steps + (i - first);
        for (int64_t j = 0; j < padded; j += step, to += rows) {
            const int64_t left = g->k - j;
            const uint16_t *narrow = (const uint16_t *)g->a + from + j;
            if (paired) {
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

/* Stores `width` columns of a row from sums in column order. */
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

/* Division of a product among threads: groups of columns times groups of segments. */
struct sharing {
    int64_t columns, groups;
    int64_t width;                   /* width of a group of columns */
    int64_t segments, most_segments; /* number in all groups; most in one */
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

/* Long runs read memory fastest: keeps lines whole if segments divide evenly enough and their sums
 * have room. */
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
                         .padded = sw_align(width, WHOLE_COLUMNS),
                         .sums = (float *)(void *)(scratch + ROW_BYTES),
                         .pack = scratch + PACK_AT};
}

/* Adds the groups' sums for this group's part of the columns. */
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

/* Multiplies rows that scratch has room for. */
static void multiply_block(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    const int32_t threads = device->threads;
    const bool blocks = g->b_dtype == SW_I4;
    const bool by_line = !g->tiled && !blocks && g->b_column != 1;
    const bool paired = HAS_PAIRS && g->a_dtype == SW_BF16_T;
    const enum kind kind = g->b_dtype == SW_I8       ? (paired ? BYTE_PAIRS : BYTES)
                           : g->b_dtype == SW_E4M3   ? (paired ? CODE_PAIRS : CODES)
                           : g->b_dtype == SW_I4     ? (paired ? NIBBLE_PAIRS : NIBBLES)
                           : g->b_dtype != SW_BF16_T ? FLOATS
                           : paired                  ? PAIRS
                                                     : WIDENED;
    float *x = sw_cpu_scratch(device, 0);
    const struct streamed s = {.m = g->m,
                               .n = g->n,
                               .k = g->k,
                               .stride = by_line ? g->b_column : g->b_row,
                               .column_stride = g->b_column,
                               .padded = sw_align(g->k, DEPTH),
                               .x = x,
                               .weights = g->b};
    const bool in_order = by_line || g->tiled || blocks; /* already a line's sums */
    const struct sharing share = choose_sharing(&s, in_order, kind, threads);
    const bool in_amx = sw_cpu_goes_through_amx(g, kind);
    const bool dealt = in_amx && is_narrow(kind); /* true for the order of PAIRS (tables.h) */
    if (in_amx)
        sw_cpu_put_amx_rows(g, x);
    else if (by_line)
        sw_cpu_put_lines(g, kind, s.padded, x);
    else
        put_groups(g, kind, s.padded, x);
    SW_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < share.columns * share.groups; i++) {
        const struct task t = task_of(device, &s, &share, i / share.columns, i % share.columns);
        if (in_amx)
            sw_cpu_multiply_in_amx(&s, kind, t.column, t.width, t.pack, t.sums, t.padded);
        else if (by_line)
            sw_cpu_multiply_lines(&s, kind, t.column, t.width, t.sums, t.padded, t.pack);
        else if (blocks)
            sw_cpu_multiply_int4(&s, kind, g->tiled, t.column, t.width, t.pack, t.sums, t.padded);
        else if (g->tiled)
            sw_cpu_multiply_tiles(&s, kind, t.column, t.width, t.pack, t.sums, t.padded);
        else
            add_segments(&s, kind, &t, share.groups > 1);
        if (share.groups == 1)
            put_columns(g, in_order && !dealt, dealt ? PAIRS : kind, t.column, t.width, t.sums,
                        t.padded);
    }
    if (share.groups == 1)
        return;
    SW_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < share.columns * share.groups; i++)
        join_groups(device, g, &s, kind, &share, i / share.columns, i % share.columns);
}

void sw_cpu_matmul_streamed(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    const int64_t most = g->always_skinny ? block_rows(g) : g->m;
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
