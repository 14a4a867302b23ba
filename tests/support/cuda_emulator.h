/* Runs CUDA kernels on the CPU, for tests without a GPU: the same .cu text, compiled by the host's
 * C++ compiler after this header.
 *
 * A block's threads are coroutines of one host thread that stop at barriers and shuffles; they are
 * resumed in alternating order, so that a missing barrier shows. Memory is the host's: an address
 * sanitizer sees every access. Speed, device limits and memory ordering between warps are not
 * emulated.
 *
 * cuda_emulator.cpp also replaces the runtime and cuBLASLt (plain loops, in f64): linked instead of
 * the libraries. Its streams are in cuda_streams.cpp: queued work waits until something waits for
 * it, and streams proceed in random order, so that a missing wait for an event shows. Captured work
 * is kept and queued by a replay. Captures refuse what CUDA refuses: waits for outside events
 * (905), unjoined streams (904), allocation and host waits meanwhile (900). */
#ifndef SW_TEST_CUDA_EMULATOR_H
#define SW_TEST_CUDA_EMULATOR_H

#define SW_CUDA_EMULATED 1

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#undef __shared__
#define __shared__ static thread_local
#undef __global__
#define __global__
#undef __device__
#define __device__
#undef __launch_bounds__
#define __launch_bounds__(...)

extern thread_local uint3 threadIdx, blockIdx;
extern thread_local dim3 blockDim, gridDim;

/* Runs a block's threads, queued on the stream. */
void sw_emulate(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes,
                std::function<void()> thread);
/* Queues other work, for stand-ins of libraries. */
void sw_emulated_enqueue(cudaStream_t stream, std::function<void()> work);
/* Queues work that takes time: `begin` runs once the stream gets there, `work` as late as the order
 * allows, with other streams' work between. */
void sw_emulated_enqueue_flight(cudaStream_t stream, std::function<void()> begin,
                                std::function<void()> work);
void *sw_emulated_shared(void);
void sw_emulated_barrier(void);
void sw_emulated_warp_barrier(void);
int sw_emulated_any(int predicate);
uint64_t sw_emulated_exchange(uint64_t bits, int lane_mask);

#define __syncthreads() sw_emulated_barrier()
#define __syncthreads_or(predicate) sw_emulated_any(predicate)
#define __syncwarp() sw_emulated_warp_barrier()

/* All threads belong to one host thread. */
static inline int atomicAdd(int *sum, int value)
{
    const int before = *sum;
    *sum += value;
    return before;
}

/* Never fused with a product. */
static inline float __fadd_rn(float a, float b)
{
    const volatile float first = a;
    return first + b;
}

static inline float __shfl_xor_sync(unsigned mask, float value, int lane_mask)
{
    (void)mask;
    union {
        float value;
        uint64_t bits;
    } b;
    b.bits = 0;
    b.value = value;
    b.bits = sw_emulated_exchange(b.bits, lane_mask);
    return b.value;
}

static inline double __shfl_xor_sync(unsigned mask, double value, int lane_mask)
{
    (void)mask;
    union {
        double value;
        uint64_t bits;
    } b;
    b.value = value;
    b.bits = sw_emulated_exchange(b.bits, lane_mask);
    return b.value;
}

/* ---- Tensor cores and copies beside the arithmetic (runner/device/cuda/mma.cuh) ---- */

/* Every lane of a warp shows up to SW_EMULATED_SHOWN bytes; returns the warp's records, lane by
 * lane, valid until the next call but one. */
enum { SW_EMULATED_SHOWN = 48 };
const char (*sw_emulated_show(const void *bytes, size_t count))[SW_EMULATED_SHOWN];

void sw_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void sw_load_matrices(uint32_t to[4], const void *row);
void sw_load_transposed(uint32_t to[4], const void *row);

/* Between the call and the wait, which delivers the bytes, the destination is 0xff: NaN in bf16. */
void sw_emulated_copy(void *to, const void *from, size_t size, int bytes);
void sw_copies_commit(void);
void sw_emulated_copies_wait(int newest);

static inline void sw_copy16(void *to, const void *from, int bytes)
{
    sw_emulated_copy(to, from, 16, bytes);
}

static inline void sw_copy4(void *to, const void *from, int bytes)
{
    sw_emulated_copy(to, from, 4, bytes);
}

template <int NEWEST> static inline void sw_copies_wait(void)
{
    sw_emulated_copies_wait(NEWEST);
}

/* Copies the arguments at launch. */
template <typename... PARAMETERS, typename... ARGUMENTS>
static inline void sw_emulated_launch(void (*kernel)(PARAMETERS...), dim3 grid, dim3 block,
                                      size_t shared_bytes, cudaStream_t stream,
                                      ARGUMENTS... arguments)
{
    sw_emulate(stream, grid, block, shared_bytes, [=]() { kernel(arguments...); });
}

#define SW_LAUNCH(kernel, grid, block, shared, stream, ...)                                        \
    sw_emulated_launch(kernel, dim3(grid), dim3(block), shared, stream, __VA_ARGS__)
#define SW_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(sw_emulated_shared())

#endif
