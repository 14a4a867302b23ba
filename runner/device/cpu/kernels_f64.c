/* Kernels in fp64 arithmetic, and the plain matrix product: the reference of the tests. */
#include "core/base/quantize.h"
#include "runner/device/cpu/cpu.h"
#include "runner/device/ring.h"

#define REAL double
#define REAL_BYTES 8
#define INTEGER int64_t
#define REAL_DTYPE SW_F64
#define KERNEL(name) sw_cpu_##name##_f64
#define REAL_MAX 1.7976931348623157e308
#define REAL_SQRT sqrt
#define EXP_LOWEST (-708.39)
#define EXP_HIGHEST 709.4
#define EXP_SHIFT 6755399441055744.0
#define EXP_LN2_HIGH 6.93147180369123816490e-01
#define EXP_LN2_LOW 1.90821492927058770002e-10
#define EXP_MANTISSA_BITS 52
#define EXP_TERMS                                                                                  \
    1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,      \
        1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0

#include "runner/device/cpu/simd.inc"
#include "runner/device/cpu/angles.inc"
#include "runner/device/cpu/kernels.inc"
#include "runner/device/cpu/update.inc"
#include "runner/device/cpu/head.inc"
#include "runner/device/cpu/attention.inc"
#include "runner/device/cpu/attention_hops.inc"
#include "runner/device/cpu/attention_backward.inc"
#include "runner/device/cpu/cache.inc"
#include "runner/device/cpu/serving.inc"
#include "runner/device/cpu/sampling.inc"

enum { PANEL_COLUMNS = 64, PANEL_DEPTH = 128, PANEL_ROWS = 64 };

static inline double number_at(const struct sw_cpu_matmul *g, int64_t i)
{
    return g->b_dtype == SW_I8     ? (double)((const int8_t *)g->b)[i]
           : g->b_dtype == SW_E4M3 ? (double)sw_e4m3_value(((const uint8_t *)g->b)[i])
                                   : ((const double *)g->b)[i];
}

/* Copies panel [depth, PANEL_COLUMNS] of b from (k0, j0); zeros behind `columns`. */
static void take_panel(const struct sw_cpu_matmul *g, int64_t k0, int64_t j0, int64_t depth,
                       int64_t columns, double *panel)
{
    if (g->b_dtype == SW_I4) {
        for (int64_t k = 0; k < depth; k += SW_INT4_GROUP)
            for (int64_t j = 0; j < PANEL_COLUMNS; j++) {
                struct sw_int4_block block = {0};
                if (j < columns)
                    sw_cpu_int4_block(g, (k0 + k) / SW_INT4_GROUP, j0 + j, &block);
                for (int32_t i = 0; i < SW_INT4_GROUP; i++)
                    panel[(k + i) * PANEL_COLUMNS + j] = (double)sw_int4_value(&block, i);
            }
        return;
    }
    for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < PANEL_COLUMNS; j++)
            panel[k * PANEL_COLUMNS + j] =
                j < columns ? number_at(g, (k0 + k) * g->b_row + (j0 + j) * g->b_column) : 0;
}
_Static_assert(PANEL_DEPTH % SW_INT4_GROUP == 0, "panels of whole groups");

/* Copies panels of b and tiles of c to scratch, so that vectors are whole for any strides. Threads
 * share rows. */
void sw_cpu_gemm_f64(const struct sw_cpu_device *device, const struct sw_cpu_matmul *g)
{
    const int32_t threads = device->threads;
    const int64_t blocks = (g->m + PANEL_ROWS - 1) / PANEL_ROWS;
    const double *a = g->a;
    double *c = g->c;
    SW_PARALLEL_FOR(threads)
    for (int64_t block = 0; block < blocks; block++) {
        double *panel = sw_cpu_scratch(device, SW_THREAD_INDEX);
        double *tile = panel + PANEL_DEPTH * PANEL_COLUMNS;
        const int64_t i0 = block * PANEL_ROWS;
        const int64_t rows = g->m - i0 < PANEL_ROWS ? g->m - i0 : PANEL_ROWS;
        for (int64_t j0 = 0; j0 < g->n; j0 += PANEL_COLUMNS) {
            const int64_t columns = g->n - j0 < PANEL_COLUMNS ? g->n - j0 : PANEL_COLUMNS;
            memset(tile, 0, sizeof(double) * PANEL_ROWS * PANEL_COLUMNS);
            for (int64_t k0 = 0; k0 < g->k; k0 += PANEL_DEPTH) {
                const int64_t depth = g->k - k0 < PANEL_DEPTH ? g->k - k0 : PANEL_DEPTH;
                take_panel(g, k0, j0, depth, columns, panel);
                product(rows, PANEL_COLUMNS, depth, a + i0 * g->a_row + k0 * g->a_column, g->a_row,
                        g->a_column, panel, PANEL_COLUMNS, tile, PANEL_COLUMNS, true);
            }
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < columns; j++) {
                    double *to = &c[(i0 + i) * g->c_row + j0 + j];
                    const double scale = g->scales == NULL ? 1 : (double)g->scales[j0 + j];
                    *to = (g->accumulate ? *to : 0) + tile[i * PANEL_COLUMNS + j] * scale;
                }
        }
    }
}
