/* Sums of streamed.c for tiled weights: consecutive panels of SW_TILE_COLUMNS columns, each its
 * lines in pairs, each pair the two numbers of every column side by side. So a panel is one
 * contiguous run, suited to hardware prefetchers, and pairs of lines are ready to multiply. One
 * panel at a time: then prefetching always hits the next data, except after the last panel; with
 * two, parts of the next two would be missed. Each sum adds the same products in the same order as
 * in streamed.c, whatever the number of rows. */
#include "core/base/quantize.h"
#include "runner/device/cpu/streamed.h"

enum {
    VECTORS = 2,                        /* vectors per piece, used by rows at once */
    MOST_AT_ONCE = (REGISTERS - 8) / 2, /* rows at once */
    PIECE_COLUMNS = VECTORS * LANES,
    PIECES = SW_TILE_COLUMNS / PIECE_COLUMNS, /* pieces of a panel, ... */
    MOST_PIECES = PIECES < 2 ? 1 : 2,         /* ... pieces that FEW rows use at once */
    FEW = 3,                                  /* rows whose sums for one piece leave adders idle */
    FAR_BYTES = 8192,      /* prefetch distance in a panel with few rows, second-level cache, ... */
    FARTHER_BYTES = 12288, /* ... if arithmetic takes as long as memory */
    MANY = 11              /* rows from which that holds */
};
_Static_assert((int64_t)SW_TILE_COLUMNS % PIECE_COLUMNS == 0 && PIECES % MOST_PIECES == 0,
               "panels are whole pieces");

/* Bytes of a pair of lines with `columns` columns. */
INLINE int64_t pair_bytes(const enum kind kind, int64_t columns)
{
    return 2 * columns * bytes_of(kind);
}

/* ---- Pairs of lines, as they are multiplied ---- */

typedef int16_t loose_shorts __attribute__((vector_size(2 * LANES), aligned(1), may_alias));

/* bf16 of an 8-bit piece by tables; bytes are interleaved within quarters of a vector, so columns
 * are ordered as in PAIRS. */
INLINE void look_up(const enum kind kind, const char *at, bits w[VECTORS])
{
#if HAS_TABLES
    __m512i low, high;
    look_up_bytes(is_coded(kind), (__m512i)load_bits(at), &low, &high);
    w[0] = (bits)_mm512_unpacklo_epi8(low, high);
    w[1] = (bits)_mm512_unpackhi_epi8(low, high);
#else
    (void)kind, (void)at, (void)w;
#endif
}

/* True if tables are used; int8 becomes floats faster without. */
INLINE bool is_looked_up(const enum kind kind)
{
    return HAS_TABLES && (kind == BYTE_PAIRS || is_coded(kind));
}

/* A word's first number as a float (8 bits: the sign fills the word); below, the second. */
INLINE vec left_of(const enum kind kind, bits words)
{
    const integers byte = (integers)(words << 24) >> 24;
    if (!is_narrow(kind) || is_looked_up(kind))
        return (vec)(words << 16);
    return is_coded(kind) ? widen_codes((bits)byte) : __builtin_convertvector(byte, vec);
}

INLINE vec right_of(const enum kind kind, bits words)
{
    const integers byte = (integers)words >> 8;
    if (!is_narrow(kind) || is_looked_up(kind))
        return (vec)(words & 0xffff0000u);
    return is_coded(kind) ? widen_codes((bits)byte) : __builtin_convertvector(byte, vec);
}

/* Loads a piece as words of two numbers of a column; widens 8 bits. */
INLINE void load_piece(const enum kind kind, const char *at, bits w[VECTORS])
{
    if (is_looked_up(kind)) {
        look_up(kind, at, w);
        return;
    }
    EACH(v, VECTORS)
    {
        if (!is_narrow(kind)) {
            w[v] = load_bits(at + v * 4 * LANES);
            continue;
        }
        const loose_shorts *narrow = (const void *)(at + v * 2 * LANES);
        w[v] = (bits) __builtin_convertvector(*narrow, integers);
        if (in_pairs(kind)) {
            const enum kind wide = is_coded(kind) ? CODES : BYTES;
            w[v] = (bits)pair_up(left_of(wide, w[v]), right_of(wide, w[v]));
        }
    }
}

