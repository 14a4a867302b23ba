/* Own attention kernels: exact blockwise attention (Dao et al. 2022) in f32 for any positions, and
 * the merging that a ring needs around a library's kernel. Simple rather than fast; bf16 uses cuDNN
 * if possible.
 *
 * A block has TILE rows of one head; tiles of the other side pass through shared memory. Tiles that
 * no row sees are skipped. No sum crosses blocks: no atomics, deterministic.
 *
 * MASKED: kernels for a window, segments, a softcap or sinks; the others are compiled without
 * them. */
#include "runner/device/cuda/kernel.cuh"

#include <math.h>

enum { TILE = 32, PER_THREAD = TILE * TILE / SW_THREADS };

/* Lower than any score, yet finite: exp(LEAST - LEAST) is 1, not NaN. */
#define LEAST (-1e30f)

struct attention {
    int64_t batch, sq, sk, heads, kv_heads;
    int dim, group, dtype;
    float scale;
    struct sw_cuda_sequence sequence;
    const void *q, *k, *v;
};

static struct attention describe(const struct sw_cuda_attention *a)
{
    struct attention d;
    d.batch = a->batch;
    d.sq = a->sq;
    d.sk = a->sk;
    d.heads = a->heads;
    d.kv_heads = a->kv_heads;
    d.dim = a->dim;
    d.group = a->group;
    d.dtype = (int)a->dtype;
    d.scale = a->scale;
    d.sequence = a->sequence;
    d.q = a->q;
    d.k = a->k;
    d.v = a->v;
    return d;
}

/* sw_sequence_position. */
__device__ static int64_t position_of(const struct sw_cuda_sequence *s, int64_t j)
{
    if (!s->zigzag || s->shards == 1)
        return j;
    const int64_t rank = j / (2 * s->chunk);
    const int64_t chunk = j / s->chunk % 2 ? 2 * (int64_t)s->shards - 1 - rank : rank;
    return chunk * s->chunk + j % s->chunk;
}

/* Loads rows [first, first + TILE) of one head of x [batch, size, heads * dim] into tile [TILE, dim
 * + 1], zeros behind the end. */
