/* Attention of one piece of a hop through cuDNN's graph API: a fully visible rectangle of (query,
 * key), or a causal square; bf16 in and out, f32 inside, with the log-sum-exp for merging hops.
 *
 * Makes one plan per shape at first use and keeps it. Runs queue on the state's stream without
 * waiting or allocating, so that a CUDA graph can record them. cuDNN sums dq in no fixed order: its
 * last bits differ between runs.
 *
 * Owns cuDNN's handle and plans; memory is the caller's. Used by one thread. Without cuDNN
 * (cudnn_absent.c) create fails, and nothing else is called. */
#ifndef SW_CUDA_CUDNN_ATTENTION_H
#define SW_CUDA_CUDNN_ATTENTION_H

#include "core/base/error.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_cudnn_attention;

/* A piece: n_q queries of a sequence's q_rows, n_k keys of its k_rows. Operands hold sequence after
 * sequence; a row has heads * dim elements (keys, values: kv_heads * dim). Zero the struct before
 * filling: it is compared as bytes. */
struct sw_cudnn_shape {
    int64_t batch, heads, kv_heads, n_q, n_k;
    int64_t q_rows, k_rows;
    int32_t dim;
    bool causal; /* n_q == n_k: query i sees keys 0 ... i */
    bool backward;
    bool dense_out; /* true if outputs have n_q, n_k rows a sequence, not q_rows, k_rows */
    float scale;
};

/* First rows of the piece in the first sequence; aligned to SW_CUDNN_ALIGNMENT. stats: f32 [batch,
 * heads, n_q]. Forward reads q, k, v and writes o, stats. Backward reads q, k, v, o, d_o, and stats
 * over all keys that a query sees; writes dq, dk, dv. */
struct sw_cudnn_pointers {
    void *q, *k, *v, *o, *stats, *d_o, *dq, *dk, *dv;
};

enum { SW_CUDNN_ALIGNMENT = 16, SW_CUDNN_REASON_BYTES = 192 };

/* Creates the state for the current GPU. properties: NULL, or a description of another GPU in
 * cuDNN's JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), for which plans are prepared but not
 * run. NULL with SW_ENVIRONMENT if cuDNN is absent or too old. */
struct sw_cudnn_attention *sw_cudnn_attention_create(cudaStream_t stream, const char *properties,
                                                     struct sw_error *err);
void sw_cudnn_attention_free(struct sw_cudnn_attention *attention); /* may be NULL */

/* Bytes of workspace for the shape, aligned to SW_CUDNN_ALIGNMENT; -1 if cuDNN has no kernel, which
 * is remembered. reason: NULL, or SW_CUDNN_REASON_BYTES, set at a shape's first refusal and else
 * left empty. While recording, only for known shapes. */
int64_t sw_cudnn_attention_prepare(struct sw_cudnn_attention *attention,
                                   const struct sw_cudnn_shape *shape, char *reason);

/* Queues a prepared shape. */
int sw_cudnn_attention_run(struct sw_cudnn_attention *attention, const struct sw_cudnn_shape *shape,
                           const struct sw_cudnn_pointers *pointers, void *workspace,
                           struct sw_error *err);

/* Version of the loaded library, e.g. 91900; 0: none. */
int32_t sw_cudnn_version(void);

#endif
