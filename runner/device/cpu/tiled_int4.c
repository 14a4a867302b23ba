/* Sums of streamed.c for tiled weights of 4 bits (core/base/int4.h): panels of SW_TILE_COLUMNS
 * columns, each its consecutive groups of 32 lines. A group holds the columns' scales, then for
 * every 8 lines 32 bits per column: the lower half has the even lines' integers, the upper half the
 * odd ones'. So shifts by 0, 4, 8 and 12 bits give four pairs of lines, and each half's lowest bits
 * index a table of numbers.
 *
 * A group's integers are summed first, then scaled and added to earlier groups: each sum adds the
 * same products in the same order, whatever the number of rows. */
#include "runner/device/cpu/int4_tiles.h"

enum {
    VECTORS = 2,                              /* vectors of sums per row */
    MOST_AT_ONCE = (REGISTERS - 8) / VECTORS, /* rows at once */
    PIECE_COLUMNS = VECTORS * LANES,
    FAR_BYTES = 8192 /* prefetch distance, second-level cache */
};
_Static_assert(GROUP_BYTES == SW_TILE_COLUMNS * (int)sizeof(struct sw_int4_block),
               "tiles have the bytes of their blocks");
_Static_assert(SW_TILE_LINES % SW_INT4_GROUP == 0 && SW_TILE_COLUMNS % PIECE_COLUMNS == 0,
               "panels are whole groups and pieces");

/* Integers of line 2 j (half 0) or 2 j + 1 of eight lines. */
INLINE vec integers_of(bits words, const int j, const int half)
{
#ifdef __AVX512F__ /* looks up the lowest four bits */
    const vec numbers = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return (vec)_mm512_permutexvar_ps((__m512i)(words >> (16 * half + 4 * j)), (__m512)numbers);
#else
    const integers number = (integers)(words >> (16 * half + 4 * j) & 15u);
    return __builtin_convertvector(number + SW_INT4_LEAST, vec);
#endif
}

/* sum[rows, VECTORS] += x[8 lines, rows] eight[8 lines] */
INLINE void add_eight(const enum kind kind, const int rows, const float *x, const char *at,
                      vec sum[MOST_AT_ONCE][VECTORS])
{
    bits words[VECTORS];
    EACH(v, VECTORS) words[v] = load_bits(at + v * 4 * LANES);
    EACH(j, 4)
    {
#ifdef __AVX512BF16__
        if (in_pairs(kind)) {
            bits w[VECTORS];
            EACH(v, VECTORS) w[v] = (bits)look_up_pairs((__m512i)words[v], j);
            EACH(i, rows)
            {
                const bits pair = *(const loose_word *)(const void *)(x + j * rows + i) - (bits){0};
                EACH(v, VECTORS) sum[i][v] = add_pairs(sum[i][v], w[v], pair);
            }
            continue;
        }
#else
        (void)kind;
#endif
        EACH(half, 2)
        {
            vec w[VECTORS];
            EACH(v, VECTORS) w[v] = integers_of(words[v], j, half);
            EACH(i, rows)
            {
                const vec left = splat(x[(2 * j + half) * rows + i]);
                EACH(v, VECTORS) sum[i][v] = multiply_add(left, w[v], sum[i][v]);
            }
        }
    }
}

/* y[rows, PIECE_COLUMNS] (+)= x[lines, rows] piece[lines] */
INLINE void multiply_piece(const enum kind kind, const int rows, const float *x, int64_t lines,
                           const char *at, int64_t column, bool asks, bool adds, float *y,
                           int64_t padded)
{
    const int64_t eight = 8 / lines_of_step(kind) * rows;
    for (int64_t line = 0; line < lines; line += SW_INT4_GROUP, at += GROUP_BYTES) {
        vec sum[MOST_AT_ONCE][VECTORS], scale[VECTORS];
        EACH(i, rows)
        EACH(v, VECTORS) sum[i][v] = (vec){0};
        for (int64_t b = 0; asks && b < GROUP_BYTES; b += LINE_BYTES)
            __builtin_prefetch(at + FAR_BYTES + b, 0, 2);
        EACH(e, EIGHTS)
        {
            add_eight(kind, rows, x, at + SCALE_BYTES + e * EIGHT_BYTES + 4 * column, sum);
            x += eight;
        }
        EACH(v, VECTORS) scale[v] = load_scales(at + 2 * (column + v * LANES));
        EACH(i, rows)
        EACH(v, VECTORS)
        {
            float *to = y + i * padded + column + v * LANES;
            store(to, multiply_add(scale[v], sum[i][v], adds || line > 0 ? load(to) : (vec){0}));
        }
    }
}

