/* PTX without C++ equivalents: a warp's tensor cores, and asynchronous copies into shared memory.
 * The layouts are the PTX ISA's (9.7.14, "Matrix Fragments for mma.m16n8k16 with floating point
 * type", "ldmatrix"); with g = lane / 4 and t = lane % 4, two bf16 in a register, the first in its
 * lower half:
 *
 *   a [16, 16]  a[0] (g, 2t) (g, 2t + 1)          a[1] (g + 8, 2t) ..
 *               a[2] (g, 2t + 8) ..               a[3] (g + 8, 2t + 8) ..
 *   b [16, 8]   b0 (2t, g) (2t + 1, g)            b1 (2t + 8, g) (2t + 9, g)
 *   c [16, 8]   c[0], c[1] (g, 2t), (g, 2t + 1)   c[2], c[3] (g + 8, 2t), (g + 8, 2t + 1)
 *
 * A row of c depends on its row of a and all of b alone: its bits are the same in every row of a
 * tile. Needs compute 8.0. tests/support/cuda_emulator.h has the same functions for the CPU;
 * tests/unit/test_cuda_mma.c compares them with the table above. */
#ifndef SW_CUDA_MMA_CUH
#define SW_CUDA_MMA_CUH

#include "runner/device/cuda/kernel.cuh"

#ifndef SW_CUDA_EMULATED

/* c += a b, summed in f32. All lanes of a warp take part, as below except in copies. */
__device__ static inline void sw_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four matrices [8, 8] of 16 bits: lane 8 i + j passes the address of row j of matrix i, 16
 * aligned bytes of shared memory. to[i]: elements (g, 2t) and (g, 2t + 1) of matrix i. */
__device__ static inline void sw_load_matrices(uint32_t to[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* to[i]: elements (2t, g) and (2t + 1, g) of matrix i. */
__device__ static inline void sw_load_transposed(uint32_t to[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Queues a copy of 16 aligned bytes from device to shared memory; only `bytes` are read, the rest
 * become zeros. Visible to the thread after sw_copies_wait, to others after a barrier too. */
__device__ static inline void sw_copy16(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* sw_copy16 of 4 bytes. */
__device__ static inline void sw_copy4(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

/* Groups this thread's copies since the last call; may be empty. */
__device__ static inline void sw_copies_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all of this thread's groups but the NEWEST last. */
template <int NEWEST> __device__ static inline void sw_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}

#endif

#endif
