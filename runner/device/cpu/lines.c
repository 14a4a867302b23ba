/* Products of streamed.c along the lines of weights [n, k]: each line gives one result per row.
 * Lines are processed in blocks, these in runs along them, so that the rows' run stays in the
 * first-level cache and the lines' in the second: further groups of rows find both there. Sums are
 * made lane by lane within a run, then run by run. */
#include "runner/device/cpu/streamed.h"

enum {
    MOST_AT_ONCE = REGISTERS / 4, /* rows */
    BLOCK_LINES = 48,             /* a multiple of every number of lines used at once */
    RUN_BYTES = 512,              /* run of a line, summed separately */
    X_BYTES = 16 << 10,           /* part of x used at once */
    MOST_BLOCK_ROWS = PACK_BYTES / (BLOCK_LINES * 4 * LANES)
};

/* Rows never exceed that: streamed.c makes blocks of them. */
_Static_assert((int64_t)MOST_BLOCK_ROWS >= (int64_t)BLOCK_ROWS, "room for all sums of a block");

/* Lines used at once with `rows` rows: enough sums for all adders, few enough for the registers. */
INLINE int lines_at_once(const int rows)
{
    if (rows == 1)
        return 8;
    if (REGISTERS < 32)
        return rows == 2 ? 4 : 2;
    return rows <= 3 ? 8 : rows == 4 ? 6 : rows <= 6 ? 4 : 3;
}

/* Consecutive elements of a row where a group's rows are interleaved. */
INLINE int64_t x_floats(const enum kind kind)
{
    return in_pairs(kind) ? LANES : block_elems(kind);
}

