/* Attention over the cache on tensor cores: bf16 queries, bf16 or int8 keys and values, f32 sums,
 * probabilities rounded to bf16 for their product with values (FlashAttention-2; Dao 2023). A warp
 * processes sixteen rows; a row is a token's query head, of those sharing the kv head.
 *
 * Tiles begin at the rank's first position, in order: a row's bits depend only on the positions it
 * sees, not on neighbouring rows or the chunk's start. Hidden positions add zeros, which change at
 * most a zero's sign (written_zero). int8 integers, exact in bf16, are multiplied directly; a key's
 * scale is applied to its scores, a value's to the probabilities before rounding. */
#include "runner/device/cuda/cached.cuh"
#include "runner/device/cuda/mma.cuh"

/* PAD: keeps a matrix's eight rows in different banks. */
enum { ROW_TILE = 16, PAD = 8, PIECE_BYTES = 16 };

/* A lane's two rows, g and g + 8 of its warp's sixteen, with its columns in the layout of results
 * (mma.cuh). sum: of this lane's positions only, until sum_quads(). */
template <int DIM> struct row_pair {
    float out[DIM / 8][4];
    float maximum[2], sum[2];
};

/* Shared memory: queries [rows, STRIDE]; two stages, each with keys, then values, as stored in the
 * cache [PLACES, ..], and scales; for int8 both widened [2, PLACES, STRIDE]. */
template <int DIM, int POSITIONS, bool INT8> struct shape {
    enum {
        STRIDE = DIM + PAD,
        EACH = INT8 ? 1 : 2, /* bytes of an element */
        ROW_BYTES = INT8 ? DIM : 2 * STRIDE,
        SIDE_BYTES = POSITIONS * (ROW_BYTES + (INT8 ? (int)sizeof(float) : 0)),
        STAGE_BYTES = 2 * SIDE_BYTES,
        WIDE_ELEMS = POSITIONS * STRIDE,
        BYTES = 2 * STAGE_BYTES + (INT8 ? 4 * WIDE_ELEMS : 0)
    };
};

/* Copies n of 16 bytes; element by element if addresses are not aligned. */
__device__ static inline void copy_piece(char *to, const char *from, int n, bool aligned)
{
    if (aligned) {
        sw_copy16(to, from, n);
        return;
    }
    for (int i = 0; i < PIECE_BYTES; i++)
        to[i] = i < n ? from[i] : (char)0;
}

__device__ static inline bool is_aligned(const void *data, int row_bytes)
{
    return (((uintptr_t)data | (uintptr_t)row_bytes) & (PIECE_BYTES - 1)) == 0;
}

/* Bytes of the 16-byte piece at `at` that lie within a row of row_bytes. */
__device__ static inline int piece_of(int at, int row_bytes)
{
    const int left = row_bytes - at;
    return left < 0 ? 0 : left < PIECE_BYTES ? left : (int)PIECE_BYTES;
}

/* Place of a tile's row within a slot; any place if the row is not read. from, place: see
 * place_of. */
template <bool MASKED>
__device__ static inline int64_t place_of_row(const part &p, int64_t first, int row, bool there,
                                              int64_t from, int64_t place)
{
    if (MASKED)
        return there ? place_of<true>(p, from, place, first + row) : place;
    return there ? first + row : first;
}

/* Queues the copy of a tile of keys and values into a stage; zeros from `end`, behind a head and,
 * if MASKED, before `begin`. */
