/* Attention of one token per slot over the cache: blocks process ranges of positions, reading each
 * byte once for up to eight query heads that share it; the ranges are then merged in order
 * (flash-decoding; Dao et al. 2023). No atomics: deterministic. f32; bf16 queries use cached_mma.cu
 * unless the cache is f32. */
#include "runner/device/cuda/cached.cuh"

/* Eight elements as stored, i8 unscaled; read in pieces of up to 16 bytes if aligned. */
template <int DTYPE, bool ALIGNED> struct vector;

template <> struct vector<SW_BF16_T, true> {
    uint4 raw;
    __device__ inline void load(const void *data, int64_t i, int)
    {
        raw = *(const uint4 *)((const uint16_t *)data + i);
    }
    __device__ inline void widen(float *to) const
    {
        to[0] = sw_widen(raw.x & 0xffffu), to[1] = sw_widen(raw.x >> 16);
        to[2] = sw_widen(raw.y & 0xffffu), to[3] = sw_widen(raw.y >> 16);
        to[4] = sw_widen(raw.z & 0xffffu), to[5] = sw_widen(raw.z >> 16);
        to[6] = sw_widen(raw.w & 0xffffu), to[7] = sw_widen(raw.w >> 16);
    }
};

template <> struct vector<SW_F32, true> {
    float4 low, high;
    __device__ inline void load(const void *data, int64_t i, int)
    {
        low = ((const float4 *)((const float *)data + i))[0];
        high = ((const float4 *)((const float *)data + i))[1];
    }
    __device__ inline void widen(float *to) const
    {
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    }
};

template <> struct vector<SW_I8, true> {
    uint2 raw;
    __device__ inline void load(const void *data, int64_t i, int)
    {
        raw = *(const uint2 *)((const int8_t *)data + i);
    }
    __device__ inline void widen(float *to) const
    {
#pragma unroll
        for (int d = 0; d < SW_VECTOR / 2; d++) {
            to[d] = (float)(int8_t)(raw.x >> 8 * d);
            to[d + SW_VECTOR / 2] = (float)(int8_t)(raw.y >> 8 * d);
        }
    }
};

template <> struct vector<SW_I8, false> {
    float value[SW_VECTOR];
    __device__ inline void load(const void *data, int64_t i, int n)
    {
#pragma unroll
        for (int d = 0; d < SW_VECTOR; d++)
            value[d] = d < n ? (float)((const int8_t *)data)[i + d] : 0.0f;
    }
    __device__ inline void widen(float *to) const
    {
#pragma unroll
        for (int d = 0; d < SW_VECTOR; d++)
            to[d] = value[d];
    }
};

template <int DTYPE> struct vector<DTYPE, false> {
    float value[SW_VECTOR];
    __device__ inline void load(const void *data, int64_t i, int n)
    {
        sw_load8(data, DTYPE, i, n, value);
    }
    __device__ inline void widen(float *to) const
    {
#pragma unroll
        for (int d = 0; d < SW_VECTOR; d++)
            to[d] = value[d];
    }
};

/* A block takes ROWS of the query heads that share a kv head. `lanes` neighbouring lanes (a power
 * of two, at most a warp) hold a row, a vector each; so each thread's parts of all queries and
 * results stay in registers. */
template <int ROWS> struct running {
    float out[ROWS][SW_VECTOR], maximum[ROWS], sum[ROWS];
};

/* Scores of KEYS keys from j, `step` apart, become the weights of their values: exponentials times
 * v_scale, 0 behind `end`. Rescales earlier results if the maximum grows. */
template <int ROWS, int KEYS, bool MASKED>
__device__ static inline void weigh_keys(const cache_mask &m, float (*score)[ROWS],
                                         const float *k_scale, const float *v_scale, int64_t j,
                                         int step, int64_t end, running<ROWS> &r)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float most = r.maximum[i];
#pragma unroll
        for (int u = 0; u < KEYS; u++) {
            score[u][i] =
                j + u * step < end ? capped<MASKED>(m, score[u][i] * k_scale[u]) : -INFINITY;
            most = fmaxf(most, score[u][i]);
        }
        const float shrink = exp2f(r.maximum[i] - most);
        r.maximum[i] = most;
        r.sum[i] *= shrink;
#pragma unroll
        for (int d = 0; d < SW_VECTOR; d++)
            r.out[i][d] *= shrink;
#pragma unroll
        for (int u = 0; u < KEYS; u++) {
            score[u][i] = exp2f(score[u][i] - most);
            r.sum[i] += score[u][i];
            score[u][i] *= v_scale[u];
        }
    }
}

