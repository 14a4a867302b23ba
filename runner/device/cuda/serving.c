/* Serving ops: checks of operands, and the workspace of attention over a cache. */
#include "runner/device/cuda/serving.h"

static const char *name_of(const struct sw_call *call)
{
    return sw_op_info((enum sw_op_kind)call->op->kind)->name;
}

static struct sw_cuda_device *cuda_of(struct sw_device *device)
{
    return (struct sw_cuda_device *)device;
}

static int queued(const struct sw_call *call, cudaError_t code, struct sw_error *err)
{
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, name_of(call));
}

static int check_dtype(const struct sw_call *call, const struct sw_tensor *t, bool wide,
                       struct sw_error *err)
{
    if (t->dtype == SW_F32 || (t->dtype == SW_BF16_T && !wide))
        return 0;
    return sw_fail(err, SW_UNMET, "the cuda device computes in f32%s, %s got %s",
                   wide ? "" : " and bf16", name_of(call), sw_dtype_name(t->dtype));
}

static int check_integers(const struct sw_call *call, const struct sw_tensor *t,
                          struct sw_error *err)
{
    return t->dtype == SW_I32 ? 0
                              : sw_fail(err, SW_ENVIRONMENT, "%s: integers are i32, not %s",
                                        name_of(call), sw_dtype_name(t->dtype));
}

/* Checks integers with a scale per head; scales NULL: no scales. */
static int check_scaled(const struct sw_call *call, const struct sw_tensor *cache,
                        const struct sw_tensor *scales, int32_t head_dim, struct sw_error *err)
{
    if (cache->dtype != SW_I8 || scales == NULL || scales->dtype != SW_F32 ||
        scales->size[2] * head_dim != cache->size[2])
        return sw_fail(err, SW_ENVIRONMENT, "%s takes i8 with a scale for each head",
                       name_of(call));
    return 0;
}

int sw_cuda_run_cache_append(struct sw_device *device, const struct sw_call *call,
                             struct sw_error *err)
{
    const bool scaled = call->out[0].dtype == SW_I8 || call->op->n_in > 3;
    if (check_dtype(call, &call->in[1], false, err) != 0 ||
        check_integers(call, &call->in[2], err) != 0)
        return -1;
    if (!scaled)
        return check_dtype(call, &call->out[0], false, err) != 0
                   ? -1
                   : queued(call, sw_cuda_cache_append(call, cuda_of(device)->stream), err);
    if (call->in[1].size[2] != call->out[0].size[2])
        return sw_fail(err, SW_ENVIRONMENT, "cache_append got rows of %lld for %lld",
                       (long long)call->in[1].size[2], (long long)call->out[0].size[2]);
    if (check_scaled(call, &call->out[0], &call->out[1], call->op->as.append.head_dim, err) != 0)
        return -1;
    return queued(call, sw_cuda_cache_append_int8(call, cuda_of(device)->stream), err);
}

int sw_cuda_run_cache_rows(struct sw_device *device, const struct sw_call *call,
                           struct sw_error *err)
{
    if (check_integers(call, &call->in[1], err) != 0)
        return -1;
    if (call->in[0].dtype != call->out[0].dtype)
        return sw_fail(err, SW_ENVIRONMENT, "cache_rows between tensors of different kinds");
    return queued(call, sw_cuda_cache_rows(call, cuda_of(device)->stream), err);
}

/* Checks all but the dtype of keys and values. */
static int check_attention(const struct sw_call *call, struct sw_error *err)
{
    const struct sw_tensor *q = &call->in[0], *k = &call->in[1], *v = &call->in[2];
    const struct sw_attention_attributes *as = &call->op->as.attention;
    const int64_t heads = q->size[2] / as->head_dim, kv_heads = k->size[2] / as->head_dim;
    if (as->head_dim > SW_CUDA_MAX_ATTENTION_DIM)
        return sw_fail(err, SW_UNMET, "head_dim %d is above %d", (int)as->head_dim,
                       SW_CUDA_MAX_ATTENTION_DIM);
    if (heads != kv_heads * as->group || k->dtype != v->dtype)
        return sw_fail(err, SW_ENVIRONMENT,
                       "%s got %lld query heads, %lld of %s keys and %s values", name_of(call),
                       (long long)heads, (long long)kv_heads, sw_dtype_name(k->dtype),
                       sw_dtype_name(v->dtype));
    return check_dtype(call, q, false, err) != 0 ||
                   check_dtype(call, &call->out[0], true, err) != 0 ||
                   check_dtype(call, &call->out[1], true, err) != 0 ||
                   check_integers(call, &call->in[3], err) != 0
               ? -1
               : 0;
}

