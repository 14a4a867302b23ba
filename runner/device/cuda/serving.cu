/* Serving: appending to the cache, merging the ranks' attention parts, and sampling results.
 * runner/device/cpu/serving.inc and sampling.inc are the same in C. */
#include "runner/device/cuda/cached.cuh"

#include <float.h>

/* ---- The cache ---- */

/* Positions in a ring (core/ir/ops.def); 0: the cache is no ring. */
static int64_t ring_of(const struct sw_call *call)
{
    return call->op->as.append.ring ? call->out[0].global[1] : 0;
}

/* Index over this rank's slots for token `token` of a row; -1: the token is absent or on another
 * rank. Positions and slots beyond the cache are dropped too: a kernel cannot report them. */
__device__ static inline int64_t index_of(const part &p, const int32_t *slot, int64_t token,
                                          int64_t ring)
{
    const int64_t first = slot[SW_SLOT_FIRST], here = local_slot(p, slot);
    const int64_t position = ring > 0 ? (first + token) % ring : first + token;
    if (first < 0 || here < 0 || token >= slot[SW_SLOT_TOKENS] ||
        position / p.block % p.ranks != p.rank)
        return -1;
    const int64_t index = position / (p.block * p.ranks) * p.block + position % p.block;
    return index < p.positions ? here * p.positions + index : -1;
}

__global__ static void append_kernel(view cache, view x, const int32_t *slots, part p,
                                     int64_t ring, int64_t batch, int64_t seq, int64_t start,
                                     int64_t width)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, batch * seq * groups)
    {
        const int64_t row = i / groups, j = i % groups * SW_VECTOR;
        const int64_t b = row / seq;
        const int64_t index = index_of(p, slots + b * SW_SLOT_FIELDS, start + row % seq, ring);
        if (index < 0)
            continue;
        const int n = sw_left(j, width);
        float values[SW_VECTOR];
        sw_load8(x.data, x.dtype, row * width + j, n, values);
        sw_store8(cache.data, cache.dtype, index * width + j, n, values);
    }
}

extern "C" cudaError_t sw_cuda_cache_append(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *cache = &call->out[0], *x = &call->in[1];
    const int64_t width = x->size[2];
    if (x->elems == 0)
        return cudaSuccess;
    SW_LAUNCH(append_kernel, sw_grid(x->elems / width * ((width + SW_VECTOR - 1) / SW_VECTOR)),
              SW_THREADS, 0, stream, view_of(cache), view_of(x), (const int32_t *)call->in[2].data,
              part_of(cache, call->op->as.append.chunk), ring_of(call), x->size[0], x->size[1],
              x->start[1], width);
    return cudaGetLastError();
}

/* A warp per head of a token (core/ir/serving.h, Serving). Quotients are in double and round once:
 * fp32 could create a false tie, and bytes would differ from the CPU's. */
__global__ static void append_int8_kernel(int8_t *cache, float *scales, view x,
                                          const int32_t *slots, part p, int64_t ring, int64_t batch,
                                          int64_t seq, int64_t start, int64_t heads, int dim)
{
    const int lane = (int)threadIdx.x % SW_WARP;
    const int64_t warps = (int64_t)gridDim.x * WARPS;
    for (int64_t i = (int64_t)blockIdx.x * WARPS + (int)threadIdx.x / SW_WARP;
         i < batch * seq * heads; i += warps) {
        const int64_t row = i / heads, b = row / seq;
        const int64_t index = index_of(p, slots + b * SW_SLOT_FIELDS, start + row % seq, ring);
        if (index < 0) /* uniform in the warp */
            continue;
        float most = 0;
        for (int d = lane; d < dim; d += SW_WARP) {
            const float size = fabsf(sw_load(x.data, x.dtype, i * dim + d));
            most = size <= FLT_MAX ? fmaxf(most, size) : INFINITY; /* NaN too */
        }
        for (int other = SW_WARP / 2; other > 0; other /= 2)
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, other));
        const float scale = most <= FLT_MAX ? (float)((double)most / SW_CACHE_INT8_MOST) : NAN;
        const int64_t to = index * heads + i % heads;
        for (int d = lane; d < dim; d += SW_WARP) {
            double q = 0;
            if (scale > 0) /* exceeds the range only if the scale is subnormal */
                q = fmax(fmin(rint((double)sw_load(x.data, x.dtype, i * dim + d) / (double)scale),
                              (double)SW_CACHE_INT8_MOST),
                         -(double)SW_CACHE_INT8_MOST);
            cache[to * dim + d] = (int8_t)q;
        }
        if (lane == 0)
            scales[to] = scale;
    }
}

extern "C" cudaError_t sw_cuda_cache_append_int8(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *cache = &call->out[0], *x = &call->in[1];
    const int dim = call->op->as.append.head_dim;
    const int64_t heads = x->size[2] / dim;
    if (x->elems == 0)
        return cudaSuccess;
    SW_LAUNCH(append_int8_kernel, sw_grid(x->elems / dim * SW_WARP), SW_THREADS, 0, stream,
              (int8_t *)cache->data, (float *)call->out[1].data, view_of(x),
              (const int32_t *)call->in[2].data, part_of(cache, call->op->as.append.chunk),
              ring_of(call), x->size[0], x->size[1], x->start[1], heads, dim);
    return cudaGetLastError();
}

/* A block copies a piece of a row. */
__global__ static void rows_kernel(const char *cache, char *to, const int32_t *slots, part p,
                                   int64_t rows, int64_t bytes)
{
    SW_GRID_STRIDE(i, rows * bytes)
    {
        const int64_t row = i / bytes, from = local_slot(p, slots + row * SW_SLOT_FIELDS);
        to[i] = from < 0 ? 0 : cache[from * bytes + i % bytes];
    }
}