/* Attends to KEYS keys from j, `step` apart, those behind `end` adding nothing. first_head: head
 * index of the slot's first place. i8 scales are applied to scores and exponentials, once per key
 * instead of per element. */
template <int ROWS, int KEYS, int DTYPE, bool ALIGNED, bool MASKED>
__device__ static inline void attend_keys(const cached &a, const cache_mask &m, int64_t from,
                                          int64_t place, const float (*q)[SW_VECTOR],
                                          int64_t first_head, int column, int64_t j, int step,
                                          int64_t end, int lanes, int n, running<ROWS> &r)
{
    vector<DTYPE, ALIGNED> keys[KEYS], values[KEYS];
    float score[KEYS][ROWS], k_scale[KEYS], v_scale[KEYS];
#pragma unroll
    for (int u = 0; u < KEYS; u++) {
        const int64_t index = j + u * step < end ? j + u * step : end - 1;
        const int64_t head = first_head + place_of<MASKED>(a.part, from, place, index) * a.kv_heads;
        keys[u].load(a.k, head * a.dim + column, n);
        values[u].load(a.v, head * a.dim + column, n);
        k_scale[u] = DTYPE == SW_I8 ? a.k_scales[head] : 1.0f;
        v_scale[u] = DTYPE == SW_I8 ? a.v_scales[head] : 1.0f;
    }
#pragma unroll
    for (int u = 0; u < KEYS; u++) {
        float key[SW_VECTOR];
        keys[u].widen(key);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            score[u][i] = 0;
#pragma unroll
            for (int d = 0; d < SW_VECTOR; d++)
                score[u][i] += q[i][d] * key[d];
        }
    }
    for (int lane = lanes / 2; lane > 0; lane /= 2)
#pragma unroll
        for (int u = 0; u < KEYS; u++)
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                score[u][i] += __shfl_xor_sync(0xffffffffu, score[u][i], lane);
    weigh_keys<ROWS, KEYS, MASKED>(m, score, k_scale, v_scale, j, step, end, r);
#pragma unroll
    for (int u = 0; u < KEYS; u++) {
        float value[SW_VECTOR];
        values[u].widen(value);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int d = 0; d < SW_VECTOR; d++)
                r.out[i][d] += score[u][i] * value[d];
    }
}

/* Adds the results of a warp's lanes, in the same order for all lanes. */
template <int ROWS> __device__ static inline void join_lanes(running<ROWS> &r, int lanes)
{
    for (int other = lanes; other < SW_WARP; other *= 2)
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const float its = __shfl_xor_sync(0xffffffffu, r.maximum[i], other);
            const float most = fmaxf(r.maximum[i], its);
            const float mine = exp2f(r.maximum[i] - most), theirs = exp2f(its - most);
            r.sum[i] = r.sum[i] * mine + __shfl_xor_sync(0xffffffffu, r.sum[i], other) * theirs;
            r.maximum[i] = most;
#pragma unroll
            for (int d = 0; d < SW_VECTOR; d++)
                r.out[i][d] =
                    r.out[i][d] * mine + __shfl_xor_sync(0xffffffffu, r.out[i][d], other) * theirs;
        }
}

/* Loads queries from row `first`, zeros behind `rows`, and clears the results. */
template <int ROWS>
__device__ static inline void begin_rows(const cached &a, int64_t first, int rows, int d, int n,
                                         float (*q)[SW_VECTOR], running<ROWS> &r)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        r.maximum[i] = LEAST;
        r.sum[i] = 0;
        sw_load8(a.q.data, a.q.dtype, (first + (i < rows ? i : 0)) * a.dim + d, i < rows ? n : 0,
                 q[i]);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++) {
            q[i][k] *= a.scale;
            r.out[i][k] = 0;
        }
    }
}

