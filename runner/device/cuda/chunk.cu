/* Attention of a prompt's chunk over the cache, which includes the chunk: exact blockwise attention
 * (Dao et al. 2022) in f32. No sum crosses blocks: results are deterministic. bf16 queries use
 * cached_mma.cu unless the cache is f32. */
#include "runner/device/cuda/cached.cuh"

/* A block processes TILE rows (token, query head of one kv head), TILE positions at a time; a
 * thread computes SQUARE x SQUARE squares of the products. */
enum { TILE = 64, SQUARE = 4, SCORE_STRIDE = TILE + SQUARE };

/* Loads TILE rows of keys or values into tile [TILE, DIM + SQUARE]: zeros behind the end and, if
 * MASKED, before `begin`. */
template <int DIM, bool MASKED>
__device__ static void load_positions(const cached &a, const void *x, const float *scales,
                                      int64_t b, int64_t kv_head, int64_t first, int64_t begin,
                                      int64_t end, float *tile)
{
    const int64_t from = MASKED && begin > first ? begin : first;
    const int64_t place = MASKED ? from % a.part.positions : first;
    for (int i = (int)threadIdx.x; i < TILE * (DIM / SW_VECTOR); i += SW_THREADS) {
        const int row = i / (DIM / SW_VECTOR), d = i % (DIM / SW_VECTOR) * SW_VECTOR;
        const int n = first + row < end && (!MASKED || first + row >= begin) && d < a.dim
                          ? sw_left(d, a.dim)
                          : 0;
        float p[SW_VECTOR];
        const int64_t index = n > 0 ? place_of<MASKED>(a.part, from, place, first + row) : 0;
        load_cached(a, x, scales, (b * a.part.positions + index) * a.kv_heads + kv_head, d, n, p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            tile[row * (DIM + SQUARE) + d + k] = p[k];
    }
}

/* Loads scaled queries and each one's visible range, from `hidden` to the limit; rows behind the
 * last see nothing. */
template <int DIM, bool MASKED>
__device__ static void load_queries(const cached &a, const cache_mask &m, int64_t b,
                                    int64_t kv_head, int64_t first, float *tile, int64_t *limits,
                                    int64_t *hidden)
{
    const int32_t *slot = a.slots + b * SW_SLOT_FIELDS;
    for (int i = (int)threadIdx.x; i < TILE * (DIM / SW_VECTOR); i += SW_THREADS) {
        const int row = i / (DIM / SW_VECTOR), d = i % (DIM / SW_VECTOR) * SW_VECTOR;
        const int64_t token = (first + row) / a.group, in_group = (first + row) % a.group;
        const int n = token < a.sq && d < a.dim ? sw_left(d, a.dim) : 0;
        const int64_t at =
            ((b * a.sq + (n > 0 ? token : 0)) * a.heads + kv_head * a.group + in_group) * a.dim;
        float p[SW_VECTOR];
        sw_load8(a.q.data, a.q.dtype, at + d, n, p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            tile[row * (DIM + SQUARE) + d + k] = p[k] * a.scale;
        if (d == 0)
            limits[row] = token < a.sq && token < slot[SW_SLOT_TOKENS] &&
                                  slot[SW_SLOT_FIRST] >= 0 && local_slot(a.part, slot) >= 0
                              ? visible_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST] + token)
                              : 0;
        if (MASKED && d == 0)
            hidden[row] =
                hidden_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST] + token, limits[row]);
    }
}

/* scores [TILE, TILE] = queries keys^T, LEAST where a place is not visible. */
template <int DIM, bool MASKED>
__device__ static void score_tile(const cache_mask &m, const float *queries, const float *keys,
                                  int64_t first, const int64_t *limits, const int64_t *hidden,
                                  float *scores)
{
    enum { SIDE = TILE / SQUARE, STRIDE = DIM + SQUARE };
    for (int i = (int)threadIdx.x; i < SIDE * SIDE; i += SW_THREADS) {
        /* rows SIDE apart, so that neighbouring threads read neighbouring keys */
        const int row = i / SIDE, column = i % SIDE;
        float sum[SQUARE][SQUARE] = {};
        for (int d = 0; d < DIM; d += SQUARE) {
            float4 q[SQUARE], k[SQUARE];
#pragma unroll
            for (int r = 0; r < SQUARE; r++) {
                q[r] = *(const float4 *)(queries + (row + r * SIDE) * STRIDE + d);
                k[r] = *(const float4 *)(keys + (column + r * SIDE) * STRIDE + d);
            }
#pragma unroll
            for (int r = 0; r < SQUARE; r++)
#pragma unroll
                for (int c = 0; c < SQUARE; c++) {
                    sum[r][c] += q[r].x * k[c].x;
                    sum[r][c] += q[r].y * k[c].y;
                    sum[r][c] += q[r].z * k[c].z;
                    sum[r][c] += q[r].w * k[c].w;
                }
        }
#pragma unroll
        for (int r = 0; r < SQUARE; r++)
#pragma unroll
            for (int c = 0; c < SQUARE; c++)
                scores[(row + r * SIDE) * SCORE_STRIDE + column + c * SIDE] =
                    first + column + c * SIDE < limits[row + r * SIDE] &&
                            (!MASKED || first + column + c * SIDE >= hidden[row + r * SIDE])
                        ? capped<MASKED>(m, sum[r][c])
                        : -INFINITY;
    }
}

