/* A cache split over the sp ranks, for the serving kernels.
 *
 * A position's index on a rank grows with the position, so a token sees a prefix of this rank's
 * part. runner/device/cpu/serving.inc is the same in C. */
#ifndef SW_CUDA_CACHED_CUH
#define SW_CUDA_CACHED_CUH

#include "runner/device/cuda/kernel.cuh"
#include "runner/device/cuda/serving.h"

#include "core/ir/serving.h"

#include <math.h>

/* Lower than any score, yet finite: exp2(LEAST - LEAST) is 1, not NaN. */
#define LEAST (-1e30f)
/* Scores are stored times log2(e): exp2 is one instruction. */
#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

/* Slots and positions of this rank's part of a cache [slots, positions, width]. */
struct part {
    int64_t rank, ranks, block, positions;
    int64_t first_slot, slots;
};

static inline part part_of(const struct sw_tensor *cache, int64_t chunk)
{
    part p;
    p.ranks = cache->global[1] / cache->size[1];
    p.rank = cache->start[1] / cache->size[1];
    p.block = chunk / p.ranks;
    p.positions = cache->size[1];
    p.first_slot = cache->start[0];
    p.slots = cache->size[0];
    return p;
}

/* Local index of a row's slot; -1: another rank's slot, or none. */
__device__ static inline int64_t local_slot(const part &p, const int32_t *slot)
{
    const int64_t here = slot[SW_SLOT_NUMBER] - p.first_slot;
    return here >= 0 && here < p.slots ? here : -1;
}

/* Window and softcap of the op, used by MASKED kernels; kept out of `cached` so that the others
 * compile without them. */
struct cache_mask {
    int64_t window;
    float softcap; /* times log2(e), like scores */
};

static inline cache_mask mask_of(const struct sw_call *call)
{
    cache_mask m;
    m.window = call->op->as.attention.window;
    m.softcap = (float)(call->op->as.attention.softcap * (double)LOG2_E);
    return m;
}

static inline bool is_masked(const cache_mask &m)
{
    return m.window > 0 || m.softcap > 0;
}

/* Number of places with positions up to `last`, a prefix. With a window the number may exceed the
 * cache: place i then lies at i modulo the cache's size. */
template <bool MASKED>
__device__ static inline int64_t visible_positions(const part &p, const cache_mask &m, int64_t last)
{
    const int64_t round = p.block * p.ranks;
    int64_t here = last % round + 1 - p.rank * p.block;
    here = here < 0 ? 0 : here > p.block ? p.block : here;
    const int64_t visible = last / round * p.block + here;
    return (MASKED && m.window > 0) || visible < p.positions ? visible : p.positions;
}

/* Number of the `visible` places that are too old for a query at `position`, a prefix. The cache
 * holds the others. */
template <bool MASKED>
__device__ static inline int64_t hidden_positions(const part &p, const cache_mask &m,
                                                  int64_t position, int64_t visible)
{
    if (!MASKED || m.window == 0)
        return 0;
    const int64_t old =
        position >= m.window ? visible_positions<MASKED>(p, m, position - m.window) : 0;
    return old > visible - p.positions ? old : visible - p.positions;
}

/* Place i within a slot if place `from` lies at `first` and i is less than a slot's size after
 * `from`. */
template <bool MASKED>
__device__ static inline int64_t place_of(const part &p, int64_t from, int64_t first, int64_t i)
{
    const int64_t place = first + (i - from);
    return !MASKED ? i : place < p.positions ? place : place - p.positions;
}

template <bool MASKED> __device__ static inline float capped(const cache_mask &m, float score)
{
    return MASKED && m.softcap > 0 ? m.softcap * tanhf(score / m.softcap) : score;
}

enum { WARPS = SW_THREADS / SW_WARP };