/* Adds the warps' results of each row; row i goes to s at `first` + i * s.count. */
template <int ROWS>
__device__ static inline void
write_rows(const cached &a, const ranges &s, const running<ROWS> &r, int64_t first, int rows, int d,
           int n, float (*outs)[SW_CUDA_MAX_ATTENTION_DIM], float *maxima, float *sums)
{
    const int warp = (int)threadIdx.x / SW_WARP;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        if (i >= rows) /* uniform in the block */
            break;
        if ((int)threadIdx.x % SW_WARP < s.lanes) {
#pragma unroll
            for (int k = 0; k < SW_VECTOR; k++)
                if (k < n)
                    outs[warp][d + k] = r.out[i][k];
            maxima[warp] = r.maximum[i];
            sums[warp] = r.sum[i];
        }
        __syncthreads();
        float most = maxima[0], sum = 0;
        for (int w = 1; w < WARPS; w++)
            most = fmaxf(most, maxima[w]);
        for (int w = 0; w < WARPS; w++)
            sum += sums[w] * exp2f(maxima[w] - most);
        const int64_t row = first + i * s.count;
        for (int c = (int)threadIdx.x; c < a.dim; c += SW_THREADS) {
            float value = 0;
            for (int w = 0; w < WARPS; w++)
                value += outs[w][c] * exp2f(maxima[w] - most);
            s.out[row * a.dim + c] = value;
        }
        if (threadIdx.x == 0) {
            if (s.count == 1) {
                put_stats(s.stats + row * 2, most, sum);
            } else {
                s.stats[row * 2] = most;
                s.stats[row * 2 + 1] = sum;
            }
        }
        __syncthreads(); /* before the next row */
    }
}

/* Two blocks per multiprocessor if registers allow: one loads while the other computes. */
template <int ROWS, int KEYS, int DTYPE, bool ALIGNED, bool MASKED>
__global__ static void __launch_bounds__(SW_THREADS, ROWS <= 4 ? 2 : 1)
    decode_kernel(cached a, ranges s, cache_mask m)
{
    __shared__ float outs[WARPS][SW_CUDA_MAX_ATTENTION_DIM], maxima[WARPS], sums[WARPS];
    const int lane = (int)threadIdx.x % s.lanes, mine = (int)threadIdx.x / s.lanes;
    const int step = SW_THREADS / s.lanes;
    const int d = lane * SW_VECTOR, n = d < a.dim ? sw_left(d, a.dim) : 0;
    for (int64_t task = blockIdx.x; task < s.tasks; task += gridDim.x) {
        /* ranges that all slots have come first, so that blocks without work come last */
        const int64_t heads_done = task / s.row_blocks;
        const int64_t kv_head = heads_done % a.kv_heads, b = heads_done / a.kv_heads % a.batch;
        const int64_t range = heads_done / a.kv_heads / a.batch;
        const int in_group = (int)(task % s.row_blocks) * ROWS;
        const int32_t *slot = a.slots + b * SW_SLOT_FIELDS;
        const int64_t visible = visible_to<MASKED>(a.part, m, slot);
        const int64_t hidden = hidden_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST], visible);
        const int64_t first = hidden + range * s.positions;
        const int64_t end = first + s.positions < visible ? first + s.positions : visible;
        if (range > 0 && first >= visible)
            continue; /* the merge skips them too */
        const int64_t head = kv_head * a.group + in_group;
        const int rows = a.group - in_group < ROWS ? a.group - in_group : ROWS;
        float q[ROWS][SW_VECTOR];
        running<ROWS> r;
        begin_rows<ROWS>(a, b * a.heads + head, rows, d, n, q, r);
        /* lanes behind the end of a row read its beginning and multiply by zeros */
        const int64_t first_head =
            local_slot(a.part, slot) * a.part.positions * a.kv_heads + kv_head;
        const int64_t place = MASKED ? first % a.part.positions : first;
        for (int64_t j = first; j < end; j += step * KEYS)
            attend_keys<ROWS, KEYS, DTYPE, ALIGNED, MASKED>(a, m, first, place, q, first_head,
                                                            n > 0 ? d : 0, j + mine, step, end,
                                                            s.lanes, n, r);
        join_lanes<ROWS>(r, s.lanes);
        write_rows<ROWS>(a, s, r, (b * a.heads + head) * s.count + range, rows, d, n, outs, maxima,
                         sums);
    }
}