/* Scores become exp2(score - maximum); a warp per row. */
__device__ static void soften(float *scores, float *maximum, float *sum, float *shrink)
{
    const int lane = (int)threadIdx.x % SW_WARP;
    for (int row = (int)threadIdx.x / SW_WARP; row < TILE; row += WARPS) {
        float *low = scores + row * SCORE_STRIDE + lane, *high = low + SW_WARP;
        const float before = maximum[row];
        float most = fmaxf(before, fmaxf(*low, *high));
        for (int other = SW_WARP / 2; other > 0; other /= 2)
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, other));
        const float a = exp2f(*low - most), b = exp2f(*high - most);
        float added = a + b;
        for (int other = SW_WARP / 2; other > 0; other /= 2)
            added += __shfl_xor_sync(0xffffffffu, added, other);
        *low = a;
        *high = b;
        if (lane == 0) {
            shrink[row] = exp2f(before - most);
            sum[row] = sum[row] * shrink[row] + added;
            maximum[row] = most;
        }
    }
}

/* A thread's squares of the results [TILE, DIM]. */
template <int DIM> struct kept {
    enum {
        SQUARES = (TILE / SQUARE) * (DIM / SQUARE),
        EACH = (SQUARES + SW_THREADS - 1) / SW_THREADS
    };
    float out[EACH][SQUARE][SQUARE];
};

/* out = out * shrink + scores values. */
template <int DIM>
__device__ static void add_values(const float *scores, const float *values, const float *shrink,
                                  kept<DIM> &k)
{
    enum { COLUMNS = DIM / SQUARE, STRIDE = DIM + SQUARE };
#pragma unroll
    for (int e = 0; e < kept<DIM>::EACH; e++) {
        const int i = (int)threadIdx.x + e * SW_THREADS;
        if (i >= kept<DIM>::SQUARES)
            break;
        const int row = i / COLUMNS * SQUARE, column = i % COLUMNS * SQUARE;
#pragma unroll
        for (int r = 0; r < SQUARE; r++)
#pragma unroll
            for (int c = 0; c < SQUARE; c++)
                k.out[e][r][c] *= shrink[row + r];
#pragma unroll 4
        for (int j = 0; j < TILE; j++) {
            const float4 v = *(const float4 *)(values + j * STRIDE + column);
#pragma unroll
            for (int r = 0; r < SQUARE; r++) {
                const float p = scores[(row + r) * SCORE_STRIDE + j];
                k.out[e][r][0] += p * v.x;
                k.out[e][r][1] += p * v.y;
                k.out[e][r][2] += p * v.z;
                k.out[e][r][3] += p * v.w;
            }
        }
    }
}

/* Shared memory: queries, and a tile of keys, then of values, each [TILE, DIM + SQUARE]; scores
 * [TILE, SCORE_STRIDE]. */