__device__ static void load_tile(const void *x, int dtype, int64_t b, int64_t size, int64_t heads,
                                 int64_t head, int dim, int64_t first, float *tile)
{
    const int groups = (dim + SW_VECTOR - 1) / SW_VECTOR;
    for (int i = threadIdx.x; i < TILE * groups; i += SW_THREADS) {
        const int row = i / groups, j = i % groups * SW_VECTOR, n = sw_left(j, dim);
        float p[SW_VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (first + row < size)
            sw_load8(x, dtype, ((b * size + first + row) * heads + head) * dim + j, n, p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            if (k < n)
                tile[row * (dim + 1) + j + k] = p[k];
    }
}

/* Positions of TILE tokens from `first`; -1 behind the end. */
__device__ static void load_positions(const struct sw_cuda_sequence *s, int64_t start,
                                      int64_t first, int64_t size, int64_t *positions)
{
    if (threadIdx.x < TILE)
        positions[threadIdx.x] =
            first + threadIdx.x < size ? position_of(s, start + first + threadIdx.x) : -1;
}

/* One side of a pair of tiles, in shared memory: positions of TILE tokens and, if MASKED,
 * segments. */
struct side {
    int64_t *positions;
    int32_t *segments;
};

template <bool MASKED>
__device__ static inline void load_queries(const struct attention &a, const struct sw_cuda_mask &m,
                                           int64_t b, int64_t first, const side &q)
{
    load_positions(&a.sequence, a.sequence.q_start, first, a.sq, q.positions);
    if (MASKED && m.q_segments != NULL && threadIdx.x < TILE && first + threadIdx.x < a.sq)
        q.segments[threadIdx.x] = m.q_segments[b * a.sq + first + threadIdx.x];
}

template <bool MASKED>
__device__ static inline void load_keys(const struct attention &a, const struct sw_cuda_mask &m,
                                        int64_t b, int64_t first, const side &k)
{
    load_positions(&a.sequence, a.sequence.k_start, first, a.sk, k.positions);
    if (MASKED && m.q_segments != NULL && threadIdx.x < TILE && first + threadIdx.x < a.sk)
        k.segments[threadIdx.x] = m.k_segments[b * m.length + k.positions[threadIdx.x]];
}

/* True if the row's query may see the column's key; no other mask exists. */
template <bool MASKED>
__device__ static inline bool sees(const struct sw_cuda_mask &m, const side &q, int row,
                                   const side &k, int column)
{
    const bool causal = k.positions[column] >= 0 && k.positions[column] <= q.positions[row];
    if (!MASKED || !causal)
        return causal;
    return (m.window == 0 || q.positions[row] - k.positions[column] < m.window) &&
           (m.q_segments == NULL || q.segments[row] == k.segments[column]);
}

/* True if any query of the tile may see any key; uniform in the block. */
template <bool MASKED>
__device__ static bool tiles_meet(const struct sw_cuda_mask &m, const side &q, const side &k)
{
    if (MASKED) {
        bool meet = false;
        for (int i = threadIdx.x; i < TILE * TILE; i += SW_THREADS)
            meet = meet || sees<true>(m, q, i / TILE, k, i % TILE);
        return __syncthreads_or(meet) != 0;
    }
    int64_t latest = -1, earliest = INT64_MAX;
    for (int i = 0; i < TILE; i++) {
        if (q.positions[i] > latest)
            latest = q.positions[i];
        if (k.positions[i] >= 0 && k.positions[i] < earliest)
            earliest = k.positions[i];
    }
    return earliest <= latest;
}

/* Range of positions, both ends included. */
struct span {
    int64_t least, most;
};

/* Positions of a tile's tokens; the first token always exists. */
__device__ static span span_of(const int64_t *positions)
{
    span s = {positions[0], positions[0]};
    for (int i = 1; i < TILE && positions[i] >= 0; i++) {
        s.least = positions[i] < s.least ? positions[i] : s.least;
        s.most = positions[i] > s.most ? positions[i] : s.most;
    }
    return s;
}

/* Positions that the tile's queries may see; below, that may see the tile's keys. */
template <bool MASKED>
__device__ static inline span seen_by(const struct sw_cuda_mask &m, const side &q)
{
    if (!MASKED)
        return {0, INT64_MAX};
    const span s = span_of(q.positions);
    return {m.window > 0 ? s.least - m.window + 1 : 0, s.most};
}
template <bool MASKED>
__device__ static inline span seeing(const struct sw_cuda_mask &m, const side &k)
{
    if (!MASKED)
        return {0, INT64_MAX};
    const span s = span_of(k.positions);
    return {s.least, m.window > 0 ? s.most + m.window - 1 : INT64_MAX};
}

/* First tile at or after `first` that may hold positions of the span, run by run of consecutive
 * positions, among `size` tokens from storage index `start`; not MASKED: `first`. */
template <bool MASKED>
__device__ static inline int64_t tile_from(const struct sw_cuda_sequence &s, int64_t start,
                                           int64_t size, int64_t first, const span &wanted)
{
    while (MASKED && first < size) {
        const int64_t run = s.chunk - (start + first) % s.chunk;
        const int64_t position = position_of(&s, start + first);
        const int64_t before = wanted.least - position;
        const int64_t passed = position > wanted.most || before > run ? run : before;
        if (passed < TILE)
            break;
        first += passed / TILE * TILE;
    }
    return first;
}

__device__ static float dot_rows(const float *a, const float *b, int dim)
{
    float sum = 0;
    for (int d = 0; d < dim; d++)
        sum += a[d] * b[d];
    return sum;
}

/* A block's rows of the forward pass, in shared memory: out, queries and a tile of keys, then of
 * values, each [TILE, stride]; scores [TILE, TILE + 1]; per row the maximum score, the sum of
 * exponentials, and the last tile's rescaling factor. */
struct forward_rows {
    int stride;
    float *out, *queries, *tile, *scores, *maximum, *sum, *shrink;
    int64_t head, b, q_first;
};

__device__ static inline int64_t row_of(const struct attention &a, const struct forward_rows &r,
                                        int row)
{
    return (r.b * a.sq + r.q_first + row) * a.heads + r.head;
}

/* first: no carry. Otherwise the carry is normalized, like one key with score lse and weight 1. A
 * sink is a score without a value. */
template <bool MASKED>
__device__ static inline void begin_rows(const struct attention &a, const struct sw_cuda_mask &m,
                                         bool first, const float *carry, const float *lse,
                                         const struct forward_rows &r)
{
    for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
        const int row = i / a.dim, d = i % a.dim;
        r.out[row * r.stride + d] =
            first || r.q_first + row >= a.sq ? 0.0f : carry[row_of(a, r, row) * a.dim + d];
    }
    if (threadIdx.x < TILE) {
        const bool fresh = first || r.q_first + threadIdx.x >= a.sq;
        const float before = fresh ? LEAST : lse[row_of(a, r, threadIdx.x)];
        const bool seen = before > LEAST;
        r.maximum[threadIdx.x] = seen ? before : LEAST;
        r.sum[threadIdx.x] = seen ? 1.0f : 0.0f;
        if (MASKED && first && m.sink != NULL) {
            r.maximum[threadIdx.x] = fmaxf(sw_load(m.sink, m.sink_dtype, r.head), LEAST);
            r.sum[threadIdx.x] = 1.0f;
        }
    }
}

/* Score of a scaled product; *slope: its derivative. */
template <bool MASKED>
__device__ static inline float score_of(const struct sw_cuda_mask &m, float product,
                                        float *slope = NULL)
{
    if (slope != NULL)
        *slope = 1.0f;
    if (!MASKED || m.softcap == 0)
        return product;
    const float capped = tanhf(product / m.softcap);
    if (slope != NULL)
        *slope = 1.0f - capped * capped;
    return m.softcap * capped;
}

/* Scores of the tile's queries and keys; -INFINITY where not visible. */
template <bool MASKED>
__device__ static inline void score_tile(const struct attention &a, const struct sw_cuda_mask &m,
                                         const struct forward_rows &r, const side &q, const side &k)
{
    for (int i = threadIdx.x; i < TILE * TILE; i += SW_THREADS) {
        const int row = i / TILE, column = i % TILE;
        r.scores[row * (TILE + 1) + column] =
            sees<MASKED>(m, q, row, k, column)
                ? score_of<MASKED>(m, a.scale * dot_rows(r.queries + row * r.stride,
                                                         r.tile + column * r.stride, a.dim))
                : -INFINITY;
    }
}

/* Scores become exponentials; a thread per row. */
__device__ static inline void weigh_tile(const struct forward_rows &r)
{
    if (threadIdx.x < TILE) {
        float *row = r.scores + threadIdx.x * (TILE + 1), most = r.maximum[threadIdx.x];
        float added = 0;
        for (int j = 0; j < TILE; j++)
            most = fmaxf(most, row[j]);
        for (int j = 0; j < TILE; j++) {
            row[j] = expf(row[j] - most);
            added += row[j];
        }
        r.shrink[threadIdx.x] = expf(r.maximum[threadIdx.x] - most);
        r.maximum[threadIdx.x] = most;
        r.sum[threadIdx.x] = r.sum[threadIdx.x] * r.shrink[threadIdx.x] + added;
    }
}

/* Adds the tile's weighted values to the results. */
__device__ static inline void add_tile(const struct attention &a, const struct forward_rows &r)
{
    for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
        const int row = i / a.dim, d = i % a.dim;
        float value = r.out[row * r.stride + d] * r.shrink[row];
        for (int j = 0; j < TILE; j++)
            value += r.scores[row * (TILE + 1) + j] * r.tile[j * r.stride + d];
        r.out[row * r.stride + d] = value;
    }
}

