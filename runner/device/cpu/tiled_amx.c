/* Products of streamed.c with tiled weights by AMX (amx.h), which takes a panel's pairs of lines as
 * stored. Sums add 32 products at a time, even and odd ones apart, in line order, whatever the
 * number of rows. Bits differ from tiled.c's, hence the plan chooses between the two
 * (sw_cpu_takes_amx). */
#include "runner/device/cpu/amx.h"
#include "runner/device/cpu/int4_tiles.h"
#include "runner/device/cpu/streamed.h"

enum { TILE_ROWS = 16 };

/* Row stride of x: puts a tile's rows into different sets of the first-level cache. */
static int64_t row_bytes(int64_t k)
{
    return 2 * k + LINE_BYTES;
}

bool sw_cpu_goes_through_amx(const struct sw_cpu_matmul *g, enum kind kind)
{
    return HAS_AMX && g->in_amx && g->tiled && (kind == PAIRS || (HAS_TABLES && in_pairs(kind))) &&
           g->k <= MOST_AMX_LINES;
}

/* Fills whole tiles, zeros behind the last row. */
void sw_cpu_put_amx_rows(const struct sw_cpu_matmul *g, void *x)
{
    const int64_t bytes = row_bytes(g->k);
    for (int64_t i = 0; i < sw_align(g->m, TILE_ROWS); i++) {
        char *to = (char *)x + i * bytes;
        if (i < g->m)
            memcpy(to, (const uint16_t *)g->a + i * g->a_row, (size_t)(2 * g->k));
        else
            memset(to, 0, (size_t)(2 * g->k));
    }
}

#if HAS_AMX
enum {
    PAIR_BYTES = 4 * SW_TILE_COLUMNS, /* pair of lines of a panel */
    STEP_LINES = 2 * AMX_ROWS,
    AT_ONCE = 2 * AMX_ROWS, /* rows used while a panel is read */
    FAR_BYTES = 8192,       /* prefetch distance, second-level cache */
    FEW_STEPS = 2           /* widened steps kept of 8 bits, with few rows */
};
_Static_assert((int)AMX_ROWS == TILE_ROWS, "rows of a tile");
_Static_assert((int)SW_INT4_GROUP == STEP_LINES && GROUP_BYTES == AMX_ROWS * AMX_ROW_BYTES * 9 / 16,
               "a group is a step of the tiles");
_Static_assert((int)AT_ONCE == 2 * AMX_ROWS && SEGMENT / 2 * PAIR_BYTES <= PACK_BYTES,
               "room for all steps that other rows find widened");
_Static_assert(SW_TILE_COLUMNS % AMX_COLUMNS == 0 && SW_TILE_LINES % STEP_LINES == 0 &&
                   SEGMENT % STEP_LINES == 0,
               "weights in tiles, and segments, are whole ones of the processor's");

/* Bytes of `lines` lines of a panel. */
static int64_t panel_bytes(enum kind kind, int64_t lines)
{
    return kind == NIBBLE_PAIRS ? lines / SW_INT4_GROUP * GROUP_BYTES
                                : lines * SW_TILE_COLUMNS * bytes_of(kind);
}

/* Multiplies a panel: with few rows all at once, with more a segment at a time, which stays in the
 * first-level cache. Sums continue from memory, so that both give the same bits. */
static void multiply_panel(const struct streamed *s, enum kind kind, const char *panel, char *wide,
                           float *y, int64_t padded)
{
    const bool narrow = kind != PAIRS, few = s->m <= AT_ONCE;
    const enum amx_form form = kind == NIBBLE_PAIRS ? AMX_NIBBLES
                               : is_coded(kind)     ? AMX_CODES
                                                    : AMX_BYTES;
    const int64_t most = few ? s->k : SEGMENT;
    for (int64_t line = 0; line < s->k; line += most) {
        const int64_t left = s->k - line, lines = left < most ? left : most;
        const char *at = panel + panel_bytes(kind, line);
        const struct sw_amx_operands operands = {.a = (const char *)s->x + 2 * line,
                                                 .b = narrow ? wide : at,
                                                 .c = (char *)y,
                                                 .a_bytes = row_bytes(s->k),
                                                 .b_bytes = PAIR_BYTES,
                                                 .c_bytes = padded * (int64_t)sizeof *y,
                                                 .steps = lines / STEP_LINES,
                                                 .ahead = FAR_BYTES,
                                                 .accumulate = line > 0,
                                                 .exact = few,
                                                 .narrow = at,
                                                 .kept = few ? FEW_STEPS : SEGMENT / STEP_LINES};
        if (narrow)
            sw_cpu_amx_widened_product(s->m, form, operands);
        else
            sw_cpu_amx_product(s->m, SW_TILE_COLUMNS, operands);
    }
}

#endif

void sw_cpu_multiply_in_amx(const struct streamed *s, enum kind kind, int64_t column, int64_t width,
                            char *wide, float *y, int64_t padded)
{
#if HAS_AMX
    if (s->m <= AT_ONCE) /* rows that are not there take no time */
        sw_cpu_amx_configure_rows(s->m);
    else
        sw_cpu_amx_configure();
    for (int64_t j = 0; j < width; j += SW_TILE_COLUMNS)
        multiply_panel(s, kind,
                       s->weights + (column + j) / SW_TILE_COLUMNS * panel_bytes(kind, s->k), wide,
                       y + j, padded);
    sw_cpu_amx_release();
#else /* never called */
    (void)s, (void)kind, (void)column, (void)width, (void)wide, (void)y, (void)padded;
#endif
}
