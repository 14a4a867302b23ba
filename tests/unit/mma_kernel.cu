/* What test_cuda_mma.c looks at: what each lane of a warp has of matrices that lie in memory; what
 * codes of e4m3 stand for. */
#include "runner/device/cuda/mma.cuh"

#include "tests/unit/mma_kernel.h"

#include <cuda_fp8.h>

/* Rows lie in shared memory as those of a cache do, some bytes apart from each other. */
enum { STRIDE = 24 };

__device__ static void fetch(const uint16_t *from, uint16_t *to)
{
    for (int i = (int)threadIdx.x; i < 32; i += SW_WARP)
        sw_copy16(to + i / 2 * STRIDE + i % 2 * 8, from + 8 * i, 16);
}

__global__ static void mma_kernel(const uint16_t *a, const uint16_t *b, const uint16_t *b_columns,
                                  struct mma_lane *lanes)
{
    SW_DYNAMIC_SHARED(uint16_t, shared);
    uint16_t *rows = shared, *inner = rows + 16 * STRIDE, *columns = inner + 16 * STRIDE;
    uint32_t *piece = (uint32_t *)(columns + 16 * STRIDE);
    const int lane = (int)threadIdx.x;
    struct mma_lane of = {};
    fetch(a, rows);
    sw_copies_commit();
    fetch(b, inner);
    fetch(b_columns, columns);
    if (lane == 0) {
        sw_copy16(piece, a, 6);
        sw_copy4(piece + 4, a, 4);
        sw_copy4(piece + 5, a, 0);
    }
    sw_copies_commit();
    sw_copies_wait<1>();
    __syncwarp();
    sw_load_matrices(of.a, rows + lane % 16 * STRIDE + lane / 16 * 8);
    sw_copies_wait<0>();
    __syncwarp();
    sw_load_transposed(of.b, inner + (lane / 8 % 2 * 8 + lane % 8) * STRIDE + lane / 16 * 8);
    sw_load_matrices(of.b_columns,
                     columns + (lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8);
    for (int i = 0; i < 4; i++)
        of.c[0][i] = of.c[1][i] = (float)(1000 * lane + i);
    sw_mma(of.c[0], of.a, of.b[0], of.b[1]);
    sw_mma(of.c[1], of.a, of.b_columns[2], of.b_columns[3]);
    for (int i = 0; i < 6; i++)
        of.piece[i] = piece[i];
    lanes[lane] = of;
}

extern "C" cudaError_t mma_lanes(const uint16_t *a, const uint16_t *b, const uint16_t *b_columns,
                                 struct mma_lane *lanes, cudaStream_t stream)
{
    SW_LAUNCH(mma_kernel, 1, SW_WARP, (3 * 16 * STRIDE + 16) * sizeof(uint16_t), stream, a, b,
              b_columns, lanes);
    return cudaGetLastError();
}

/* A thread a code; NVIDIA's conversion is an instruction from compute 8.9 on, else arithmetic. */
__global__ static void e4m3_kernel(struct e4m3_code *codes)
{
    const uint32_t code = threadIdx.x, other = 255 - code;
    const uint32_t both = sw_widen2_e4m3(code << 8 | other << 24);
    codes[code].own = sw_widen_e4m3(code);
    codes[code].first = sw_widen(both & 0xffffu);
    codes[other].second = sw_widen(both >> 16);
    codes[code].nvidia = __half2float(
        __half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)code, __NV_E4M3)));
}

extern "C" cudaError_t e4m3_codes(struct e4m3_code *codes, cudaStream_t stream)
{
    SW_LAUNCH(e4m3_kernel, 1, 256, 0, stream, codes);
    return cudaGetLastError();
}
