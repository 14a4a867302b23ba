/* Internal to the CUDA device: its state, matrix products, attention pieces, and the kernels' C
 * interface.
 *
 * All work is queued on one compute stream; only copy_out, synchronize and a shape's first use wait
 * for it. Per-step values are read from device memory, so that a recording can be replayed. Used by
 * one thread. */
#ifndef SW_CUDA_CUDA_H
#define SW_CUDA_CUDA_H

#include "runner/device/cuda/cudnn_attention.h"
#include "runner/device/cuda/device.h"
#include "core/base/blockwise.h"
#include "core/ir/workspace.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Per-step values that the loss, the update and `accumulate` read; one copy lives on the device. */
struct sw_cuda_step {
    int32_t micro_step;
    float clip;          /* <= 0: none */
    float beta1, fresh1; /* fresh = 1 - beta */
    float beta2, fresh2;
    float rate, root; /* learning rate and 1/sqrt, both bias-corrected */
    float eps, keep;  /* keep: factor that decay leaves of a weight */
    float one, sum;   /* sum: factor of the earlier gradient sum: 0 in the first micro-step */
    double loss_scale, most_loss, most_norm; /* see struct sw_step */
    bool no_update;
};

enum {
    SW_CUDA_STAGES = 4, /* copy_in's pinned buffers, in rotation: two micro-steps' inputs */
    SW_CUDA_STAGE_BYTES = 4 << 20,
    SW_CUDA_STEPS = 8,               /* pinned copies of sw_cuda_step, in rotation */
    SW_CUDA_MATMUL_BYTES = 32 << 20, /* cuBLASLt's workspace */
    SW_CUDA_MAX_HEAD_DIM = 512,      /* limit of rope */
    SW_CUDA_MAX_ATTENTION_DIM = 256, /* limit of own attention kernels: tiles in shared memory */
    SW_CUDA_SQUARE_PARTS = 512,
    SW_CUDA_NORM_PARTS = 128 /* sums per grad_norm launch */
};

struct sw_cuda_matmuls;

enum { SW_CUDA_WHY_BYTES = 256 };

/* Attention through cuDNN, created at first use. */
struct sw_cuda_library {
    struct sw_cudnn_attention *cudnn; /* NULL: own attention kernels for everything */
    bool asked, own;                  /* own: true if the caller wants own kernels */
    bool more_noted;                  /* true once a memory shortfall was noted */
    char why[SW_CUDA_WHY_BYTES];      /* reason that cuDNN is unused */
};

/* Memory outside the arena: library workspaces and values between an op's kernels. Grows at a
 * shape's first use, never in a later step. Part of an accelerator's reserved_memory. */
struct sw_cuda_scratch {
    char *data;
    size_t bytes, retired_bytes;
    void **retired; /* outgrown blocks, which recordings may still use */
    int32_t retired_count, retired_capacity;
};

struct sw_cuda_device {
    struct sw_device base;
    int32_t index;
    size_t shared_bytes; /* largest shared memory of a block */
    cudaStream_t stream;
    void *stage[SW_CUDA_STAGES]; /* pinned */
    cudaEvent_t stage_free[SW_CUDA_STAGES];
    int32_t stage_next;
    struct sw_cuda_step *steps; /* [SW_CUDA_STEPS] pinned */
    cudaEvent_t step_free[SW_CUDA_STEPS];
    int32_t step_next;
    struct sw_cuda_step *step;         /* on the device */
    struct sw_blockwise_table *tables; /* on the device, [2]: signed, unsigned */
    struct sw_cuda_scratch scratch;
    struct sw_cuda_matmuls *matmuls;
    struct sw_cuda_library library;
    void (*note)(void *context, const char *text); /* may be NULL */
    void *note_context;
    cudaEvent_t *marks; /* [mark_count] */
    int32_t mark_count;
    int64_t first_step; /* 0: no step yet */
    int32_t micro_step; /* the latest set */
    bool scratch_noted;
    bool recording;
    int32_t recordings; /* number that exist */
};

/* Factor of the gradient sum before a call adds its result; NULL: no sum. Read on the device, since
 * a recording is replayed in first and later micro-steps. */
static inline const float *sw_cuda_kept_of(const struct sw_cuda_device *d,
                                           const struct sw_call *call)
{
    if (!sw_op_adds_gradient(call->op))
        return NULL;
    return call->op->as.gradient.first ? &d->step->sum : &d->step->one;
}

/* "CALL: out of memory"; returns -1. */
int sw_cuda_fail(struct sw_error *err, cudaError_t code, const char *call);

