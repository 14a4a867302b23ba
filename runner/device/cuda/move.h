/* Strided blocks of an array, packed into contiguous memory and back, on the GPU: what collectives
 * need that send one piece to each member. Queues; owns nothing. */
#ifndef SW_CUDA_MOVE_H
#define SW_CUDA_MOVE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes [first_bytes, first_bytes + bytes) of one block for each of `members`, counted in the order
 * of its rows. A row has row_bytes, stride_bytes from one to the next; the blocks begin
 * member_bytes apart, in packed memory packed_bytes apart. */
struct sw_cuda_move {
    void *strided; /* where member 0's block begins */
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
