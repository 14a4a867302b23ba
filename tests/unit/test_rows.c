/* Products whose rows are alike: every row of c is the same, to the bit, where every row of a is.
 * Of all numbers of rows up to 64 and some beyond, in fp32 and bf16, weights by row and by column,
 * on one thread and on three. ctest runs it with what the processor has, with AVX2 alone, for which
 * oneDNN goes by the place of a row, and with our products of a few rows for lesser processors.
 * The argument is the stride through the combinations of types and shapes where large products take
 * long: prime to the two layouts that each shape has. Without one all run. */
#include "core/base/hash.h"
#include "core/base/int4.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/device/cpu/cpu.h"
#include "runner/device/cpu/onednn.h"
#include "tests/support/share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static size_t stride = 1;

enum { MOST_ROWS = 853, MOST_K = 900, MOST_N = 872 };

struct operands {
    void *a, *b, *c;
};

static float value(uint64_t i)
{
    return (float)(sw_hash_mix(i + 1) % 2001) / 1000.0f - 1.0f;
}

static void put(void *to, enum sw_dtype dtype, int64_t i, float v)
{
    if (dtype == SW_F32)
        ((float *)to)[i] = v;
    else if (dtype == SW_I8)
        ((int8_t *)to)[i] = (int8_t)(127 * v);
    else if (dtype == SW_E4M3)
        ((uint8_t *)to)[i] = sw_e4m3_of(128 * (double)v, 1);
    else
        ((uint16_t *)to)[i] = sw_bf16_from_float(v);
}

static double get(const void *from, enum sw_dtype dtype, int64_t i)
{
    return dtype == SW_F32    ? (double)((const float *)from)[i]
           : dtype == SW_I8   ? (double)((const int8_t *)from)[i] / 128
           : dtype == SW_E4M3 ? (double)sw_e4m3_value(((const uint8_t *)from)[i]) / 128
                              : (double)sw_bf16_to_float(((const uint16_t *)from)[i]);
}

/* Of e4m3, which goes int8's ways but for its widening, each third size is enough. */
static bool is_left_out(enum sw_dtype weights, size_t size)
{
    return weights == SW_E4M3 && size % 3 != 1;
}

static void check(struct sw_cpu_device *device, const struct operands *o, enum sw_dtype dtype,
                  enum sw_dtype result, bool by_column, int64_t m, const int64_t size[3])
{
    const int64_t k = size[0], n = size[1], line = (by_column ? k : n) + size[2];
    const struct sw_cpu_matmul g = {.m = m,
                                    .n = n,
                                    .k = k,
                                    .a = o->a,
                                    .b = o->b,
                                    .c = o->c,
                                    .a_row = k,
                                    .a_column = 1,
                                    .b_row = by_column ? 1 : line,
                                    .b_column = by_column ? line : 1,
                                    .c_row = n,
                                    .a_dtype = dtype,
                                    .b_dtype = dtype,
                                    .c_dtype = result,
                                    .panel = sw_cpu_panel_rows(m)};
    const size_t row = (size_t)n * sw_dtype_bytes(result);
    memset(o->c, 0xff, (size_t)m * row);
    assert_int_equal(sw_cpu_matmul(device, &g, NULL), 0);
    for (int64_t i = 1; i < m; i++)
        if (memcmp(o->c, (const char *)o->c + (size_t)i * row, row) != 0)
            fail_msg("%s to %s, weights by %s, %d apart, [%d, %d] [%d, %d]: row %d is another than "
                     "row 0",
                     sw_dtype_name(dtype), sw_dtype_name(result), by_column ? "column" : "row",
                     (int)line, (int)m, (int)k, (int)k, (int)n, (int)i);
    /* and it is the product: k terms of at most 1, summed in fp32 */
    for (int64_t j = 0; j < n; j += 7) {
        double exact = 0;
        for (int64_t i = 0; i < k; i++)
            exact +=
                get(o->a, dtype, i) * get(o->b, dtype, by_column ? j * line + i : i * line + j);
        const double rounding = result == SW_F32 ? 0 : fabs(exact) * 0x1p-8;
        assert_true(fabs(get(o->c, result, j) - exact) <= rounding + (double)(k * k) * 0x1p-24);
    }
}

