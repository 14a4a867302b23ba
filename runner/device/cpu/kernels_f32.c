/* Kernels in fp32 arithmetic for f32 and bf16 operands, and bf16 products on processors where
 * oneDNN has none. */
#include "runner/device/cpu/cpu.h"
#include "runner/device/ring.h"

#define REAL float
#define REAL_BYTES 4
#define INTEGER int32_t
#define REAL_DTYPE SW_F32
#define KERNEL(name) sw_cpu_##name##_f32
#define REAL_MAX 3.4028234e38f
#define REAL_SQRT sqrtf
#define EXP_LOWEST (-87.33654f)
#define EXP_HIGHEST 88.3f
#define EXP_SHIFT 12582912.0f
#define EXP_LN2_HIGH 0.693145751953125f
#define EXP_LN2_LOW 1.42860682030941723212e-6f
#define EXP_MANTISSA_BITS 23
#define EXP_TERMS 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f

#include "runner/device/cpu/simd.inc"
#if HAS_PAIRS
#include "runner/device/cpu/amx.h"
#include "runner/device/cpu/pairs.inc"
#endif
#include "runner/device/cpu/angles.inc"
#include "runner/device/cpu/kernels.inc"
#if HAS_PAIRS
#include "runner/device/cpu/blocks.inc"
#endif
#include "runner/device/cpu/update.inc"
#include "runner/device/cpu/head.inc"
#include "runner/device/cpu/attention.inc"
#include "runner/device/cpu/attention_hops.inc"
#include "runner/device/cpu/attention_backward.inc"
#include "runner/device/cpu/cache.inc"
#include "runner/device/cpu/serving.inc"
#include "runner/device/cpu/sampling.inc"

#if !HAS_PAIRS
bool sw_cpu_matmul_is_blocked(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    (void)device;
    (void)g;
    return false;
}

void sw_cpu_matmul_blocked(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    (void)device;
    (void)g;
}
#endif

/* Edge of the widened blocks: three fill one thread's scratch, independent of the number of
 * threads, so that results are too. */
enum { WIDENED_EDGE = 832 };
_Static_assert(WIDENED_EDGE % SW_INT4_GROUP == 0, "blocks of whole groups");
_Static_assert(3 * WIDENED_EDGE * WIDENED_EDGE * sizeof(float) <= SW_CPU_SCRATCH_BYTES,
               "blocks fit the scratch");

/* Widens one operand's block to contiguous floats, keeping its line order; sets the new strides. */
static void widen(int32_t threads, const void *data, enum sw_dtype dtype, int64_t offset,
                  int64_t rows, int64_t columns, int64_t *row, int64_t *column, float *to)
{
    const bool by_row = *column == 1;
    const int64_t lines = by_row ? rows : columns, length = by_row ? columns : rows;
    const int64_t stride = by_row ? *row : *column;
    SW_PARALLEL_FOR(threads)
    for (int64_t i = 0; i < lines; i++)
        load_converted(data, dtype, offset + i * stride, length, to + i * length);
    *row = by_row ? length : 1;
    *column = by_row ? 1 : length;
}

/* Widens whole tiles, [rows, columns] from (line, column): pairs of elements from one column, an
 * even line and the next. */
static void widen_tiles(int32_t threads, const struct sw_cpu_matmul *g, int64_t line,
                        int64_t column, int64_t rows, int64_t columns, float *to)
{
    SW_PARALLEL_FOR(threads)
    for (int64_t group = 0; group < columns; group += SW_TILE_COLUMNS) {
        const int64_t tile_offset = sw_cpu_tile_index(g->k, line, column + group);
        for (int64_t i = 0; i < rows; i += 2) {
            float *restrict even = to + i * columns + group, *restrict odd = even + columns;
            float pairs[2 * SW_TILE_COLUMNS];
            load_converted(g->b, g->b_dtype, tile_offset + i * SW_TILE_COLUMNS, 2 * SW_TILE_COLUMNS,
                           pairs);
            for (int64_t j = 0; j < SW_TILE_COLUMNS; j++) {
                even[j] = pairs[2 * j];
                odd[j] = pairs[2 * j + 1];
            }
        }
    }
}