extern "C" cudaError_t sw_cuda_cache_rows(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *cache = &call->in[0], *y = &call->out[0];
    const int64_t bytes = cache->size[1] * cache->size[2] * (int64_t)sw_dtype_bytes(cache->dtype);
    if (y->elems == 0)
        return cudaSuccess;
    SW_LAUNCH(rows_kernel, sw_grid(y->size[0] * bytes), SW_THREADS, 0, stream,
              (const char *)cache->data, (char *)y->data, (const int32_t *)call->in[1].data,
              part_of(cache, 0), y->size[0], bytes);
    return cudaGetLastError();
}

/* ---- The ranks' parts ---- */

/* Weight of this rank's part in a head's softmax: exp(m - M) / L with M the largest maximum and L
 * the sum of all parts and of exp(sink), scaled to M. 0: no position was visible. sink: LEAST if
 * there is none. */
__device__ static float weight_of_part(const float *stats, int64_t ranks, int64_t mine, float sink)
{
    float most = sink, total = 0;
    for (int64_t p = 0; p < ranks; p++)
        most = fmaxf(most, stats[p]);
    if (sink > LEAST)
        total = expf(sink - most);
    for (int64_t p = 0; p < ranks; p++)
        total += stats[ranks + p] * expf(stats[p] - most);
    return total > 0 ? expf(stats[mine] - most) * (1 / total) : 0.0f;
}

/* sinks: [heads]; data NULL: none. */
__global__ static void merge_kernel(const float *parts, const float *stats, view sinks, view y,
                                    int64_t rows, int64_t heads, int64_t ranks, int64_t mine,
                                    int dim)
{
    const int groups = (dim + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * groups)
    {
        const int64_t row = i / groups;
        const int j = (int)(i % groups) * SW_VECTOR, n = sw_left(j, dim);
        const float sink =
            sinks.data != NULL ? sw_load(sinks.data, sinks.dtype, row % heads) : LEAST;
        const float weight = weight_of_part(stats + row * 2 * ranks, ranks, mine, sink);
        float p[SW_VECTOR];
        sw_load8(parts, SW_F32, row * dim + j, n, p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            p[k] *= weight;
        sw_store8(y.data, y.dtype, row * dim + j, n, p);
    }
}

extern "C" cudaError_t sw_cuda_softmax_merge(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *parts = &call->in[0], *stats = &call->in[1];
    const int64_t heads = stats->size[2] / 2, rows = parts->size[0] * parts->size[1] * heads;
    if (rows == 0)
        return cudaSuccess;
    const int dim = (int)(parts->size[2] / heads);
    view sinks = view_of(parts);
    sinks.data = NULL;
    if (call->op->as.merge.sink)
        sinks = view_of(&call->in[2]);
    SW_LAUNCH(merge_kernel, sw_grid(rows * ((dim + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS, 0,
              stream, (const float *)parts->data, (const float *)stats->data,
              sinks, view_of(&call->out[0]), rows, heads, stats->size[3], parts->start[3], dim);
    return cudaGetLastError();
}

/* ---- The last token ---- */

__global__ static void pick_kernel(view x, view y, const int32_t *slots, int64_t batch, int64_t seq,
                                   int64_t start, int64_t width)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, batch * groups)
    {
        const int64_t b = i / groups, j = i % groups * SW_VECTOR;
        const int64_t token = (int64_t)slots[b * SW_SLOT_FIELDS + SW_SLOT_TOKENS] - 1 - start;
        const bool here = token >= 0 && token < seq;
        const int n = sw_left(j, width);
        float p[SW_VECTOR];
        sw_load8(x.data, x.dtype, (b * seq + (here ? token : 0)) * width + j, here ? n : 0, p);
        sw_store8(y.data, y.dtype, b * width + j, n, p);
    }
}

extern "C" cudaError_t sw_cuda_pick_token(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0];
    const int64_t width = x->size[2];
    if (x->elems == 0)
        return cudaSuccess;
    SW_LAUNCH(pick_kernel, sw_grid(x->size[0] * ((width + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS,
              0, stream, view_of(x), view_of(&call->out[0]), (const int32_t *)call->in[1].data,
              x->size[0], x->size[1], x->start[1], width);
    return cudaGetLastError();
}

/* lm_head_loss per token, from (maximum, sum of exponentials, label's logit) of each vocabulary
 * shard. */
__global__ static void logprobs_kernel(const float *in, const int32_t *labels, float *to,
                                       int64_t tokens, int64_t shards)
{
    SW_GRID_STRIDE(t, tokens)
    {
        const float *token = in + t * shards * 3;
        double most = (double)token[0], sum = 0, label = 0;
        for (int64_t s = 1; s < shards; s++)
            most = (double)token[3 * s] > most ? (double)token[3 * s] : most;
        for (int64_t s = 0; s < shards; s++) {
            sum += (double)token[3 * s + 1] * exp((double)token[3 * s] - most);
            label += (double)token[3 * s + 2];
        }
        to[t] = labels[t] < 0 ? 0.0f : (float)(label - (most + log(sum)));
    }
}

extern "C" cudaError_t sw_cuda_lm_head_logprobs(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *in = &call->in[0];
    const int64_t tokens = call->in[1].elems;
    if (tokens == 0)
        return cudaSuccess;
    SW_LAUNCH(logprobs_kernel, sw_grid(tokens), SW_THREADS, 0, stream, (const float *)in->data,
              (const int32_t *)call->in[1].data, (float *)call->out[0].data, tokens,
              in->size[in->ndim - 1] / 3);
    return cudaGetLastError();
}