static void rows_are_alike(void **state)
{
    (void)state;
    /* k, n, elements behind each line of the weights: of a padded shard, its last ones */
    static const int64_t sizes[][3] = {{16, 17, 0},     {64, 264, 0},    {100, 96, 0},
                                       {MOST_K, 64, 0}, {37, MOST_N, 0}, {100, 96, 2},
                                       {MOST_K, 64, 2}};
    static const int64_t many[] = {90, 96, 128, 162, 256, 320, 500, 512, 830, MOST_ROWS};
    static const struct {
        enum sw_dtype operands, result;
    } dtypes[] = {{SW_F32, SW_F32}, {SW_BF16_T, SW_BF16_T}, {SW_BF16_T, SW_F32}};
    const struct operands o = {malloc((size_t)MOST_ROWS * MOST_K * sizeof(float)),
                               malloc((size_t)MOST_K * MOST_N * sizeof(float)),
                               malloc((size_t)MOST_ROWS * MOST_N * sizeof(float))};
    assert_true(o.a != NULL && o.b != NULL && o.c != NULL);
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        struct sw_device *device = sw_cpu_device_create(threads, NULL);
        assert_non_null(device);
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                const int64_t k = sizes[s][0], n = sizes[s][1], more = sizes[s][2];
                for (int64_t i = 0; i < MOST_ROWS * k; i++)
                    put(o.a, dtypes[d].operands, i, value((uint64_t)(i % k)));
                for (int64_t i = 0; i < (k + more) * (n + more); i++)
                    put(o.b, dtypes[d].operands, i, value((uint64_t)(i + 1000)));
                for (int by_column = 0; by_column < 2; by_column++) {
                    for (int64_t m = 1; m <= 64; m++)
                        check((struct sw_cpu_device *)device, &o, dtypes[d].operands,
                              dtypes[d].result, by_column != 0, m, sizes[s]);
                    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
                        check((struct sw_cpu_device *)device, &o, dtypes[d].operands,
                              dtypes[d].result, by_column != 0, many[i], sizes[s]);
                }
            }
        device->vtable->destroy(device);
    }
    free(o.a);
    free(o.b);
    free(o.c);
}

/* Products of a few rows: a row is what it is alone, to the bit, whatever the number of rows and
 * threads; other weights and results than bf16 with bf16 as well. */
static void few_rows_are_those_of_one(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1},       {37, 17},    {64, 264},   {900, 64},
                                       {2101, 1600}, {3000, 517}, {600, 8300}, {5600, 130}};
    /* threads share a product by segments of lines, by columns, and by both */
    static const int32_t threads[] = {1, 2, 3, 4, 5};
    enum { DEVICES = sizeof threads / sizeof *threads };
    static const enum sw_dtype dtypes[][2] = {
        {SW_F32, SW_F32}, {SW_BF16_T, SW_BF16_T}, {SW_F32, SW_BF16_T}, {SW_BF16_T, SW_F32},
        {SW_F32, SW_I8},  {SW_BF16_T, SW_I8},     {SW_F32, SW_E4M3},   {SW_BF16_T, SW_E4M3}};
    enum { FEW = 32, K = 5600, N = 8300, WEIGHTS = 600 * 8300 };
    float *a = malloc(FEW * K * sizeof *a), *b = malloc(WEIGHTS * sizeof *b);
    float *alone = malloc(FEW * N * sizeof *alone), *c = malloc(FEW * N * sizeof *c);
    assert_true(a != NULL && b != NULL && alone != NULL && c != NULL);
    static float scales[N]; /* of 8 bits */
    for (int64_t i = 0; i < N; i++)
        scales[i] = 1.0f / 128;
    const size_t share = (size_t)sw_test_share();
    struct sw_device *device[DEVICES];
    for (int t = 0; t < DEVICES; t++)
        assert_non_null(device[t] = sw_cpu_device_create(threads[t], NULL));
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < 2 * (sizeof sizes / sizeof *sizes); s++) {
            if ((d + s) % (stride * share) != 0 || is_left_out(dtypes[d][1], s / 2))
                continue;
            const int64_t k = sizes[s / 2][0], n = sizes[s / 2][1];
            const bool by_column = s % 2 != 0;
            struct sw_cpu_matmul g = {.n = n,
                                      .k = k,
                                      .b = b,
                                      .a_row = k,
                                      .a_column = 1,
                                      .b_row = by_column ? 1 : n,
                                      .b_column = by_column ? k : 1,
                                      .c_row = n,
                                      .a_dtype = dtypes[d][0],
                                      .b_dtype = dtypes[d][1],
                                      .c_dtype = SW_F32,
                                      .scales = sw_has_scales(dtypes[d][1]) ? scales : NULL};
            const size_t row = (size_t)k * sw_dtype_bytes(g.a_dtype);
            for (int64_t i = 0; i < FEW * k; i++)
                put(a, g.a_dtype, i, value((uint64_t)i));
            for (int64_t i = 0; i < k * n; i++)
                put(b, g.b_dtype, i, value((uint64_t)(i + 1000)));
            g.m = 1;
            for (int64_t i = 0; i < FEW; i++) {
                g.a = (const char *)a + (size_t)i * row;
                g.c = alone + i * n;
                assert_true(sw_cpu_matmul_is_streamed(&g));
                sw_cpu_matmul_streamed((struct sw_cpu_device *)device[0], &g);
                for (int64_t j = 0; j < n; j += 31) {
                    double exact = 0;
                    for (int64_t l = 0; l < k; l++)
                        exact += get(a, g.a_dtype, i * k + l) *
                                 get(b, g.b_dtype, by_column ? j * k + l : l * n + j);
                    assert_true(fabs((double)alone[i * n + j] - exact) <=
                                (double)(k * k) * 0x1p-24);
                }
            }
            g.a = a;
            g.c = c;
            for (g.m = 1; g.m <= FEW; g.m += g.m < 14 ? 1 : 3)
                for (int t = 0; t < DEVICES; t++) {
                    memset(c, 0xff, (size_t)(g.m * n) * sizeof *c);
                    sw_cpu_matmul_streamed((struct sw_cpu_device *)device[t], &g);
                    assert_memory_equal(c, alone, (size_t)(g.m * n) * sizeof *c);
                }
        }
    for (int t = 0; t < DEVICES; t++)
        device[t]->vtable->destroy(device[t]);
    free(a);
    free(b);
    free(alone);
    free(c);
}

