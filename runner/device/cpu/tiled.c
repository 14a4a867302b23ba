/* Sums of streamed.c for weights that lie in tiles: panels of SW_TILE_COLUMNS columns one behind
 * the other, of each its lines in pairs, of each pair the columns' two numbers side by side. So a
 * panel is one run of memory, which processors foresee, and a pair of lines is there as it is
 * multiplied. Each sum adds the same products in the same order as there, whatever the number of
 * rows. */
#include "runner/device/cpu/streamed.h"

enum {
    VECTORS = 2,                        /* of a piece, which rows meet at once */
    MOST_AT_ONCE = (REGISTERS - 8) / 2, /* of these rows */
    MOST_PIECES = 2,                    /* of FEW rows */
    STEP_BYTES = 4 * SW_TILE_COLUMNS,   /* a pair of lines of a panel */
    PIECE_BYTES = VECTORS * 4 * LANES,  /* of which a piece has so much */
    FEW = 3,                            /* rows whose sums alone would not keep the adders busy */
    FAR_BYTES = 8192,      /* of a panel that few rows meet: what the second cache asks for, ... */
    FARTHER_BYTES = 12288, /* ... and where arithmetic takes as long as memory */
    MANY = 11              /* that are so many rows */
};
_Static_assert(STEP_BYTES % PIECE_BYTES == 0, "panels are whole pieces");

/* What is asked for while rows go over a segment: so many steps, beginning at `from`, `at`. */
struct asking {
    const char *at;
    int64_t from, count;
};

/* y[rows, pieces * VECTORS] (+)= x[steps, rows] panel[steps], pieces being `apart` in memory. */
INLINE void add_pieces(const enum kind kind, const int rows, const int pieces, const float *x,
                       int64_t steps, const char *at, int64_t apart, struct asking asking,
                       bool adds, float *y, int64_t padded)
{
    const int vectors = pieces * VECTORS;
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
                EACH(p, pieces)
                for (int b = 0; b < STEP_BYTES; b += LINE_BYTES)
                    __builtin_prefetch(next + p * apart + b, 0, 2);
                next += STEP_BYTES;
            }
            bits w[MOST_PIECES * VECTORS];
            EACH(v, vectors)
            w[v] = load_bits(at + v / VECTORS * apart + v % VECTORS * 4 * LANES);
            EACH(i, rows)
            {
#ifdef __AVX512BF16__
                if (kind == PAIRS) {
                    const bits pair = *(const loose_word *)(const void *)(x + i) - (bits){0};
                    EACH(v, vectors) total[i][v] = add_pairs(total[i][v], w[v], pair);
                    continue;
                }
#endif
                const vec left = splat(x[i]), right = splat(x[rows + i]);
                EACH(v, vectors)
                {
                    total[i][v] = multiply_add(left, (vec)(w[v] << 16), total[i][v]);
                    total[i][v] = multiply_add(right, (vec)(w[v] & 0xffff0000u), total[i][v]);
                }
            }
            at += STEP_BYTES;
            x += kind == PAIRS ? rows : 2 * rows;
        }
    }
    EACH(i, rows)
    EACH(v, vectors)
    {
        float *to = y + i * padded +
                    v / VECTORS * (apart == PIECE_BYTES ? VECTORS * LANES : SW_TILE_COLUMNS) +
                    v % VECTORS * LANES;
        store(to, adds ? load(to) + total[i][v] : total[i][v]);
    }
}

INLINE void add_rows(const enum kind kind, int64_t rows, const int pieces, const float *x,
                     int64_t steps, const char *at, int64_t apart, struct asking asking, bool adds,
                     float *y, int64_t padded)
{
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        if (pieces == 1 || n <= FEW)                                                               \
            add_pieces(kind, n, pieces, x, steps, at, apart, asking, adds, y, padded);             \
        break;
    switch (rows) {
        EACH_NUMBER_OF_ROWS(ROWS)
    default:
        break;
    }
#undef ROWS
}

