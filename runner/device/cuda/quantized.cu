/* Kernels for weights of 8 and 4 bits. bf16 represents their numbers exactly, so tensor cores
 * multiply them directly; a column's scale is applied to its sum. */
#include "runner/device/cuda/quantized.h"
#include "core/base/int4.h"
#include "runner/device/cuda/mma.cuh"

/* A block computes COLUMNS outputs of all rows. Warps take DEPTH inputs in turn; their sums are
 * added at the end in order. No atomics: deterministic, and a row's bits do not depend on its
 * index. */
enum {
    ROW_TILE = 16,
    COLUMNS = 32,
    DEPTH = 64,
    STEPS = DEPTH / 16,
    WARPS = SW_THREADS / SW_WARP,
    BLOCK_BYTES = sizeof(struct sw_int4_block)
};

struct product {
    int64_t m, n, k;
    const uint16_t *x; /* [m, x_row] */
    int64_t x_row;
    const uint8_t *w;        /* [k, w_row], or [n, w_row] */
    int64_t w_row, w_column; /* SW_I4: bytes from a group's block to the next one's, from an
                              * output's to the next */
    const float *scales;     /* [n]; NULL: all 1 */
    const void *addend;      /* in y's dtype, or NULL */
    void *y;                 /* [m, y_row] */
    int64_t y_row;
    int y_dtype;
};

/* A lane's part of DEPTH inputs from k: 16 neighbours, four per step, used as rows 2t, 2t + 1, 2t +
 * 8 and 2t + 9 of the product (mma.cuh). The order of inputs is free if x and W agree. */
struct weights {
    /* by output: [tile][step], four inputs; by input: [step][input], four outputs, one per tile */
    uint32_t four[4][4];
};

/* BY_OUTPUT: w is [n, k]. first: the block's first output. */
template <bool BY_OUTPUT>
__device__ static inline void load_weights(const struct product &p, int64_t first, int64_t k,
                                           weights &w)
{
    const int lane = (int)threadIdx.x % SW_WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (BY_OUTPUT) {
            const uint4 v =
                *(const uint4 *)(p.w + (first + 8 * i + g) * p.w_row + k + STEPS * 4 * t);
            w.four[i][0] = v.x, w.four[i][1] = v.y, w.four[i][2] = v.z, w.four[i][3] = v.w;
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++)
                w.four[i][j] = *(const uint32_t *)(p.w + (k + STEPS * 4 * t + 4 * i + j) * p.w_row +
                                                   first + 4 * g);
        }
    }
}

/* load_weights of SW_I4 by output: per tile the integers of two steps, of the two others, and the
 * scale. Blocks have even addresses. */
__device__ static inline void load_blocks(const struct product &p, int64_t first, int64_t k,
                                          weights &w)
{
    const int lane = (int)threadIdx.x % SW_WARP, g = lane / 4, t = lane % 4;
    const int64_t own = k + STEPS * 4 * t;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint16_t *block = (const uint16_t *)(p.w + own / SW_INT4_GROUP * p.w_row +
                                                   (first + 8 * i + g) * p.w_column);
        const uint16_t *codes = block + 1 + own % SW_INT4_GROUP / 4;
        w.four[i][0] = (uint32_t)codes[0] | (uint32_t)codes[1] << 16;
        w.four[i][1] = (uint32_t)codes[2] | (uint32_t)codes[3] << 16;
        w.four[i][2] = block[0];
    }
}

/* Number i of four integers, times a scale. */
__device__ static inline float widen_int4(uint32_t codes, int i, float scale)
{
    return (float)((int)(codes >> 4 * i & 15) + SW_INT4_LEAST) * scale;
}

/* Widens the lowest byte of x. */
template <enum sw_dtype FORMAT> __device__ static inline float widen_one(uint32_t x)
{
    return FORMAT == SW_E4M3 ? sw_widen_e4m3(x) : sw_widen_int8(x);
}

/* Widens the lowest bytes of both to two bf16. */
template <enum sw_dtype FORMAT>
__device__ static inline uint32_t widen_two(uint32_t first, uint32_t second)
{
    if (FORMAT == SW_E4M3)
        return sw_widen2_e4m3((first & 0xffu) << 8 | second << 24);
    return sw_narrow2(sw_widen_int8(first), sw_widen_int8(second));
}