/* Products of so many rows, of which `different` follow each other again and again. */
static void check_many(struct sw_device *const device[2], struct sw_cpu_matmul g,
                       const float *alone, int64_t different)
{
    static const int64_t many[] = {30, 33, 64, 100, 129, 256, 301};
    float *c = g.c;
    for (size_t i = 0; i < 2 * (sizeof many / sizeof *many); i++) {
        g.m = many[i / 2];
        g.always_skinny = false;
        const bool few = sw_cpu_matmul_is_streamed(&g);
        assert_true(g.m <= 32 || !few);
        g.always_skinny = true;
        assert_true(
            sw_cpu_matmul_is_streamed(&g)); /* of few rows that scratch has no room for, too */
        memset(c, 0xff, (size_t)(g.m * g.n) * sizeof *c);
        assert_int_equal(sw_cpu_matmul((struct sw_cpu_device *)device[i % 2], &g, NULL), 0);
        for (int64_t row = 0; row < g.m; row++)
            assert_memory_equal(c + row * g.n, alone + row % different * g.n,
                                (size_t)g.n * sizeof *c);
    }
}

/* Of products whose rows are to be as those of few, however many there are: blocks of one size and
 * a last one, of rows that scratch has room for and, of long lines, of fewer. */
static void many_rows_are_those_of_one(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{37, 17}, {768, 264}, {2101, 530}, {40, 57000}, {40000, 33}};
    static const enum sw_dtype dtypes[][2] = {{SW_F32, SW_F32},
                                              {SW_BF16_T, SW_BF16_T},
                                              {SW_BF16_T, SW_F32},
                                              {SW_BF16_T, SW_I8},
                                              {SW_BF16_T, SW_E4M3}};
    enum { DIFFERENT = 31, MOST = 301, K = 40000, N = 57000, WEIGHTS = 40 * 57000 };
    float *a = malloc((size_t)MOST * K * sizeof *a), *b = malloc(WEIGHTS * sizeof *b);
    float *alone = malloc((size_t)DIFFERENT * N * sizeof *alone);
    float *c = malloc((size_t)MOST * N * sizeof *c);
    assert_true(a != NULL && b != NULL && alone != NULL && c != NULL);
    static float scales[N];
    for (int64_t i = 0; i < N; i++)
        scales[i] = 1.0f / 128;
    struct sw_device *device[2] = {sw_cpu_device_create(1, NULL), sw_cpu_device_create(3, NULL)};
    assert_true(device[0] != NULL && device[1] != NULL);
    const size_t share = (size_t)sw_test_share();
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < 2 * (sizeof sizes / sizeof *sizes); s++) {
            if ((d + s) % (stride * share) != 0 || is_left_out(dtypes[d][1], s / 2))
                continue;
            const int64_t k = sizes[s / 2][0], n = sizes[s / 2][1];
            const bool by_column = s % 2 != 0;
            struct sw_cpu_matmul g = {.m = 1,
                                      .n = n,
                                      .k = k,
                                      .b = b,
                                      .a_row = k,
                                      .a_column = 1,
                                      .b_row = by_column ? 1 : n,
                                      .b_column = by_column ? k : 1,
                                      .c_row = n,
                                      .a_dtype = dtypes[d][0],
                                      .b_dtype = dtypes[d][1],
                                      .c_dtype = SW_F32,
                                      .scales = sw_has_scales(dtypes[d][1]) ? scales : NULL};
            for (int64_t i = 0; i < MOST * k; i++)
                put(a, g.a_dtype, i, value((uint64_t)(i % (DIFFERENT * k))));
            for (int64_t i = 0; i < k * n; i++)
                put(b, g.b_dtype, i, value((uint64_t)(i + 1000)));
            for (int64_t i = 0; i < DIFFERENT; i++) {
                g.a = (const char *)a + (size_t)(i * k) * sw_dtype_bytes(g.a_dtype);
                g.c = alone + i * n;
                sw_cpu_matmul_streamed((struct sw_cpu_device *)device[0], &g);
            }
            g.a = a;
            g.c = c;
            check_many(device, g, alone, DIFFERENT);
        }
    for (int t = 0; t < 2; t++)
        device[t]->vtable->destroy(device[t]);
    free(a);
    free(b);
    free(alone);
    free(c);
}

/* Rows of tiled and of declared weights are the same to the bit; of many rows of bf16 that AMX
 * multiplies, to rounding: there oneDNN cuts the depth into blocks by the layout of the weights and
 * by the number of threads. Numbers are even in [-1, 1], so sums of k products are within sqrt(k)
 * (three deviations), each of k additions errs by 2^-24 of that, and in a random walk these come to
 * sqrt(k) of them: 2^-24 k for each of two sums, twice that to be sure, and bf16's own rounding. */