/* Widens weights of 4 bits, [rows, columns] from (line, column), whole groups of lines. */
static void widen_int4(int32_t threads, const struct sw_cpu_matmul *g, int64_t line, int64_t column,
                       int64_t rows, int64_t columns, float *to)
{
    SW_PARALLEL_FOR(threads)
    for (int64_t first = 0; first < rows; first += SW_INT4_GROUP)
        for (int64_t j = 0; j < columns; j++) {
            struct sw_int4_block block;
            sw_cpu_int4_block(g, (line + first) / SW_INT4_GROUP, column + j, &block);
            for (int32_t i = 0; i < SW_INT4_GROUP; i++)
                to[(first + i) * columns + j] = sw_int4_value(&block, i);
        }
}

/* scales may be NULL: all 1. */
static void scale_line(float *restrict line, const float *restrict scales, int64_t n)
{
    for (int64_t j = 0; scales != NULL && j < n; j++)
        line[j] *= scales[j];
}

int sw_cpu_matmul_widened(struct sw_cpu_device *device, const struct sw_cpu_matmul *g,
                          struct sw_error *err)
{
    const int32_t threads = device->threads;
    enum { ELEMS = WIDENED_EDGE * WIDENED_EDGE };
    float *a = sw_cpu_scratch(device, 0), *b = a + ELEMS, *tile = b + ELEMS;
    /* batch invariant: whole panels, padded with zeros */
    const bool alike = g->panel > 0 && !g->accumulate && g->a_column == 1;
    const int64_t panel = alike ? g->panel : 1, edge = WIDENED_EDGE / panel * panel;
    const bool in_place = g->c_dtype == SW_F32 && g->m % panel == 0;
    for (int64_t i = 0; i < g->m; i += edge)
        for (int64_t j = 0; j < g->n; j += WIDENED_EDGE) {
            const int64_t m = least(edge, g->m - i), n = least(WIDENED_EDGE, g->n - j);
            const int64_t rows = sw_align(m, panel);
            const int64_t c_offset = i * g->c_row + j;
            for (int64_t k = 0; k < g->k; k += WIDENED_EDGE) {
                struct sw_cpu_matmul block = *g;
                block.m = rows;
                block.n = n;
                block.k = least(WIDENED_EDGE, g->k - k);
                widen(threads, g->a, g->a_dtype, i * g->a_row + k * g->a_column, m, block.k,
                      &block.a_row, &block.a_column, a);
                memset(a + m * block.k, 0, (size_t)((rows - m) * block.k) * sizeof *a);
                if (g->tiled || g->b_dtype == SW_I4) {
                    (g->b_dtype == SW_I4 ? widen_int4 : widen_tiles)(threads, g, k, j, block.k, n,
                                                                     b);
                    block.b_row = n, block.b_column = 1, block.tiled = false;
                } else {
                    widen(threads, g->b, g->b_dtype, k * g->b_row + j * g->b_column, block.k, n,
                          &block.b_row, &block.b_column, b);
                }
                block.a = a;
                block.b = b;
                block.c = in_place ? (float *)g->c + c_offset : tile;
                block.c_row = in_place ? g->c_row : n;
                block.panel = alike ? panel : 0;
                block.a_dtype = block.b_dtype = block.c_dtype = SW_F32;
                block.accumulate = k > 0 || g->accumulate;
                if (sw_cpu_matmul_onednn(device, &block, err) != 0)
                    return -1;
            }
            SW_PARALLEL_FOR(threads)
            for (int64_t r = 0; r < (in_place && g->scales == NULL ? 0 : m); r++) {
                float *line = in_place ? (float *)g->c + c_offset + r * g->c_row : tile + r * n;
                scale_line(line, g->scales == NULL ? NULL : g->scales + j, n);
                if (!in_place)
                    store_converted(g->c, g->c_dtype, c_offset + r * g->c_row, n, line);
            }
        }
    return 0;
}