template <int DIM, bool MASKED>
__global__ static void __launch_bounds__(SW_THREADS, 1)
    chunk_kernel(cached a, cache_mask m, int64_t row_blocks, int64_t tasks)
{
    SW_DYNAMIC_SHARED(float, shared);
    __shared__ int64_t limits[TILE], hidden[TILE];
    __shared__ float maximum[TILE], sum[TILE], shrink[TILE];
    float *queries = shared, *tile = queries + TILE * (DIM + SQUARE);
    float *scores = tile + TILE * (DIM + SQUARE);
    for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        const int64_t first_row = task % row_blocks * TILE;
        const int64_t kv_head = task / row_blocks % a.kv_heads, b = task / row_blocks / a.kv_heads;
        kept<DIM> k = {};
        load_queries<DIM, MASKED>(a, m, b, kv_head, first_row, queries, limits, hidden);
        for (int i = (int)threadIdx.x; i < TILE; i += SW_THREADS) {
            maximum[i] = LEAST;
            sum[i] = 0;
        }
        __syncthreads();
        int64_t begin = MASKED ? INT64_MAX : 0, end = 0; /* range that any row sees */
        for (int i = 0; i < TILE; i++) {
            end = limits[i] > end ? limits[i] : end;
            if (MASKED && hidden[i] < limits[i] && hidden[i] < begin)
                begin = hidden[i];
        }
        if (MASKED && begin < end - a.part.positions)
            begin = end - a.part.positions;
        const int64_t slot = local_slot(a.part, a.slots + b * SW_SLOT_FIELDS);
        /* tiles begin at multiples of TILE, so that a row's bits do not depend on its block */
        for (int64_t first = MASKED ? begin / TILE * TILE : 0; first < end; first += TILE) {
            load_positions<DIM, MASKED>(a, a.k, a.k_scales, slot, kv_head, first, begin, end, tile);
            __syncthreads();
            score_tile<DIM, MASKED>(m, queries, tile, first, limits, hidden, scores);
            __syncthreads();
            load_positions<DIM, MASKED>(a, a.v, a.v_scales, slot, kv_head, first, begin, end, tile);
            soften(scores, maximum, sum, shrink);
            __syncthreads();
            add_values<DIM>(scores, tile, shrink, k);
            __syncthreads(); /* before the tile is overwritten */
        }
#pragma unroll
        for (int e = 0; e < kept<DIM>::EACH; e++) {
            const int i = (int)threadIdx.x + e * SW_THREADS;
            const int row = i / (DIM / SQUARE) * SQUARE, column = i % (DIM / SQUARE) * SQUARE;
#pragma unroll
            for (int r = 0; r < SQUARE; r++) {
                const int64_t token = (first_row + row + r) / a.group;
                const int64_t head = kv_head * a.group + (first_row + row + r) % a.group;
#pragma unroll
                for (int c = 0; c < SQUARE; c++)
                    if (i < kept<DIM>::SQUARES && token < a.sq && column + c < a.dim)
                        a.out[((b * a.sq + token) * a.heads + head) * a.dim + column + c] =
                            k.out[e][r][c];
            }
        }
        for (int i = (int)threadIdx.x; i < TILE; i += SW_THREADS) {
            const int64_t token = (first_row + i) / a.group;
            const int64_t head = kv_head * a.group + (first_row + i) % a.group;
            if (token < a.sq)
                put_stats(a.stats + ((b * a.sq + token) * a.heads + head) * 2, maximum[i], sum[i]);
        }
        __syncthreads(); /* before the next task overwrites limits and sums */
    }
}

static int tile_width(int dim)
{
    return dim <= 64 ? 64 : dim <= 128 ? 128 : (int)SW_CUDA_MAX_ATTENTION_DIM;
}

static size_t shared_bytes(int dim)
{
    return sizeof(float) * (2 * TILE * (tile_width(dim) + SQUARE) + TILE * SCORE_STRIDE);
}

extern "C" size_t sw_cuda_chunk_shared(int32_t dim, enum sw_dtype q, enum sw_dtype cache)
{
    return on_tensor_cores((int)q, (int)cache) ? chunk_mma_shared(dim, cache == SW_I8)
                                               : shared_bytes(dim);
}

template <int DIM>
static cudaError_t launch_chunk(const cached &a, const cache_mask &m, cudaStream_t stream)
{
    const auto kernel = is_masked(m) ? chunk_kernel<DIM, true> : chunk_kernel<DIM, false>;
    const size_t bytes = shared_bytes(DIM);
    const int64_t row_blocks = (a.sq * a.group + TILE - 1) / TILE;
    const int64_t tasks = row_blocks * a.kv_heads * a.batch;
    /* more than 48 KiB of shared memory needs an attribute */
    const cudaError_t code = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != cudaSuccess || tasks == 0)
        return code;
    SW_LAUNCH(kernel, blocks_for(tasks), SW_THREADS, bytes, stream, a, m, row_blocks, tasks);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_decode_chunk(const struct sw_call *call, cudaStream_t stream)
{
    const cached a = describe(call);
    const cache_mask m = mask_of(call);
    if (on_tensor_cores(a.q.dtype, a.dtype) && a.dim <= SW_CUDA_MAX_ATTENTION_DIM)
        return chunk_mma(a, m, stream);
    if (a.dim <= 64)
        return launch_chunk<64>(a, m, stream);
    if (a.dim <= 128)
        return launch_chunk<128>(a, m, stream);
    return a.dim <= SW_CUDA_MAX_ATTENTION_DIM
               ? launch_chunk<SW_CUDA_MAX_ATTENTION_DIM>(a, m, stream)
               : cudaErrorInvalidValue;
}