static void check_same_rows(const struct sw_cpu_matmul *g, const float *declared,
                            const float *tiled)
{
    const int64_t count = g->m * g->n;
    if (g->always_skinny || g->a_dtype != SW_BF16_T || g->b_dtype != SW_BF16_T ||
        !sw_onednn_has_amx()) {
        assert_memory_equal(declared, tiled, (size_t)count * sizeof *declared);
        return;
    }
    const double sums = 4 * (double)g->k * 0x1p-24;
    for (int64_t i = 0; i < count; i++) {
        const double one = get(declared, g->c_dtype, i), other = get(tiled, g->c_dtype, i);
        const double rounding = g->c_dtype == SW_BF16_T ? 0x1p-7 * fabs(one) : 0;
        assert_true(fabs(one - other) <= sums + rounding);
    }
}

/* Weights that lie in tiles give the rows that the same weights give as they are declared: of few
 * rows, of many as few, and of many by oneDNN or, where it has none, widened. */
static void tiles_give_the_same_rows(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{32, 32}, {2080, 544}, {512, 96}};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 8, 11, 12, 13, 24, 30, 32, 33, 64, 129};
    static const enum sw_dtype dtypes[][3] = {
        {SW_BF16_T, SW_BF16_T, SW_BF16_T}, {SW_BF16_T, SW_BF16_T, SW_F32},
        {SW_F32, SW_BF16_T, SW_F32},       {SW_BF16_T, SW_I8, SW_BF16_T},
        {SW_F32, SW_I8, SW_F32},           {SW_BF16_T, SW_E4M3, SW_BF16_T},
        {SW_F32, SW_E4M3, SW_F32}};
    enum { MOST = 129, K = 2080, N = 544 };
    float *a = malloc(MOST * K * sizeof *a), scales[N], *c[2];
    uint16_t *b = malloc(K * N * sizeof *b), *tiles = malloc(K * N * sizeof *tiles);
    c[0] = malloc(MOST * N * sizeof **c), c[1] = malloc(MOST * N * sizeof **c);
    assert_true(a != NULL && b != NULL && tiles != NULL && c[0] != NULL && c[1] != NULL);
    for (int64_t j = 0; j < N; j++)
        scales[j] = 0.01f + (float)(j % 5) * 0.003f;
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        struct sw_device *device = sw_cpu_device_create(threads, NULL);
        struct sw_cpu_device *cpu = (struct sw_cpu_device *)device;
        assert_non_null(device);
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            for (int64_t i = 0; i < K * N; i++)
                put(b, dtypes[d][1], i, value((uint64_t)(i + 1000)));
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                struct sw_cpu_matmul g = {.k = sizes[s][0], .n = sizes[s][1], .a = a};
                g.a_row = g.k, g.b_row = g.c_row = g.n, g.a_column = g.b_column = 1;
                g.a_dtype = dtypes[d][0], g.b_dtype = dtypes[d][1], g.c_dtype = dtypes[d][2];
                g.scales = sw_has_scales(g.b_dtype) ? scales : NULL;
                for (int64_t i = 0; i < MOST * g.k; i++)
                    put(a, g.a_dtype, i, value((uint64_t)i));
                device->vtable->tile(device, g.b_dtype, tiles, b, g.k, g.n, false);
                for (size_t r = 0; r < 2 * (sizeof rows / sizeof *rows); r++) {
                    g.m = rows[r / 2];
                    g.always_skinny = r % 2 == 0;
                    g.panel = sw_cpu_panel_rows(g.m);
                    if (!g.always_skinny && g.a_dtype == SW_F32 && g.m > 32)
                        continue; /* programs have operands of one type */
                    for (int tiled = 0; tiled < 2; tiled++) {
                        g.tiled = tiled != 0;
                        g.b = tiled ? tiles : b;
                        g.c = c[tiled];
                        memset(g.c, 0xff, (size_t)(g.m * g.n) * sizeof **c);
                        assert_int_equal(sw_cpu_matmul(cpu, &g, NULL), 0);
                    }
                    check_same_rows(&g, c[0], c[1]);
                }
            }
        }
        device->vtable->destroy(device);
    }
    free(a);
    free(b);
    free(tiles);
    free(c[0]);
    free(c[1]);
}

/* A device whose products this build makes: of an object for a lesser processor beside the library
 * none go through tiles. */
static struct sw_device *device_with_tiles(int32_t threads)
{
    struct sw_device *device = sw_cpu_device_create(threads, NULL);
    assert_non_null(device);
#ifdef SW_AMX_EMULATED
    assert_true(((struct sw_cpu_device *)device)->amx);
#elif defined(SW_WITHOUT_AMX)
    ((struct sw_cpu_device *)device)->amx = false;
#endif
    return device;
}

/* As Intel's manual has a sum in the processor's tiles: 32 products at a time, first and second
 * ones of pairs apart. */