/* Sends a note to the caller's function (sw_cuda_device_on_note). */
void sw_cuda_note(struct sw_cuda_device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails with SW_UNMET, beginning with `what`, if a block may not have that much shared memory. */
int sw_cuda_check_shared(const struct sw_cuda_device *device, size_t bytes, const char *what,
                         int32_t head_dim, struct sw_error *err);

/* At least `bytes`, valid until the next call; NULL if there is no memory. While recording, only
 * within the present size. */
void *sw_cuda_scratch(struct sw_cuda_device *device, size_t bytes, struct sw_error *err);

/* c[m,n] (+)= a[m,k] b[k,n], or c = addend + a b. Element (i,j) of a is at a[i * a_row + j *
 * a_column], one stride being 1; likewise b; c is row-major with leading dimension c_row. */
struct sw_cuda_matmul {
    int64_t m, n, k;
    const void *a, *b;
    const void *addend; /* in c's layout and dtype; NULL: none */
    void *c;
    int64_t a_row, a_column, b_row, b_column, c_row;
    enum sw_dtype a_dtype, b_dtype, c_dtype;
    /* For b in 8 bits (quantized.h), else NULL: f32 scales [n] of its outputs, and a workspace.
     * Excludes accumulate and keep. */
    const float *scales;
    void *workspace;
    int64_t workspace_bytes;
    bool accumulate;   /* true if the product is added to c; excludes addend */
    const float *keep; /* not NULL: c = keep c + a b, keep being read on the device at run time;
                        * excludes accumulate and addend */
    /* True for the library's first choice of algorithm instead of the fastest measured: ranks that
     * compute the same product must get the same bits, or they sample different tokens. */
    bool settled;
};
struct sw_cuda_matmuls *sw_cuda_matmuls_create(struct sw_error *err);
void sw_cuda_matmuls_free(struct sw_cuda_matmuls *matmuls); /* may be NULL */
int sw_cuda_matmul(struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul,
                   struct sw_error *err);

/* ---- Attention ---- */

/* Maps a token to its position: sw_sequence_position for kernels. */
struct sw_cuda_sequence {
    int32_t zigzag, shards;
    int64_t chunk;   /* run of consecutive positions */
    int64_t q_start; /* storage index of the first query */
    int64_t k_start; /* storage index of the first key */
};

/* Attributes of attention besides causality (core/ir/ops.def); all zero: none. */
struct sw_cuda_mask {
    int64_t window; /* keys that a query sees, its own included; 0: all before it */
    int64_t length; /* tokens per row of k_segments */
    /* [batch, sq]; [batch, length], the whole sequence by position; both NULL: no segments */
    const int32_t *q_segments, *k_segments;
    const void *sink; /* [heads]; NULL: none */
    int32_t sink_dtype;
    float softcap; /* 0: none */
};
static inline bool sw_cuda_is_masked(const struct sw_cuda_mask *mask)
{
    return mask->window > 0 || mask->softcap != 0 || mask->q_segments != NULL || mask->sink != NULL;
}

/* A call of our attention kernels. q, o, d_o, dq: [batch, sq, heads * dim]; k, v: [batch, sk,
 * kv_heads * dim], all of `dtype`; lse, delta: f32 [batch, sq, heads]. */
struct sw_cuda_attention {
    int64_t batch, sq, sk, heads, kv_heads;
    int32_t dim, group;
    float scale;
    enum sw_dtype dtype;
    struct sw_cuda_sequence sequence;
    const void *q, *k, *v;
    struct sw_cuda_mask mask;
};

/* Shared memory of a block in bytes, forward or backward. */
size_t sw_cuda_attention_shared(int32_t dim, bool backward);

/* Attends to all visible keys, and to the sink if `first`. Reads carry f32 [batch, sq, heads, dim]
 * and lse unless `first`. Writes o if `last`, else the carry; always writes lse. carry may be NULL
 * if first and last. */
cudaError_t sw_cuda_attention_forward(const struct sw_cuda_attention *a, bool first, bool last,
                                      float *carry, void *o, float *lse, cudaStream_t stream);
/* delta[batch, sq, heads] = sum over dim of o * d_o. */
cudaError_t sw_cuda_attention_delta(const struct sw_cuda_attention *a, const void *o,
                                    const void *d_o, float *delta, cudaStream_t stream);
/* d_sink[heads] of dtype: -sum over rows of exp(sink - lse) delta. Needs a mask with sinks. */
cudaError_t sw_cuda_attention_sink(const struct sw_cuda_attention *a, const float *lse,
                                   const float *delta, void *d_sink, enum sw_dtype dtype,
                                   cudaStream_t stream);
/* dq f32 [batch, sq, heads, dim]; dk, dv f32 [batch, sk, kv_heads, dim]. Adds to dq unless `first`;
 * overwrites dk and dv. */
cudaError_t sw_cuda_attention_backward(const struct sw_cuda_attention *a, bool first,
                                       const void *d_o, const float *lse, const float *delta,
                                       float *dq, float *dk, float *dv, cudaStream_t stream);

/* Queries [first, first + n) of every sequence: a library kernel's piece of a hop. */
struct sw_cuda_piece {
    int64_t batch, sq, heads; /* sizes of the whole tensor */
    int32_t dim;
    int64_t first, n;
    enum sw_dtype dtype;
};
/* Merges a piece's normalized result, o_piece [batch, n, heads * dim] of dtype and stats f32
 * [batch, heads, n], into carry f32 [batch, sq, heads, dim] and lse [batch, sq, heads]. */
cudaError_t sw_cuda_piece_merge(const struct sw_cuda_piece *p, const void *o_piece,
                                const float *stats, float *carry, float *lse, cudaStream_t stream);
/* Copies the piece's rows of lse to stats [batch, heads, n]; `back`: the reverse. */
cudaError_t sw_cuda_piece_stats(const struct sw_cuda_piece *p, bool back, float *stats, float *lse,
                                cudaStream_t stream);
/* Adds [batch, n, width] of dtype to rows [first, first + n) of `to`, f32 [batch, sq, width]. */
cudaError_t sw_cuda_piece_add(const struct sw_cuda_piece *p, int64_t width, const void *from,
                              float *to, cudaStream_t stream);

/* cuDNN's state, or NULL for own kernels. While recording, only after an earlier call. */
struct sw_cudnn_attention *sw_cuda_cudnn(struct sw_cuda_device *device);

/* Function of each op kind (core/ir/ops.def). */
#define SW_KERNEL(KIND, name)                                                                      \
    int sw_cuda_run_##name(struct sw_device *device, const struct sw_call *call,                   \
                           struct sw_error *err);