/* MASKED: a row that saw nothing gets a log-sum-exp above every score, so that backward finds no
 * probability. */
template <bool MASKED>
__device__ static inline void write_rows(const struct attention &a, bool last, float *carry,
                                         void *o, float *lse, const struct forward_rows &r)
{
    for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
        const int row = i / a.dim, d = i % a.dim;
        if (r.q_first + row >= a.sq)
            continue;
        const float value = r.sum[row] > 0 ? r.out[row * r.stride + d] / r.sum[row] : 0.0f;
        const int64_t at = row_of(a, r, row) * a.dim + d;
        if (last)
            sw_store(o, a.dtype, at, value);
        else
            carry[at] = value;
    }
    if (threadIdx.x < TILE && r.q_first + threadIdx.x < a.sq)
        lse[row_of(a, r, threadIdx.x)] = r.sum[threadIdx.x] > 0
                                             ? r.maximum[threadIdx.x] + logf(r.sum[threadIdx.x])
                                         : MASKED && last ? -LEAST
                                                          : LEAST;
}

template <bool MASKED>
__global__ static void forward_kernel(struct attention a, struct sw_cuda_mask m, bool first,
                                      bool last, float *carry, void *o, float *lse)
{
    SW_DYNAMIC_SHARED(float, shared);
    __shared__ int64_t q_positions[TILE], k_positions[TILE];
    __shared__ int32_t q_segments[TILE], k_segments[TILE];
    __shared__ float maximum[TILE], sum[TILE], shrink[TILE];
    const side q = {q_positions, q_segments}, k = {k_positions, k_segments};
    struct forward_rows r;
    r.stride = a.dim + 1;
    r.out = shared, r.queries = r.out + TILE * r.stride, r.tile = r.queries + TILE * r.stride;
    r.scores = r.tile + TILE * r.stride;
    r.maximum = maximum, r.sum = sum, r.shrink = shrink;
    r.head = blockIdx.y, r.b = blockIdx.z, r.q_first = (int64_t)blockIdx.x * TILE;
    const int64_t kv_head = r.head / a.group;

    load_tile(a.q, a.dtype, r.b, a.sq, a.heads, r.head, a.dim, r.q_first, r.queries);
    load_queries<MASKED>(a, m, r.b, r.q_first, q);
    begin_rows<MASKED>(a, m, first, carry, lse, r);
    __syncthreads();
    const span seen = seen_by<MASKED>(m, q);
    int64_t k_first = tile_from<MASKED>(a.sequence, a.sequence.k_start, a.sk, 0, seen);
    while (k_first < a.sk) {
        load_keys<MASKED>(a, m, r.b, k_first, k);
        __syncthreads();
        if (tiles_meet<MASKED>(m, q, k)) {
            load_tile(a.k, a.dtype, r.b, a.sk, a.kv_heads, kv_head, a.dim, k_first, r.tile);
            __syncthreads();
            score_tile<MASKED>(a, m, r, q, k);
            __syncthreads();
            load_tile(a.v, a.dtype, r.b, a.sk, a.kv_heads, kv_head, a.dim, k_first, r.tile);
            weigh_tile(r);
            __syncthreads();
            add_tile(a, r);
        }
        __syncthreads(); /* before the next positions and tiles */
        k_first = tile_from<MASKED>(a.sequence, a.sequence.k_start, a.sk, k_first + TILE, seen);
    }
    write_rows<MASKED>(a, last, carry, o, lse, r);
}

