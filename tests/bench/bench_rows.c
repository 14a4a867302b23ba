/* Products of a few rows with weights that exceed the caches, as decoding and mixed calls have
 * them, against a read-only sweep over the same weights by the same threads.
 *
 *   bench_rows [bf16|fp32|int8|e4m3|int4|fp32-int8|fp32-e4m3|fp32-int4] [linear|linear_t|tiles|amx]
 * [K N] [rounds] [threads] [rows...]
 *
 * Every round has a sweep over all weights and, of every number of rows, a product with each of
 * them; numbers of rows are in turns, so that a busy neighbour meets all of them. One thread is
 * timed by its processor's time. Printed are GB/s of weights, medians of the rounds, and the median
 * share of the round's sweep. */
#include "core/base/clock.h"
#include "core/base/int4.h"
#include "core/base/number.h"
#include "core/base/quantize.h"
#include "runner/device/cpu/cpu.h"
#include "tests/bench/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 256, MOST_COUNTS = 32, MOST_ROUNDS = 200 };

static const size_t all_bytes = (size_t)512 << 20; /* far more than caches hold */

static const struct format {
    const char *name;
    enum sw_dtype rows, weights;
} formats[] = {{"bf16", SW_BF16_T, SW_BF16_T}, {"fp32", SW_F32, SW_F32},
               {"int8", SW_BF16_T, SW_I8},     {"e4m3", SW_BF16_T, SW_E4M3},
               {"fp32-int8", SW_F32, SW_I8},   {"fp32-e4m3", SW_F32, SW_E4M3},
               {"int4", SW_BF16_T, SW_I4},     {"fp32-int4", SW_F32, SW_I4}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

struct bench {
    const struct format *format;
    bool by_line; /* linear_t: weights [n, k] */
    bool tiled;   /* tiles: weights [k, n] in tiles */
    bool in_amx;  /* amx: so, and met in the processor's, where it has some */
    int64_t k, n;
    int32_t rounds, threads, counts;
    int64_t rows[MOST_COUNTS];
    char *weights, *x, *y;
    float *scales;
    size_t matrix_bytes, matrices;
    double (*clock)(void);
};

static void fill(void *to, enum sw_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t draw = (uint32_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 32);
        const float value = ((float)(draw >> 8) * 0x1p-24f - 0.5f) * 0.06f;
        if (dtype == SW_I8)
            ((int8_t *)to)[i] = (int8_t)((int32_t)(draw >> 24) % 255 - 127);
        else if (dtype == SW_E4M3)
            ((uint8_t *)to)[i] = sw_e4m3_of((double)value, 0.03f / SW_E4M3_MOST);
        else if (dtype == SW_BF16_T)
            ((uint16_t *)to)[i] = sw_bf16_from_float(value);
        else
            ((float *)to)[i] = value;
    }
}

static bool create(struct bench *b)
{
    const enum sw_dtype x = b->format->rows, w = b->format->weights;
    b->matrix_bytes = (size_t)(b->k * b->n) / (w == SW_I4 ? SW_INT4_GROUP : 1) * sw_dtype_bytes(w);
    b->matrices = (all_bytes + b->matrix_bytes - 1) / b->matrix_bytes;
    b->weights = sw_cpu_memory_allocate(b->matrices * b->matrix_bytes);
    b->x = malloc((size_t)(MOST_ROWS * b->k) * sw_dtype_bytes(x));
    b->y = malloc((size_t)(MOST_ROWS * b->n) * sw_dtype_bytes(x));
    b->scales = malloc((size_t)b->n * sizeof *b->scales);
    if (b->weights == NULL || b->x == NULL || b->y == NULL || b->scales == NULL)
        return false;
    fill(b->x, x, MOST_ROWS * b->k);
    fill(b->scales, SW_F32, b->n);
    if (w == SW_I4) /* integers and scales that are all alike do as well */
        memset(b->weights, 0x38, b->matrix_bytes);
    else
        fill(b->weights, w, b->k * b->n);
    for (size_t i = 1; i < b->matrices; i++)
        memcpy(b->weights + i * b->matrix_bytes, b->weights, b->matrix_bytes);
    return true;
}

static void destroy(struct bench *b)
{
    if (b->weights != NULL)
        sw_cpu_memory_release(b->weights);
    free(b->x);
    free(b->y);
    free(b->scales);
}

/* Seconds of a product with each of the matrices. */
static double multiply(const struct bench *b, struct sw_cpu_device *device, int64_t rows)
{
    const double begin = b->clock();
    for (size_t i = 0; i < b->matrices; i++) {
        const struct sw_cpu_matmul g = {.m = rows,
                                        .n = b->n,
                                        .k = b->k,
                                        .a = b->x,
                                        .b = b->weights + i * b->matrix_bytes,
                                        .c = b->y,
                                        .a_row = b->k,
                                        .a_column = 1,
                                        .b_row = b->by_line ? 1 : b->n,
                                        .b_column = b->by_line ? b->k : 1,
                                        .c_row = b->n,
                                        .a_dtype = b->format->rows,
                                        .b_dtype = b->format->weights,
                                        .c_dtype = b->format->rows,
                                        .scales =
                                            sw_has_scales(b->format->weights) ? b->scales : NULL,
                                        .always_skinny = true,
                                        .tiled = b->tiled,
                                        .in_amx = b->in_amx && device->amx};
        if (sw_cpu_matmul(device, &g, NULL) != 0)
            exit(3);
    }
    return b->clock() - begin;
}