struct cached {
    int64_t batch, sq, heads, kv_heads;
    int dim, group;
    float scale; /* scores' factor, log2(e) included */
    struct part part;
    view q;                           /* [batch, sq, heads * dim] */
    const void *k, *v;                /* [slots, positions, kv_heads * dim] */
    int dtype;                        /* dtype of k and v */
    const float *k_scales, *v_scales; /* [slots, positions, kv_heads] of i8; else NULL */
    const int32_t *slots;
    float *out, *stats; /* [batch, sq, heads, dim] and [.., 2] */
};

static inline cached describe(const struct sw_call *call)
{
    const struct sw_tensor *q = &call->in[0], *k = &call->in[1];
    cached a;
    a.dim = call->op->as.attention.head_dim;
    a.group = call->op->as.attention.group;
    a.batch = q->size[0];
    a.sq = q->size[1];
    a.heads = q->size[2] / a.dim;
    a.kv_heads = k->size[2] / a.dim;
    a.scale = (float)(call->op->as.attention.scale * (double)LOG2_E);
    a.part = part_of(k, call->op->as.attention.chunk);
    a.q = view_of(q);
    a.k = k->data;
    a.v = call->in[2].data;
    a.dtype = (int)k->dtype;
    a.k_scales = k->dtype == SW_I8 ? (const float *)call->in[4].data : NULL;
    a.v_scales = k->dtype == SW_I8 ? (const float *)call->in[5].data : NULL;
    a.slots = (const int32_t *)call->in[3].data;
    a.out = (float *)call->out[0].data;
    a.stats = (float *)call->out[1].data;
    return a;
}

/* Loads elements [d, d + n) of a head into to, zero padded; `head` counts slots, positions and kv
 * heads. */
__device__ static inline void load_cached(const cached &a, const void *x, const float *scales,
                                          int64_t head, int d, int n, float *to)
{
    if (scales == NULL) {
        sw_load8(x, a.dtype, head * a.dim + d, n, to);
        return;
    }
    const int8_t *integers = (const int8_t *)x + head * a.dim + d;
    const float scale = scales[head];
#pragma unroll
    for (int i = 0; i < SW_VECTOR; i++)
        to[i] = i < n ? (float)integers[i] * scale : 0.0f;
}

/* Places visible to a row's single token. */
template <bool MASKED>
__device__ static inline int64_t visible_to(const part &p, const cache_mask &m, const int32_t *slot)
{
    return slot[SW_SLOT_TOKENS] > 0 && slot[SW_SLOT_FIRST] >= 0 && local_slot(p, slot) >= 0
               ? visible_positions<MASKED>(p, m, slot[SW_SLOT_FIRST])
               : 0;
}

/* A block processes a range of a slot's positions for some of the query heads that share a kv
 * head. */
struct ranges {
    int lanes, row_blocks;           /* lanes: only in decode.cu */
    int64_t positions, count, tasks; /* see sw_decode_ranges */
    float *out, *stats;              /* [batch, heads, count, dim], [.., 2] */
};

/* True if cached_mma.cu runs this: bf16 queries and cache, or an int8 cache. fp32 is never
 * rounded. */
static inline bool on_tensor_cores(int q_dtype, int cache_dtype)
{
    return q_dtype == SW_BF16_T && (cache_dtype == SW_BF16_T || cache_dtype == SW_I8);
}

cudaError_t chunk_mma(const cached &a, const cache_mask &m, cudaStream_t stream);
/* s: without row_blocks and tasks. */
cudaError_t decode_mma(const cached &a, ranges s, const cache_mask &m, cudaStream_t stream);
/* Shared memory of a block, in bytes. */
size_t chunk_mma_shared(int dim, bool int8);

/* Blocks for `tasks` tasks. */
static inline unsigned blocks_for(int64_t tasks)
{
    return tasks < 1 << 20 ? (unsigned)tasks : 1u << 20;
}

/* Stores the maximum in the other devices' scale. */
__device__ static inline void put_stats(float *stats, float maximum, float sum)
{
    stats[0] = sum > 0 ? maximum * LN_2 : LEAST;
    stats[1] = sum;
}

#endif