/* One warp per row (token, head). */
__global__ static void delta_kernel(const void *o, const void *d_o, int dtype, float *delta,
                                    int64_t rows, int dim)
{
    const int lane = threadIdx.x % SW_WARP;
    const int64_t row = (int64_t)blockIdx.x * (SW_THREADS / SW_WARP) + threadIdx.x / SW_WARP;
    float sum = 0;
    for (int d = lane; d < dim && row < rows; d += SW_WARP)
        sum += sw_load(o, dtype, row * dim + d) * sw_load(d_o, dtype, row * dim + d);
    for (int other = SW_WARP / 2; other > 0; other /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0 && row < rows)
        delta[row] = sum;
}

/* A block per head: the sink's gradient; its weight in a row, exp(sink - lse), has no value. */
__global__ static void sink_kernel(struct attention a, struct sw_cuda_mask m, const float *lse,
                                   const float *delta, void *d_sink, int dtype)
{
    const int64_t head = blockIdx.x, rows = a.batch * a.sq;
    const float sink = sw_load(m.sink, m.sink_dtype, head);
    double sum = 0;
    for (int64_t row = threadIdx.x; row < rows; row += SW_THREADS)
        sum -= (double)(expf(sink - lse[row * a.heads + head]) * delta[row * a.heads + head]);
    sum = sw_block_sum_double(sum);
    if (threadIdx.x == 0)
        sw_store(d_sink, dtype, head, (float)sum);
}