template <int DIM, int POSITIONS, bool INT8, bool MASKED>
__device__ static void fetch_positions(const cached &a, int64_t slot, int64_t kv_head,
                                       int64_t first, int64_t begin, int64_t end, char *stage)
{
    typedef shape<DIM, POSITIONS, INT8> S;
    enum { PIECES = DIM * S::EACH / PIECE_BYTES };
    const int row_bytes = a.dim * S::EACH;
    const int64_t from = MASKED && begin > first ? begin : first;
    const int64_t place = MASKED ? from % a.part.positions : first;
    for (int side = 0; side < 2; side++) {
        const char *data = (const char *)(side == 0 ? a.k : a.v);
        char *to = stage + side * S::SIDE_BYTES;
        const bool aligned = is_aligned(data, row_bytes);
        for (int i = (int)threadIdx.x; i < POSITIONS * PIECES; i += (int)blockDim.x) {
            const int row = i / PIECES, at = i % PIECES * PIECE_BYTES;
            const int n = first + row < end && (!MASKED || first + row >= begin)
                              ? piece_of(at, row_bytes)
                              : 0;
            const int64_t index = slot * a.part.positions +
                                  place_of_row<MASKED>(a.part, first, row, n > 0, from, place);
            copy_piece(to + row * S::ROW_BYTES + at,
                       data + (index * a.kv_heads + kv_head) * row_bytes + (n > 0 ? at : 0), n,
                       aligned);
        }
        if (!INT8)
            continue;
        const float *scales = side == 0 ? a.k_scales : a.v_scales;
        for (int row = (int)threadIdx.x; row < POSITIONS; row += (int)blockDim.x) {
            const bool there = first + row < end && (!MASKED || first + row >= begin);
            const int64_t index = slot * a.part.positions +
                                  place_of_row<MASKED>(a.part, first, row, there, from, place);
            sw_copy4(to + POSITIONS * S::ROW_BYTES + row * (int)sizeof(float),
                     scales + index * a.kv_heads + kv_head, there ? (int)sizeof(float) : 0);
        }
    }
}

/* Copies a piece of a row of queries of one head; zeros if absent. */
template <int DIM>
__device__ static inline void fetch_query(const cached &a, int64_t head, bool there, int row,
                                          int piece, char *queries)
{
    const int at = piece * PIECE_BYTES, row_bytes = 2 * a.dim;
    const int n = there ? piece_of(at, row_bytes) : 0;
    copy_piece(queries + row * 2 * (DIM + PAD) + at,
               (const char *)a.q.data + (n > 0 ? head * row_bytes + at : 0), n,
               is_aligned(a.q.data, row_bytes));
}

/* Widens a stage's int8 keys and values to wide [2, PLACES, STRIDE]. */
template <int DIM, int POSITIONS>
__device__ static void widen_positions(const char *stage, uint16_t *wide)
{
    typedef shape<DIM, POSITIONS, true> S;
    enum { VECTORS = DIM / SW_VECTOR };
    for (int i = (int)threadIdx.x; i < 2 * POSITIONS * VECTORS; i += (int)blockDim.x) {
        const int side = i / (POSITIONS * VECTORS), row = i / VECTORS % POSITIONS, v = i % VECTORS;
        const uint2 x =
            *(const uint2 *)(stage + side * S::SIDE_BYTES + row * S::ROW_BYTES + v * SW_VECTOR);
        *(uint4 *)(wide + side * S::WIDE_ELEMS + row * S::STRIDE + v * SW_VECTOR) =
            make_uint4(sw_narrow2(sw_widen_int8(x.x), sw_widen_int8(x.x >> 8)),
                       sw_narrow2(sw_widen_int8(x.x >> 16), sw_widen_int8(x.x >> 24)),
                       sw_narrow2(sw_widen_int8(x.y), sw_widen_int8(x.y >> 8)),
                       sw_narrow2(sw_widen_int8(x.y >> 16), sw_widen_int8(x.y >> 24)));
    }
}

/* A tile in the form that products read. scales: int8 only, [PLACES]; else NULL. */
struct tile {
    const uint16_t *keys, *values;
    const float *k_scales, *v_scales;
};

