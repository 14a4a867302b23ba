/* Shared by kernels: 16-byte accesses of f32 and bf16 memory, sums over a block.
 *
 * Kernels compute in f32. An operand's dtype is an argument: its branch is uniform in a launch and
 * hides behind the memory access. Vectors have 8 elements; unaligned or partial ones are accessed
 * element by element.
 *
 * Compiled by nvcc, or for the host by tests/support/cuda_emulator.h. */
#ifndef SW_CUDA_KERNEL_CUH
#define SW_CUDA_KERNEL_CUH

#include "runner/device/cuda/cuda.h"

#ifndef SW_CUDA_EMULATED
#define SW_LAUNCH(kernel, grid, block, shared, stream, ...)                                        \
    kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define SW_DYNAMIC_SHARED(type, name)                                                              \
    extern __shared__ float4 name##_raw[];                                                         \
    type *name = reinterpret_cast<type *>(name##_raw)
#endif

/* An operand of a kernel. */
struct view {
    void *data;
    int dtype; /* enum sw_dtype */
};

static inline view view_of(const struct sw_tensor *t)
{
    view v;
    v.data = t->data;
    v.dtype = (int)t->dtype;
    return v;
}

/* Defines the runner of op `name` as NAME_launch(call, stream). */
#define SW_CUDA_RUN(name)                                                                          \
    extern "C" int sw_cuda_run_##name(struct sw_device *device, const struct sw_call *call,        \
                                      struct sw_error *err)                                        \
    {                                                                                              \
        return sw_cuda_run_launch(device, call, name##_launch, err);                               \
    }

#ifndef SW_KERNEL_THREADS /* fewer make the emulator faster */
#define SW_KERNEL_THREADS 256
#endif
enum { SW_VECTOR = 8, SW_THREADS = SW_KERNEL_THREADS, SW_WARP = 32, SW_GRID_MAX = 4096 };

static inline unsigned sw_grid(int64_t items)
{
    const int64_t blocks = (items + SW_THREADS - 1) / SW_THREADS;
    return blocks < 1 ? 1u : blocks > SW_GRID_MAX ? (unsigned)SW_GRID_MAX : (unsigned)blocks;
}

#define SW_GRID_STRIDE(i, items)                                                                   \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (items);                  \
         i += (int64_t)gridDim.x * blockDim.x)

union sw_bits {
    float value;
    uint32_t bits;
};

__device__ static inline float sw_widen(uint32_t half)
{
    sw_bits b;
    b.bits = half << 16;
    return b.value;
}

/* Widens an int8, the lowest byte of x: 2^23 + 128 + q has q in its last bits. */
__device__ static inline float sw_widen_int8(uint32_t x)
{
    sw_bits b;
    b.bits = 0x4b000000u | ((x & 0xffu) ^ 0x80u);
    return b.value - 8388736.0f;
}

/* Widens an e4m3, the lowest byte of x. Its bits moved to fp32's exponent are 127 - 7 too small,
 * subnormal or not; so GPUs with and without an instruction for it agree, at about equal cost. 0x7f
 * and 0xff, which core/base/quantize.h never makes, become +-480. */
__device__ static inline float sw_widen_e4m3(uint32_t x)
{
    sw_bits b;
    b.bits = (x & 0x80u) << 24 | (x & 0x7fu) << 20;
    return b.value * 0x1p120f;
}

/* Rounds two numbers to bf16, the first in the lower half: nearest, ties to even; NaN stays. One
 * hardware instruction (F2FP), or seven integer ones per element. */
#ifdef __CUDA_ARCH__
__device__ static inline uint32_t sw_narrow2(float first, float second)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}
#else
__device__ static inline uint32_t sw_narrow_bits(float value)
{
    sw_bits b;
    b.value = value;
    if ((b.bits & 0x7fffffffu) > 0x7f800000u)
        return (b.bits >> 16) | 0x40u;
    return (b.bits + 0x7fffu + (b.bits >> 16 & 1u)) >> 16;
}

__device__ static inline uint32_t sw_narrow2(float first, float second)
{
    return sw_narrow_bits(first) | sw_narrow_bits(second) << 16;
}
#endif

/* Widens two e4m3, the second and fourth byte of x, to bf16: sw_widen_e4m3 of both. */
__device__ static inline uint32_t sw_widen2_e4m3(uint32_t x)
{
    const uint32_t small = (x & 0x80008000u) | (x >> 4 & 0x07f007f0u);
#ifdef __CUDA_ARCH__
    uint32_t both; /* small 2^120 - 0, exact */
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(both)
        : "r"(small), "r"(0x7b807b80u), "r"(0x80008000u));
    return both;