/* Probabilities and their gradients of a pair of tiles, [TILE queries, TILE keys], for both
 * backward kernels. */
template <bool MASKED>
__device__ static void
score_cotangents(const struct attention *a, const struct sw_cuda_mask &m, const float *queries,
                 const float *keys, const float *values, const float *cotangents, const side &q,
                 const side &k, const float *lse, const float *delta, float *p, float *ds)
{
    const int stride = a->dim + 1;
    for (int i = threadIdx.x; i < TILE * TILE; i += SW_THREADS) {
        const int row = i / TILE, column = i % TILE;
        float probability = 0, cotangent = 0, slope;
        if (sees<MASKED>(m, q, row, k, column)) {
            const float score = score_of<MASKED>(
                m, a->scale * dot_rows(queries + row * stride, keys + column * stride, a->dim),
                &slope);
            probability = expf(score - lse[row]);
            cotangent = probability * a->scale *
                        (dot_rows(cotangents + row * stride, values + column * stride, a->dim) -
                         delta[row]);
            if (MASKED)
                cotangent *= slope;
        }
        p[row * (TILE + 1) + column] = probability;
        ds[row * (TILE + 1) + column] = cotangent;
    }
}

/* Loads lse and delta of TILE queries; 0 behind the end, where position -1 hides them. */
__device__ static void load_statistics(const struct attention *a, int64_t b, int64_t head,
                                       int64_t q_first, const float *lse, const float *delta,
                                       float *tile_lse, float *tile_delta)
{
    if (threadIdx.x < TILE) {
        const bool there = q_first + threadIdx.x < a->sq;
        const int64_t at = (b * a->sq + q_first + threadIdx.x) * a->heads + head;
        tile_lse[threadIdx.x] = there ? lse[at] : 0.0f;
        tile_delta[threadIdx.x] = there ? delta[at] : 0.0f;
    }
}

/* Shared memory of both kernels: four tiles [TILE, dim + 1], one or two accumulators of that size,
 * p and ds. This one: dq of TILE queries of one head. */
template <bool MASKED>
__global__ static void backward_queries_kernel(struct attention a, struct sw_cuda_mask m,
                                               bool first, const void *d_o, const float *lse,
                                               const float *delta, float *dq)
{
    SW_DYNAMIC_SHARED(float, shared);
    __shared__ int64_t q_positions[TILE], k_positions[TILE];
    __shared__ int32_t q_segments[TILE], k_segments[TILE];
    __shared__ float tile_lse[TILE], tile_delta[TILE];
    const side q = {q_positions, q_segments}, k = {k_positions, k_segments};
    const int stride = a.dim + 1;
    float *queries = shared, *cotangents = queries + TILE * stride;
    float *keys = cotangents + TILE * stride, *values = keys + TILE * stride;
    float *sum = values + TILE * stride, *p = sum + TILE * stride, *ds = p + TILE * (TILE + 1);
    const int64_t head = blockIdx.y, b = blockIdx.z, q_first = (int64_t)blockIdx.x * TILE;

    load_tile(a.q, a.dtype, b, a.sq, a.heads, head, a.dim, q_first, queries);
    load_tile(d_o, a.dtype, b, a.sq, a.heads, head, a.dim, q_first, cotangents);
    load_queries<MASKED>(a, m, b, q_first, q);
    load_statistics(&a, b, head, q_first, lse, delta, tile_lse, tile_delta);
    for (int i = threadIdx.x; i < TILE * stride; i += SW_THREADS)
        sum[i] = 0;
    if (MASKED)
        __syncthreads();
    const span seen = seen_by<MASKED>(m, q);
    int64_t k_first = tile_from<MASKED>(a.sequence, a.sequence.k_start, a.sk, 0, seen);
    while (k_first < a.sk) {
        load_keys<MASKED>(a, m, b, k_first, k);
        __syncthreads();
        const bool meet = tiles_meet<MASKED>(m, q, k);
        if (meet) {
            load_tile(a.k, a.dtype, b, a.sk, a.kv_heads, head / a.group, a.dim, k_first, keys);
            load_tile(a.v, a.dtype, b, a.sk, a.kv_heads, head / a.group, a.dim, k_first, values);
            __syncthreads();
            score_cotangents<MASKED>(&a, m, queries, keys, values, cotangents, q, k, tile_lse,
                                     tile_delta, p, ds);
            __syncthreads();
            for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
                const int row = i / a.dim, d = i % a.dim;
                float value = sum[row * stride + d];
                for (int j = 0; j < TILE; j++)
                    value += ds[row * (TILE + 1) + j] * keys[j * stride + d];
                sum[row * stride + d] = value;
            }
        }
        __syncthreads();
        k_first = tile_from<MASKED>(a.sequence, a.sequence.k_start, a.sk, k_first + TILE, seen);
    }
    for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
        const int row = i / a.dim, d = i % a.dim;
        if (q_first + row >= a.sq)
            continue;
        float *to = dq + ((b * a.sq + q_first + row) * a.heads + head) * a.dim + d;
        *to = (first ? 0.0f : *to) + sum[row * stride + d];
    }
}

