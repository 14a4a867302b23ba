/* Sums of streamed.c for more rows than meet a weight in registers: a strip of weights is widened
 * or paired once, as the processor multiplies them, and all rows go over what was made; meanwhile
 * the next strip is asked for. Each sum adds the same products in the same order as there, so that
 * a row does not depend on how many others there are. */
#include "runner/device/cpu/streamed.h"

enum {
    PANEL = 2,                         /* vectors that rows meet at once */
    MOST_AT_ONCE = (REGISTERS - 8) / 2 /* of these rows */
};

INLINE int64_t lines_of_step(const enum kind kind)
{
    return kind == PAIRS ? 2 : 1;
}

/* Blocks of a panel. */
INLINE int64_t panel_blocks(const enum kind kind)
{
    return PANEL / vectors_of(kind);
}

/* Of a step its vectors: one line, or two of which the second may be missing. */
INLINE void pack_step(const enum kind kind, const char *at, const char *second, vec *to)
{
    if (kind == FLOATS) {
        EACH(v, PANEL) to[v] = load((const float *)(const void *)(at + v * 4 * LANES));
    } else if (kind == WIDENED) {
        EACH(half, 2) to[half] = widen(at, half);
    } else if (kind == BYTES) {
        EACH(half, 2) to[half] = widen_bytes(at, half);
    } else {
#ifdef __AVX512BF16__
        const bits even = *(const loose_bits *)(const void *)at;
        bits odd = {0};
        if (second != NULL)
            odd = *(const loose_bits *)(const void *)second;
        EACH(half, 2) to[half] = (vec)interleave(even, odd, half);
#else
        (void)second;
#endif
    }
}

/* Lines of `width` columns from `at` on into to[panels, steps, PANEL]; whole blocks, behind the
 * columns zeros. */
INLINE void pack_strip(const enum kind kind, const char *at, int64_t stride, int64_t depth,
                       int64_t width, vec *to)
{
    const int64_t panel = panel_blocks(kind) * block_elems(kind), step = lines_of_step(kind);
    const int64_t panels = (width + panel - 1) / panel, steps = (depth + step - 1) / step;
    const int64_t bytes = panel * bytes_of(kind), last = (width - 1) % panel + 1;
    char part[2][PANEL * 4 * LANES] = {{0}};
    for (int64_t d = 0; d < steps; d++) {
        const char *line = at + d * step * stride;
        const bool odd = d * step + 1 < depth;
        for (int64_t p = 0; p + (last < panel) < panels; p++)
            pack_step(kind, line + p * bytes, odd ? line + stride + p * bytes : NULL,
                      to + (p * steps + d) * PANEL);
        if (last == panel)
            continue;
        const size_t rest = (size_t)(last * bytes_of(kind));
        memcpy(part[0], line + (panels - 1) * bytes, rest);
        if (kind == PAIRS && odd)
            memcpy(part[1], line + stride + (panels - 1) * bytes, rest);
        pack_step(kind, part[0], odd ? part[1] : NULL, to + ((panels - 1) * steps + d) * PANEL);
    }
}

/* y[rows] = x[steps, rows] panel[steps, PANEL], all sums in registers. */
INLINE void multiply_panel(const enum kind kind, const int rows, const float *restrict x,
                           int64_t steps, const vec *restrict panel, struct ahead *ahead, float *y,
                           int64_t padded)
{
    vec total[MOST_AT_ONCE][PANEL];
    EACH(i, rows)
    EACH(v, PANEL) total[i][v] = (vec){0};
    for (int64_t d = 0; d < steps; d++, x += rows, panel += PANEL) {
        vec w[PANEL];
        ask_ahead(ahead, LINE_BYTES);
        EACH(v, PANEL) w[v] = panel[v];
        EACH(i, rows)
        {
#ifdef __AVX512BF16__
            if (kind == PAIRS) {
                const bits pair = *(const loose_word *)(const void *)(x + i) - (bits){0};
                EACH(v, PANEL) total[i][v] = add_pairs(total[i][v], (bits)w[v], pair);
                continue;
            }
#else
            (void)kind;
#endif
            const vec left = splat(x[i]);
            EACH(v, PANEL) total[i][v] = multiply_add(left, w[v], total[i][v]);
        }
    }
    EACH(i, rows)
    EACH(v, PANEL) store(y + i * padded + v * LANES, total[i][v]);
}

int64_t sw_cpu_packed_group(int64_t m)
{
    const int64_t groups = (m + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
    return (m + groups - 1) / groups;
}

/* All rows, a group at a time. */
INLINE void multiply_rows(const struct streamed *s, const enum kind kind, int64_t step,
                          int64_t steps, const vec *panel, struct ahead *ahead, float *y,
                          int64_t padded)
{
    const int64_t all = s->padded / lines_of_step(kind), at_once = sw_cpu_packed_group(s->m);
    for (int64_t row = 0; row < s->m; row += at_once) {
        const int64_t left = s->m - row, rows = left < at_once ? left : at_once;
        const float *from = s->x + row * all + step * rows;
        float *to = y + row * padded;
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_panel(kind, n, from, steps, panel, ahead, to, padded);                            \
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
            ROWS(8)
            ROWS(9)
            ROWS(10)
            ROWS(11)
#endif
        default:
            multiply_panel(kind, MOST_AT_ONCE, from, steps, panel, ahead, to, padded);
            break;
        }
#undef ROWS
    }
}

INLINE void add_strips(const struct streamed *s, const enum kind kind, int64_t first, int64_t end,
                       int64_t column, int64_t width, float *y, int64_t padded, vec *pack)
{
    const int64_t element = bytes_of(kind), stride = s->stride * element;
    const int64_t strip = kind == FLOATS ? STRIP / 2 : STRIP, step = lines_of_step(kind);
    const int64_t panel = panel_blocks(kind) * block_elems(kind), depth = end - first;
    const int64_t steps = (depth + step - 1) / step;
    const char *weights = s->weights + first * stride + column * element;
    for (int64_t begin = 0; begin < width; begin += strip) {
        const int64_t left = width - begin, columns = left < strip ? left : strip;
        const int64_t next = left > strip ? begin + strip : 0, behind = width - next;
        struct ahead ahead = {.line = weights + next * element + (next == 0) * depth * stride,
                              .stride = stride,
                              .bytes = (behind < strip ? behind : strip) * element,
                              .lines = next > 0               ? depth
                                       : s->k - end < SEGMENT ? s->k - end
                                                              : SEGMENT};
        pack_strip(kind, weights + begin * element, stride, depth, columns, pack);
        for (int64_t c = 0; c < columns; c += panel)
            multiply_rows(s, kind, first / step, steps, pack + c / panel * steps * PANEL, &ahead,
                          y + begin + c, padded);
    }
}

void sw_cpu_add_packed(const struct streamed *s, enum kind kind, int64_t first, int64_t end,
                       int64_t column, int64_t width, float *y, int64_t padded, char *pack)
{
    vec *to = (vec *)(void *)pack;
    switch (kind) {
    case FLOATS:
        add_strips(s, FLOATS, first, end, column, width, y, padded, to);
        break;
    case WIDENED:
        add_strips(s, WIDENED, first, end, column, width, y, padded, to);
        break;
    case BYTES:
        add_strips(s, BYTES, first, end, column, width, y, padded, to);
        break;
    case PAIRS:
#ifdef __AVX512BF16__
        add_strips(s, PAIRS, first, end, column, width, y, padded, to);
#endif
        break;
    }
}
