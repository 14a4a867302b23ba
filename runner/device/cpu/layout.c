/* Tiles weights (core/base/device.h) as they load, box by box, so that data just read from a file
 * is still in the cache. Files store a column's bf16 lines consecutively: words of two lines. A
 * panel is then a transposition of words. */
#include "core/base/quantize.h"
#include "runner/device/cpu/int4_tiles.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    WORD_BYTES = 4,  /* two lines of bf16 */
    AT_ONCE = 4,     /* words transposed at once, per side */
    LINE_WORDS = 16, /* words of a cache line */
    PAIR_BYTES = SW_TILE_COLUMNS * WORD_BYTES
};

/* Stores lines [first, end) of some columns of the box, number by number. */
static void put_numbers(const size_t element, char *tiles, int64_t k, const struct sw_tile_box *b,
                        int64_t first, int64_t end, int64_t column, int64_t columns)
{
    for (int64_t line = first; line < end; line++)
        for (int64_t c = column; c < column + columns; c++)
            memcpy(tiles + sw_cpu_tile_index(k, b->line + line, b->column + c) * (int64_t)element,
                   (const char *)b->from + line * b->line_apart + c * b->column_apart, element);
}

#ifdef __SSE2__
/* Transposes AT_ONCE words of AT_ONCE columns. */
static void turn(const char *from, int64_t column_apart, char *to)
{
    __m128i a[AT_ONCE], b[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        a[i] = _mm_loadu_si128((const void *)(from + i * column_apart));
    for (int i = 0; i < 2; i++) {
        b[2 * i] = _mm_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        _mm_storeu_si128((void *)(to + (int64_t)(2 * i) * PAIR_BYTES),
                         _mm_unpacklo_epi64(b[i], b[2 + i]));
        _mm_storeu_si128((void *)(to + (int64_t)(2 * i + 1) * PAIR_BYTES),
                         _mm_unpackhi_epi64(b[i], b[2 + i]));
    }
}
#else
static void turn(const char *from, int64_t column_apart, char *to)
{
    for (int64_t i = 0; i < AT_ONCE; i++)
        for (int64_t w = 0; w < AT_ONCE; w++)
            memcpy(to + w * PAIR_BYTES + i * WORD_BYTES, from + i * column_apart + w * WORD_BYTES,
                   WORD_BYTES);
}
#endif

/* Stores `words` words of each column into a panel; `to`: first word of the first column. Uses a
 * whole cache line of a column at once, since columns are often a power of two apart. */
static void put_words(char *to, const char *from, int64_t column_apart, int64_t words,
                      int64_t columns)
{
    for (int64_t begin = 0; begin < words; begin += LINE_WORDS) {
        const int64_t end = begin + LINE_WORDS < words ? begin + LINE_WORDS : words;
        const int64_t whole = begin + (end - begin) / AT_ONCE * AT_ONCE;
        int64_t c = 0;
        for (; c + AT_ONCE <= columns; c += AT_ONCE)
            for (int64_t w = begin; w < whole; w += AT_ONCE)
                turn(from + c * column_apart + w * WORD_BYTES, column_apart,
                     to + w * PAIR_BYTES + c * WORD_BYTES);
        for (int64_t rest = 0; rest < columns; rest++)
            for (int64_t w = rest < c ? whole : begin; w < end; w++)
                memcpy(to + w * PAIR_BYTES + rest * WORD_BYTES,
                       from + rest * column_apart + w * WORD_BYTES, WORD_BYTES);
    }
}

/* Stores bf16 columns of one panel; a column's lines are consecutive. */
static void put_columns(char *tiles, int64_t k, const struct sw_tile_box *b, int64_t column,
                        int64_t columns)
{
    const int64_t odd = b->line % 2 < b->lines ? b->line % 2 : b->lines;
    const int64_t words = (b->lines - odd) / 2, element = WORD_BYTES / 2;
    put_numbers(sizeof(uint16_t), tiles, k, b, 0, odd, column, columns);
    put_words(tiles + sw_cpu_tile_index(k, b->line + odd, b->column + column) * element,
              (const char *)b->from + odd * element + column * b->column_apart, b->column_apart,
              words, columns);
    put_numbers(sizeof(uint16_t), tiles, k, b, odd + 2 * words, b->lines, column, columns);
}

/* Stores SW_I4 blocks of one panel; a line is a group. k: groups. */
static void put_blocks(char *tiles, int64_t k, const struct sw_tile_box *b, int64_t column,
                       int64_t columns)
{
    const int64_t first = b->column + column;
    char *panel = tiles + first / SW_TILE_COLUMNS * k * GROUP_BYTES;
    for (int64_t line = 0; line < b->lines; line++)
        for (int64_t c = 0; c < columns; c++)
            put_block(panel + (b->line + line) * GROUP_BYTES, first % SW_TILE_COLUMNS + c,
                      (const char *)b->from + line * b->line_apart +
                          (column + c) * b->column_apart);
}

void sw_cpu_tile_box(enum sw_dtype dtype, void *tiles, int64_t k, const struct sw_tile_box *box)
{
    const bool narrow = sw_has_scales(dtype);
    for (int64_t c = 0, n = 0; c < box->columns; c += n) {
        const int64_t left = SW_TILE_COLUMNS - (box->column + c) % SW_TILE_COLUMNS;
        n = box->columns - c < left ? box->columns - c : left;
        if (dtype == SW_I4)
            put_blocks(tiles, k, box, c, n);
        else if (narrow)
            put_numbers(sizeof(int8_t), tiles, k, box, 0, box->lines, c, n);
        else if (box->line_apart == (int64_t)sizeof(uint16_t))
            put_columns(tiles, k, box, c, n);
        else
            put_numbers(sizeof(uint16_t), tiles, k, box, 0, box->lines, c, n);
    }
}

void sw_cpu_tile(const struct sw_cpu_device *device, enum sw_dtype dtype, void *tiles,
                 const void *weights, int64_t k, int64_t n, bool turned)
{
    const int64_t size = (int64_t)sw_dtype_bytes(dtype);
    const int64_t line_apart = (turned ? 1 : n) * size, column_apart = (turned ? k : 1) * size;
    const int32_t threads = device->threads;
    SW_PARALLEL_FOR(threads)
    for (int64_t column = 0; column < n; column += SW_TILE_COLUMNS)
        sw_cpu_tile_box(dtype, tiles, k,
                        &(struct sw_tile_box){.from = (const char *)weights + column * column_apart,
                                              .lines = k,
                                              .column = column,
                                              .columns = SW_TILE_COLUMNS,
                                              .line_apart = line_apart,
                                              .column_apart = column_apart});
}
