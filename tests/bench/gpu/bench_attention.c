/* Causal attention of one sequence in bf16: the device's attention op without hops, forward
 * and backward, beside cuDNN's kernel called alone on the same operands, in the same run.
 *
 *   bench_attention [HEADS KV_HEADS DIM [LONGEST]]     default 32 8 128 65536
 *
 * Each is recorded several times into one CUDA graph; a time is the median of replays, taken with
 * events, over the repeats. TFLOP/s count the causal half: 2 products of 2 s^2 dim / 2 per head
 * forward, 5 backward. Writes Markdown. Exit code 77: no GPU, or no cuDNN. */
#include "runner/device/cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLAYS = 9, SHORTEST = 8192, OPERANDS = 10 };

enum { Q, K, V, O, D_O, DQ, DK, DV, LSE, STATS };

struct bench {
    struct sw_device *device;
    int64_t heads, kv_heads, dim, length;
    void *data[OPERANDS];
    void *workspace[2]; /* of the op, of cuDNN alone */
};

static void die(const char *what, const struct sw_error *err)
{
    fprintf(stderr, "bench_attention: %s%s%s\n", what, err != NULL ? ": " : "",
            err != NULL ? err->message : "");
    exit(1);
}

static void *allocate(struct bench *b, int64_t bytes)
{
    void *memory = b->device->vtable->allocate(b->device, (size_t)bytes);
    if (memory == NULL)
        die("out of GPU memory", NULL);
    return memory;
}

/* bf16 in (-1, 1), a block of random numbers over and over. */
static void fill(struct bench *b, void *to, int64_t elems)
{
    enum { BLOCK = 1 << 20 };
    static uint16_t block[BLOCK];
    static uint64_t state = 7;
    for (int64_t i = 0; i < BLOCK; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float value = (float)((double)(int64_t)state / 9.3e18);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        block[i] = (uint16_t)(bits >> 16);
    }
    for (int64_t at = 0; at < elems; at += BLOCK) {
        const int64_t n = elems - at < BLOCK ? elems - at : BLOCK;
        if (b->device->vtable->copy_in(b->device, (char *)to + at * 2, block, (size_t)n * 2) != 0)
            die("cannot copy to the GPU", NULL);
    }
}

/* ---- What is timed ---- */

static struct sw_cudnn_shape shape_of(const struct bench *b, bool backward)
{
    return (struct sw_cudnn_shape){.batch = 1,
                                   .heads = b->heads,
                                   .kv_heads = b->kv_heads,
                                   .n_q = b->length,
                                   .n_k = b->length,
                                   .q_rows = b->length,
                                   .k_rows = b->length,
                                   .dim = (int32_t)b->dim,
                                   .causal = true,
                                   .backward = backward,
                                   .scale = (float)(1 / sqrt((double)b->dim))};
}

static void run_library(struct bench *b, bool backward)
{
    struct sw_error err = {0};
    const struct sw_cudnn_shape shape = shape_of(b, backward);
    const struct sw_cudnn_pointers pointers = {b->data[Q],  b->data[K],     b->data[V],
                                               b->data[O],  b->data[STATS], b->data[D_O],
                                               b->data[DQ], b->data[DK],    b->data[DV]};
    if (sw_cudnn_attention_run(sw_cuda_cudnn((struct sw_cuda_device *)b->device), &shape, &pointers,
                               b->workspace[1], &err) != 0)
        die("cuDNN", &err);
}

static struct sw_tensor tensor(const struct bench *b, int operand, enum sw_dtype dtype,
                               int64_t width)
{
    return (struct sw_tensor){.data = b->data[operand],
                              .dtype = dtype,
                              .ndim = 3,
                              .size = {1, b->length, width},
                              .global = {1, b->length, width},
                              .elems = b->length * width};
}

static struct sw_attention_workspace workspace_of(const struct bench *b, bool backward)
{
    const int64_t q[3] = {1, b->length, b->heads * b->dim};
    const int64_t k[3] = {1, b->length, b->kv_heads * b->dim};
    struct sw_attention_workspace layout;
    sw_attention_workspace_layout(q, k, (int32_t)b->dim, SW_BF16_T, false, backward, &layout);
    return layout;
}

static void run_op(struct bench *b, bool backward)
{
    struct sw_error err = {0};
    const int64_t q = b->heads * b->dim, k = b->kv_heads * b->dim;
    const struct sw_op op = {.kind = backward ? SW_OP_ATTENTION_GRAD : SW_OP_ATTENTION,
                             .n_in = backward ? 6 : 3,
                             .n_out = backward ? 3 : 2,
                             .as.attention = {.scale = 1 / sqrt((double)b->dim),
                                              .head_dim = (int32_t)b->dim,
                                              .group = (int32_t)(b->heads / b->kv_heads),
                                              .sequence_shards = 1},
                             .workspace_bytes = workspace_of(b, backward).bytes};
    struct sw_tensor in[6], out[3];
    const struct sw_call call = {.op = &op, .in = in, .out = out, .workspace = b->workspace[0]};
    in[0] = tensor(b, Q, SW_BF16_T, q);
    in[1] = tensor(b, K, SW_BF16_T, k);
    in[2] = tensor(b, V, SW_BF16_T, k);
    in[3] = tensor(b, O, SW_BF16_T, q);
    in[4] = tensor(b, LSE, SW_F32, b->heads);
    in[5] = tensor(b, D_O, SW_BF16_T, q);
    out[0] = backward ? tensor(b, DQ, SW_BF16_T, q) : in[3];
    out[1] = backward ? tensor(b, DK, SW_BF16_T, k) : in[4];
    out[2] = tensor(b, DV, SW_BF16_T, k);
    if (b->device->vtable->run[op.kind](b->device, &call, &err) != 0)
        die("attention", &err);
}