/* dk, dv of TILE keys of one kv head, from all queries of its group of heads. */
template <bool MASKED>
__global__ static void backward_keys_kernel(struct attention a, struct sw_cuda_mask m,
                                            const void *d_o, const float *lse, const float *delta,
                                            float *dk, float *dv)
{
    SW_DYNAMIC_SHARED(float, shared);
    __shared__ int64_t q_positions[TILE], k_positions[TILE];
    __shared__ int32_t q_segments[TILE], k_segments[TILE];
    __shared__ float tile_lse[TILE], tile_delta[TILE];
    const side q = {q_positions, q_segments}, k = {k_positions, k_segments};
    const int stride = a.dim + 1;
    float *queries = shared, *cotangents = queries + TILE * stride;
    float *keys = cotangents + TILE * stride, *values = keys + TILE * stride;
    float *sum_k = values + TILE * stride, *sum_v = sum_k + TILE * stride;
    float *p = sum_v + TILE * stride, *ds = p + TILE * (TILE + 1);
    const int64_t kv_head = blockIdx.y, b = blockIdx.z, k_first = (int64_t)blockIdx.x * TILE;

    load_tile(a.k, a.dtype, b, a.sk, a.kv_heads, kv_head, a.dim, k_first, keys);
    load_tile(a.v, a.dtype, b, a.sk, a.kv_heads, kv_head, a.dim, k_first, values);
    load_keys<MASKED>(a, m, b, k_first, k);
    for (int i = threadIdx.x; i < TILE * stride; i += SW_THREADS)
        sum_k[i] = sum_v[i] = 0;
    if (MASKED)
        __syncthreads();
    const span wanted = seeing<MASKED>(m, k);
    for (int64_t head = kv_head * a.group; head < (kv_head + 1) * a.group; head++) {
        int64_t q_first = tile_from<MASKED>(a.sequence, a.sequence.q_start, a.sq, 0, wanted);
        while (q_first < a.sq) {
            load_queries<MASKED>(a, m, b, q_first, q);
            __syncthreads();
            const bool meet = tiles_meet<MASKED>(m, q, k);
            if (meet) {
                load_tile(a.q, a.dtype, b, a.sq, a.heads, head, a.dim, q_first, queries);
                load_tile(d_o, a.dtype, b, a.sq, a.heads, head, a.dim, q_first, cotangents);
                load_statistics(&a, b, head, q_first, lse, delta, tile_lse, tile_delta);
                __syncthreads();
                score_cotangents<MASKED>(&a, m, queries, keys, values, cotangents, q, k, tile_lse,
                                         tile_delta, p, ds);
                __syncthreads();
                for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
                    const int row = i / a.dim, d = i % a.dim;
                    float to_k = sum_k[row * stride + d], to_v = sum_v[row * stride + d];
                    for (int j = 0; j < TILE; j++) {
                        to_k += ds[j * (TILE + 1) + row] * queries[j * stride + d];
                        to_v += p[j * (TILE + 1) + row] * cotangents[j * stride + d];
                    }
                    sum_k[row * stride + d] = to_k;
                    sum_v[row * stride + d] = to_v;
                }
            }
            __syncthreads();
            q_first =
                tile_from<MASKED>(a.sequence, a.sequence.q_start, a.sq, q_first + TILE, wanted);
        }
    }
    for (int i = threadIdx.x; i < TILE * a.dim; i += SW_THREADS) {
        const int row = i / a.dim, d = i % a.dim;
        if (k_first + row >= a.sk)
            continue;
        const int64_t at = ((b * a.sk + k_first + row) * a.kv_heads + kv_head) * a.dim + d;
        dk[at] = sum_k[row * stride + d];
        dv[at] = sum_v[row * stride + d];
    }
}