static float sum_in_amx(const uint16_t *a, const void *b, enum sw_dtype dtype, int64_t first,
                        int64_t k, int64_t n)
{
    float sum = 0;
    for (int64_t step = 0; step < k; step += 32) {
        float apart[2] = {0, 0};
        for (int64_t i = step; i < step + 32; i++)
            apart[i % 2] =
                fmaf(sw_bf16_to_float(a[i]), (float)get(b, dtype, first + i * n), apart[i % 2]);
        const volatile float both = apart[0] + apart[1];
        sum += both;
    }
    return sum;
}

/* A row by itself, which is the product, as the manual has it; of longer lines than rows have room
 * for it is, in `other`, that of pairs. b: the weights in order. */
static void make_alone_in_amx(struct sw_cpu_device *device, const struct sw_cpu_matmul *like,
                              const void *b, float *other)
{
    enum { MOST_LINES = 65536 };
    struct sw_cpu_matmul g = *like;
    g.m = 1;
    sw_cpu_matmul_streamed(device, &g);
    for (int64_t j = 0; j < g.n && g.c_dtype == SW_F32; j += 5) {
        const float made = ((const float *)g.c)[j];
        double exact = 0;
        for (int64_t l = 0; l < g.k; l++)
            exact += get(g.a, SW_BF16_T, l) * get(b, g.b_dtype, l * g.n + j);
        assert_true(fabs((double)made - exact) <= (double)(g.k * g.k) * 0x1p-24);
        assert_true(g.k > MOST_LINES || made == sum_in_amx(g.a, b, g.b_dtype, j, g.k, g.n));
    }
    g.in_amx = false, g.c = other;
    sw_cpu_matmul_streamed(device, &g);
    if (g.k > MOST_LINES)
        assert_memory_equal(like->c, other, (size_t)g.n * sw_dtype_bytes(g.c_dtype));
}

/* Rows of `g`, whose first ones are alone[DIFFERENT, n] again and again; nothing behind them. */
static void check_in_amx(struct sw_cpu_device *device, struct sw_cpu_matmul g, const void *alone,
                         int64_t different)
{
    const size_t element = sw_dtype_bytes(g.c_dtype), row = (size_t)g.n * element;
    char *c = g.c;
    for (int few = 0; few < 2; few++) {
        g.always_skinny = few == 0;
        if (!sw_cpu_matmul_is_streamed(&g))
            continue; /* of many rows another product */
        memset(c, 0xff, (size_t)((g.m + 1) * g.c_row) * element);
        assert_int_equal(sw_cpu_matmul(device, &g, NULL), 0);
        for (int64_t i = 0; i < g.m; i++)
            if (memcmp(c + (size_t)(i * g.c_row) * element,
                       (const char *)alone + (size_t)(i % different) * row, row) != 0)
                fail_msg("[%d, %d] [%d, %d]: row %d is another than alone", (int)g.m, (int)g.k,
                         (int)g.k, (int)g.n, (int)i);
        for (size_t i = 0; i < (size_t)((g.m + 1) * g.c_row) * element; i++)
            if (i / element / (size_t)g.c_row >= (size_t)g.m ||
                i / element % (size_t)g.c_row >= (size_t)g.n)
                assert_int_equal((unsigned char)c[i], 0xff);
    }
}

/* Rows that meet weights in the processor's tiles are what they are alone, to the bit, whatever
 * their number and the threads. */
static void rows_in_amx_are_those_of_one(void **state)
{
    (void)state;
    enum { DIFFERENT = 5, MOST = 129, GAP = 3, MOST_ELEMS = 16 * 65568 };
    static const int64_t sizes[][2] = {{32, 32}, {1056, 96}, {544, 288}, {65536, 32}, {65568, 32}};
    static const int64_t rows[] = {1, 2, 4, 8, 15, 16, 17, 31, 32, 33, 48, 61, 64, MOST};
    static const enum sw_dtype weights[] = {SW_BF16_T, SW_I8, SW_E4M3};
    enum { WEIGHTS = sizeof weights / sizeof *weights };
    static float scales[288];
    struct sw_device *device[2] = {device_with_tiles(1), device_with_tiles(3)};
    struct sw_cpu_device *one = (struct sw_cpu_device *)device[0];
    uint16_t *a = malloc(MOST_ELEMS * sizeof *a), *b = malloc(2 * MOST_ELEMS * sizeof *b);
    uint16_t *tiles = malloc(2 * MOST_ELEMS * sizeof *tiles);
    float *alone = malloc(DIFFERENT * 288 * sizeof *alone);
    float *c = malloc((MOST + 1) * (288 + GAP) * sizeof *c);
    assert_true(a != NULL && b != NULL && tiles != NULL && alone != NULL && c != NULL);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        scales[i] = 1.0f / 128;
    for (size_t t = 0; one->amx && t < 2 * WEIGHTS * (sizeof sizes / sizeof *sizes); t++) {
        const size_t s = t / WEIGHTS;
        struct sw_cpu_matmul g = {.k = sizes[s / 2][0], .n = sizes[s / 2][1], .b = tiles};
        const int64_t most = g.k > 60000 ? 16 : MOST;
        g.a_dtype = SW_BF16_T, g.c_dtype = s % 2 == 0 ? SW_F32 : SW_BF16_T;
        g.b_dtype = weights[t % WEIGHTS], g.scales = sw_has_scales(g.b_dtype) ? scales : NULL;
        if (!device[0]->vtable->tiles(g.b_dtype))
            continue; /* as 8 bits without the instructions that widen them so */
        if (g.b_dtype != SW_BF16_T && g.k > 60000)
            continue;
        g.tiled = g.always_skinny = g.in_amx = true;
        g.a_row = g.k, g.a_column = 1, g.c_row = g.n;
        for (int64_t i = 0; i < most * g.k; i++)
            put(a, SW_BF16_T, i, value((uint64_t)(i % (DIFFERENT * g.k))));
        for (int64_t i = 0; i < g.k * g.n; i++)
            put(b, g.b_dtype, i, value((uint64_t)(i + 1000)));
        device[0]->vtable->tile(device[0], g.b_dtype, tiles, b, g.k, g.n, false);
        for (int64_t i = 0; i < DIFFERENT; i++) {
            g.a = a + i * g.k;
            g.c = (char *)alone + (size_t)(i * g.n) * sw_dtype_bytes(g.c_dtype);
            make_alone_in_amx(one, &g, b, c);
        }
        g.a = a, g.c = c, g.c_row = g.n + GAP;
        for (size_t r = 0; r < 2 * (sizeof rows / sizeof *rows); r++)
            if ((g.m = rows[r / 2]) <= most)
                check_in_amx((struct sw_cpu_device *)device[r % 2], g, alone, DIFFERENT);
    }
    for (int t = 0; t < 2; t++)
        device[t]->vtable->destroy(device[t]);
    free(a);
    free(b);
    free(tiles);
    free(alone);
    free(c);
}