/* A block per row: one query head of a slot. `slices` of threads share the ranges. */
template <bool MASKED>
__global__ static void merge_ranges_kernel(cached a, ranges s, cache_mask m, int columns)
{
    __shared__ float parts[SW_THREADS];
    const int64_t row = blockIdx.x;
    const int32_t *slot = a.slots + row / a.heads * SW_SLOT_FIELDS;
    const int64_t visible = visible_to<MASKED>(a.part, m, slot);
    const int64_t hidden = hidden_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST], visible);
    int64_t count = (visible - hidden + s.positions - 1) / s.positions;
    count = count < 1 ? 1 : count; /* the first always exists */
    const float *stats = s.stats + row * s.count * 2, *out = s.out + row * s.count * a.dim;
    const int slices = SW_THREADS / columns, slice = (int)threadIdx.x / columns;
    float most = LEAST, sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += SW_THREADS)
        most = fmaxf(most, stats[2 * i]);
    most = sw_block_max(most);
    for (int64_t i = threadIdx.x; i < count; i += SW_THREADS)
        sum += stats[2 * i + 1] * exp2f(stats[2 * i] - most);
    sum = sw_block_sum(sum);
    for (int first = 0; first < a.dim; first += columns) {
        const int c = first + (int)threadIdx.x % columns;
        float value = 0;
        if (c < a.dim)
#pragma unroll 4
            for (int64_t i = slice; i < count; i += slices)
                value += out[i * a.dim + c] * exp2f(stats[2 * i] - most);
        parts[threadIdx.x] = value;
        __syncthreads();
        if (slice == 0 && c < a.dim) {
            for (int k = 1; k < slices; k++)
                value += parts[k * columns + c - first];
            a.out[row * a.dim + c] = value;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        put_stats(a.stats + row * 2, most, sum);
}

static bool is_aligned(const cached &a)
{
    return a.dim % SW_VECTOR == 0 && ((uintptr_t)a.k & 15) == 0 && ((uintptr_t)a.v & 15) == 0;
}

typedef void (*decoder)(cached, ranges, cache_mask);

/* *rows: query heads per block. Registers hold two keys per thread at four or eight heads, else
 * four. Few masked variants, since f32 caches are rare. */
template <int DTYPE> static decoder decoder_of(const cached &a, bool masked, int *rows)
{
    if (masked) {
        *rows = 4;
        return is_aligned(a) ? decode_kernel<4, 2, DTYPE, true, true>
                             : decode_kernel<4, 2, DTYPE, false, true>;
    }
    *rows = a.group > 4 || !is_aligned(a) ? 8 : a.group > 2 ? 4 : a.group;
    if (!is_aligned(a))
        return decode_kernel<8, 2, DTYPE, false, false>;
    switch (*rows) {
    case 1:
        return decode_kernel<1, 4, DTYPE, true, false>;
    case 2:
        return decode_kernel<2, 4, DTYPE, true, false>;
    case 4:
        return decode_kernel<4, 2, DTYPE, true, false>;
    default:
        return decode_kernel<8, 2, DTYPE, true, false>;
    }
}

static decoder choose_decoder(const cached &a, bool masked, int *rows)
{
    switch (a.dtype) {
    case SW_I8:
        return decoder_of<SW_I8>(a, masked, rows);
    case SW_BF16_T:
        return decoder_of<SW_BF16_T>(a, masked, rows);
    default:
        return decoder_of<SW_F32>(a, masked, rows);
    }
}

static int power_of_two(int64_t least, int most)
{
    int n = 1;
    while (n < most && n < least)
        n *= 2;
    return n;
}

extern "C" cudaError_t sw_cuda_decode_token(const struct sw_call *call,
                                            const struct sw_decode_ranges *shares, void *between,
                                            cudaStream_t stream)
{
    const cached a = describe(call);
    const cache_mask m = mask_of(call);
    const int64_t rows = a.batch * a.heads;
    ranges s;
    int rows_of_block;
    if (rows == 0)
        return cudaSuccess;
    if (rows > INT32_MAX || a.dim > SW_CUDA_MAX_ATTENTION_DIM)
        return cudaErrorInvalidValue;
    const bool narrow = on_tensor_cores(a.q.dtype, a.dtype);
    const decoder kernel = choose_decoder(a, is_masked(m), &rows_of_block);
    s.lanes = power_of_two((a.dim + SW_VECTOR - 1) / SW_VECTOR, SW_WARP);
    s.row_blocks = (a.group + rows_of_block - 1) / rows_of_block;
    s.positions = shares->positions;
    s.count = shares->count < 1 ? 1 : shares->count;
    s.tasks = s.count * a.batch * a.kv_heads * s.row_blocks;
    s.out = s.count > 1 ? (float *)between : a.out;
    s.stats = s.count > 1 ? (float *)((char *)between + shares->stats) : a.stats;
    if (!narrow)
        SW_LAUNCH(kernel, blocks_for(s.tasks), SW_THREADS, 0, stream, a, s, m);
    const cudaError_t code = narrow ? decode_mma(a, s, m, stream) : cudaGetLastError();
    const auto merge = is_masked(m) ? merge_ranges_kernel<true> : merge_ranges_kernel<false>;
    if (code == cudaSuccess && s.count > 1)
        SW_LAUNCH(merge, (unsigned)rows, SW_THREADS, 0, stream, a, s, m,
                  power_of_two(a.dim, SW_THREADS));
    return code != cudaSuccess ? code : cudaGetLastError();
}
