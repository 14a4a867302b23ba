/* Plans of cuDNN's attention for a GPU that is not here: cuDNN checks every attribute of every
 * operation, recognizes the graph as attention, and compiles its kernel, without a GPU. It wants a
 * driver that takes what it compiled: tests/support/cuda_driver_stub.c as libcuda.so.1. Nothing
 * runs: test_cudnn_attention does that on a GPU. */
#include "core/base/number.h"
#include "core/ir/workspace.h"
#include "runner/device/cuda/cudnn_attention.h"

#include <stdio.h>

/* An NVIDIA H200 as cuDNN 9.19 describes it; figures from its data sheet and the CUDA programming
 * guide's table of compute capability 9.0. */
static const char h200[] =
    "{\"deviceName\": \"NVIDIA H200\", \"cudaDeviceId\": 0, \"deviceVer\": 900, "
    "\"multiProcessorCount\": 132, \"driverVer\": 13000, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"reservedSharedMemoryPerBlock\": 1024, \"totalGlobalMem\": 150000000000, "
    "\"l2CacheSize\": 62914560, \"regsPerBlock\": 65536, \"maxRegistersPerSM\": 65536, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"maxCtasPerSM\": 32, "
    "\"maxBlockSize\": [1024, 1024, 64], \"maxGridSize\": [2147483647, 65535, 65535], "
    "\"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, "
    "\"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000}";

/* What is planned for a shape is what cuDNN asks for, or up to a kilobyte more where sequences are
 * no multiples of 32. */
static int differs_from_plan(const struct sw_cudnn_shape *s, int64_t bytes)
{
    const int64_t q[3] = {s->batch, s->n_q, s->heads * s->dim},
                  k[3] = {s->batch, s->n_k, s->kv_heads * s->dim};
    const int64_t all =
        sw_attention_library_bytes(q, k, s->dim, SW_BF16_T, false, true, s->backward);
    const int64_t stats = sw_align(s->batch * s->n_q * s->heads * 4, SW_ARENA_ALIGNMENT);
    const int64_t more = all - stats - sw_align(bytes, SW_ARENA_ALIGNMENT);
    if (more >= 0 && more <= (s->n_q % 32 == 0 ? 0 : 1024))
        return 0;
    printf("  planned: %lld bytes\n", (long long)(all - stats));
    return 1;
}

/* cuDNN checks every attribute of every operation, recognizes attention, and compiles its kernel.
 */
int main(void)
{
    static const struct sw_cudnn_shape shapes[] = {
        {1, 16, 8, 8192, 8192, 8192, 8192, 128, true, false, false, 0.088f},
        {2, 32, 8, 4096, 4096, 4096, 4096, 64, true, false, false, 0.125f},
        {1, 8, 8, 96, 200, 512, 512, 128, false, false, true, 0.088f},
        {1, 4, 1, 37, 37, 74, 74, 40, true, false, true, 0.158f},
        {1, 4, 2, 1024, 1024, 1024, 1024, 256, true, false, false, 0.0625f},
        {4, 16, 8, 8192, 8192, 8192, 8192, 128, true, false, false, 0.088f},
        {2, 4, 4, 100, 133, 100, 133, 40, false, false, true, 0.1f},
        {1, 4, 2, 5000, 5033, 5000, 5033, 64, false, false, true, 0.1f},
    };
    struct sw_error err = {0};
    int wrong = 0;
    if (sw_cudnn_version() / 100 != 919) {
        printf("SKIP: written for cuDNN 9.19, this is %d\n", (int)sw_cudnn_version());
        return 77;
    }
    struct sw_cudnn_attention *attention = sw_cudnn_attention_create(NULL, h200, &err);
    if (attention == NULL) {
        fprintf(stderr, "test_cudnn_plans: %s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        struct sw_cudnn_shape s = shapes[i / 2];
        char reason[SW_CUDNN_REASON_BYTES];
        s.backward = i % 2 == 1;
        const int64_t own_bytes = s.backward ? s.batch * s.heads * s.n_q * (s.dim + 1) * 4 : 0;
        const int64_t bytes = sw_cudnn_attention_prepare(attention, &s, reason);
        printf("%s %lld x %lld/%lld heads of %d, %lld x %lld%s: %lld bytes %s\n",
               s.backward ? "backward" : "forward", (long long)s.batch, (long long)s.heads,
               (long long)s.kv_heads, (int)s.dim, (long long)s.n_q, (long long)s.n_k,
               s.causal ? " causal" : "", (long long)bytes, reason);
        wrong += bytes < own_bytes;
        wrong += differs_from_plan(&s, bytes);
        wrong += sw_cudnn_attention_prepare(attention, &s, NULL) != bytes;
    }
    sw_cudnn_attention_free(attention);
    return wrong != 0;
}