/* A panel, or some that are gone over together, for all rows and segments. */
INLINE void add_panels(const struct streamed *s, const enum kind kind, const int pieces,
                       int64_t panel, float *y, int64_t padded)
{
    const int64_t at_once = sw_cpu_packed_group(s->m), groups = (s->m + at_once - 1) / at_once;
    const int64_t panel_bytes = s->k / 2 * STEP_BYTES, step = lines_of_step(kind);
    const int64_t apart = STEP_BYTES == PIECE_BYTES ? panel_bytes : PIECE_BYTES;
    const char *at = s->weights + panel * panel_bytes;
    for (int64_t line = 0; line < s->k; line += SEGMENT) {
        const int64_t left = s->k - line, steps = (left < SEGMENT ? left : SEGMENT) / 2;
        const char *here = at + line / 2 * STEP_BYTES;
        for (int64_t g = 0, row = 0; row < s->m; g++, row += at_once) {
            const int64_t rows = s->m - row < at_once ? s->m - row : at_once;
            const float *x = s->x + row * (s->padded / step) + line / step * rows;
            struct asking asking = {here + (rows < MANY ? FAR_BYTES : FARTHER_BYTES), 0, steps};
            if (groups > 1)
                asking = (struct asking){here + (steps + steps * g / groups) * STEP_BYTES,
                                         steps * g / groups,
                                         steps * (g + 1) / groups - steps * g / groups};
            for (int64_t p = 0; p < STEP_BYTES / PIECE_BYTES;
                 p += STEP_BYTES == PIECE_BYTES ? 1 : pieces) {
                add_rows(kind, rows, pieces, x, steps, here + p * PIECE_BYTES, apart, asking,
                         line > 0, y + row * padded + p * VECTORS * LANES, padded);
                asking.count = 0;
            }
        }
    }
}

INLINE void multiply_tiles(const struct streamed *s, const enum kind kind, int64_t column,
                           int64_t width, float *y, int64_t padded)
{
    const int64_t first = column / SW_TILE_COLUMNS, end = (column + width) / SW_TILE_COLUMNS;
    const bool few = s->m <= FEW;
    const int64_t many = few && STEP_BYTES == PIECE_BYTES ? MOST_PIECES : 1;
    for (int64_t p = first; p < end;) {
        float *to = y + (p - first) * SW_TILE_COLUMNS;
        if (few && (STEP_BYTES > PIECE_BYTES || p + many <= end)) {
            add_panels(s, kind, MOST_PIECES, p, to, padded);
            p += many;
        } else {
            add_panels(s, kind, 1, p, to, padded);
            p++;
        }
    }
}

void sw_cpu_multiply_tiles(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                           float *y, int64_t padded)
{
#ifdef __AVX512BF16__
    if (kind == PAIRS) {
        multiply_tiles(s, PAIRS, column, width, y, padded);
        return;
    }
#else
    (void)kind;
#endif
    multiply_tiles(s, WIDENED, column, width, y, padded);
}

void sw_cpu_tile(const struct sw_cpu_device *device, void *tiles, const void *weights, int64_t k,
                 int64_t n, bool turned)
{
    const uint16_t *from = weights;
    const int64_t line_apart = turned ? 1 : n, column_apart = turned ? k : 1;
    SW_PARALLEL_FOR(device->threads)
    for (int64_t column = 0; column < n; column += SW_TILE_COLUMNS) {
        uint16_t *to = (uint16_t *)tiles + column * k;
        for (int64_t line = 0; line < k; line += 2, to += 2 * SW_TILE_COLUMNS)
            for (int64_t c = 0; c < SW_TILE_COLUMNS; c++) {
                const uint16_t *pair = from + line * line_apart + (column + c) * column_apart;
                to[2 * c] = pair[0];
                to[2 * c + 1] = pair[line_apart];
            }
    }
}
