/* Products of streamed.c with weights that lie in tiles, through the processor's own (amx.h): a
 * panel's pairs of lines are what these take as they lie. Sums are made 32 products at a time, even
 * and odd ones apart, in the order of lines, whatever the number of rows; bits differ from those
 * of tiled.c, so that which of the two it is goes by the plan (sw_cpu_takes_amx). */
#include "runner/device/cpu/amx.h"
#include "runner/device/cpu/int4_tiles.h"
#include "runner/device/cpu/streamed.h"

enum { TILE_ROWS = 16 };

/* From one row of x to the next: not the same place of the first cache for all rows of a tile. */
static int64_t row_bytes(int64_t k)
{
    return 2 * k + LINE_BYTES;
}

bool sw_cpu_goes_through_amx(const struct sw_cpu_matmul *g, enum kind kind)
{
    return HAS_AMX && g->in_amx && g->tiled && (kind == PAIRS || (HAS_TABLES && in_pairs(kind))) &&
           g->k <= MOST_AMX_LINES;
}

/* To whole tiles, those behind the last one zeros. */
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
    PAIR_BYTES = 4 * SW_TILE_COLUMNS, /* of a panel's pair of lines */
    STEP_LINES = 2 * AMX_ROWS,
    AT_ONCE = 2 * AMX_ROWS, /* rows that meet a panel while it is read */
    FAR_BYTES = 8192,       /* of which the second cache is asked for that much before */
    FEW_STEPS = 2           /* of 8 bits that are widened, of few rows */
};
_Static_assert((int)AMX_ROWS == TILE_ROWS, "rows of a tile");
_Static_assert((int)SW_INT4_GROUP == STEP_LINES && GROUP_BYTES == AMX_ROWS * AMX_ROW_BYTES * 9 / 16,
               "a group is a step of the tiles");
_Static_assert((int)AT_ONCE == 2 * AMX_ROWS && SEGMENT / 2 * PAIR_BYTES <= PACK_BYTES,
               "room for all steps that other rows find widened");
_Static_assert(SW_TILE_COLUMNS % AMX_COLUMNS == 0 && SW_TILE_LINES % STEP_LINES == 0 &&
                   SEGMENT % STEP_LINES == 0,
               "weights in tiles, and segments, are whole ones of the processor's");

/* Bytes of so many lines of a panel. */
static int64_t panel_bytes(enum kind kind, int64_t lines)
{
    return kind == NIBBLE_PAIRS ? lines / SW_INT4_GROUP * GROUP_BYTES
                                : lines * SW_TILE_COLUMNS * bytes_of(kind);
}

/* A panel: of few rows all of it at once, of more a segment at a time, which stays in the first
 * cache while they go over it. Sums go on as they were kept, so that it is the same to the bit. */
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
#else /* no product goes through them */
    (void)s, (void)kind, (void)column, (void)width, (void)wide, (void)y, (void)padded;
#endif
}