/* b of a step and a tile's eight outputs: BY_OUTPUT 8 tile + g, else 4 g + tile. */
template <enum sw_dtype FORMAT, bool BY_OUTPUT>
__device__ static inline void widen_tile(const weights &w, int step, int tile, uint32_t b[2])
{
    if (FORMAT == SW_I4) {
        const uint32_t x = w.four[tile][step / 2] >> 16 * (step % 2);
        const float s = sw_widen((uint16_t)w.four[tile][2]);
        b[0] = sw_narrow2(widen_int4(x, 0, s), widen_int4(x, 1, s));
        b[1] = sw_narrow2(widen_int4(x, 2, s), widen_int4(x, 3, s));
        return;
    }
    if (BY_OUTPUT) {
        const uint32_t x = w.four[tile][step];
        b[0] = widen_two<FORMAT>(x, x >> 8);
        b[1] = widen_two<FORMAT>(x >> 16, x >> 24);
        return;
    }
    const uint32_t *x = w.four[step];
    b[0] = widen_two<FORMAT>(x[0] >> 8 * tile, x[1] >> 8 * tile);
    b[1] = widen_two<FORMAT>(x[2] >> 8 * tile, x[3] >> 8 * tile);
}

/* a of two steps, rows g and g + 8 of sixteen: a lane has eight neighbours from k. */
__device__ static inline void load_rows(const struct product &p, int64_t row, int64_t k,
                                        uint32_t a[2][4])
{
    const int lane = (int)threadIdx.x % SW_WARP;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int64_t at = row + lane / 4 + 8 * i;
        const uint4 v =
            at < p.m ? *(const uint4 *)(p.x + at * p.x_row + k) : make_uint4(0, 0, 0, 0);
        a[0][i] = v.x, a[0][2 + i] = v.y, a[1][i] = v.z, a[1][2 + i] = v.w;
    }
}

template <enum sw_dtype FORMAT, int ROW_TILES, bool BY_OUTPUT>
__device__ static inline void multiply(const struct product &p, int64_t k, const weights &w,
                                       float (*sums)[4][4])
{
    const int64_t own = k + STEPS * 4 * (threadIdx.x % 4);
#pragma unroll
    for (int two = 0; two < STEPS; two += 2) {
        uint32_t a[ROW_TILES][2][4];
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
            load_rows(p, r * ROW_TILE, own + 4 * two, a[r]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int step = two + i / 4, tile = i % 4;
            uint32_t b[2];
            widen_tile<FORMAT, BY_OUTPUT>(w, step, tile, b);
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                sw_mma(sums[r][tile], a[r][i / 4], b[0], b[1]);
        }
    }
}

/* Writes a tile of rows: the warps' sums added in order, scaled and rounded once. */
template <bool BY_OUTPUT>
__device__ static void write_rows(const struct product &p, int64_t first, int64_t row,
                                  float (*sums)[4], float (*parts)[ROW_TILE][COLUMNS])
{
    const int lane = (int)threadIdx.x % SW_WARP, warp = (int)threadIdx.x / SW_WARP;
#pragma unroll
    for (int tile = 0; tile < 4; tile++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int column = 2 * (lane % 4) + e % 2;
            parts[warp][lane / 4 + 8 * (e / 2)][BY_OUTPUT ? 8 * tile + column : 4 * column + tile] =
                sums[tile][e];
        }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < ROW_TILE * COLUMNS; i += SW_THREADS) {
        const int64_t at = row + i / COLUMNS, to = at * p.y_row + first + i % COLUMNS;
        float sum = 0;
        for (int w = 0; w < WARPS; w++)
            sum += parts[w][i / COLUMNS][i % COLUMNS];
        if (at >= p.m)
            continue;
        if (p.scales != NULL)
            sum *= p.scales[first + i % COLUMNS];
        sw_store(p.y, p.y_dtype, to,
                 p.addend != NULL ? sum + sw_load(p.addend, p.y_dtype, to) : sum);
    }
    __syncthreads(); /* before the next rows' parts */
}

template <enum sw_dtype FORMAT, bool BY_OUTPUT>
__device__ static inline void load(const struct product &p, int64_t first, int64_t k, weights &w)
{
    if (FORMAT == SW_I4)
        load_blocks(p, first, k, w);
    else
        load_weights<BY_OUTPUT>(p, first, k, w);
}

template <enum sw_dtype FORMAT, int ROW_TILES, bool BY_OUTPUT>
__global__ static void __launch_bounds__(SW_THREADS, ROW_TILES <= 2 ? 2 : 1)
    product_kernel(struct product p)
{
    __shared__ float parts[WARPS][ROW_TILE][COLUMNS];
    const int64_t first = (int64_t)blockIdx.x * COLUMNS;
    const int64_t begin = (int64_t)threadIdx.x / SW_WARP * DEPTH, step = WARPS * DEPTH;
    float sums[ROW_TILES][4][4] = {};
    weights w = {}, next = {};
    if (begin < p.k)
        load<FORMAT, BY_OUTPUT>(p, first, begin, next);
    for (int64_t k = begin; k < p.k; k += step) {
        w = next; /* loaded during this step */
        if (k + step < p.k)
            load<FORMAT, BY_OUTPUT>(p, first, k + step, next);
        multiply<FORMAT, ROW_TILES, BY_OUTPUT>(p, k, w, sums);
    }
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        write_rows<BY_OUTPUT>(p, first, r * ROW_TILE, sums[r], parts);
}