/* Widens `lines` lines of an 8-bit panel to the layout of bf16; exact. */
INLINE void widen_lines(const enum kind kind, const char *at, int64_t lines, char *wide)
{
#if HAS_TABLES
    for (int64_t i = 0; i < lines * SW_TILE_COLUMNS; i += LINE_BYTES)
        widen_64_bytes(is_coded(kind), true, at + i, wide + 2 * i);
#else
    for (int64_t i = 0; i < lines * SW_TILE_COLUMNS; i += pair_bytes(kind, PIECE_COLUMNS)) {
        bits w[VECTORS];
        load_piece(kind, at + i, w);
        memcpy(wide + 2 * i, w, sizeof w);
    }
#endif
}

/* Stores a row's sums of a piece in column order. */
INLINE void put_piece(const enum kind kind, const vec total[VECTORS], bool adds, float *y)
{
    float sums[2][PIECE_COLUMNS];
    EACH(v, VECTORS) store(sums[0] + v * LANES, total[v]);
    const bool is_dealt = is_looked_up(kind);
    if (is_dealt)
        undeal(PAIRS, sums[0], sums[1]);
    EACH(v, VECTORS)
    {
        const vec sum = load(sums[is_dealt] + v * LANES);
        store(y + v * LANES, adds ? load(y + v * LANES) + sum : sum);
    }
}

/* ---- Rows ---- */

/* Prefetching while rows use a segment: `count` steps beginning at `from`, at address `at`. */
struct asking {
    const char *at;
    int64_t from, count;
    int64_t step_bytes; /* stored size; rows may use them widened */
};

/* y[rows, pieces * VECTORS] (+)= x[steps, rows] panel[steps]. */
INLINE void add_pieces(const enum kind kind, const int rows, const int pieces, const float *x,
                       int64_t steps, const char *at, struct asking asking, bool adds, float *y,
                       int64_t padded)
{
    const int vectors = pieces * VECTORS;
    const int64_t step = pair_bytes(kind, SW_TILE_COLUMNS), piece = pair_bytes(kind, PIECE_COLUMNS);
    vec total[MOST_AT_ONCE][MOST_PIECES * VECTORS];
    EACH(i, rows)
    EACH(v, vectors) total[i][v] = (vec){0};
    for (int64_t stage = 0, d = 0; stage < 3; stage++) {
        const int64_t end = stage == 0   ? asking.from
                            : stage == 1 ? asking.from + asking.count
                                         : steps;
        const char *next = asking.at;
        for (; d < end; d++) {
            if (stage == 1) {
                for (int64_t b = 0; b < asking.step_bytes; b += LINE_BYTES)
                    __builtin_prefetch(next + b, 0, 2);
                next += asking.step_bytes;
            }
            bits w[MOST_PIECES * VECTORS];
            EACH(p, pieces) load_piece(kind, at + p * piece, w + p * VECTORS);
            EACH(i, rows)
            {
#ifdef __AVX512BF16__
                if (in_pairs(kind)) {
                    const bits pair = *(const loose_word *)(const void *)(x + i) - (bits){0};
                    EACH(v, vectors) total[i][v] = add_pairs(total[i][v], w[v], pair);
                    continue;
                }
#endif
                const vec left = splat(x[i]), right = splat(x[rows + i]);
                EACH(v, vectors)
                {
                    total[i][v] = multiply_add(left, left_of(kind, w[v]), total[i][v]);
                    total[i][v] = multiply_add(right, right_of(kind, w[v]), total[i][v]);
                }
            }
            at += step;
            x += 2 / lines_of_step(kind) * rows;
        }
    }
    EACH(i, rows)
    EACH(p, pieces)
    put_piece(kind, total[i] + p * VECTORS, adds, y + i * padded + p * PIECE_COLUMNS);
}

INLINE void add_rows(const enum kind kind, int64_t rows, const int pieces, const float *x,
                     int64_t steps, const char *at, struct asking asking, bool adds, float *y,
                     int64_t padded)
{
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (pieces == 1 || n <= FEW)                                                               \
            add_pieces(kind, n, pieces, x, steps, at, asking, adds, y, padded);                    \
        break;
    switch (rows) {
        EACH_NUMBER_OF_ROWS(ROWS)
    default:
        break;
    }
#undef ROWS
}

/* Multiplies a segment of a panel with all rows. `at`: its data, 8 bits widened if that pays;
 * `stored`: its bytes in memory. */
