/* Sums of streamed.c for more rows than share a weight in registers. Weights are processed in parts
 * that fit the first-level cache with their sums: some lines of a strip of columns. Each part is
 * widened or paired once into contiguous memory, line by line, while the rows use the previous
 * part; meanwhile lines further below are prefetched. So products wait only for the first-level
 * cache, and lines a power of two apart do not evict each other. Each sum adds the same products in
 * the same order as in streamed.c, so that a row does not depend on the number of rows. */
#include "runner/device/cpu/streamed.h"

enum {
    PANEL = 2,                          /* vectors per panel, used by rows at once */
    MOST_AT_ONCE = (REGISTERS - 8) / 2, /* rows at once */
    MOST_PANELS = 16,                   /* panels per part */
    STEPS = 16,                         /* steps per part, of one or two lines */
    MORE_STEPS = 64,                    /* for many rows, slow enough for the second-level cache */
    FAR = 16,                           /* prefetch distance in steps, second-level cache */
    NEAR = 2                            /* first-level cache */
};
_Static_assert((int64_t)SEGMENT % (2 * MORE_STEPS) == 0, "segments are whole parts");
_Static_assert((2 * MORE_STEPS + BLOCK_ROWS) * MOST_PANELS * PANEL * 4 * (int64_t)LANES <=
                   PACK_BYTES,
               "room for two parts and the sums of all rows");

/* Steps per part for m rows. */
INLINE int64_t steps_of(int64_t m)
{
    return m <= 2 * MOST_AT_ONCE ? STEPS : MORE_STEPS;
}

/* Bytes of a line in a panel. */
INLINE int64_t panel_bytes(const enum kind kind)
{
    return PANEL / vectors_of(kind) * block_bytes(kind);
}

/* Panels per part: more if narrow, since memory favours long runs. */
INLINE int64_t panels_of(const enum kind kind)
{
    return panel_bytes(kind) < LINE_BYTES && LANES == 16 ? MOST_PANELS : MOST_PANELS / 2;
}

INLINE int64_t strip_columns(const enum kind kind)
{
    return panels_of(kind) * panel_bytes(kind) / bytes_of(kind);
}

/* Packs one step: one line, or two. */
INLINE void pack_step(const enum kind kind, const char *at, const char *second, vec *to)
{
    if (kind == FLOATS) {
        EACH(v, PANEL) to[v] = load((const float *)(const void *)(at + v * 4 * LANES));
    } else if (kind == WIDENED) {
        EACH(half, 2) to[half] = widen(at, half);
    } else if (is_narrow(kind) && !in_pairs(kind)) {
        EACH(half, 2) to[half] = widen_bytes(kind, at, half);
    } else if (is_narrow(kind)) {
        EACH(half, 2)
        to[half] = pair_lines(kind, at, second, half);
    } else {
#ifdef __AVX512BF16__
        const bits even = load_bits(at), odd = load_bits(second);
        EACH(half, 2) to[half] = (vec)interleave(even, odd, half);
#else
        (void)second;
#endif
    }
}

/* Lines of a part: `depth` from `line`, columns from `begin`. */
struct part {
    const char *at;
    int64_t begin, columns, line, depth;
};

/* Packing while rows use a panel: some steps of the next part. */
struct packing {
    const char *at, *far, *near; /* at: lines to pack; far, near: to prefetch */
    int64_t stride;
    vec *to; /* [panels, steps, PANEL], from the first of these steps */
};

/* Packs a possibly partial part into to[panels, steps, PANEL], zero padded. */
INLINE void pack_part(const enum kind kind, const struct part *part, int64_t stride, int64_t steps,
                      vec *to)
{
    const int64_t step = lines_of_step(kind), bytes = part->columns * bytes_of(kind);
    char line[2][MOST_PANELS * PANEL * 4 * LANES];
    for (int64_t d = 0; d < steps; d++, to += PANEL) {
        for (int64_t i = 0; i < step; i++) {
            const int64_t copied = d * step + i < part->depth ? bytes : 0;
            memcpy(line[i], part->at + (d * step + i) * stride, (size_t)copied);
            memset(line[i] + copied, 0, sizeof line[i] - (size_t)copied);
        }
        for (int64_t p = 0; p < panels_of(kind); p++)
            pack_step(kind, line[0] + p * panel_bytes(kind), line[1] + p * panel_bytes(kind),
                      to + p * steps * PANEL);
    }
}