template <int DIM, int POSITIONS, bool INT8>
__device__ static inline tile tile_of(const char *stage, const uint16_t *wide)
{
    typedef shape<DIM, POSITIONS, INT8> S;
    tile t;
    t.keys = INT8 ? wide : (const uint16_t *)stage;
    t.values = INT8 ? wide + S::WIDE_ELEMS : (const uint16_t *)(stage + S::SIDE_BYTES);
    t.k_scales = INT8 ? (const float *)(stage + POSITIONS * S::ROW_BYTES) : NULL;
    t.v_scales = INT8 ? (const float *)(stage + S::SIDE_BYTES + POSITIONS * S::ROW_BYTES) : NULL;
    return t;
}

/* scores = queries keys^T, sixteen rows by COLUMNS positions. */
template <int DIM, int COLUMNS>
__device__ static inline void score_positions(const cached &a, const uint16_t *queries,
                                              const uint16_t *keys, float (*scores)[4])
{
    enum { STRIDE = DIM + PAD };
    const int lane = (int)threadIdx.x % SW_WARP;
    const uint16_t *query = queries + lane % 16 * STRIDE + lane / 16 * 8;
    const uint16_t *key = keys + (lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8;
#pragma unroll
    for (int d = 0; d < DIM; d += 16) {
        uint32_t q[4], k[4];
        if (d >= a.dim)
            break;
        sw_load_matrices(q, query + d);
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) {
            sw_load_matrices(k, key + j * 16 * STRIDE + d);
            sw_mma(scores[2 * j], q, k[0], k[1]);
            sw_mma(scores[2 * j + 1], q, k[2], k[3]);
        }
    }
}

/* Scores become exp2(score - maximum); positions from `left` on and, if MASKED, the first `hidden`
 * add nothing. */
template <int DIM, int COLUMNS, bool MASKED>
__device__ static inline void soften(float (*scores)[4], float scale, const float *k_scales,
                                     const cache_mask &m, const int *hidden, const int *left,
                                     row_pair<DIM> &r)
{
    const int column = 2 * ((int)threadIdx.x % 4);
    float most[2] = {r.maximum[0], r.maximum[1]};
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int index = 8 * j + column + e % 2;
            const float s = scores[j][e] * scale * (k_scales != NULL ? k_scales[index] : 1.0f);
            scores[j][e] = index < left[e / 2] && (!MASKED || index >= hidden[e / 2])
                               ? capped<MASKED>(m, s)
                               : -INFINITY;
            most[e / 2] = fmaxf(most[e / 2], scores[j][e]);
        }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        most[i] = fmaxf(most[i], __shfl_xor_sync(0xffffffffu, most[i], 1));
        most[i] = fmaxf(most[i], __shfl_xor_sync(0xffffffffu, most[i], 2));
        const float shrink = exp2f(r.maximum[i] - most[i]);
        r.maximum[i] = most[i];
        r.sum[i] *= shrink;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++) {
            r.out[n][2 * i] *= shrink;
            r.out[n][2 * i + 1] *= shrink;
        }
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            scores[j][e] = exp2f(scores[j][e] - most[e / 2]);
            r.sum[e / 2] += scores[j][e];
        }
}

/* out += probabilities values. A product's results have the layout of the next one's operands. */
template <int DIM, int COLUMNS>
__device__ static inline void add_values(const cached &a, float (*scores)[4],
                                         const uint16_t *values, const float *v_scales,
                                         row_pair<DIM> &r)
{
    enum { STRIDE = DIM + PAD };
    const int lane = (int)threadIdx.x % SW_WARP, column = 2 * (lane % 4);
    const uint16_t *value = values + (lane / 8 % 2 * 8 + lane % 8) * STRIDE + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < COLUMNS / 16; j++) {
        uint32_t p[4], v[4];
#pragma unroll
        for (int i = 0; i < 4;
             i++) { /* rows g and g + 8 of the first eight positions, then of the others */
            const float *s = &scores[2 * j + i / 2][2 * (i % 2)];
            const int index = 16 * j + 8 * (i / 2) + column;
            p[i] = v_scales == NULL
                       ? sw_narrow2(s[0], s[1])
                       : sw_narrow2(s[0] * v_scales[index], s[1] * v_scales[index + 1]);
        }
#pragma unroll
        for (int d = 0; d < DIM; d += 16) {
            if (d >= a.dim)
                break;
            sw_load_transposed(v, value + j * 16 * STRIDE + d);
            sw_mma(r.out[d / 8], p, v[0], v[1]);
            sw_mma(r.out[d / 8 + 1], p, v[2], v[3]);
        }
    }
}

