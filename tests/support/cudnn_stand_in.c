/* Replaces cudnn_attention.c without cuDNN or a GPU: the same pieces by the CUDA device's own
 * kernels, sequence after sequence. Linked instead of it, even in the emulator, tests that the
 * device cuts hops into pieces and merges them correctly. Accepts every shape but those with
 * REFUSED_DIM. */
#include "runner/device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED_DIM = 6 };

struct sw_cudnn_attention {
    cudaStream_t stream;
    bool refused; /* reported once */
};

/* Workspace offsets of one sequence's f32 results, in elements. */
struct places {
    int64_t lse, delta, dq, dk, dv, elems;
};

static struct places places_of(const struct sw_cudnn_shape *s)
{
    struct places p = {0};
    const int64_t rows = s->n_q * s->heads;
    p.delta = p.lse + rows;
    p.dq = p.delta + rows;
    p.dk = p.dq + (s->backward ? rows * s->dim : 0);
    p.dv = p.dk + (s->backward ? s->n_k * s->kv_heads * s->dim : 0);
    p.elems = p.dv + (s->backward ? s->n_k * s->kv_heads * s->dim : 0);
    return p;
}

struct sw_cudnn_attention *sw_cudnn_attention_create(cudaStream_t stream, const char *properties,
                                                     struct sw_error *err)
{
    (void)properties;
    struct sw_cudnn_attention *attention = calloc(1, sizeof *attention);
    if (attention == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory");
    else
        attention->stream = stream;
    return attention;
}

void sw_cudnn_attention_free(struct sw_cudnn_attention *attention)
{
    free(attention);
}

int64_t sw_cudnn_attention_prepare(struct sw_cudnn_attention *attention,
                                   const struct sw_cudnn_shape *shape, char *reason)
{
    if (reason != NULL)
        *reason = '\0';
    if (shape->dim != REFUSED_DIM)
        return places_of(shape).elems * (int64_t)sizeof(float);
    if (reason != NULL && !attention->refused)
        snprintf(reason, SW_CUDNN_REASON_BYTES, "refused for the test");
    attention->refused = true;
    return -1;
}

static void *from(void *data, int64_t elems, size_t bytes)
{
    return data == NULL ? NULL : (char *)data + (size_t)elems * bytes;
}

static cudaError_t narrow(float *wide, void *to, int64_t elems, cudaStream_t stream)
{
    const struct sw_tensor x = {.data = wide, .dtype = SW_F32, .elems = elems};
    const struct sw_tensor y = {.data = to, .dtype = SW_BF16_T, .elems = elems};
    return sw_cuda_cast(&x, &y, stream);
}

/* Queries after all keys or, if causal, at the keys' positions. */
static struct sw_cuda_attention sequence_of(const struct sw_cudnn_shape *s,
                                            const struct sw_cudnn_pointers *p, int64_t b)
{
    const int64_t keys = b * s->k_rows * s->kv_heads * s->dim;
    return (struct sw_cuda_attention){
        .batch = 1,
        .sq = s->n_q,
        .sk = s->n_k,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .dim = s->dim,
        .group = (int32_t)(s->heads / s->kv_heads),
        .scale = s->scale,
        .dtype = SW_BF16_T,
        .sequence = {.shards = 1, .chunk = s->n_q + s->n_k, .q_start = s->causal ? 0 : s->n_k},
        .q = from(p->q, b * s->q_rows * s->heads * s->dim, 2),
        .k = from(p->k, keys, 2),
        .v = from(p->v, keys, 2)};
}

static cudaError_t run_sequence(struct sw_cudnn_attention *attention,
                                const struct sw_cudnn_shape *s, const struct sw_cudnn_pointers *p,
                                int64_t b, float *workspace)
{
    const struct sw_cuda_attention a = sequence_of(s, p, b);
    const struct places at = places_of(s);
    const int64_t q_width = s->heads * s->dim, k_width = s->kv_heads * s->dim;
    const int64_t q_out = b * (s->dense_out ? s->n_q : s->q_rows) * q_width;
    const int64_t k_out = b * (s->dense_out ? s->n_k : s->k_rows) * k_width;
    const struct sw_cuda_piece rows = {.batch = 1,
                                       .sq = s->n_q,
                                       .heads = s->heads,
                                       .dim = s->dim,
                                       .n = s->n_q,
                                       .dtype = SW_BF16_T};
    cudaStream_t stream = attention->stream;
    float *stats = from(p->stats, b * s->heads * s->n_q, sizeof *stats), *lse = workspace + at.lse;
    cudaError_t code;
    if (!s->backward) {
        code = sw_cuda_attention_forward(&a, true, true, NULL, from(p->o, q_out, 2), lse, stream);
        return code != cudaSuccess ? code : sw_cuda_piece_stats(&rows, false, stats, lse, stream);
    }
    const int64_t q_in = b * s->q_rows * q_width;
    void *o = from(p->o, q_in, 2), *d_o = from(p->d_o, q_in, 2);
    code = sw_cuda_piece_stats(&rows, true, stats, lse, stream);
    if (code == cudaSuccess)
        code = sw_cuda_attention_delta(&a, o, d_o, workspace + at.delta, stream);
    if (code == cudaSuccess)
        code =
            sw_cuda_attention_backward(&a, true, d_o, lse, workspace + at.delta, workspace + at.dq,
                                       workspace + at.dk, workspace + at.dv, stream);
    if (code == cudaSuccess)
        code = narrow(workspace + at.dq, from(p->dq, q_out, 2), s->n_q * q_width, stream);
    if (code == cudaSuccess)
        code = narrow(workspace + at.dk, from(p->dk, k_out, 2), s->n_k * k_width, stream);
    if (code == cudaSuccess)
        code = narrow(workspace + at.dv, from(p->dv, k_out, 2), s->n_k * k_width, stream);
    return code;
}

int sw_cudnn_attention_run(struct sw_cudnn_attention *attention, const struct sw_cudnn_shape *shape,
                           const struct sw_cudnn_pointers *pointers, void *workspace,
                           struct sw_error *err)
{
    for (int64_t b = 0; b < shape->batch; b++) {
        const cudaError_t code = run_sequence(attention, shape, pointers, b, workspace);
        if (code != cudaSuccess)
            return sw_cuda_fail(err, code, "the stand-in for cuDNN");
    }
    return 0;
}

int32_t sw_cudnn_version(void)
{
    return 0;
}