/* True if b is stored by output: an output's inputs are neighbours. */
static bool by_output(const struct sw_cuda_matmul *m)
{
    return m->b_row == 1;
}

static int64_t b_stride(const struct sw_cuda_matmul *m)
{
    return by_output(m) ? m->b_column : m->b_row;
}

extern "C" bool sw_cuda_quantized_is_aligned(const struct sw_cuda_matmul *m)
{
    const uintptr_t rows = (uintptr_t)(m->a_row * (int64_t)sizeof(uint16_t)) | (uintptr_t)m->a;
    const uintptr_t weights = m->b_dtype == SW_I4 ? 0 : (uintptr_t)m->b | (uintptr_t)b_stride(m);
    return m->a_column == 1 && ((rows | weights) & 15) == 0;
}

template <enum sw_dtype FORMAT, bool BY_OUTPUT>
static void launch_product(const struct product &p, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)(p.n / COLUMNS);
    if (p.m <= ROW_TILE)
        SW_LAUNCH((product_kernel<FORMAT, 1, BY_OUTPUT>), blocks, SW_THREADS, 0, stream, p);
    else if (p.m <= 2 * ROW_TILE)
        SW_LAUNCH((product_kernel<FORMAT, 2, BY_OUTPUT>), blocks, SW_THREADS, 0, stream, p);
    else
        SW_LAUNCH((product_kernel<FORMAT, 4, BY_OUTPUT>), blocks, SW_THREADS, 0, stream, p);
}

extern "C" cudaError_t sw_cuda_quantized_product(const struct sw_cuda_matmul *m,
                                                 cudaStream_t stream)
{
    struct product p;
    p.m = m->m, p.n = m->n, p.k = m->k;
    p.x = (const uint16_t *)m->a;
    p.x_row = m->a_row;
    p.w = (const uint8_t *)m->b;
    p.w_row = m->b_dtype == SW_I4 ? m->b_row * BLOCK_BYTES : b_stride(m);
    p.w_column = m->b_column * BLOCK_BYTES;
    p.scales = m->scales;
    p.addend = m->addend;
    p.y = m->c;
    p.y_row = m->c_row;
    p.y_dtype = (int)m->c_dtype;
    const bool integers = m->b_dtype == SW_I8;
    if (m->b_dtype == SW_I4)
        launch_product<SW_I4, true>(p, stream);
    else if (integers && by_output(m))
        launch_product<SW_I8, true>(p, stream);
    else if (integers)
        launch_product<SW_I8, false>(p, stream);
    else if (by_output(m))
        launch_product<SW_E4M3, true>(p, stream);
    else
        launch_product<SW_E4M3, false>(p, stream);
    return cudaGetLastError();
}

/* ---- Panels ---- */

/* Widens rows x columns of numbers, rows `stride` apart, to contiguous rows. */
template <enum sw_dtype FORMAT>
__global__ static void widen_kernel(const uint8_t *from, int64_t stride, int64_t rows,
                                    int64_t columns, void *to, int dtype)
{
    const int64_t vectors = (columns + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * vectors)
    {
        const int64_t row = i / vectors, column = i % vectors * SW_VECTOR;
        const int n = sw_left(column, columns);
        const uint8_t *p = from + row * stride + column;
        float x[SW_VECTOR];
        if (n == SW_VECTOR && ((uintptr_t)p & 7) == 0) {
            const uint2 v = *(const uint2 *)p;
#pragma unroll
            for (int j = 0; j < SW_VECTOR; j++)
                x[j] = widen_one<FORMAT>((j < 4 ? v.x : v.y) >> 8 * (j % 4));
        } else {
#pragma unroll
            for (int j = 0; j < SW_VECTOR; j++)
                x[j] = j < n ? widen_one<FORMAT>(p[j]) : 0.0f;
        }
        sw_store8(to, dtype, row * columns + column, n, x);
    }
}

/* Widens SW_I4 groups of `count` outputs to wide [count, groups * 32] (by_output) or its transpose;
 * strides in bytes. */
__global__ static void widen_blocks_kernel(const uint8_t *from, int64_t row, int64_t column,
                                           int64_t groups, int64_t count, bool by_output,
                                           void *wide, int dtype)
{
    SW_GRID_STRIDE(i, groups * count)
    {
        const int64_t g = by_output ? i % groups : i / count,
                      j = by_output ? i / groups : i % count;
        const uint16_t *block = (const uint16_t *)(from + g * row + j * column);
        const float scale = sw_widen(block[0]);
        for (int n = 0; n < SW_INT4_GROUP; n++) {
            const int64_t line = g * SW_INT4_GROUP + n;
            sw_store(wide, dtype, by_output ? j * groups * SW_INT4_GROUP + line : line * count + j,
                     widen_int4(block[1 + n / 4], n % 4, scale));
        }
    }
}