/* Packs one panel of one of those steps, with prefetches. */
INLINE void pack_ahead(const enum kind kind, const struct packing *packing, int64_t panel,
                       int64_t steps)
{
    const int64_t offset = panel * panel_bytes(kind), stride = packing->stride;
    EACH(i, lines_of_step(kind))
    for (int64_t byte = offset; byte < offset + panel_bytes(kind); byte += LINE_BYTES) {
        if (panel_bytes(kind) < LINE_BYTES && byte % LINE_BYTES != 0)
            continue;
        __builtin_prefetch(packing->far + i * stride + byte, 0, 2);
        __builtin_prefetch(packing->near + i * stride + byte, 0, 3);
    }
    pack_step(kind, packing->at + offset, packing->at + stride + offset,
              packing->to + panel * steps * PANEL);
}

/* total[rows, PANEL] += x[rows] panel[PANEL] */
INLINE void add_step(const enum kind kind, const int rows, const float *restrict x,
                     const vec *restrict panel, vec total[MOST_AT_ONCE][PANEL])
{
    vec w[PANEL];
    EACH(v, PANEL) w[v] = panel[v];
    EACH(i, rows)
    {
#ifdef __AVX512BF16__
        if (in_pairs(kind)) {
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

/* sum[rows, PANEL] (+)= x[count, rows] panel[count, PANEL], all sums in registers; packs `packed`
 * steps meanwhile. */
INLINE void multiply_panel(const enum kind kind, const int rows, const float *x, int64_t count,
                           int64_t steps, const vec *panel, struct packing packing, int64_t packed,
                           bool begins, vec *restrict sum)
{
    const int64_t down = lines_of_step(kind) * packing.stride;
    vec total[MOST_AT_ONCE][PANEL];
    EACH(i, rows)
    EACH(v, PANEL) total[i][v] = begins ? (vec){0} : sum[i * PANEL + v];
    for (int64_t d = 0; d < packed * panels_of(kind); d += panels_of(kind)) {
        _Pragma("GCC unroll 2") for (int64_t e = 0; e < panels_of(kind);
                                     e++, x += rows, panel += PANEL)
        {
            pack_ahead(kind, &packing, e, steps);
            add_step(kind, rows, x, panel, total);
        }
        packing.at += down, packing.far += down, packing.near += down;
        packing.to += PANEL;
    }
    for (int64_t d = packed * panels_of(kind); d < count; d++, x += rows, panel += PANEL)
        add_step(kind, rows, x, panel, total);
    EACH(i, rows)
    EACH(v, PANEL) sum[i * PANEL + v] = total[i][v];
}

int64_t sw_cpu_packed_group(int64_t m)
{
    const int64_t groups = (m + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
    return (m + groups - 1) / groups;
}

/* Lines and columns of a call. */
struct area {
    const char *at; /* first line and column */
    int64_t stride, first, end, width;
};

/* Address `steps` steps below a part: after the last line, from the top of the next strip. */
INLINE const char *find_below(const enum kind kind, const struct area *a, const struct part *part,
                              int64_t steps)
{
    const int64_t line = part->line + steps * lines_of_step(kind);
    const char *at = part->at + steps * lines_of_step(kind) * a->stride;
    if (line < a->end)
        return at;
    if (part->begin + 2 * strip_columns(kind) > a->width)
        return part->at;
    return at + strip_columns(kind) * bytes_of(kind) - (a->end - a->first) * a->stride;
}

/* Part after the given position: below it, or at the top of the next strip; depth 0 after the
 * last. */
INLINE struct part find_part(const enum kind kind, const struct area *a, int64_t steps,
                             int64_t begin, int64_t line)
{
    const int64_t depth = steps * lines_of_step(kind), strip = strip_columns(kind);
    const bool is_below = line < a->end;
    const int64_t from = is_below ? line : a->first, to = is_below ? begin : begin + strip;
    const int64_t lines = a->end - from, columns = a->width - to;
    return (struct part){.at = a->at + (from - a->first) * a->stride + to * bytes_of(kind),
                         .begin = to,
                         .columns = columns < strip ? columns : strip,
                         .line = from,
                         .depth = columns <= 0    ? 0
                                  : lines < depth ? lines
                                                  : depth};
}

/* Multiplies panel `p` of a part, packed `here`, with all rows, a group at a time. Each group packs
 * its share of the next part into `there`; NULL: none. */
INLINE void multiply_rows(const struct streamed *s, const enum kind kind, const struct area *a,
                          const struct part *part, const struct part *next, int64_t p,
                          const vec *here, vec *there, vec *sums)
{
    const int64_t step = lines_of_step(kind), steps = steps_of(s->m), all = s->padded / step;
    const int64_t at_once = sw_cpu_packed_group(s->m), groups = (s->m + at_once - 1) / at_once;
    const vec *panel = here + p * steps * PANEL;
    const int64_t count = (part->depth + step - 1) / step;
    const bool begins = part->line % SEGMENT == 0;
    for (int64_t g = 0, row = 0; g < groups; g++, row += at_once) {
        const int64_t left = s->m - row, rows = left < at_once ? left : at_once;
        const int64_t first = (p * groups + g) * steps / (panels_of(kind) * groups);
        const int64_t last = (p * groups + g + 1) * steps / (panels_of(kind) * groups);
        const int64_t packed = there == NULL ? 0 : last - first;
        const float *x = s->x + row * all + part->line / step * rows;
        struct packing packing = {0};
        if (packed > 0)
            packing = (struct packing){.at = next->at + first * step * a->stride,
                                       .far = find_below(kind, a, next, first + FAR),
                                       .near = find_below(kind, a, next, first + NEAR),
                                       .stride = a->stride,
                                       .to = there + first * PANEL};
        vec *sum = sums + (p * s->m + row) * PANEL;
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_panel(kind, n, x, count, steps, panel, packing, packed, begins, sum);             \
        break;
        switch (rows) {
            EACH_NUMBER_OF_ROWS(ROWS)
        default:
            break;
        }
#undef ROWS
    }
}
_Static_assert(MOST_AT_ONCE == (REGISTER_COUNT == 32 ? 12 : 4), "a case for each number of rows");

/* y[m, columns] (+)= sums[panels, m, PANEL] */
INLINE void put_strip(int64_t m, int64_t columns, const vec *sums, bool adds, float *y,
                      int64_t padded)
{
    for (int64_t c = 0; c < columns; c += (int64_t)PANEL * LANES)
        for (int64_t i = 0; i < m; i++, sums += PANEL) {
            float *to = y + i * padded + c;
            EACH(v, PANEL)
            store(to + v * LANES, adds ? load(to + v * LANES) + sums[v] : sums[v]);
        }
}

/* Multiplies a part with all rows and packs the next one. */
INLINE void add_part(const struct streamed *s, const enum kind kind, const struct area *a,
                     const struct part *part, const struct part *next, const vec *here, vec *there,
                     vec *sums)
{
    const int64_t strip = strip_columns(kind), steps = steps_of(s->m);
    const int64_t depth = steps * lines_of_step(kind);
    const bool is_whole = part->columns == strip && next->columns == strip &&
                          part->depth == depth && next->depth == depth;
    for (int64_t p = 0; p * PANEL * LANES < part->columns; p++)
        multiply_rows(s, kind, a, part, next, p, here, is_whole ? there : NULL, sums);
    if (!is_whole && next->depth > 0)
        pack_part(kind, next, a->stride, steps, there);
}

INLINE void add_parts(const struct streamed *s, const enum kind kind, const struct area *a,
                      const struct sums *y, vec *pack)
{
    const int64_t steps = steps_of(s->m), depth = steps * lines_of_step(kind);
    vec *here = pack, *there = here + steps * panels_of(kind) * PANEL,
        *sums = there + (there - here);
    struct part part = find_part(kind, a, steps, 0, a->first);
    pack_part(kind, &part, a->stride, steps, here);
    while (part.depth > 0) {
        const int64_t segment = (part.line - a->first) / SEGMENT, end = part.line + part.depth;
        const struct part next = find_part(kind, a, steps, part.begin, part.line + depth);
        add_part(s, kind, a, &part, &next, here, there, sums);
        if (end % SEGMENT == 0 || end == a->end)
            put_strip(s->m, part.columns, sums, segment > 0 && y->apart == 0,
                      y->data + segment * y->apart + part.begin, y->padded);
        vec *other = here;
        here = there, there = other;
        part = next;
    }
}

void sw_cpu_add_packed(const struct streamed *s, enum kind kind, int64_t first, int64_t end,
                       int64_t column, int64_t width, const struct sums *y, char *pack)
{
    const int64_t element = bytes_of(kind), stride = s->stride * element;
    const struct area area = {.at = s->weights + first * stride + column * element,
                              .stride = stride,
                              .first = first,
                              .end = end,
                              .width = width};
    vec *to = (vec *)(void *)pack;
    switch (kind) {
    case FLOATS:
        add_parts(s, FLOATS, &area, y, to);
        break;
    case WIDENED:
        add_parts(s, WIDENED, &area, y, to);
        break;
    case BYTES:
        add_parts(s, BYTES, &area, y, to);
        break;
    case PAIRS:
#ifdef __AVX512BF16__
        add_parts(s, PAIRS, &area, y, to);
#endif
        break;
    case BYTE_PAIRS:
#ifdef __AVX512BF16__
        add_parts(s, BYTE_PAIRS, &area, y, to);
#endif
        break;
    case CODES:
        add_parts(s, CODES, &area, y, to);
        break;
    case CODE_PAIRS:
#ifdef __AVX512BF16__
        add_parts(s, CODE_PAIRS, &area, y, to);
#endif
        break;
    case NIBBLES: /* only tiled: tiled_int4.c */
    case NIBBLE_PAIRS:
        break;
    }
}