/* Weights of 4 bits in tiles: the product, as it is of the numbers that their blocks stand for, and
 * each row as it is alone, whatever the number of rows and threads. */
static void rows_of_int4_are_those_of_one(void **state)
{
    (void)state;
    enum { MOST = 64, K = 1056, N = 288 };
    static const int64_t sizes[][2] = {{32, 32}, {K, 96}, {544, N}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    static struct sw_int4_block blocks[K / 32 * N], tiles[K / 32 * N];
    static float a[MOST * K], alone[MOST * N], c[MOST * N];
    struct sw_device *device[2] = {device_with_tiles(1), device_with_tiles(3)};
    const bool amx = ((struct sw_cpu_device *)device[0])->amx;
    for (size_t s = 0; s < (amx ? 8 : 4) * SIZES; s++) {
        struct sw_cpu_matmul g = {
            .k = sizes[s % (4 * SIZES) / 4][0], .n = sizes[s % (4 * SIZES) / 4][1], .b = tiles};
        const bool turned = s / 2 % 2 != 0;
        const int64_t groups = g.k / SW_INT4_GROUP;
        g.a_dtype = s % 2 ? SW_BF16_T : SW_F32, g.b_dtype = SW_I4, g.c_dtype = SW_F32;
        g.in_amx = s >= 4 * SIZES;
        g.tiled = g.always_skinny = true, g.a_row = g.k, g.a_column = 1, g.c_row = g.n;
        for (int64_t i = 0; i < MOST * g.k; i++)
            put(a, g.a_dtype, i, value((uint64_t)i));
        for (int64_t i = 0; i < groups * g.n; i++) {
            float x[SW_INT4_GROUP];
            for (int64_t l = 0; l < SW_INT4_GROUP; l++)
                x[l] = value((uint64_t)(i * SW_INT4_GROUP + l));
            sw_int4_quantize(x, &blocks[i]);
        }
        device[s % 2]->vtable->tile(device[s % 2], SW_I4, tiles, blocks, groups, g.n, turned);
        for (int64_t i = 0; i < MOST; i++) {
            g.m = 1, g.c = alone + i * g.n;
            g.a = (const char *)a + (size_t)(i * g.k) * sw_dtype_bytes(g.a_dtype);
            assert_true(sw_cpu_matmul_is_streamed(&g));
            sw_cpu_matmul_streamed((struct sw_cpu_device *)device[0], &g);
            for (int64_t j = 0; j < g.n; j += 31) {
                double exact = 0;
                for (int64_t l = 0; l < g.k; l++) {
                    const int64_t at = turned ? j * groups + l / 32 : l / 32 * g.n + j;
                    exact += get(a, g.a_dtype, i * g.k + l) *
                             (double)sw_int4_value(&blocks[at], (int32_t)(l % 32));
                }
                assert_true(fabs((double)alone[i * g.n + j] - exact) <=
                            (double)(g.k * g.k) * 0x1p-24);
            }
        }
        g.a = a, g.c = c;
        for (g.m = 1; g.m <= MOST; g.m += g.m < 14 ? 1 : 10) {
            memset(c, 0xff, sizeof c);
            sw_cpu_matmul_streamed((struct sw_cpu_device *)device[g.m % 2], &g);
            assert_memory_equal(c, alone, (size_t)(g.m * g.n) * sizeof *c);
        }
    }
    for (int t = 0; t < 2; t++)
        device[t]->vtable->destroy(device[t]);
}

/* Few rows meet weights in the processor's tiles where the plan has texts enough, however many rows
 * a call has: in layers and in the head. */
static void rows_in_amx_are_those_of_many_texts(void **state)
{
    (void)state;
    enum { K = 64, N = 96, MOST = 8 };
    static uint16_t x[MOST * K], w[K * N], tiles[K * N];
    static float y[MOST * N], sums[2][N], logits[MOST * N], stats[3 * MOST];
    static int32_t labels[MOST];
    struct sw_device *device = device_with_tiles(1);
    const bool amx = ((struct sw_cpu_device *)device)->amx;
    for (int64_t i = 0; i < MOST * K; i++)
        put(x, SW_BF16_T, i, value((uint64_t)(i % K)));
    for (int64_t i = 0; i < K * N; i++)
        put(w, SW_BF16_T, i, value((uint64_t)(i + 1000)));
    device->vtable->tile(device, SW_BF16_T, tiles, w, K, N, false);
    struct sw_cpu_matmul g = {.m = 1, .n = N, .k = K, .a = x, .b = tiles, .tiled = true};
    g.a_row = K, g.a_column = 1, g.c_row = N, g.a_dtype = g.b_dtype = SW_BF16_T;
    for (int in_amx = 0; in_amx < 2; in_amx++) {
        g.in_amx = in_amx != 0 && amx, g.c = sums[in_amx];
        sw_cpu_matmul_streamed((struct sw_cpu_device *)device, &g);
    }
    assert_true((memcmp(sums[0], sums[1], sizeof sums[0]) == 0) == !amx);
    for (int64_t slots = 0; slots <= MOST; slots++)
        for (int64_t m = 1; m <= MOST; m += MOST - 1) {
            const float *expected = sums[slots >= SW_CPU_AMX_SLOTS];
            struct sw_tensor in[3] = {{x, SW_BF16_T, 3, {1, m, K}, .elems = m * K},
                                      {tiles, SW_BF16_T, 2, {K, N}, .elems = K * N, .tiled = true},
                                      {labels, SW_I32, 2, {1, m}, .elems = m}};
            struct sw_tensor out = {y, SW_F32, 3, {1, m, N}, .elems = m * N};
            struct sw_op op = {.kind = SW_OP_LINEAR, .n_in = 2, .n_out = 1};
            struct sw_call call = {.op = &op, .in = in, .out = &out, .workspace = logits};
            call.batch_invariant = call.always_skinny = true, call.planned_slots = slots;
            assert_int_equal(device->vtable->run[op.kind](device, &call, NULL), 0);
            for (int64_t i = 0; i < m; i++)
                assert_memory_equal(y + i * N, expected, sizeof sums[0]);
            op.kind = SW_OP_LM_HEAD_STATS, op.n_in = 3; /* of a table [vocabulary, width] */
            in[1].size[0] = N, in[1].size[1] = K;
            out = (struct sw_tensor){stats, SW_F32, 3, {1, m, 3}, .elems = 3 * m};
            assert_int_equal(device->vtable->run[op.kind](device, &call, NULL), 0);
            for (int64_t i = 0; i < m; i++)
                assert_memory_equal(logits + i * N, expected, sizeof sums[0]);
        }
    device->vtable->destroy(device);
}

/* With AVX-512, for bf16 with its instructions for that, oneDNN's products go by blocks, whatever a
 * release calls them, and are taken as they are: panels in their place are slower, and nothing else
 * would tell. Those of a padded shard's weights, whose lines do not touch, are other products. */
static void blocks_need_no_panels(void **state)
{
    (void)state;
    static const enum sw_dtype dtypes[][2] = {
        {SW_F32, SW_F32}, {SW_BF16_T, SW_BF16_T}, {SW_BF16_T, SW_F32}};
    const char *isa = sw_onednn_isa();
    const bool wide = strncmp(isa, "AVX-512", 7) == 0 || strcmp(isa, "AMX") == 0;
    const bool narrow = strcmp(isa, "AVX-512") == 0 || strcmp(isa, "AVX-512 VNNI") == 0;
    struct sw_device *device = sw_cpu_device_create(1, NULL);
    assert_non_null(device);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int by_column = 0; by_column < 2; by_column++) {
            enum { M = 64, K = 256, N = 192 };
            const struct sw_cpu_matmul g = {.m = M,
                                            .n = N,
                                            .k = K,
                                            .a_row = K,
                                            .a_column = 1,
                                            .b_row = by_column ? 1 : N,
                                            .b_column = by_column ? K : 1,
                                            .c_row = N,
                                            .a_dtype = dtypes[d][0],
                                            .b_dtype = dtypes[d][0],
                                            .c_dtype = dtypes[d][1]};
            const bool blocks = wide && !(narrow && g.a_dtype == SW_BF16_T);
            struct sw_cpu_matmul padded = g;
            bool alike;
            *(by_column ? &padded.b_column : &padded.b_row) += 2;
            assert_int_equal(sw_cpu_matmul_is_batch_invariant((struct sw_cpu_device *)device,
                                                              &padded, &alike, NULL),
                             0);
            assert_false(alike);
            assert_int_equal(
                sw_cpu_matmul_is_batch_invariant((struct sw_cpu_device *)device, &g, &alike, NULL),
                0);
            if (blocks && !alike)
                fail_msg("%s, %s to %s: oneDNN's rows are not taken to be alike", isa,
                         sw_dtype_name(dtypes[d][0]), sw_dtype_name(dtypes[d][1]));
            if (DNNL_VERSION_MAJOR < 3 && !blocks)
                assert_false(alike);
        }
    device->vtable->destroy(device);
}