static cudaError_t widen_blocks(const struct sw_cuda_matmul *m, int64_t first, int64_t count,
                                void *wide, cudaStream_t stream)
{
    const int64_t groups = m->k / SW_INT4_GROUP, column = m->b_column * BLOCK_BYTES;
    SW_LAUNCH(widen_blocks_kernel, sw_grid(groups * count), SW_THREADS, 0, stream,
              (const uint8_t *)m->b + first * column, m->b_row * BLOCK_BYTES, column, groups, count,
              by_output(m), wide, (int)m->a_dtype);
    return cudaGetLastError();
}

__global__ static void scale_kernel(const float *results, const float *scales, const void *addend,
                                    void *y, int dtype, int64_t y_row, int64_t rows, int64_t first,
                                    int64_t count)
{
    const int64_t vectors = (count + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * vectors)
    {
        const int64_t row = i / vectors, column = i % vectors * SW_VECTOR;
        const int64_t to = row * y_row + first + column;
        const int n = sw_left(column, count);
        float x[SW_VECTOR], s[SW_VECTOR], z[SW_VECTOR] = {};
        sw_load8(results, SW_F32, row * count + column, n, x);
        if (scales != NULL)
            sw_load8(scales, SW_F32, first + column, n, s);
        if (addend != NULL)
            sw_load8(addend, dtype, to, n, z);
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++)
            x[j] = (scales != NULL ? x[j] * s[j] : x[j]) + z[j];
        sw_store8(y, dtype, to, n, x);
    }
}

extern "C" cudaError_t sw_cuda_quantized_widen(const struct sw_cuda_matmul *m, int64_t first,
                                               int64_t count, void *wide, cudaStream_t stream)
{
    if (m->b_dtype == SW_I4)
        return widen_blocks(m, first, count, wide, stream);
    const int64_t rows = by_output(m) ? count : m->k, columns = by_output(m) ? m->k : count;
    const uint8_t *from = (const uint8_t *)m->b + (by_output(m) ? first * m->b_column : first);
    const auto kernel = m->b_dtype == SW_I8 ? widen_kernel<SW_I8> : widen_kernel<SW_E4M3>;
    SW_LAUNCH(kernel, sw_grid(rows * ((columns + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS, 0,
              stream, from, b_stride(m), rows, columns, wide, (int)m->a_dtype);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_quantized_scale(const struct sw_cuda_matmul *m, int64_t first,
                                               int64_t count, const float *results,
                                               cudaStream_t stream)
{
    SW_LAUNCH(scale_kernel, sw_grid(m->m * ((count + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS, 0,
              stream, results, m->scales, m->addend, m->c, (int)m->c_dtype, m->c_row, m->m, first,
              count);
    return cudaGetLastError();
}

/* Widens a matrix by its columns' scales, or its rows' scales. */
template <enum sw_dtype FORMAT>
__global__ static void widen_matrix_kernel(const uint8_t *w, const float *scales, bool by_row,
                                           int64_t rows, int64_t columns, void *wide, int dtype)
{
    const int64_t vectors = (columns + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * vectors)
    {
        const int64_t row = i / vectors, column = i % vectors * SW_VECTOR;
        const int n = sw_left(column, columns);
        float x[SW_VECTOR] = {};
        for (int j = 0; j < n; j++)
            x[j] = widen_one<FORMAT>(w[row * columns + column + j]) *
                   scales[by_row ? row : column + j];
        sw_store8(wide, dtype, row * columns + column, n, x);
    }
}

static cudaError_t widen_matrix(const struct sw_call *call, bool by_row, cudaStream_t stream)
{
    const struct sw_tensor *w = &call->in[0], *y = &call->out[0];
    const auto kernel =
        w->dtype == SW_I8 ? widen_matrix_kernel<SW_I8> : widen_matrix_kernel<SW_E4M3>;
    SW_LAUNCH(kernel, sw_grid(w->size[0] * ((w->size[1] + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS,
              0, stream, (const uint8_t *)w->data, (const float *)call->in[1].data, by_row,
              w->size[0], w->size[1], y->data, (int)y->dtype);
    return cudaGetLastError();
}

static cudaError_t widen_launch(const struct sw_call *call, cudaStream_t stream)
{
    return widen_matrix(call, false, stream);
}
SW_CUDA_RUN(widen)

static cudaError_t widen_t_launch(const struct sw_call *call, cudaStream_t stream)
{
    return widen_matrix(call, true, stream);
}
SW_CUDA_RUN(widen_t)
