/* Internal to the CUDA device: serving ops. Orders of sums depend on shapes and positions alone: a
 * slot's results depend neither on its neighbours nor on its number. Allocates only at a shape's
 * first use. */
#ifndef SW_DEVICE_CUDA_SERVING_H
#define SW_DEVICE_CUDA_SERVING_H

#include "runner/device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Attention to keys in a cache. */
int sw_cuda_attend_cached(struct sw_device *device, const struct sw_call *call,
                          struct sw_error *err);

/* ---- Kernels: each queues and returns the launch's error ---- */

/* Drops positions outside the cache: a kernel cannot report them. */
cudaError_t sw_cuda_cache_append(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_cache_append_int8(const struct sw_call *call, cudaStream_t stream);
/* Copies the cache of the rows' slots. */
cudaError_t sw_cuda_cache_rows(const struct sw_call *call, cudaStream_t stream);
/* One token per row. between: ranges->bytes of memory between the two kernels; NULL if 0. */
cudaError_t sw_cuda_decode_token(const struct sw_call *call, const struct sw_decode_ranges *ranges,
                                 void *between, cudaStream_t stream);
/* Any number of tokens per row: a chunk of its slot's prompt. */
/* Shared memory of a block, in bytes. */
size_t sw_cuda_chunk_shared(int32_t dim, enum sw_dtype q, enum sw_dtype cache);
cudaError_t sw_cuda_decode_chunk(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_softmax_merge(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_pick_token(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_sample(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_top_tokens(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_lm_head_logprobs(const struct sw_call *call, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