/* Products of a transposed a that our blocks make: those of oneDNN 2 to the bit, with other
 * releases as near as sums of k terms of at most 1 in fp32 are; added to what c holds, or in its
 * place. */
static void blocks_are_the_librarys(void **state)
{
    (void)state;
    /* k, n, m: of whole panels and not, of sums in one part and in two, of columns packed twice */
    static const int64_t sizes[][3] = {
        {128, 96, 64}, {511, 101, 77}, {513, 200, 250}, {1100, 385, 300}, {8191, 700, 64}};
    for (size_t t = 0; t < 2 * sizeof sizes / sizeof *sizes; t++) {
        const int64_t k = sizes[t / 2][0], n = sizes[t / 2][1], m = sizes[t / 2][2];
        const int64_t apart = n + (t / 2 == 2 ? 3 : 0);
        const bool adds = t % 2 == 1;
        struct sw_device *device = sw_cpu_device_create(adds ? 3 : 1, NULL);
        struct sw_cpu_device *cpu = (struct sw_cpu_device *)device;
        uint16_t *a = malloc((size_t)(k * m) * sizeof *a), *b = malloc((size_t)(k * n) * sizeof *b);
        float *c[2];
        assert_true(device != NULL && a != NULL && b != NULL);
        for (int64_t i = 0; i < k * m; i++)
            put(a, SW_BF16_T, i, value((uint64_t)i));
        for (int64_t i = 0; i < k * n; i++)
            put(b, SW_BF16_T, i, value((uint64_t)i + 7919));
        for (int which = 0; which < 2; which++) {
            c[which] = malloc((size_t)(m * apart) * sizeof(float));
            assert_non_null(c[which]);
            for (int64_t i = 0; i < m * apart; i++)
                c[which][i] = adds || i % apart >= n ? (float)(i % 101) : NAN;
            const struct sw_cpu_matmul g = {.m = m,
                                            .n = n,
                                            .k = k,
                                            .a = a,
                                            .b = b,
                                            .c = c[which],
                                            .a_row = 1,
                                            .a_column = m,
                                            .b_row = n,
                                            .b_column = 1,
                                            .c_row = apart,
                                            .a_dtype = SW_BF16_T,
                                            .b_dtype = SW_BF16_T,
                                            .accumulate = adds};
            assert_true(sw_cpu_matmul_is_blocked(cpu, &g) == cpu->pairs);
            assert_int_equal(
                which ? sw_cpu_matmul_onednn(cpu, &g, NULL) : sw_cpu_matmul(cpu, &g, NULL), 0);
        }
        for (int64_t i = 0; i < m * apart; i++)
            if ((DNNL_VERSION_MAJOR < 3 && apart == n) || i % apart >= n)
                assert_memory_equal(&c[0][i], &c[1][i], sizeof(float));
            else
                assert_true(fabsf(c[0][i] - c[1][i]) <= (float)(k * k + 101) * 0x1p-23F);
        free(a);
        free(b);
        free(c[0]);
        free(c[1]);
        device->vtable->destroy(device);
    }
}

