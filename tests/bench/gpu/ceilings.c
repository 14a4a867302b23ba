/* What the GPU reaches at its best, beside which every other figure stands: a copy within its
 * memory, and a large bf16 product through the library that the device uses.
 *
 *   ceilings [SIDE [MIB]]     default 8192 2048: a product of SIDE^3, a copy of MIB MiB
 *
 * Medians of single runs after a warm-up of half a second, taken with events. Markdown; exit code
 * 77 without a GPU. */
#include "core/base/clock.h"
#include "runner/device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 15, OPERANDS = 3 };

struct bench {
    struct sw_device *device;
    int64_t side;
    size_t bytes; /* of a copy */
    char *data[OPERANDS];
};

static int run_copy(struct bench *b, struct sw_error *err)
{
    const cudaError_t code =
        cudaMemcpyAsync(b->data[1], b->data[0], b->bytes, cudaMemcpyDeviceToDevice,
                        sw_cuda_device_stream(b->device));
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "a copy");
}

static int run_product(struct bench *b, struct sw_error *err)
{
    const struct sw_cuda_matmul matmul = {.m = b->side,
                                          .n = b->side,
                                          .k = b->side,
                                          .a = b->data[0],
                                          .b = b->data[1],
                                          .c = b->data[2],
                                          .a_row = b->side,
                                          .a_column = 1,
                                          .b_row = b->side,
                                          .b_column = 1,
                                          .c_row = b->side,
                                          .a_dtype = SW_BF16_T,
                                          .b_dtype = SW_BF16_T,
                                          .c_dtype = SW_BF16_T};
    return sw_cuda_matmul((struct sw_cuda_device *)b->device, &matmul, err);
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seconds of one run, or -1. */
static double seconds(struct bench *b, int (*run)(struct bench *, struct sw_error *),
                      struct sw_error *err)
{
    cudaStream_t stream = sw_cuda_device_stream(b->device);
    cudaEvent_t begin = NULL, end = NULL;
    float milliseconds[RUNS];
    const double begun = sw_clock_now();
    double result = -1;
    do {
        if (run(b, err) != 0)
            goto out;
        if (cudaStreamSynchronize(stream) != cudaSuccess) {
            (void)sw_fail(err, SW_ENVIRONMENT, "the GPU failed");
            goto out;
        }
    } while (sw_clock_now() - begun < 0.5);
    cudaError_t code = cudaEventCreate(&begin);
    if (code == cudaSuccess)
        code = cudaEventCreate(&end);
    for (int i = 0; i < RUNS && code == cudaSuccess; i++) {
        code = cudaEventRecord(begin, stream);
        if (code == cudaSuccess && run(b, err) != 0)
            goto out;
        if (code == cudaSuccess)
            code = cudaEventRecord(end, stream);
        if (code == cudaSuccess)
            code = cudaEventSynchronize(end);
        if (code == cudaSuccess)
            code = cudaEventElapsedTime(&milliseconds[i], begin, end);
    }
    if (code != cudaSuccess) {
        (void)sw_cuda_fail(err, code, "taking the time");
        goto out;
    }
    qsort(milliseconds, RUNS, sizeof *milliseconds, compare);
    result = (double)milliseconds[RUNS / 2] * 1e-3;
out:
    if (begin != NULL)
        (void)cudaEventDestroy(begin);
    if (end != NULL)
        (void)cudaEventDestroy(end);
    return result;
}

/* Zeros would draw less power, and so leave the clock higher, than numbers do. */
static int fill(struct bench *b, size_t bytes, struct sw_error *err)
{
    enum { BLOCK = 1 << 20 };
    uint16_t *block = malloc(BLOCK * sizeof *block);
    uint64_t state = 7;
    int status = block != NULL ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory");
    for (int64_t i = 0; i < BLOCK && status == 0; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        block[i] = (uint16_t)(0x3f00u | (state >> 33 & 0x80ffu)); /* in (-2, -0.5) or (0.5, 2) */
    }
    for (int operand = 0; operand < 2; operand++)
        for (size_t at = 0; at < bytes && status == 0; at += BLOCK * sizeof *block) {
            const size_t left = bytes - at, most = BLOCK * sizeof *block;
            if (b->device->vtable->copy_in(b->device, b->data[operand] + at, block,
                                           left < most ? left : most) != 0)
                status = sw_fail(err, SW_ENVIRONMENT, "cannot copy to the GPU");
        }
    free(block);
    return status;
}

static int measure(struct bench *b, struct sw_error *err)
{
    const size_t square = (size_t)(b->side * b->side) * 2;
    const size_t bytes = square > b->bytes ? square : b->bytes;
    for (int i = 0; i < OPERANDS; i++) {
        b->data[i] = b->device->vtable->allocate(b->device, bytes);
        if (b->data[i] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of GPU memory");
    }
    if (fill(b, bytes, err) != 0)
        return -1;
    const double product = seconds(b, run_product, err);
    const double copy = product < 0 ? -1 : seconds(b, run_copy, err);
    if (copy < 0)
        return -1;
    const double side = (double)b->side, moved = 2.0 * (double)b->bytes;
    printf("| ceiling | ms | reached |\n| --- | --- | --- |\n");
    printf("| product of %lld^3 in bf16 | %.3f | %.0f TFLOP/s |\n", (long long)b->side,
           1e3 * product, 2 * side * side * side / product * 1e-12);
    printf("| copy of %zu MiB, read and written | %.3f | %.0f GB/s |\n", b->bytes >> 20, 1e3 * copy,
           moved / copy * 1e-9);
    return 0;
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    const long side = argc > 1 ? strtol(argv[1], NULL, 10) : 8192;
    const long mib = argc > 2 ? strtol(argv[2], NULL, 10) : 2048;
    if (argc > 3 || side < 1 || side > 1 << 16 || mib < 1 || mib > 1 << 20) {
        fprintf(stderr, "usage: ceilings [SIDE [MIB]]\n");
        return 2;
    }
    struct bench b = {.side = side, .bytes = (size_t)mib << 20};
    b.device = sw_cuda_device_create(0, &err);
    if (b.device == NULL) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    const int status = measure(&b, &err);
    if (status != 0)
        fprintf(stderr, "ceilings: %s\n", err.message);
    for (int i = 0; i < OPERANDS; i++)
        if (b.data[i] != NULL)
            b.device->vtable->release(b.device, b.data[i]);
    b.device->vtable->destroy(b.device);
    return status != 0;
}
