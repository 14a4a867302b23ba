/* Packs strided blocks of an array into contiguous memory on the GPU, and unpacks them, for
 * collectives that send each member a piece. Queues work; owns nothing. */
#ifndef SW_CUDA_MOVE_H
#define SW_CUDA_MOVE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes [first_bytes, first_bytes + bytes) of one block per member, counted along its rows. Rows
 * have row_bytes and are stride_bytes apart; blocks are member_bytes apart, when packed
 * packed_bytes apart. */
struct sw_cuda_move {
    void *strided; /* member 0's block */
    void *packed;
    int64_t row_bytes, stride_bytes, member_bytes;
    int64_t first_bytes, bytes, packed_bytes;
    int32_t members;
};

cudaError_t sw_cuda_move_pack(const struct sw_cuda_move *move, cudaStream_t stream);
cudaError_t sw_cuda_move_unpack(const struct sw_cuda_move *move, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
