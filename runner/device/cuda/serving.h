/* Internal to the CUDA device: the ops of serving. Their sums are made in an order that depends on
 * shapes and positions alone: what becomes of a slot depends neither on its neighbours nor on which
 * slot it has. Nothing is allocated once a shape was met. */
#ifndef SW_DEVICE_CUDA_SERVING_H
#define SW_DEVICE_CUDA_SERVING_H

#include "runner/device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* attention of keys that are a cache. */
int sw_cuda_attend_cached(struct sw_device *device, const struct sw_call *call,
                          struct sw_error *err);

/* ---- Kernels: each queues and returns the launch's error ---- */

/* A position outside of the cache is left out: nobody could be told. */
cudaError_t sw_cuda_cache_append(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_cache_append_int8(const struct sw_call *call, cudaStream_t stream);
/* What the slots of the rows have. */
cudaError_t sw_cuda_cache_rows(const struct sw_call *call, cudaStream_t stream);
/* One token of each row. between: ranges->bytes of memory for what lies between the two kernels;
 * NULL where that is 0. */
cudaError_t sw_cuda_decode_token(const struct sw_call *call, const struct sw_decode_ranges *ranges,
                                 void *between, cudaStream_t stream);
/* Any number of tokens of each row: a chunk of its slot's prompt. */
/* Of a block's shared memory, in bytes. */
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