/* Attends a warp's rows to COLUMNS positions of a tile from `from`. Each of the lane's two rows
 * sees positions from `hidden` to `left`. */
template <int DIM, int COLUMNS, bool MASKED>
__device__ static inline void attend_positions(const cached &a, const cache_mask &m,
                                               const uint16_t *queries, const tile &t, int from,
                                               const int *hidden, const int *left, row_pair<DIM> &r)
{
    enum { STRIDE = DIM + PAD };
    float scores[COLUMNS / 8][4] = {};
    score_positions<DIM, COLUMNS>(a, queries, t.keys + from * STRIDE, scores);
    soften<DIM, COLUMNS, MASKED>(scores, a.scale, t.k_scales != NULL ? t.k_scales + from : NULL, m,
                                 hidden, left, r);
    add_values<DIM, COLUMNS>(a, scores, t.values + from * STRIDE,
                             t.v_scales != NULL ? t.v_scales + from : NULL, r);
}

template <int DIM> __device__ static inline void begin_rows(row_pair<DIM> &r)
{
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            r.out[n][e] = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.maximum[i] = LEAST;
        r.sum[i] = 0;
    }
}

/* Sums over the four lanes that share a row. */
template <int DIM> __device__ static inline void sum_quads(row_pair<DIM> &r)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.sum[i] += __shfl_xor_sync(0xffffffffu, r.sum[i], 1);
        r.sum[i] += __shfl_xor_sync(0xffffffffu, r.sum[i], 2);
    }
}

/* Turns -0 into +0: adding a zero may have done so or not. */
__device__ static inline float written_zero(float x)
{
    return x + 0.0f;
}

__device__ static inline int positions_left(int64_t limit, int64_t first, int most)
{
    const int64_t left = limit - first;
    return left < 0 ? 0 : left < most ? (int)left : most;
}

/* Passes tiles [first, end) through two stages: one loads while the other is used. If MASKED reads
 * nothing before `begin`. All threads of the block call `attend(tile, first)`. */
template <int DIM, int POSITIONS, bool INT8, bool MASKED, typename ATTEND>
__device__ static inline void go_through(const cached &a, int64_t slot, int64_t kv_head,
                                         int64_t first, int64_t begin, int64_t end, char *stages,
                                         ATTEND attend)
{
    typedef shape<DIM, POSITIONS, INT8> S;
    uint16_t *wide = (uint16_t *)(stages + 2 * S::STAGE_BYTES);
    if (first < end)
        fetch_positions<DIM, POSITIONS, INT8, MASKED>(a, slot, kv_head, first, begin, end, stages);
    sw_copies_commit();
    for (int stage = 0; first < end; first += POSITIONS, stage ^= 1) {
        if (first + POSITIONS < end)
            fetch_positions<DIM, POSITIONS, INT8, MASKED>(a, slot, kv_head, first + POSITIONS,
                                                          begin, end,
                                                          stages + (stage ^ 1) * S::STAGE_BYTES);
        sw_copies_commit();
        sw_copies_wait<1>();
        __syncthreads();
        if (INT8) {
            widen_positions<DIM, POSITIONS>(stages + stage * S::STAGE_BYTES, wide);
            __syncthreads();
        }
        attend(tile_of<DIM, POSITIONS, INT8>(stages + stage * S::STAGE_BYTES, wide), first);
        __syncthreads(); /* before the stage is refilled */
    }
    sw_copies_wait<0>();
    __syncthreads();
}