INLINE void add_segment(const struct streamed *s, const enum kind kind, const int pieces,
                        int64_t line, const char *at, const char *stored, int64_t step_bytes,
                        float *y, int64_t padded)
{
    const int64_t at_once = sw_cpu_packed_group(s->m), groups = (s->m + at_once - 1) / at_once;
    const int64_t left = s->k - line, steps = (left < SEGMENT ? left : SEGMENT) / 2;
    const int64_t piece = pair_bytes(kind, PIECE_COLUMNS), step = lines_of_step(kind);
    for (int64_t g = 0, row = 0; row < s->m; g++, row += at_once) {
        const int64_t rows = s->m - row < at_once ? s->m - row : at_once;
        const float *x = s->x + row * (s->padded / step) + line / step * rows;
        struct asking asking = {stored + (rows < MANY ? FAR_BYTES : FARTHER_BYTES), 0, steps,
                                step_bytes};
        if (groups > 1) {
            asking.from = steps * g / groups;
            asking.count = steps * (g + 1) / groups - asking.from;
            asking.at = stored + (steps + asking.from) * step_bytes;
        }
        for (int64_t p = 0; p < PIECES; p += pieces) {
            add_rows(kind, rows, pieces, x, steps, at + p * piece, asking, line > 0,
                     y + row * padded + p * PIECE_COLUMNS, padded);
            asking.count = 0;
        }
    }
}

/* Multiplies a panel with all rows; several groups of rows get 8 bits widened to pairs first. */
INLINE void add_panel(const struct streamed *s, const enum kind kind, const int pieces,
                      int64_t panel, char *wide, float *y, int64_t padded)
{
    const int64_t pair = pair_bytes(kind, SW_TILE_COLUMNS);
    const bool is_widened = is_narrow(kind) && in_pairs(kind) && s->m > MOST_AT_ONCE;
    const char *at = s->weights + panel * (s->k / 2 * pair);
    for (int64_t line = 0; line < s->k; line += SEGMENT) {
        const int64_t left = s->k - line, lines = left < SEGMENT ? left : SEGMENT;
        const char *stored = at + line / 2 * pair;
        if (is_widened) {
            widen_lines(kind, stored, lines, wide);
            add_segment(s, PAIRS, pieces, line, wide, stored, pair, y, padded);
        } else {
            add_segment(s, kind, pieces, line, stored, stored, pair, y, padded);
        }
    }
}

INLINE void multiply_tiles(const struct streamed *s, const enum kind kind, int64_t column,
                           int64_t width, char *wide, float *y, int64_t padded)
{
    const int64_t first = column / SW_TILE_COLUMNS, end = (column + width) / SW_TILE_COLUMNS;
    for (int64_t p = first; p < end; p++) {
        float *to = y + (p - first) * SW_TILE_COLUMNS;
        if (MOST_PIECES > 1 && s->m <= FEW)
            add_panel(s, kind, MOST_PIECES, p, wide, to, padded);
        else
            add_panel(s, kind, 1, p, wide, to, padded);
    }
}

void sw_cpu_multiply_tiles(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                           char *wide, float *y, int64_t padded)
{
    switch (kind) {
    case FLOATS: /* declared layout */
        break;
    case WIDENED:
        multiply_tiles(s, WIDENED, column, width, wide, y, padded);
        break;
    case BYTES:
        multiply_tiles(s, BYTES, column, width, wide, y, padded);
        break;
    case PAIRS:
#ifdef __AVX512BF16__
        multiply_tiles(s, PAIRS, column, width, wide, y, padded);
#endif
        break;
    case BYTE_PAIRS:
#ifdef __AVX512BF16__
        multiply_tiles(s, BYTE_PAIRS, column, width, wide, y, padded);
#endif
        break;
    case CODES:
        multiply_tiles(s, CODES, column, width, wide, y, padded);
        break;
    case CODE_PAIRS:
#ifdef __AVX512BF16__
        multiply_tiles(s, CODE_PAIRS, column, width, wide, y, padded);
#endif
        break;
    case NIBBLES: /* only tiled: tiled_int4.c */
    case NIBBLE_PAIRS:
        break;
    }
}

/* ---- Layout: layout.c makes it ---- */

/* Without tables, 8 bits stored by line take half the instructions to widen. */
bool sw_cpu_tiles(enum sw_dtype dtype)
{
    return dtype == SW_BF16_T || dtype == SW_I4 || (sw_has_scales(dtype) && HAS_TABLES);
}