static double median(double *values, int32_t count)
{
    qsort(values, (size_t)count, sizeof *values, sw_compare_doubles);
    return values[count / 2];
}

static void measure(const struct bench *b, struct sw_cpu_device *device)
{
    static double swept[MOST_ROUNDS], rate[MOST_COUNTS][MOST_ROUNDS],
        share[MOST_COUNTS][MOST_ROUNDS];
    const size_t bytes = b->matrices * b->matrix_bytes;
    uint64_t sum = 0;
    (void)multiply(b, device, 1);
    for (int32_t r = 0; r < b->rounds; r++) {
        swept[r] = (double)bytes /
                   sw_bench_sweep_seconds(b->weights, bytes, b->threads, b->clock, &sum) / 1e9;
        for (int32_t i = 0; i < b->counts; i++) {
            rate[i][r] = (double)bytes / multiply(b, device, b->rows[i]) / 1e9;
            share[i][r] = rate[i][r] / swept[r];
        }
    }
    printf("%s, weights %s, %d thread%s: sweep %.1f GB/s (sum %llx)\n", b->format->name,
           b->by_line  ? "[n, k]"
           : b->in_amx ? (device->amx ? "[k, n] in tiles, by AMX" : "[k, n] in tiles (no AMX here)")
           : b->tiled  ? "[k, n] in tiles"
                       : "[k, n]",
           b->threads, b->threads == 1 ? "" : "s", median(swept, b->rounds),
           (unsigned long long)sum);
    for (int32_t i = 0; i < b->counts; i++) {
        const double gb = median(rate[i], b->rounds), of_sweep = median(share[i], b->rounds);
        printf("k %lld, n %lld, rows %lld: %5.1f GB/s, %.2f of the sweep, %6.1f GFLOP/s\n",
               (long long)b->k, (long long)b->n, (long long)b->rows[i], gb, of_sweep,
               gb * 2 * (double)b->rows[i] * (double)(b->k * b->n) / (double)b->matrix_bytes);
    }
}

int main(int argc, char **argv)
{
    static const int64_t usual_rows[] = {1, 4, 8, 12, 16, 24, 32, 64};
    struct bench b = {.format = &formats[0]};
    for (int32_t f = 0; argc > 1 && f < FORMATS; f++)
        if (strcmp(argv[1], formats[f].name) == 0)
            b.format = &formats[f];
    long number[4] = {2048, 8192, 9, 1};
    for (int i = 3; i < argc && i < 7; i++)
        number[i - 3] = strtol(argv[i], NULL, 10);
    b.by_line = argc > 2 && strcmp(argv[2], "linear_t") == 0;
    b.in_amx = argc > 2 && strcmp(argv[2], "amx") == 0;
    b.tiled = b.in_amx || (argc > 2 && strcmp(argv[2], "tiles") == 0);
    b.tiled = b.tiled || b.format->weights == SW_I4; /* has no other layout */
    b.k = number[0], b.n = number[1];
    b.rounds = (int32_t)number[2], b.threads = (int32_t)number[3];
    for (int i = 7; i < argc && b.counts < MOST_COUNTS; i++)
        b.rows[b.counts++] = strtol(argv[i], NULL, 10);
    for (size_t i = 0; argc <= 7 && i < sizeof usual_rows / sizeof *usual_rows; i++)
        b.rows[b.counts++] = usual_rows[i];
    bool fits = b.k > 0 && b.n > 0 && b.rounds > 0 && b.rounds <= MOST_ROUNDS && b.threads > 0;
    for (int32_t i = 0; i < b.counts; i++)
        fits = fits && b.rows[i] > 0 && b.rows[i] <= MOST_ROWS;
    if (!fits) {
        fprintf(stderr,
                "usage: bench_rows [bf16|fp32|int8|fp32-int8] [linear|linear_t|tiles|amx] [K N] "
                "[rounds] [threads] [rows...]\n");
        return 2;
    }
    b.clock = b.threads == 1 ? sw_clock_busy : sw_clock_now;
    struct sw_device *device = sw_cpu_device_create(b.threads, NULL);
    const bool created = device != NULL && create(&b);
    if (created)
        measure(&b, (struct sw_cpu_device *)device);
    else
        fprintf(stderr, "error: out of memory\n");
    destroy(&b);
    if (device != NULL)
        device->vtable->destroy(device);
    return created ? 0 : 3;
}