/* Few rows are made for nothing. */
static void panels_fit(void **state)
{
    (void)state;
    for (int64_t m = 1; m <= 4096; m++) {
        const int64_t rows = sw_cpu_panel_rows(m), made = sw_align(m, rows);
        assert_true(rows >= 1 && rows <= 828 && (rows % 6 == 0 || rows == m));
        assert_true(rows <= 72 || rows % 12 == 0);
        assert_true(made - m < (m <= 72 ? 6 : 12 * (1 + m / 828)));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_amx_are_those_of_one),
        cmocka_unit_test(rows_in_amx_are_those_of_many_texts),
        cmocka_unit_test(rows_are_alike),
        cmocka_unit_test(few_rows_are_those_of_one),
        cmocka_unit_test(many_rows_are_those_of_one),
        cmocka_unit_test(tiles_give_the_same_rows),
        cmocka_unit_test(rows_of_int4_are_those_of_one),
        cmocka_unit_test(blocks_need_no_panels),
        cmocka_unit_test(blocks_are_the_librarys),
        cmocka_unit_test(panels_fit),
    };
    if (argc > 1)
        stride = (size_t)strtoul(argv[1], NULL, 10);
    if (stride % 2 == 0 || stride > 5) {
        fprintf(stderr, "usage: test_rows [STRIDE], a stride of 1, 3 or 5\n");
        return 2;
    }
#ifdef SW_AMX_EMULATED /* the others are as without */
    cmocka_set_test_filter("rows_*_are_those_of_*");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