/* ---- A chunk of each slot's prompt ---- */

enum { CHUNK_ROWS = WARPS * ROW_TILE };

/* Positions per tile that keep a block below compute 8.6's 99 KiB up to dim 128. */
static constexpr int chunk_positions(int dim)
{
    return dim <= 64 ? 64 : 32;
}

template <int DIM, bool MASKED>
__device__ static void fetch_chunk(const cached &a, const cache_mask &m, int64_t b, int64_t kv_head,
                                   int64_t first, char *queries, int64_t *limits, int64_t *hidden)
{
    enum { PIECES = DIM * 2 / PIECE_BYTES };
    const int32_t *slot = a.slots + b * SW_SLOT_FIELDS;
    for (int i = (int)threadIdx.x; i < CHUNK_ROWS * PIECES; i += SW_THREADS) {
        const int row = i / PIECES;
        const int64_t token = (first + row) / a.group, in_group = (first + row) % a.group;
        const int64_t head = (b * a.sq + token) * a.heads + kv_head * a.group + in_group;
        fetch_query<DIM>(a, head, token < a.sq, row, i % PIECES, queries);
        if (i % PIECES == 0)
            limits[row] = token < a.sq && token < slot[SW_SLOT_TOKENS] &&
                                  slot[SW_SLOT_FIRST] >= 0 && local_slot(a.part, slot) >= 0
                              ? visible_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST] + token)
                              : 0;
        if (MASKED && i % PIECES == 0)
            hidden[row] =
                hidden_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST] + token, limits[row]);
    }
}

/* Writes a warp's rows, from `first` of the block's slot and kv head. */
template <int DIM>
__device__ static void write_chunk(const cached &a, int64_t b, int64_t kv_head, int64_t first,
                                   const row_pair<DIM> &r)
{
    const int lane = (int)threadIdx.x % SW_WARP;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int64_t row = first + lane / 4 + 8 * i, token = row / a.group;
        const int64_t head = (b * a.sq + token) * a.heads + kv_head * a.group + row % a.group;
        if (token >= a.sq)
            continue;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int d = 8 * n + 2 * (lane % 4) + e;
                if (d < a.dim)
                    a.out[head * a.dim + d] = written_zero(r.out[n][2 * i + e]);
            }
        if (lane % 4 == 0)
            put_stats(a.stats + head * 2, r.maximum[i], r.sum[i]);
    }
}