static size_t shared_bytes(int dim, int tiles, int squares)
{
    return sizeof(float) * (size_t)(tiles * TILE * (dim + 1) + squares * TILE * (TILE + 1));
}

extern "C" size_t sw_cuda_attention_shared(int32_t dim, bool backward)
{
    return backward ? shared_bytes(dim, 6, 2) : shared_bytes(dim, 3, 1);
}

/* More than 48 KiB of shared memory needs an attribute. */
static cudaError_t allow_shared(const void *kernel, size_t bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

static dim3 tiles_grid(int64_t rows, int64_t heads, int64_t batch)
{
    return dim3((unsigned)((rows + TILE - 1) / TILE), (unsigned)heads, (unsigned)batch);
}

extern "C" cudaError_t sw_cuda_attention_forward(const struct sw_cuda_attention *a, bool first,
                                                 bool last, float *carry, void *o, float *lse,
                                                 cudaStream_t stream)
{
    const size_t bytes = shared_bytes(a->dim, 3, 1);
    const auto kernel = sw_cuda_is_masked(&a->mask) ? forward_kernel<true> : forward_kernel<false>;
    const cudaError_t code = allow_shared((const void *)kernel, bytes);
    if (code != cudaSuccess || a->batch * a->sq == 0)
        return code;
    SW_LAUNCH(kernel, tiles_grid(a->sq, a->heads, a->batch), SW_THREADS, bytes, stream, describe(a),
              a->mask, first, last, carry, o, lse);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_attention_delta(const struct sw_cuda_attention *a, const void *o,
                                               const void *d_o, float *delta, cudaStream_t stream)
{
    const int64_t rows = a->batch * a->sq * a->heads, per_block = SW_THREADS / SW_WARP;
    if (rows == 0)
        return cudaSuccess;
    SW_LAUNCH(delta_kernel, (unsigned)((rows + per_block - 1) / per_block), SW_THREADS, 0, stream,
              o, d_o, (int)a->dtype, delta, rows, a->dim);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_attention_sink(const struct sw_cuda_attention *a, const float *lse,
                                              const float *delta, void *d_sink, enum sw_dtype dtype,
                                              cudaStream_t stream)
{
    SW_LAUNCH(sink_kernel, (unsigned)a->heads, SW_THREADS, 0, stream, describe(a), a->mask, lse,
              delta, d_sink, (int)dtype);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_attention_backward(const struct sw_cuda_attention *a, bool first,
                                                  const void *d_o, const float *lse,
                                                  const float *delta, float *dq, float *dk,
                                                  float *dv, cudaStream_t stream)
{
    const size_t q_bytes = shared_bytes(a->dim, 5, 2), k_bytes = shared_bytes(a->dim, 6, 2);
    const bool masked = sw_cuda_is_masked(&a->mask);
    const auto queries = masked ? backward_queries_kernel<true> : backward_queries_kernel<false>;
    const auto keys = masked ? backward_keys_kernel<true> : backward_keys_kernel<false>;
    cudaError_t code = allow_shared((const void *)queries, q_bytes);
    if (code == cudaSuccess)
        code = allow_shared((const void *)keys, k_bytes);
    if (code != cudaSuccess || a->batch * a->sq * a->sk == 0)
        return code;
    SW_LAUNCH(queries, tiles_grid(a->sq, a->heads, a->batch), SW_THREADS, q_bytes, stream,
              describe(a), a->mask, first, d_o, lse, delta, dq);
    SW_LAUNCH(keys, tiles_grid(a->sk, a->kv_heads, a->batch), SW_THREADS, k_bytes, stream,
              describe(a), a->mask, d_o, lse, delta, dk, dv);
    return cudaGetLastError();
}

/* ---- Pieces of a library's kernel ---- */

struct piece {
    int64_t batch, sq, heads, first, n;
    int dim, dtype;
};

static struct piece describe_piece(const struct sw_cuda_piece *p)
{
    struct piece d;
    d.batch = p->batch;
    d.sq = p->sq;
    d.heads = p->heads;
    d.first = p->first;
    d.n = p->n;
    d.dim = p->dim;
    d.dtype = (int)p->dtype;
    return d;
}

/* One warp per (token, head); lane 0 writes the new log-sum-exp after all lanes have read the old
 * one. o = o w + o_piece w', w = exp(lse - new), w' = exp(stats - new). */
__global__ static void merge_kernel(struct piece p, const void *o_piece, const float *stats,
                                    float *carry, float *lse)
{
    const int lane = threadIdx.x % SW_WARP;
    const int64_t rows = p.batch * p.n * p.heads;
    const int64_t row = (int64_t)blockIdx.x * (SW_THREADS / SW_WARP) + threadIdx.x / SW_WARP;
    if (row >= rows)
        return;
    const int64_t head = row % p.heads, i = row / p.heads % p.n, b = row / p.heads / p.n;
    const int64_t at = (b * p.sq + p.first + i) * p.heads + head;
    const float old = lse[at], arrived = stats[(b * p.heads + head) * p.n + i];
    const float most = fmaxf(old, arrived);
    const float weight = old <= LEAST ? 0.0f : expf(old - most), fresh = expf(arrived - most);
    const float total = weight + fresh;
    for (int d = lane; d < p.dim; d += SW_WARP) {
        float *to = carry + at * p.dim + d;
        const float before = old <= LEAST ? 0.0f : *to; /* not yet written: undefined */
        *to = (before * weight + sw_load(o_piece, p.dtype, row * p.dim + d) * fresh) / total;
    }
    __syncwarp();
    if (lane == 0)
        lse[at] = most + logf(total);
}

__global__ static void stats_kernel(struct piece p, bool back, float *stats, float *lse)
{
    SW_GRID_STRIDE(i, p.batch * p.n * p.heads)
    {
        const int64_t t = i % p.n, head = i / p.n % p.heads, b = i / p.n / p.heads;
        const int64_t at = (b * p.sq + p.first + t) * p.heads + head;
        if (back)
            lse[at] = stats[i];
        else
            stats[i] = lse[at];
    }
}

__global__ static void piece_add_kernel(struct piece p, int64_t width, const void *from, float *to)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, p.batch * p.n * groups)
    {
        const int64_t j = i % groups * SW_VECTOR, t = i / groups % p.n, b = i / groups / p.n;
        const int64_t at = (b * p.sq + p.first + t) * width + j;
        const int n = sw_left(j, width);
        float sum[SW_VECTOR], add[SW_VECTOR];
        sw_load8(to, SW_F32, at, n, sum);
        sw_load8(from, p.dtype, (b * p.n + t) * width + j, n, add);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum[k] += add[k];
        sw_store8(to, SW_F32, at, n, sum);
    }
}

extern "C" cudaError_t sw_cuda_piece_merge(const struct sw_cuda_piece *p, const void *o_piece,
                                           const float *stats, float *carry, float *lse,
                                           cudaStream_t stream)
{
    const int64_t rows = p->batch * p->n * p->heads, per_block = SW_THREADS / SW_WARP;
    SW_LAUNCH(merge_kernel, (unsigned)((rows + per_block - 1) / per_block), SW_THREADS, 0, stream,
              describe_piece(p), o_piece, stats, carry, lse);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_piece_stats(const struct sw_cuda_piece *p, bool back, float *stats,
                                           float *lse, cudaStream_t stream)
{
    SW_LAUNCH(stats_kernel, sw_grid(p->batch * p->n * p->heads), SW_THREADS, 0, stream,
              describe_piece(p), back, stats, lse);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_piece_add(const struct sw_cuda_piece *p, int64_t width,
                                         const void *from, float *to, cudaStream_t stream)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_LAUNCH(piece_add_kernel, sw_grid(p->batch * p->n * groups), SW_THREADS, 0, stream,
              describe_piece(p), width, from, to);
    return cudaGetLastError();
}