/* Multiplies lines [first, first + lines) of a panel, stored at `at`. */
INLINE void multiply_panel(const struct streamed *s, const enum kind kind, int64_t first,
                           int64_t lines, const char *at, float *y, int64_t padded)
{
    const int64_t at_once = sw_cpu_packed_group(s->m), step = lines_of_step(kind);
    for (int64_t row = 0; row < s->m; row += at_once) {
        const int64_t rows = s->m - row < at_once ? s->m - row : at_once;
        const float *x = s->x + row * (s->padded / step) + first / step * rows;
        for (int64_t column = 0; column < SW_TILE_COLUMNS; column += PIECE_COLUMNS) {
            const bool asks = row == 0 && column == 0;
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_piece(kind, n, x, lines, at, column, asks, first > 0, y + row * padded, padded);  \
        break;
            switch (rows) {
                EACH_NUMBER_OF_ROWS(ROWS)
            default:
                break;
            }
#undef ROWS
        }
    }
}

static void multiply_lines(const struct streamed *s, enum kind kind, int64_t first, int64_t lines,
                           const char *at, float *y, int64_t padded)
{
#ifdef __AVX512BF16__
    if (kind == NIBBLE_PAIRS) {
        multiply_panel(s, NIBBLE_PAIRS, first, lines, at, y, padded);
        return;
    }
#endif
    (void)kind;
    multiply_panel(s, NIBBLES, first, lines, at, y, padded);
}

/* Tiles groups of a panel from weights in the declared layout; zero columns behind the last. */
static void lay_out(const struct streamed *s, int64_t column, int64_t line, int64_t lines, char *to)
{
    const struct sw_int4_block none = {0};
    for (int64_t g = line / SW_INT4_GROUP; g < (line + lines) / SW_INT4_GROUP; g++) {
        for (int64_t c = 0; c < SW_TILE_COLUMNS; c++) {
            const int64_t j = column + c, at = g * s->stride + j * s->column_stride;
            put_block(to, c,
                      j < s->n ? s->weights + at * (int64_t)sizeof none : (const char *)&none);
        }
        to += GROUP_BYTES;
    }
}

void sw_cpu_multiply_int4(const struct streamed *s, enum kind kind, bool tiled, int64_t column,
                          int64_t width, char *pack, float *y, int64_t padded)
{
    const int64_t most = tiled ? s->k : PACK_BYTES / GROUP_BYTES * SW_INT4_GROUP;
    for (int64_t j = 0; j < width; j += SW_TILE_COLUMNS) {
        const char *panel =
            s->weights + (column + j) / SW_TILE_COLUMNS * (s->k / SW_INT4_GROUP) * GROUP_BYTES;
        for (int64_t line = 0; line < s->k; line += most) {
            const int64_t lines = s->k - line < most ? s->k - line : most;
            if (!tiled)
                lay_out(s, column + j, line, lines, pack);
            multiply_lines(s, kind, line, lines, tiled ? panel : pack, y + j, padded);
        }
    }
}

void sw_cpu_int4_block(const struct sw_cpu_matmul *g, int64_t group, int64_t column,
                       struct sw_int4_block *out)
{
    const struct sw_int4_block *blocks = g->b;
    if (!g->tiled) {
        *out = blocks[group * g->b_row + column * g->b_column];
        return;
    }
    const int64_t panel = column / SW_TILE_COLUMNS * (g->k / SW_INT4_GROUP) + group;
    take_block((const char *)g->b + panel * GROUP_BYTES, column % SW_TILE_COLUMNS, out);
}