static int attend(struct sw_cuda_device *d, const struct sw_call *call, struct sw_error *err)
{
    const struct sw_tensor *q = &call->in[0], *k = &call->in[1];
    const int32_t dim = call->op->as.attention.head_dim;
    struct sw_decode_ranges ranges;
    void *between = call->workspace;
    if (q->size[1] != 1 && sw_cuda_check_shared(d, sw_cuda_chunk_shared(dim, q->dtype, k->dtype),
                                                name_of(call), dim, err) != 0)
        return -1;
    if (q->size[1] != 1)
        return queued(call, sw_cuda_decode_chunk(call, d->stream), err);
    sw_decode_ranges_of(q->size[0], q->size[2] / dim, k->size[2] / dim, k->size[1], dim, &ranges);
    if (call->op->workspace_bytes < ranges.bytes) /* the plan's target was not a GPU */
        between = sw_cuda_scratch(d, (size_t)ranges.bytes, err);
    if (between == NULL && ranges.bytes > 0)
        return -1;
    return queued(call, sw_cuda_decode_token(call, &ranges, between, d->stream), err);
}

int sw_cuda_attend_cached(struct sw_device *device, const struct sw_call *call,
                          struct sw_error *err)
{
    const int32_t dim = call->op->as.attention.head_dim;
    if (call->op->as.attention.keys == SW_KEYS_CACHE)
        return sw_fail(err, SW_UNMET, "the cuda device has no attention over a gathered cache");
    if (check_attention(call, err) != 0)
        return -1;
    for (uint16_t i = 1; i < 3; i++) {
        const uint16_t scales = SW_ATTENTION_SCALES + i - 1;
        if (call->in[i].dtype != SW_I8 && call->op->n_in <= SW_ATTENTION_SCALES
                ? check_dtype(call, &call->in[i], false, err) != 0
                : check_scaled(call, &call->in[i],
                               scales < call->op->n_in ? &call->in[scales] : NULL, dim, err) != 0)
            return -1;
    }
    return attend(cuda_of(device), call, err);
}

int sw_cuda_run_softmax_merge(struct sw_device *device, const struct sw_call *call,
                              struct sw_error *err)
{
    if (check_dtype(call, &call->in[0], true, err) != 0 ||
        check_dtype(call, &call->in[1], true, err) != 0 ||
        check_dtype(call, &call->out[0], false, err) != 0)
        return -1;
    if (call->in[0].size[3] != 1)
        return sw_fail(err, SW_ENVIRONMENT, "softmax_merge: expected one part in f32");
    if (call->op->as.merge.sink && check_dtype(call, &call->in[2], false, err) != 0)
        return -1;
    return queued(call, sw_cuda_softmax_merge(call, cuda_of(device)->stream), err);
}

int sw_cuda_run_pick_token(struct sw_device *device, const struct sw_call *call,
                           struct sw_error *err)
{
    if (check_dtype(call, &call->in[0], false, err) != 0 ||
        check_integers(call, &call->in[1], err) != 0)
        return -1;
    if (call->in[0].dtype != call->out[0].dtype)
        return sw_fail(err, SW_ENVIRONMENT, "pick_token between tensors of different kinds");
    return queued(call, sw_cuda_pick_token(call, cuda_of(device)->stream), err);
}

int sw_cuda_run_sample(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    if (check_dtype(call, &call->in[0], true, err) != 0 ||
        check_integers(call, &call->in[1], err) != 0 ||
        check_dtype(call, &call->in[2], true, err) != 0 ||
        check_dtype(call, &call->in[3], true, err) != 0 ||
        check_dtype(call, &call->out[0], true, err) != 0)
        return -1;
    return queued(call, sw_cuda_sample(call, cuda_of(device)->stream), err);
}

int sw_cuda_run_top_tokens(struct sw_device *device, const struct sw_call *call,
                           struct sw_error *err)
{
    for (int i = 0; i < 3; i++)
        if (check_dtype(call, &call->in[i], true, err) != 0)
            return -1;
    if (check_dtype(call, &call->out[0], true, err) != 0)
        return -1;
    return queued(call, sw_cuda_top_tokens(call, cuda_of(device)->stream), err);
}

int sw_cuda_run_lm_head_logprobs(struct sw_device *device, const struct sw_call *call,
                                 struct sw_error *err)
{
    if (check_dtype(call, &call->in[0], true, err) != 0 ||
        check_integers(call, &call->in[1], err) != 0 ||
        check_dtype(call, &call->out[0], true, err) != 0)
        return -1;
    return queued(call, sw_cuda_lm_head_logprobs(call, cuda_of(device)->stream), err);
}
