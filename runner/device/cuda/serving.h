/* Internal to the CUDA device: the ops of serving. Their sums are made in an order that depends on
 * shapes and positions alone: what becomes of a slot depends neither on its neighbours nor on which
 * slot it has. Nothing is allocated once a shape was met. */
#ifndef SW_DEVICE_CUDA_SERVING_H
#define SW_DEVICE_CUDA_SERVING_H

#include "runner/device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the device runs: X(KIND, name). */
#define SW_CUDA_SERVING(X)                                                                         \
    X(ROPE_SLOTS, rope_slots)                                                                      \
    X(CACHE_APPEND, cache_append)                                                                  \
    X(CACHE_APPEND_INT8, cache_append_int8)                                                        \
    X(DECODE_ATTENTION, decode_attention)                                                          \
    X(DECODE_ATTENTION_INT8, decode_attention_int8)                                                \
    X(SOFTMAX_MERGE, softmax_merge)                                                                \
    X(PICK_TOKEN, pick_token)                                                                      \
    X(SAMPLE, sample)                                                                              \
    X(TOP_TOKENS, top_tokens)                                                                      \
    X(LM_HEAD_LOGPROBS, lm_head_logprobs)

#define SW_CUDA_DECLARE(kind, name)                                                                \
    int sw_cuda_run_##name(struct sw_device *device, const struct sw_call *call,                   \
                           struct sw_error *err);
SW_CUDA_SERVING(SW_CUDA_DECLARE)
#undef SW_CUDA_DECLARE

/* ---- Kernels: each queues and returns the launch's error ---- */

cudaError_t sw_cuda_rope_slots(const struct sw_call *call, cudaStream_t stream);
/* A position outside of the cache is left out: nobody could be told. */
cudaError_t sw_cuda_cache_append(const struct sw_call *call, cudaStream_t stream);
cudaError_t sw_cuda_cache_append_int8(const struct sw_call *call, cudaStream_t stream);
/* One token of each slot. between: ranges->bytes of memory for what lies between the two kernels;
 * NULL where that is 0. */
cudaError_t sw_cuda_decode_token(const struct sw_call *call, const struct sw_decode_ranges *ranges,
                                 void *between, cudaStream_t stream);
/* Any number of tokens of each slot: a chunk of its prompt. */
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