int64_t sw_cpu_lines_group(int64_t m)
{
    const int64_t groups = (m + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
    return (m + groups - 1) / groups;
}

/* total[lines, group] += x[blocks, group] . weights[lines, bytes], for `rows` rows of the group,
 * lane by lane; prefetches as many bytes of as many lines from `next`. */
INLINE void add_run(const enum kind kind, const int rows, const int lines, int64_t group,
                    const float *restrict x, const char *at, int64_t stride, int64_t bytes,
                    const char *next, int64_t next_stride, vec *restrict total)
{
    const int halves = vectors_of(kind) == 2 && !in_pairs(kind) ? 2 : 1;
    vec sum[MOST_AT_ONCE][8];
    EACH(r, rows)
    EACH(l, lines) sum[r][l] = (vec){0};
    for (int64_t i = 0; i < bytes; i += block_bytes(kind), x += group * x_floats(kind)) {
        if (block_bytes(kind) >= LINE_BYTES || i % LINE_BYTES == 0) {
            EACH(l, lines) __builtin_prefetch(next + l * next_stride + i, 0, 3);
        }
        EACH(half, halves)
        {
            vec w[8];
            EACH(l, lines)
            {
                const char *from = at + l * stride + i;
                w[l] = kind == WIDENED      ? widen(from, half)
                       : kind == PAIRS      ? (vec)(*(const loose_bits *)(const void *)from)
                       : kind == FLOATS     ? load((const float *)(const void *)from)
                       : kind == CODE_PAIRS ? pair_codes(from)
                       : kind == BYTE_PAIRS
                           ? pair_up(widen_bytes(kind, from, 0), widen_bytes(kind, from, 1))
                           : widen_bytes(kind, from, half);
            }
            EACH(r, rows)
            {
                const vec left = load(x + r * x_floats(kind) + half * LANES);
#ifdef __AVX512BF16__
                if (in_pairs(kind)) {
                    EACH(l, lines) sum[r][l] = add_pairs(sum[r][l], (bits)w[l], (bits)left);
                    continue;
                }
#endif
                EACH(l, lines) sum[r][l] = multiply_add(left, w[l], sum[r][l]);
            }
        }
    }
    EACH(l, lines)
    EACH(r, rows) total[l * group + r] += sum[r][l];
}

/* A stretch of some lines, whole runs or up to the lines' ends; `then`: what follows, to be
 * prefetched; NULL: nothing. All groups of rows use it in turn. */
struct stretch {
    const char *at, *then;
    int64_t stride, lines, bytes;
    int64_t groups, turn;
};

/* Prefetch address at byte `run` of `lines` lines from `line`: with one group AHEAD_BYTES later;
 * with several each prefetches its share of what follows the stretch. */
INLINE const char *find_next(const struct stretch *s, const int lines, int64_t line, int64_t run)
{
    const int64_t runs = (s->bytes + RUN_BYTES - 1) / RUN_BYTES;
    const char *here = s->at + line * s->stride + run; /* already in cache */
    int64_t next = line - s->lines, offset = run;
    if (s->groups == 1) {
        const int64_t later = run / RUN_BYTES + AHEAD_BYTES / (lines * RUN_BYTES);
        next += later / runs * lines;
        offset = later % runs * RUN_BYTES;
        if (next + lines <= 0)
            return s->at + (next + s->lines) * s->stride + offset;
    } else {
        if (line / lines % s->groups != s->turn)
            return here;
        next = line;
    }
    if (s->then == NULL || next + lines > BLOCK_LINES)
        return here;
    return s->then + (next > 0 ? next : 0) * s->stride + offset;
}

/* Adds a stretch to total[lines, group] for `rows` of the group's rows. */
INLINE void add_stretch(const enum kind kind, const int rows, const int lines, int64_t group,
                        const float *x, const struct stretch *s, int64_t line, vec *total)
{
    const char *at = s->at + line * s->stride;
    const int64_t block = block_bytes(kind);
    for (int64_t run = 0; run < s->bytes; run += RUN_BYTES) {
        const int64_t left = s->bytes - run, bytes = left < RUN_BYTES ? left : RUN_BYTES;
        const float *from = x + run / block * group * x_floats(kind);
        if (bytes % block == 0) {
            const char *next = lines > 1 ? find_next(s, lines, line, run) : at + run;
            add_run(kind, rows, lines, group, from, at + run, s->stride, bytes, next, s->stride,
                    total);
            continue;
        }
        char part[8][RUN_BYTES]; /* zero padded at the line's end */
        for (int l = 0; l < lines; l++) {
            memcpy(part[l], at + l * s->stride + run, (size_t)bytes);
            memset(part[l] + bytes, 0, (size_t)(sw_align(bytes, block) - bytes));
        }
        add_run(kind, rows, lines, group, from, part[0], RUN_BYTES, sw_align(bytes, block), part[0],
                RUN_BYTES, total);
    }
}

/* Adds all lines of a stretch for a group of rows. */
INLINE void add_group(const enum kind kind, const int rows, const float *x, const struct stretch *s,
                      vec *total)
{
    const int lines = lines_at_once(rows);
    int64_t line = 0;
    for (; line + lines <= s->lines; line += lines)
        add_stretch(kind, rows, lines, rows, x, s, line, total + line * rows);
    for (; line < s->lines; line++)
        for (int r = 0; r < rows; r++)
            add_stretch(kind, 1, 1, rows, x + r * x_floats(kind), s, line, total + line * rows + r);
}

INLINE void add_rows(const enum kind kind, int64_t rows, const float *x, const struct stretch *s,
                     vec *total)
{
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        add_group(kind, n, x, s, total);                                                           \
        break;
    switch (rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
#if REGISTER_COUNT == 32
        ROWS(4)
        ROWS(5)
        ROWS(6)
        ROWS(7)
#endif
    default:
        add_group(kind, MOST_AT_ONCE, x, s, total);
        break;
    }
#undef ROWS
}

/* Adds halves to halves. Explicit: compilers go through memory. */
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

#ifdef __AVX512F__
/* sum_lanes of LANES vectors, `stride` apart, at once: halves of two form one vector, and so on. */
INLINE vec sum_all_lanes(const vec *value, int64_t stride)
{
    __m512 sum[4];
    EACH(i, 4)
    {
        __m512 half[2];
        EACH(j, 2)
        {
            const __m512 a = (__m512)value[(i + 8 * j) * stride];
            const __m512 b = (__m512)value[(i + 8 * j + 4) * stride];
            half[j] = _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
        }
        sum[i] = _mm512_shuffle_f32x4(half[0], half[1], 0x88) +
                 _mm512_shuffle_f32x4(half[0], half[1], 0xdd);
    }
    EACH(i, 2)
    {
        const __m512d a = (__m512d)sum[2 * i], b = (__m512d)sum[2 * i + 1];
        sum[i] = (__m512)_mm512_unpacklo_pd(a, b) + (__m512)_mm512_unpackhi_pd(a, b);
    }
    return (vec)(_mm512_shuffle_ps(sum[0], sum[1], 0x88) + _mm512_shuffle_ps(sum[0], sum[1], 0xdd));
}
#endif

/* y[count] from the lane sums of as many vectors, `stride` apart. */
INLINE void put_results(const vec *total, int64_t stride, int64_t count, float *y)
{
    int64_t l = 0;
#ifdef __AVX512F__
    for (; l + LANES <= count; l += LANES)
        store(y + l, sum_all_lanes(total + l * stride, stride));
#endif
    for (; l < count; l++)
        y[l] = sum_lanes(total[l * stride]);
}

/* Multiplies lines [line, line + count), at most BLOCK_LINES, into y[m, width]. `more`: true if
 * lines follow. */
INLINE void multiply_block(const struct streamed *s, const enum kind kind, int64_t line,
                           int64_t count, bool more, float *y, int64_t width, vec *total)
{
    const int64_t element = bytes_of(kind), bytes = s->k * element, block = block_bytes(kind);
    const int64_t group = sw_cpu_lines_group(s->m), row_floats = s->padded / lines_of_step(kind);
    const int64_t most = X_BYTES / 4 / (group * x_floats(kind)) * block;
    const int64_t step = most > RUN_BYTES ? most / RUN_BYTES * RUN_BYTES : RUN_BYTES;
    const char *at = s->weights + line * s->stride * element;
    memset(total, 0, (size_t)(s->m * count) * sizeof *total);
    for (int64_t begin = 0; begin < bytes; begin += step) {
        const bool is_last = begin + step >= bytes;
        struct stretch stretch = {.at = at + begin,
                                  .then = !is_last ? at + begin + step
                                          : more   ? at + count * s->stride * element
                                                   : NULL,
                                  .stride = s->stride * element,
                                  .lines = count,
                                  .bytes = is_last ? bytes - begin : step,
                                  .groups = (s->m + group - 1) / group};
        for (int64_t row = 0; row < s->m; row += group, stretch.turn++) {
            const int64_t left = s->m - row, rows = left < group ? left : group;
            const float *x = s->x + row * row_floats + begin / block * rows * x_floats(kind);
            add_rows(kind, rows, x, &stretch, total + row * count);
        }
    }
    for (int64_t row = 0; row < s->m; row++) {
        const int64_t first = row / group * group, left = s->m - first;
        const int64_t rows = left < group ? left : group;
        put_results(total + first * count + (row - first), rows, count, y + row * width);
    }
}

INLINE void multiply_all(const struct streamed *s, const enum kind kind, int64_t line,
                         int64_t count, float *y, int64_t width, vec *total)
{
    for (int64_t l = 0; l < count; l += BLOCK_LINES) {
        const int64_t left = count - l;
        multiply_block(s, kind, line + l, left < BLOCK_LINES ? left : BLOCK_LINES,
                       left > BLOCK_LINES, y + l, width, total);
    }
}

void sw_cpu_multiply_lines(const struct streamed *s, enum kind kind, int64_t line, int64_t count,
                           float *y, int64_t width, char *sums)
{
    vec *total = (vec *)(void *)sums;
    switch (kind) {
    case FLOATS:
        multiply_all(s, FLOATS, line, count, y, width, total);
        break;
    case WIDENED:
        multiply_all(s, WIDENED, line, count, y, width, total);
        break;
    case BYTES:
        multiply_all(s, BYTES, line, count, y, width, total);
        break;
    case PAIRS:
#ifdef __AVX512BF16__
        multiply_all(s, PAIRS, line, count, y, width, total);
#endif
        break;
    case BYTE_PAIRS:
#ifdef __AVX512BF16__
        multiply_all(s, BYTE_PAIRS, line, count, y, width, total);
#endif
        break;
    case CODES:
        multiply_all(s, CODES, line, count, y, width, total);
        break;
    case CODE_PAIRS:
#ifdef __AVX512BF16__
        multiply_all(s, CODE_PAIRS, line, count, y, width, total);
#endif
        break;
    case NIBBLES: /* only tiled: tiled_int4.c */
    case NIBBLE_PAIRS:
        break;
    }
}

void sw_cpu_put_lines(const struct sw_cpu_matmul *g, enum kind kind, int64_t padded, float *x)
{
    const bool paired = in_pairs(kind);
    const int64_t block = block_elems(kind), group = sw_cpu_lines_group(g->m);
    for (int64_t i = 0; i < g->m; i++) {
        const int64_t first = i / group * group, from = i * g->a_row;
        const int64_t rows = g->m - first < group ? g->m - first : group;
        float *to = x + first * padded / lines_of_step(kind) + (i - first) * x_floats(kind);
        for (int64_t j = 0; j < padded; j += block, to += rows * x_floats(kind)) {
            const int64_t left = g->k - j, n = left < 0 ? 0 : left < block ? left : block;
            const uint16_t *narrow = (const uint16_t *)g->a + from + j;
            if (paired || n < block)
                memset(to, 0, (size_t)x_floats(kind) * sizeof *to);
            if (kind == PAIRS || kind == CODE_PAIRS)
                memcpy(to, narrow, (size_t)n * sizeof *narrow);
            for (int64_t e = 0; kind == BYTE_PAIRS && e < n; e++)
                memcpy((char *)(to + e % LANES) + e / LANES * 2, narrow + e, sizeof *narrow);
            for (int64_t e = 0; !paired && e < n; e++)
                to[deal(kind, e)] = g->a_dtype == SW_BF16_T ? sw_bf16_to_float(narrow[e])
                                                            : ((const float *)g->a)[from + j + e];
        }
    }
}
