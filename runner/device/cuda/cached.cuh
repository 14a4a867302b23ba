/* What the kernels of serving know of a cache that lies in parts on the ranks of the sequence.
 *
 * A position's place on a rank grows with the position, so what a token may see of this rank's part
 * is its first so many positions. runner/device/cpu/serving.inc says the same in C. */
#ifndef SW_CUDA_CACHED_CUH
#define SW_CUDA_CACHED_CUH

#include "runner/device/cuda/kernel.cuh"
#include "runner/device/cuda/serving.h"

#include "core/ir/serving.h"

#include <math.h>

/* Below every score, yet finite: exp2(LEAST - LEAST) is 1, not NaN. */
#define LEAST (-1e30f)
/* Scores are kept times log2(e): exp2 is an instruction. */
#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

/* Which slots and positions this rank's part of a cache [slots, positions, width] has. */
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

/* Which of this rank's slots a row means; -1: another rank's, or none. */
__device__ static inline int64_t local_slot(const part &p, const int32_t *slot)
{
    const int64_t here = slot[SW_SLOT_NUMBER] - p.first_slot;
    return here >= 0 && here < p.slots ? here : -1;
}

/* Window and softcap of the op. MASKED: kernels that know of them; the others are compiled without
 * a trace of either, which is why they are no part of `cached`. */
struct cache_mask {
    int64_t window;
    float softcap; /* times log2(e), as scores are */
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

/* Places that hold positions up to `last`: the first so many. With a window they may be more than
 * the cache has: place i then lies where i modulo their number does. */
template <bool MASKED>
__device__ static inline int64_t visible_positions(const part &p, const cache_mask &m, int64_t last)
{
    const int64_t round = p.block * p.ranks;
    int64_t here = last % round + 1 - p.rank * p.block;
    here = here < 0 ? 0 : here > p.block ? p.block : here;
    const int64_t visible = last / round * p.block + here;
    return (MASKED && m.window > 0) || visible < p.positions ? visible : p.positions;
}

/* Of `visible` places those that are too old for a query at that position: the first so many. The
 * cache has the others. */
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

/* Where place i lies within a slot if `from` lies at `first` and i is less than a slot behind. */
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
    float scale; /* of scores, times log2(e) */
    struct part part;
    view q;                           /* [batch, sq, heads * dim] */
    const void *k, *v;                /* [slots, positions, kv_heads * dim] */
    int dtype;                        /* theirs */
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

/* Elements [d, d + n) of head `head`, which counts slots, positions and kv heads; zeros behind
 * them. */
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

/* Places that a row's one token sees. */
template <bool MASKED>
__device__ static inline int64_t visible_to(const part &p, const cache_mask &m, const int32_t *slot)
{
    return slot[SW_SLOT_TOKENS] > 0 && slot[SW_SLOT_FIRST] >= 0 && local_slot(p, slot) >= 0
               ? visible_positions<MASKED>(p, m, slot[SW_SLOT_FIRST])
               : 0;
}

/* A range of one slot's positions is a block's, for some of the query heads that share a kv head.
 */
struct ranges {
    int lanes, row_blocks;           /* lanes: of decode.cu alone */
    int64_t positions, count, tasks; /* as in sw_decode_ranges */
    float *out, *stats;              /* [batch, heads, count, dim], [.., 2] */
};

/* What cached_mma.cu does: queries and cache in bf16, or a cache in int8. In fp32 nobody rounds. */
static inline bool on_tensor_cores(int q_dtype, int cache_dtype)
{
    return q_dtype == SW_BF16_T && (cache_dtype == SW_BF16_T || cache_dtype == SW_I8);
}

cudaError_t chunk_mma(const cached &a, const cache_mask &m, cudaStream_t stream);
/* s: but for row_blocks and tasks. */
cudaError_t decode_mma(const cached &a, ranges s, const cache_mask &m, cudaStream_t stream);
/* Of a block's shared memory, in bytes. */
size_t chunk_mma_shared(int dim, bool int8);

/* Blocks that go through so many tasks. */
static inline unsigned blocks_for(int64_t tasks)
{
    return tasks < 1 << 20 ? (unsigned)tasks : 1u << 20;
}

/* The largest score as the other devices have it. */
__device__ static inline void put_stats(float *stats, float maximum, float sum)
{
    stats[0] = sum > 0 ? maximum * LN_2 : LEAST;
    stats[1] = sum;
}

#endif