#else
    return sw_narrow2(sw_widen(small & 0xffffu) * 0x1p120f, sw_widen(small >> 16) * 0x1p120f);
#endif
}

__device__ static inline uint32_t sw_narrow(float value)
{
    return sw_narrow2(value, 0.0f) & 0xffffu;
}

__device__ static inline float sw_load(const void *data, int dtype, int64_t i)
{
    return dtype == SW_F32 ? ((const float *)data)[i] : sw_widen(((const uint16_t *)data)[i]);
}

__device__ static inline void sw_store(void *data, int dtype, int64_t i, float value)
{
    if (dtype == SW_F32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = (uint16_t)sw_narrow(value);
}

/* out[8] = elements [i, i + n), zero padded; n <= 8. */
__device__ static inline void sw_load8(const void *data, int dtype, int64_t i, int n, float *out)
{
    if (dtype == SW_F32) {
        const float *p = (const float *)data + i;
        if (n == SW_VECTOR && ((uintptr_t)p & 15) == 0) {
            const float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];
            out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
            out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
            return;
        }
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++)
            out[j] = j < n ? p[j] : 0.0f;
        return;
    }
    const uint16_t *p = (const uint16_t *)data + i;
    if (n == SW_VECTOR && ((uintptr_t)p & 15) == 0) {
        const uint4 a = *(const uint4 *)p;
        out[0] = sw_widen(a.x & 0xffffu), out[1] = sw_widen(a.x >> 16);
        out[2] = sw_widen(a.y & 0xffffu), out[3] = sw_widen(a.y >> 16);
        out[4] = sw_widen(a.z & 0xffffu), out[5] = sw_widen(a.z >> 16);
        out[6] = sw_widen(a.w & 0xffffu), out[7] = sw_widen(a.w >> 16);
        return;
    }
#pragma unroll
    for (int j = 0; j < SW_VECTOR; j++)
        out[j] = j < n ? sw_widen(p[j]) : 0.0f;
}

__device__ static inline void sw_store8(void *data, int dtype, int64_t i, int n, const float *in)
{
    if (dtype == SW_F32) {
        float *p = (float *)data + i;
        if (n == SW_VECTOR && ((uintptr_t)p & 15) == 0) {
            ((float4 *)p)[0] = make_float4(in[0], in[1], in[2], in[3]);
            ((float4 *)p)[1] = make_float4(in[4], in[5], in[6], in[7]);
            return;
        }
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++)
            if (j < n)
                p[j] = in[j];
        return;
    }
    uint16_t *p = (uint16_t *)data + i;
    if (n == SW_VECTOR && ((uintptr_t)p & 15) == 0) {
        *(uint4 *)p = make_uint4(sw_narrow2(in[0], in[1]), sw_narrow2(in[2], in[3]),
                                 sw_narrow2(in[4], in[5]), sw_narrow2(in[6], in[7]));
        return;
    }
#pragma unroll
    for (int j = 0; j < SW_VECTOR; j++)
        if (j < n)
            p[j] = (uint16_t)sw_narrow(in[j]);
}

/* Number of elements in the vector that begins at `first`. */
__device__ static inline int sw_left(int64_t first, int64_t end)
{
    return end - first < SW_VECTOR ? (int)(end - first) : (int)SW_VECTOR;
}

/* Sums over a block of SW_THREADS in a fixed order; every thread gets the result. */
__device__ static inline float sw_block_sum(float value)
{
    __shared__ float parts[SW_THREADS / SW_WARP];
    for (int lane = SW_WARP / 2; lane > 0; lane /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lane);
    if (threadIdx.x % SW_WARP == 0)
        parts[threadIdx.x / SW_WARP] = value;
    __syncthreads();
    value = 0;
    for (int i = 0; i < SW_THREADS / SW_WARP; i++)
        value += parts[i];
    __syncthreads(); /* before the parts are overwritten */
    return value;
}

__device__ static inline double sw_block_sum_double(double value)
{
    __shared__ double parts[SW_THREADS];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = SW_THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    value = parts[0];
    __syncthreads();
    return value;
}

__device__ static inline float sw_block_max(float value)
{
    __shared__ float parts[SW_THREADS / SW_WARP];
    for (int lane = SW_WARP / 2; lane > 0; lane /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
    if (threadIdx.x % SW_WARP == 0)
        parts[threadIdx.x / SW_WARP] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < SW_THREADS / SW_WARP; i++)
        value = fmaxf(value, parts[i]);
    __syncthreads();
    return value;
}

#endif
