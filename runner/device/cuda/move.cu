/* Packs and unpacks strided blocks: a grid row per member, 16 bytes a thread if addresses and
 * lengths allow. */
#include "runner/device/cuda/kernel.cuh"
#include "runner/device/cuda/move.h"

/* Sizes in units. */
struct rows {
    uint64_t row, first, count;
    int64_t stride, member, packed;
};

template <typename UNIT>
__global__ static void move_kernel(UNIT *strided, UNIT *packed, rows r, bool unpack)
{
    UNIT *block = strided + (int64_t)blockIdx.y * r.member;
    UNIT *piece = packed + (int64_t)blockIdx.y * r.packed;
    SW_GRID_STRIDE(i, (int64_t)r.count)
    {
        const uint64_t at = r.first + (uint64_t)i;
        /* a 64-bit division takes many instructions */
        const uint64_t row =
            ((at | r.row) >> 32) == 0 ? (uint32_t)at / (uint32_t)r.row : at / r.row;
        UNIT *cell = block + (int64_t)row * r.stride + (int64_t)(at - row * r.row);
        if (unpack)
            *cell = piece[i];
        else
            piece[i] = *cell;
    }
}

template <typename UNIT>
static cudaError_t launch(const sw_cuda_move *m, bool unpack, cudaStream_t stream)
{
    const int64_t unit = sizeof(UNIT);
    const rows r = {(uint64_t)(m->row_bytes / unit), (uint64_t)(m->first_bytes / unit),
                    (uint64_t)(m->bytes / unit),     m->stride_bytes / unit,
                    m->member_bytes / unit,          m->packed_bytes / unit};
    const dim3 grid(sw_grid(m->bytes / unit), (unsigned)m->members);
    SW_LAUNCH(move_kernel<UNIT>, grid, SW_THREADS, 0, stream, (UNIT *)m->strided, (UNIT *)m->packed,
              r, unpack);
    return cudaGetLastError();
}

static cudaError_t queue_move(const sw_cuda_move *m, bool unpack, cudaStream_t stream)
{
    const int64_t all = (int64_t)(uintptr_t)m->strided | (int64_t)(uintptr_t)m->packed |
                        m->row_bytes | m->stride_bytes | m->member_bytes | m->first_bytes |
                        m->bytes | m->packed_bytes;
    if (m->bytes == 0 || m->members == 0)
        return cudaSuccess;
    if (all % 16 == 0)
        return launch<uint4>(m, unpack, stream);
    if (all % 4 == 0)
        return launch<uint32_t>(m, unpack, stream);
    if (all % 2 == 0)
        return launch<uint16_t>(m, unpack, stream);
    return launch<uint8_t>(m, unpack, stream);
}

extern "C" cudaError_t sw_cuda_move_pack(const struct sw_cuda_move *m, cudaStream_t stream)
{
    return queue_move(m, false, stream);
}

extern "C" cudaError_t sw_cuda_move_unpack(const struct sw_cuda_move *m, cudaStream_t stream)
{
    return queue_move(m, true, stream);
}