template <int DIM, int POSITIONS, bool INT8, bool MASKED>
__global__ static void __launch_bounds__(SW_THREADS, DIM <= 128 ? 2 : 1)
    chunk_mma_kernel(cached a, cache_mask m, int64_t row_blocks, int64_t tasks)
{
    SW_DYNAMIC_SHARED(char, shared);
    __shared__ int64_t limits[CHUNK_ROWS], hidden[CHUNK_ROWS];
    char *stages = shared + CHUNK_ROWS * 2 * (DIM + PAD);
    const int warp = (int)threadIdx.x / SW_WARP, lane = (int)threadIdx.x % SW_WARP;
    for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        const int64_t first_row = task % row_blocks * CHUNK_ROWS;
        const int64_t kv_head = task / row_blocks % a.kv_heads, b = task / row_blocks / a.kv_heads;
        row_pair<DIM> r;
        begin_rows<DIM>(r);
        fetch_chunk<DIM, MASKED>(a, m, b, kv_head, first_row, shared, limits, hidden);
        __syncthreads();
        int64_t end = 0, own_end = 0; /* range that the block's rows see together, and the warp's */
        int64_t begin = MASKED ? INT64_MAX : 0, own_begin = begin;
        for (int i = 0; i < CHUNK_ROWS; i++) {
            end = limits[i] > end ? limits[i] : end;
            if (i / ROW_TILE == warp && limits[i] > own_end)
                own_end = limits[i];
            if (!MASKED || hidden[i] >= limits[i])
                continue;
            begin = hidden[i] < begin ? hidden[i] : begin;
            if (i / ROW_TILE == warp && hidden[i] < own_begin)
                own_begin = hidden[i];
        }
        if (MASKED && begin < end - a.part.positions)
            begin = end - a.part.positions;
        const int row = warp * ROW_TILE + lane / 4;
        const int64_t low = limits[row], high = limits[row + 8];
        const int64_t slot = local_slot(a.part, a.slots + b * SW_SLOT_FIELDS);
        const uint16_t *queries = (const uint16_t *)shared + warp * ROW_TILE * (DIM + PAD);
        go_through<DIM, POSITIONS, INT8, MASKED>(
            a, slot, kv_head, MASKED ? begin / POSITIONS * POSITIONS : 0, begin, end, stages,
            [&](const tile &t, int64_t first) {
                const int left[2] = {positions_left(low, first, POSITIONS),
                                     positions_left(high, first, POSITIONS)};
                const int before[2] = {MASKED ? positions_left(hidden[row], first, POSITIONS) : 0,
                                       MASKED ? positions_left(hidden[row + 8], first, POSITIONS)
                                              : 0};
                if (first < own_end && (!MASKED || first + POSITIONS > own_begin))
                    attend_positions<DIM, POSITIONS, MASKED>(a, m, queries, t, 0, before, left, r);
            });
        sum_quads<DIM>(r);
        write_chunk<DIM>(a, b, kv_head, first_row + warp * ROW_TILE, r);
    }
}

static int tile_width(int dim)
{
    return dim <= 64 ? 64 : dim <= 128 ? 128 : (int)SW_CUDA_MAX_ATTENTION_DIM;
}

template <int DIM, bool INT8> static constexpr size_t chunk_bytes()
{
    return (size_t)CHUNK_ROWS * 2 * (DIM + PAD) + shape<DIM, chunk_positions(DIM), INT8>::BYTES;
}

size_t chunk_mma_shared(int dim, bool int8)
{
    switch (tile_width(dim)) {
    case 64:
        return int8 ? chunk_bytes<64, true>() : chunk_bytes<64, false>();
    case 128:
        return int8 ? chunk_bytes<128, true>() : chunk_bytes<128, false>();
    default:
        return int8 ? chunk_bytes<SW_CUDA_MAX_ATTENTION_DIM, true>()
                    : chunk_bytes<SW_CUDA_MAX_ATTENTION_DIM, false>();
    }
}

template <int DIM, bool INT8>
static cudaError_t launch_chunk(const cached &a, const cache_mask &m, cudaStream_t stream)
{
    const size_t bytes = chunk_bytes<DIM, INT8>();
    const int64_t row_blocks = (a.sq * a.group + CHUNK_ROWS - 1) / CHUNK_ROWS;
    const int64_t tasks = row_blocks * a.kv_heads * a.batch;
    const auto kernel = is_masked(m) ? chunk_mma_kernel<DIM, chunk_positions(DIM), INT8, true>
                                     : chunk_mma_kernel<DIM, chunk_positions(DIM), INT8, false>;
    /* more than 48 KiB of shared memory needs an attribute */
    const cudaError_t code = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != cudaSuccess || tasks == 0)
        return code;
    SW_LAUNCH(kernel, blocks_for(tasks), SW_THREADS, bytes, stream, a, m, row_blocks, tasks);
    return cudaGetLastError();
}

template <bool INT8>
static cudaError_t choose_chunk(const cached &a, const cache_mask &m, cudaStream_t stream)
{
    switch (tile_width(a.dim)) {
    case 64:
        return launch_chunk<64, INT8>(a, m, stream);
    case 128:
        return launch_chunk<128, INT8>(a, m, stream);
    default:
        return launch_chunk<SW_CUDA_MAX_ATTENTION_DIM, INT8>(a, m, stream);
    }
}