#include "core/ir/ops.def"
/* Launch that needs only the call and the stream (SW_CUDA_RUN in kernel.cuh). */
typedef cudaError_t sw_cuda_launch_function(const struct sw_call *call, cudaStream_t stream);
int sw_cuda_run_launch(struct sw_device *device, const struct sw_call *call,
                       sw_cuda_launch_function *launch, struct sw_error *err);

/* ---- Kernels: each queues and returns the launch's error ---- */

cudaError_t sw_cuda_add(const struct sw_tensor *a, const struct sw_tensor *b,
                        const struct sw_tensor *y, cudaStream_t stream);
/* Overwrites in the first micro-step if `first`. */
cudaError_t sw_cuda_accumulate(const struct sw_tensor *a, const struct sw_tensor *b,
                               const struct sw_tensor *y, bool first,
                               const struct sw_cuda_step *step, cudaStream_t stream);
/* x becomes cap tanh(x / cap). */
cudaError_t sw_cuda_softcap(float *x, int64_t elems, float cap, cudaStream_t stream);
cudaError_t sw_cuda_cast(const struct sw_tensor *x, const struct sw_tensor *y, cudaStream_t stream);
cudaError_t sw_cuda_slice(const struct sw_tensor *in, const struct sw_tensor *out,
                          cudaStream_t stream);
/* scratch: sw_cuda_embedding_grad_bytes. kept: see sw_cuda_kept_of. */
cudaError_t sw_cuda_embedding_grad(const struct sw_call *call, const float *kept, void *scratch,
                                   cudaStream_t stream);
size_t sw_cuda_embedding_grad_bytes(const struct sw_call *call);
/* Zeroes the padding rows and columns of a matrix. */
cudaError_t sw_cuda_zero_padding(const struct sw_tensor *matrix, cudaStream_t stream);
/* inverse: scratch f32 [rows]. */
cudaError_t sw_cuda_rmsnorm_grad(const struct sw_call *call, float *inverse, cudaStream_t stream);
cudaError_t sw_cuda_split_norm_grad(const struct sw_call *call, float *inverse,
                                    cudaStream_t stream);
/* Statistics of n tokens from `first`, given their logits f32 [n, vocab]. */
cudaError_t sw_cuda_logits_stats(const struct sw_call *call, const float *logits, int64_t first,
                                 int64_t n, cudaStream_t stream);
/* Logits become gradients in place; `narrow`: in bf16, at the same row stride. */
cudaError_t sw_cuda_logits_grad(const struct sw_call *call, float *logits, int64_t first, int64_t n,
                                bool narrow, const struct sw_cuda_step *step, cudaStream_t stream);
/* sw_cuda_logits_grad that computes each token's log-sum-exp and stores losses in out[3]; then the
 * sum of all tokens' losses. */
cudaError_t sw_cuda_logits_loss(const struct sw_call *call, float *logits, int64_t first, int64_t n,
                                bool narrow, const struct sw_cuda_step *step, cudaStream_t stream);
cudaError_t sw_cuda_sum_losses(const struct sw_call *call, const struct sw_cuda_step *step,
                               cudaStream_t stream);
cudaError_t sw_cuda_lm_head_loss(const struct sw_call *call, const struct sw_cuda_step *step,
                                 cudaStream_t stream);
/* parts: scratch f64 [SW_CUDA_SQUARE_PARTS]. */
cudaError_t sw_cuda_sum_squares(const struct sw_call *call, double *parts, cudaStream_t stream);
cudaError_t sw_cuda_adamw(const struct sw_call *call, const struct sw_cuda_step *step,
                          const struct sw_blockwise_table *tables, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
