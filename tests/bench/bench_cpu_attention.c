/* Attention of a sequence on this machine's processors, by itself, causal:
 *
 *   bench_cpu_attention [bf16|fp32|fp64] [TOKENS [HEADS [KV_HEADS [HEAD_DIM [THREADS [STEPS]]]]]]
 *
 * Prints a line for each step: seconds of forward and of backward, that the first thread
 * process had; then their best rates beside those of a loop of nothing but multiply-adds, fp32 and,
 * where the processor has them, of pairs of bf16. Flops are those of the pairs that are visible: 4
 * for each element of a head forward, 10 backward. */
#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/ir/workspace.h"
#include "runner/device/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

struct shape {
    enum sw_dtype dtype;
    int64_t tokens, heads, kv_heads, dim;
    int32_t threads, steps;
};

static int leave(const char *what)
{
    fprintf(stderr, "bench_cpu_attention: %s\n", what);
    exit(3);
}

/* [1, tokens, width], filled from `seed` on with numbers in [-1, 1]. */
static struct sw_tensor tensor_of(struct sw_device *device, const struct shape *shape,
                                  enum sw_dtype dtype, int64_t width, uint64_t seed)
{
    struct sw_tensor t = {.dtype = dtype, .ndim = 3, .size = {1, shape->tokens, width}};
    memcpy(t.global, t.size, sizeof t.size);
    t.elems = shape->tokens * width;
    t.data = device->vtable->allocate(device, (size_t)t.elems * sw_dtype_bytes(dtype));
    if (t.data == NULL)
        leave("out of memory");
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < t.elems; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float value = (float)(state >> 40) * 0x1p-23f - 1;
        if (dtype == SW_F64)
            ((double *)t.data)[i] = (double)value;
        else if (dtype == SW_F32)
            ((float *)t.data)[i] = value;
        else
            ((uint16_t *)t.data)[i] = sw_bf16_from_float(value);
    }
    return t;
}

static double seconds_of(struct sw_device *device, const struct sw_call *call)
{
    struct sw_error err = {0};
    const double begun = sw_clock_busy();
    if (device->vtable->run[call->op->kind](device, call, &err) != 0)
        leave(err.message);
    return sw_clock_busy() - begun;
}

/* ---- What the processor can do ---- */

enum { CHAINS = 12, ROUNDS = 20000000 / CHAINS };

#ifdef __AVX512F__
typedef float lanes __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float lanes __attribute__((vector_size(32)));
#else
typedef float lanes __attribute__((vector_size(16)));
#endif

/* Flops a second of independent chains of multiply-adds, in registers. */
static double peak_of_floats(void)
{
    lanes sum[CHAINS] = {0}, a = {1}, b = {0.5f};
    for (int c = 0; c < CHAINS; c++)
        __asm__ volatile("" : "+x"(sum[c])); /* who knows that they are alike makes one of them */
    const double begun = sw_clock_busy();
    for (int i = 0; i < ROUNDS; i++) {
        _Pragma("GCC unroll 24") for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * a + b;
        __asm__ volatile("" : "+x"(a), "+x"(b));
    }
    const double seconds = sw_clock_busy() - begun;
    float all = 0;
    for (int c = 0; c < CHAINS; c++)
        all += sum[c][0];
    return all > 0 ? (double)ROUNDS * CHAINS * (sizeof(lanes) / 4) * 2 / seconds : 0;
}

#ifdef __AVX512BF16__
static double peak_of_pairs(void)
{
    __m512 sum[CHAINS];
    for (int c = 0; c < CHAINS; c++) {
        sum[c] = _mm512_setzero_ps();
        __asm__ volatile("" : "+v"(sum[c]));
    }
    __m512i a = _mm512_set1_epi16(0x3f80), b = a;
    const double begun = sw_clock_busy();
    for (int i = 0; i < ROUNDS; i++) {
        _Pragma("GCC unroll 24") for (int c = 0; c < CHAINS; c++) sum[c] =
            _mm512_dpbf16_ps(sum[c], (__m512bh)a, (__m512bh)b);
        __asm__ volatile("" : "+v"(a), "+v"(b));
    }
    const double seconds = sw_clock_busy() - begun;
    float all = 0;
    for (int c = 0; c < CHAINS; c++)
        all += _mm512_reduce_add_ps(sum[c]);
    return all > 0 ? (double)ROUNDS * CHAINS * 32 * 2 / seconds : 0;
}
#else
static double peak_of_pairs(void)
{
    return 0;
}
#endif

/* ---- Attention ---- */