cudaError_t chunk_mma(const cached &a, const cache_mask &m, cudaStream_t stream)
{
    return a.dtype == SW_I8 ? choose_chunk<true>(a, m, stream) : choose_chunk<false>(a, m, stream);
}

/* ---- One token of each slot ---- */

/* A block's rows are sixteen query heads of one kv head; its warps take sixteen of a tile's
 * positions each, and their results are joined in order. */
static constexpr int decode_positions(int dim)
{
    return dim <= 128 ? 64 : 32;
}

/* Stores the warps' results: out [warp][ROW_TILE][DIM], then (maximum, sum) [warp][ROW_TILE]. */
template <int DIM> __device__ static void keep_rows(const row_pair<DIM> &r, float *outs, int warps)
{
    const int warp = (int)threadIdx.x / SW_WARP, lane = (int)threadIdx.x % SW_WARP;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int row = warp * ROW_TILE + lane / 4 + 8 * i;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++) {
            outs[row * DIM + 8 * n + 2 * (lane % 4)] = r.out[n][2 * i];
            outs[row * DIM + 8 * n + 2 * (lane % 4) + 1] = r.out[n][2 * i + 1];
        }
        if (lane % 4 == 0) {
            outs[warps * ROW_TILE * DIM + 2 * row] = r.maximum[i];
            outs[warps * ROW_TILE * DIM + 2 * row + 1] = r.sum[i];
        }
    }
}

/* Joins the first `rows` rows and writes a range's out and stats; `first`: index of the first
 * row. */
template <int DIM>
__device__ static void join_warps(const cached &a, const ranges &s, const float *outs, int warps,
                                  int rows, int64_t first)
{
    const float *stats = outs + warps * ROW_TILE * DIM;
    for (int i = (int)threadIdx.x; i < rows * DIM; i += (int)blockDim.x) {
        const int row = i / DIM, d = i % DIM;
        const int64_t to = first + row * s.count;
        float most = LEAST, value = 0, sum = 0;
        for (int w = 0; w < warps; w++)
            most = fmaxf(most, stats[2 * (w * ROW_TILE + row)]);
        for (int w = 0; w < warps; w++) {
            const float share = exp2f(stats[2 * (w * ROW_TILE + row)] - most);
            value += outs[(w * ROW_TILE + row) * DIM + d] * share;
            sum += stats[2 * (w * ROW_TILE + row) + 1] * share;
        }
        if (d < a.dim)
            s.out[to * a.dim + d] = value;
        if (d == 0 && s.count == 1) {
            put_stats(s.stats + to * 2, most, sum);
        } else if (d == 0) {
            s.stats[to * 2] = most;
            s.stats[to * 2 + 1] = sum;
        }
    }
}

