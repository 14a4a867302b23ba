/* Attention of one piece of a hop through cuDNN's graph API: a rectangle of (query, key) seen as a
 * whole, or a square seen up to its diagonal, bf16 in and out, f32 inside, with the log-sum-exp
 * that a ring merges by.
 *
 * One plan per shape, made when the shape is first met and kept. What runs is queued on the stream
 * that the state was created for: no wait, no allocation, so it can be recorded in a CUDA graph.
 * dq is summed by cuDNN in an order that is not fixed: its last bits differ from run to run.
 *
 * Owns cuDNN's handle and plans; memory is the caller's. A state is used by one thread. In a build
 * without cuDNN (cudnn_absent.c) create fails, and nothing else is called. */
#ifndef SW_CUDA_CUDNN_ATTENTION_H
#define SW_CUDA_CUDNN_ATTENTION_H

#include "core/base/error.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_cudnn_attention;

/* A piece: n_q queries of a sequence's q_rows, n_k keys of its k_rows. Operands hold one sequence
 * after the other, a row being heads * dim (keys and values: kv_heads * dim) elements. Compared as
 * bytes: zeroed before it is filled. */
struct sw_cudnn_shape {
    int64_t batch, heads, kv_heads, n_q, n_k;
    int64_t q_rows, k_rows;
    int32_t dim;
    bool causal; /* n_q == n_k: query i sees keys 0 ... i */
    bool backward;
    bool dense_out; /* o, dq, dk, dv have n_q or n_k rows a sequence, not q_rows and k_rows */
    float scale;
};

/* Of the first row of the piece in the first sequence; aligned to SW_CUDNN_ALIGNMENT. stats: f32
 * [batch, heads, n_q]. Forward reads q, k, v and writes o, stats. Backward reads q, k, v, o, d_o
 * and stats, those of all keys that a query sees, and writes dq, dk, dv. */
struct sw_cudnn_pointers {
    void *q, *k, *v, *o, *stats, *d_o, *dq, *dk, *dv;
};

enum { SW_CUDNN_ALIGNMENT = 16, SW_CUDNN_REASON_BYTES = 192 };

/* For the current GPU. properties: NULL; or a GPU that is not here, as cuDNN describes it in JSON
 * (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), for which plans can be prepared but not run. NULL
 * with SW_ENVIRONMENT when there is no cuDNN, or one that is too old. */
struct sw_cudnn_attention *sw_cudnn_attention_create(cudaStream_t stream, const char *properties,
                                                     struct sw_error *err);
void sw_cudnn_attention_free(struct sw_cudnn_attention *attention); /* may be NULL */

/* Bytes of workspace that the shape needs, aligned to SW_CUDNN_ALIGNMENT; -1 when cuDNN has no
 * kernel for it, which is remembered. reason: NULL, or SW_CUDNN_REASON_BYTES that say why the first
 * time that a shape is refused, and are left empty otherwise. Not while a recording is made unless
 * the shape is known. */
int64_t sw_cudnn_attention_prepare(struct sw_cudnn_attention *attention,
                                   const struct sw_cudnn_shape *shape, char *reason);

/* Queues a prepared shape. */
int sw_cudnn_attention_run(struct sw_cudnn_attention *attention, const struct sw_cudnn_shape *shape,
                           const struct sw_cudnn_pointers *pointers, void *workspace,
                           struct sw_error *err);

/* Of the library that is loaded, as in 91900; 0: none. */
int32_t sw_cudnn_version(void);

#endif