struct work {
    struct sw_op forward, backward;
    struct sw_tensor in[6], out[2], gradients[3];
    struct sw_call call[2];
};

static void prepare(struct work *w, struct sw_device *device, const struct shape *s)
{
    const enum sw_dtype wide = s->dtype == SW_F64 ? SW_F64 : SW_F32;
    struct sw_attention_workspace layout;
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 3; i++) {
        const int64_t width = (i == 0 ? s->heads : s->kv_heads) * s->dim;
        w->in[i] = tensor_of(device, s, s->dtype, width, (uint64_t)i + 1);
        w->gradients[i] = tensor_of(device, s, s->dtype, width, 0);
    }
    w->in[3] = w->out[0] = tensor_of(device, s, s->dtype, s->heads * s->dim, 0);
    w->in[4] = w->out[1] = tensor_of(device, s, wide, s->heads, 0);
    w->in[5] = tensor_of(device, s, s->dtype, s->heads * s->dim, 4);
    w->forward.kind = SW_OP_ATTENTION;
    w->forward.as.attention =
        (struct sw_attention_attributes){.scale = 1 / sqrt((double)s->dim),
                                         .head_dim = (int32_t)s->dim,
                                         .group = (int32_t)(s->heads / s->kv_heads),
                                         .sequence_shards = 1,
                                         .sequence_layout = SW_CONTIGUOUS};
    w->forward.n_in = 3;
    w->forward.n_out = 2;
    w->backward = w->forward;
    w->backward.kind = SW_OP_ATTENTION_GRAD;
    w->backward.n_in = 6;
    w->backward.n_out = 3;
    sw_attention_workspace_layout(w->in[0].size, w->in[1].size, (int32_t)s->dim, s->dtype, false,
                                  true, &layout);
    w->backward.workspace_bytes = layout.bytes;
    void *workspace = device->vtable->allocate(device, (size_t)layout.bytes + 64);
    w->call[0] =
        (struct sw_call){.op = &w->forward, .in = w->in, .out = w->out, .workspace = workspace};
    w->call[1] = (struct sw_call){
        .op = &w->backward, .in = w->in, .out = w->gradients, .workspace = workspace};
}

static void release(struct work *w, struct sw_device *device)
{
    for (int i = 0; i < 6; i++)
        device->vtable->release(device, w->in[i].data);
    for (int i = 0; i < 3; i++)
        device->vtable->release(device, w->gradients[i].data);
    device->vtable->release(device, w->call[1].workspace);
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    struct work w;
    const char *type = argc > 1 ? argv[1] : "bf16";
    struct shape s = {strcmp(type, "fp32") == 0   ? SW_F32
                      : strcmp(type, "fp64") == 0 ? SW_F64
                                                  : SW_BF16_T,
                      8192,
                      12,
                      12,
                      64,
                      1,
                      3};
    int64_t *sizes[] = {&s.tokens, &s.heads, &s.kv_heads, &s.dim};
    for (int i = 2; i < argc && i < 6; i++)
        *sizes[i - 2] = atoll(argv[i]);
    s.threads = argc > 6 ? atoi(argv[6]) : s.threads;
    s.steps = argc > 7 ? atoi(argv[7]) : s.steps;
    struct sw_device *device = sw_cpu_device_create(s.threads, &err);
    if (device == NULL)
        leave(err.message);
    prepare(&w, device, &s);
    double best[2] = {1e30, 1e30};
    for (int32_t step = 0; step < s.steps; step++) {
        double seconds[2];
        for (int i = 0; i < 2; i++) {
            seconds[i] = seconds_of(device, &w.call[i]);
            best[i] = seconds[i] < best[i] ? seconds[i] : best[i];
        }
        printf("%.6f %.6f\n", seconds[0], seconds[1]);
    }
    const double pairs = (double)s.tokens * (double)(s.tokens + 1) / 2;
    const double flops = pairs * (double)(s.heads * s.dim);
    printf(
        "%s, %lld tokens, %lld heads of %lld, %lld kv heads: forward %.1f GFLOP/s, backward %.1f; "
        "multiply-adds %.1f fp32",
        type, (long long)s.tokens, (long long)s.heads, (long long)s.dim, (long long)s.kv_heads,
        4e-9 * flops / best[0], 10e-9 * flops / best[1], 1e-9 * peak_of_floats());
    const double of_pairs = peak_of_pairs();
    if (of_pairs > 0)
        printf(", %.1f bf16", 1e-9 * of_pairs);
    printf("\n");
    release(&w, device);
    device->vtable->destroy(device);
    return 0;
}