template <int DIM, int POSITIONS, bool INT8, bool MASKED>
__global__ static void __launch_bounds__(POSITIONS / ROW_TILE * SW_WARP, DIM <= 128 ? 3 : 1)
    decode_mma_kernel(cached a, ranges s, cache_mask m)
{
    enum { OWN_WARPS = POSITIONS / ROW_TILE, PIECES = DIM * 2 / PIECE_BYTES };
    SW_DYNAMIC_SHARED(char, shared);
    char *stages = shared + ROW_TILE * 2 * (DIM + PAD);
    const int warp = (int)threadIdx.x / SW_WARP;
    for (int64_t task = blockIdx.x; task < s.tasks; task += gridDim.x) {
        /* ranges that all slots have come first, so that blocks without work come last */
        const int64_t heads_done = task / s.row_blocks;
        const int64_t kv_head = heads_done % a.kv_heads, b = heads_done / a.kv_heads % a.batch;
        const int64_t range = heads_done / a.kv_heads / a.batch;
        const int in_group = (int)(task % s.row_blocks) * ROW_TILE;
        const int32_t *slot = a.slots + b * SW_SLOT_FIELDS;
        const int64_t visible = visible_to<MASKED>(a.part, m, slot);
        const int64_t hidden = hidden_positions<MASKED>(a.part, m, slot[SW_SLOT_FIRST], visible);
        const int64_t from = hidden + range * s.positions;
        const int64_t end = from + s.positions < visible ? from + s.positions : visible;
        if (range > 0 && from >= visible)
            continue; /* the merge skips them too */
        const int64_t head = b * a.heads + kv_head * a.group + in_group;
        const int rows = a.group - in_group < ROW_TILE ? a.group - in_group : (int)ROW_TILE;
        row_pair<DIM> r;
        begin_rows<DIM>(r);
        for (int i = (int)threadIdx.x; i < ROW_TILE * PIECES; i += (int)blockDim.x)
            fetch_query<DIM>(a, head + i / PIECES, i / PIECES < rows, i / PIECES, i % PIECES,
                             shared);
        go_through<DIM, POSITIONS, INT8, MASKED>(
            a, local_slot(a.part, slot), kv_head, from, from, end, stages,
            [&](const tile &t, int64_t first) {
                const int n = positions_left(end, first + warp * ROW_TILE, ROW_TILE);
                const int left[2] = {n, n}, before[2] = {0, 0};
                attend_positions<DIM, ROW_TILE, MASKED>(a, m, (const uint16_t *)shared, t,
                                                        warp * ROW_TILE, before, left, r);
            });
        sum_quads<DIM>(r);
        keep_rows<DIM>(r, (float *)stages, OWN_WARPS);
        __syncthreads();
        join_warps<DIM>(a, s, (const float *)stages, OWN_WARPS, rows, head * s.count + range);
        __syncthreads(); /* before the next task's stages */
    }
}

template <int DIM, bool INT8>
static cudaError_t launch_decode(const cached &a, const ranges &s, const cache_mask &m,
                                 cudaStream_t stream)
{
    enum {
        POSITIONS = decode_positions(DIM),
        BETWEEN = POSITIONS * (DIM + 2) * (int)sizeof(float)
    };
    typedef shape<DIM, POSITIONS, INT8> S;
    static_assert((int)BETWEEN <= (int)S::BYTES, "what the warps made lies in the stages");
    const size_t bytes = ROW_TILE * 2 * (DIM + PAD) + S::BYTES;
    const auto kernel = is_masked(m) ? decode_mma_kernel<DIM, POSITIONS, INT8, true>
                                     : decode_mma_kernel<DIM, POSITIONS, INT8, false>;
    const cudaError_t code = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != cudaSuccess)
        return code;
    SW_LAUNCH(kernel, blocks_for(s.tasks), POSITIONS / ROW_TILE * SW_WARP, bytes, stream, a, s, m);
    return cudaGetLastError();
}

template <bool INT8>
static cudaError_t choose_decode(const cached &a, const ranges &s, const cache_mask &m,
                                 cudaStream_t stream)
{
    switch (tile_width(a.dim)) {
    case 64:
        return launch_decode<64, INT8>(a, s, m, stream);
    case 128:
        return launch_decode<128, INT8>(a, s, m, stream);
    default:
        return launch_decode<SW_CUDA_MAX_ATTENTION_DIM, INT8>(a, s, m, stream);
    }
}

cudaError_t decode_mma(const cached &a, ranges s, const cache_mask &m, cudaStream_t stream)
{
    s.row_blocks = (a.group + ROW_TILE - 1) / ROW_TILE;
    s.tasks = s.count * a.batch * a.kv_heads * s.row_blocks;
    return a.dtype == SW_I8 ? choose_decode<true>(a, s, m, stream)
                            : choose_decode<false>(a, s, m, stream);
}