/* ---- Time ---- */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seconds of one run. */
static double seconds(struct bench *b, void (*run)(struct bench *, bool), bool backward)
{
    cudaStream_t stream = sw_cuda_device_stream(b->device);
    struct sw_recording *recording = NULL;
    struct sw_error err = {0};
    float milliseconds[REPLAYS];
    cudaEvent_t begin, end;
    const int repeats = b->length <= 16384 ? 8 : 2;
    run(b, backward); /* plans are made, kernels loaded */
    if (b->device->vtable->record_begin(b->device, &err) != 0)
        die("recording", &err);
    for (int i = 0; i < repeats; i++)
        run(b, backward);
    if (b->device->vtable->record_end(b->device, &recording, &err) != 0)
        die("recording", &err);
    if (cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess)
        die("no events", NULL);
    for (int i = -2; i < REPLAYS; i++) { /* two to warm up */
        if (cudaEventRecord(begin, stream) != cudaSuccess ||
            b->device->vtable->replay(b->device, recording, &err) != 0 ||
            cudaEventRecord(end, stream) != cudaSuccess ||
            cudaEventSynchronize(end) != cudaSuccess ||
            cudaEventElapsedTime(&milliseconds[i < 0 ? 0 : i], begin, end) != cudaSuccess)
            die("a replay failed", &err);
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    b->device->vtable->recording_free(b->device, recording);
    qsort(milliseconds, REPLAYS, sizeof *milliseconds, compare);
    return (double)milliseconds[REPLAYS / 2] * 1e-3 / repeats;
}

static void bench_length(struct bench *b)
{
    const int64_t q = b->length * b->heads * b->dim, k = b->length * b->kv_heads * b->dim;
    const int64_t rows = b->length * b->heads;
    for (int i = 0; i < OPERANDS; i++) {
        const bool of_keys = i == K || i == V || i == DK || i == DV;
        b->data[i] = allocate(b, i >= LSE ? rows * 4 : (of_keys ? k : q) * 2);
        if (i < LSE)
            fill(b, b->data[i], of_keys ? k : q);
    }
    for (int backward = 0; backward < 2; backward++) {
        char reason[SW_CUDNN_REASON_BYTES];
        const struct sw_cudnn_shape shape = shape_of(b, backward == 1);
        const int64_t bytes = sw_cudnn_attention_prepare(
            sw_cuda_cudnn((struct sw_cuda_device *)b->device), &shape, reason);
        const double flops = (backward ? 5.0 : 2.0) * (double)b->length * (double)b->length *
                             (double)b->dim * (double)b->heads;
        if (bytes < 0) {
            printf("| %lld | %s | no kernel: %s | | | |\n", (long long)b->length,
                   backward ? "backward" : "forward", reason);
            continue;
        }
        b->workspace[0] = allocate(b, workspace_of(b, backward == 1).bytes);
        b->workspace[1] = allocate(b, bytes);
        const double op = seconds(b, run_op, backward == 1);
        const double library = seconds(b, run_library, backward == 1);
        printf("| %lld | %s | %.3f | %.0f | %.3f | %.3f |\n", (long long)b->length,
               backward ? "backward" : "forward", library * 1e3, flops / library * 1e-12, op * 1e3,
               op / library);
        fflush(stdout);
        for (int i = 0; i < 2; i++)
            b->device->vtable->release(b->device, b->workspace[i]);
    }
    for (int i = 0; i < OPERANDS; i++)
        b->device->vtable->release(b->device, b->data[i]);
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    char text[256];
    struct bench b = {.heads = 32, .kv_heads = 8, .dim = 128};
    int64_t longest = 65536;
    if (argc == 4 || argc == 5) {
        b.heads = strtoll(argv[1], NULL, 10);
        b.kv_heads = strtoll(argv[2], NULL, 10);
        b.dim = strtoll(argv[3], NULL, 10);
        longest = argc == 5 ? strtoll(argv[4], NULL, 10) : longest;
    }
    if ((argc != 1 && argc != 4 && argc != 5) || b.kv_heads < 1 || b.heads < 1 ||
        b.heads % b.kv_heads != 0 || b.dim < 8 || longest < SHORTEST) {
        fprintf(stderr, "usage: bench_attention [HEADS KV_HEADS DIM [LONGEST]]\n");
        return 2;
    }
    if (sw_cuda_device_count(&err) < 1) {
        printf("SKIP: no GPU: %s\n", err.message);
        return 77;
    }
    b.device = sw_cuda_device_create(0, &err);
    if (b.device == NULL)
        die("no device", &err);
    if (sw_cuda_cudnn((struct sw_cuda_device *)b.device) == NULL) {
        printf("SKIP: attention is done by %s\n",
               sw_cuda_device_attention(b.device, text, sizeof text));
        b.device->vtable->destroy(b.device);
        return 77;
    }
    printf("%lld query heads, %lld key and value heads of %lld, one sequence, %s\n\n",
           (long long)b.heads, (long long)b.kv_heads, (long long)b.dim,
           sw_cuda_device_attention(b.device, text, sizeof text));
    printf("| tokens | pass | cuDNN alone, ms | its TFLOP/s | op, ms | op / cuDNN |\n");
    printf("| --- | --- | --- | --- | --- | --- |\n");
    for (b.length = SHORTEST; b.length <= longest; b.length *= 2)
        bench_length(&b);
    b.device->vtable->destroy(b.device);
    return 0;
}
