/* RMSNorm (Zhang & Sennrich 2019) and the vocabulary-parallel loss. One block per row, or part of a
 * warp for a short one; sums have a fixed order: deterministic. */
#include "runner/device/cuda/kernel.cuh"

#include <float.h>
#include <math.h>

static int64_t last_size(const struct sw_tensor *t)
{
    return t->size[t->ndim - 1];
}

/* ---- RMSNorm ---- */

/* Offset of weights: 1 if the op uses 1 + w, else -0, which changes no number. */
static float weight_offset(const struct sw_call *call)
{
    return call->op->as.norm.plus_one ? 1.0f : -0.0f;
}

/* Loads n weights from j plus `offset`, zero padded. */
__device__ static inline void load_weights(view w, int64_t j, int n, float offset, float *q)
{
    sw_load8(w.data, w.dtype, j, n, q);
#pragma unroll
    for (int k = 0; k < SW_VECTOR; k++)
        q[k] += offset;
}

/* 1 / sqrt(mean of squares + eps) of a row, in all threads of the block. */
__device__ static float inverse_rms(view x, int64_t row, int64_t width, float eps)
{
    float sum = 0;
    for (int64_t j = (int64_t)threadIdx.x * SW_VECTOR; j < width; j += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR];
        sw_load8(x.data, x.dtype, row * width + j, sw_left(j, width), p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum += p[k] * p[k];
    }
    return 1.0f / sqrtf(sw_block_sum(sum) / (float)width + eps);
}

__global__ static void rmsnorm_kernel(view x, view w, view y, int64_t width, float eps,
                                      float offset)
{
    const int64_t row = blockIdx.x;
    const float inverse = inverse_rms(x, row, width, eps);
    for (int64_t j = (int64_t)threadIdx.x * SW_VECTOR; j < width; j += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR], q[SW_VECTOR];
        const int n = sw_left(j, width);
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        load_weights(w, j, n, offset, q);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            p[k] = p[k] * inverse * q[k];
        sw_store8(y.data, y.dtype, row * width + j, n, p);
    }
}

/* With r = 1/rms: dx = r w dy - x r^3 / width * sum(x w dy), plus the addend if any. Stores r for
 * dw. */
__global__ static void rmsnorm_dx_kernel(view x, view w, view dy, view addend, view dx,
                                         float *inverses, int64_t width, float eps, float offset)
{
    const int64_t row = blockIdx.x;
    const float r = inverse_rms(x, row, width, eps);
    float dot = 0;
    for (int64_t j = (int64_t)threadIdx.x * SW_VECTOR; j < width; j += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR], q[SW_VECTOR], d[SW_VECTOR];
        const int n = sw_left(j, width);
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        load_weights(w, j, n, offset, q);
        sw_load8(dy.data, dy.dtype, row * width + j, n, d);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            dot += p[k] * d[k] * q[k];
    }
    const float pull = sw_block_sum(dot) * r * r * r / (float)width;
    for (int64_t j = (int64_t)threadIdx.x * SW_VECTOR; j < width; j += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR], q[SW_VECTOR], d[SW_VECTOR];
        const int n = sw_left(j, width);
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        load_weights(w, j, n, offset, q);
        sw_load8(dy.data, dy.dtype, row * width + j, n, d);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            d[k] = d[k] * q[k] * r - p[k] * pull;
        if (addend.data != nullptr) {
            sw_load8(addend.data, addend.dtype, row * width + j, n, p);
#pragma unroll
            for (int k = 0; k < SW_VECTOR; k++)
                d[k] += p[k];
        }
        sw_store8(dx.data, dx.dtype, row * width + j, n, d);
    }
    if (threadIdx.x == 0)
        inverses[row] = r;
}

/* Rows of at most SHORT_WIDTH elements, such as heads: `lanes` neighbouring lanes (a power of two,
 * at most a warp) process a row, VECTORS vectors each; a block processes SW_THREADS / lanes rows.
 * Threads behind the last row load zeros: warp sums need all lanes. */
enum { SHORT_VECTORS = 2, SHORT_WIDTH = SW_WARP * SW_VECTOR * SHORT_VECTORS };

static int lanes_of(int64_t width)
{
    int lanes = 1;
    while (lanes < SW_WARP && lanes * SW_VECTOR < width)
        lanes *= 2;
    return lanes;
}

static unsigned short_blocks(int64_t rows, int lanes)
{
    return (unsigned)((rows + SW_THREADS / lanes - 1) / (SW_THREADS / lanes));
}

__device__ static inline int64_t short_row(int lanes)
{
    return (int64_t)blockIdx.x * (SW_THREADS / lanes) + (int)threadIdx.x / lanes;
}

__device__ static inline float lanes_sum(float value, int lanes)
{
    for (int lane = lanes / 2; lane > 0; lane /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

/* First element of a thread's vector v. */
__device__ static inline int short_first(int v, int lanes)
{
    return (v * lanes + (int)threadIdx.x % lanes) * SW_VECTOR;
}

/* Loads a lane's part of the `width` elements at `start`. */
template <int VECTORS>
__device__ static inline void short_load(view t, int64_t start, int width, int lanes,
                                         float out[][SW_VECTOR])
{
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int j = short_first(v, lanes);
        sw_load8(t.data, t.dtype, start + j, j < width ? sw_left(j, width) : 0, out[v]);
    }
}

template <int VECTORS>
__device__ static inline void short_store(view t, int64_t start, int width, int lanes,
                                          const float in[][SW_VECTOR])
{
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int j = short_first(v, lanes);
        if (j < width)
            sw_store8(t.data, t.dtype, start + j, sw_left(j, width), in[v]);
    }
}

/* 1 / sqrt(mean of squares + eps) of the row in p. */
template <int VECTORS>
__device__ static inline float short_inverse_rms(const float p[][SW_VECTOR], int width, int lanes,
                                                 float eps)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < VECTORS * SW_VECTOR; i++)
        sum += p[i / SW_VECTOR][i % SW_VECTOR] * p[i / SW_VECTOR][i % SW_VECTOR];
    return 1.0f / sqrtf(lanes_sum(sum, lanes) / (float)width + eps);
}

template <int VECTORS>
__global__ static void short_rmsnorm_kernel(view x, view w, view y, int64_t rows, int width,
                                            int lanes, float eps, float offset)
{
    const int64_t row = short_row(lanes), start = row * width;
    const int here = row < rows ? width : 0;
    float p[VECTORS][SW_VECTOR], q[VECTORS][SW_VECTOR];
    short_load<VECTORS>(x, start, here, lanes, p);
    short_load<VECTORS>(w, 0, here, lanes, q);
#pragma unroll
    for (int i = 0; i < VECTORS * SW_VECTOR; i++)
        q[i / SW_VECTOR][i % SW_VECTOR] += offset;
    const float inverse = short_inverse_rms<VECTORS>(p, width, lanes, eps);
#pragma unroll
    for (int i = 0; i < VECTORS * SW_VECTOR; i++)
        p[i / SW_VECTOR][i % SW_VECTOR] *= inverse * q[i / SW_VECTOR][i % SW_VECTOR];
    short_store<VECTORS>(y, start, here, lanes, p);
}

/* rmsnorm_dx_kernel for short rows. */
template <int VECTORS>
__global__ static void short_rmsnorm_dx_kernel(view x, view w, view dy, view addend, view dx,
                                               float *inverses, int64_t rows, int width, int lanes,
                                               float eps, float offset)
{
    const int64_t row = short_row(lanes), start = row * width;
    const int here = row < rows ? width : 0;
    float p[VECTORS][SW_VECTOR], q[VECTORS][SW_VECTOR], d[VECTORS][SW_VECTOR];
    short_load<VECTORS>(x, start, here, lanes, p);
    short_load<VECTORS>(w, 0, here, lanes, q);
#pragma unroll
    for (int i = 0; i < VECTORS * SW_VECTOR; i++)
        q[i / SW_VECTOR][i % SW_VECTOR] += offset;
    short_load<VECTORS>(dy, start, here, lanes, d);
    const float r = short_inverse_rms<VECTORS>(p, width, lanes, eps);
    float dot = 0;
#pragma unroll
    for (int i = 0; i < VECTORS * SW_VECTOR; i++) {
        d[i / SW_VECTOR][i % SW_VECTOR] *= q[i / SW_VECTOR][i % SW_VECTOR];
        dot += p[i / SW_VECTOR][i % SW_VECTOR] * d[i / SW_VECTOR][i % SW_VECTOR];
    }
    const float pull = lanes_sum(dot, lanes) * r * r * r / (float)width;
#pragma unroll
    for (int i = 0; i < VECTORS * SW_VECTOR; i++)
        d[i / SW_VECTOR][i % SW_VECTOR] =
            d[i / SW_VECTOR][i % SW_VECTOR] * r - p[i / SW_VECTOR][i % SW_VECTOR] * pull;
    if (addend.data != nullptr) {
        short_load<VECTORS>(addend, start, here, lanes, p);
#pragma unroll
        for (int i = 0; i < VECTORS * SW_VECTOR; i++)
            d[i / SW_VECTOR][i % SW_VECTOR] += p[i / SW_VECTOR][i % SW_VECTOR];
    }
    short_store<VECTORS>(dx, start, here, lanes, d);
    if (row < rows && (int)threadIdx.x % lanes == 0)
        inverses[row] = r;
}

enum { DW_VECTORS = 8, DW_COLUMNS = DW_VECTORS * SW_VECTOR, DW_ROWS = SW_THREADS / DW_VECTORS };

/* parts[slice, column] = sum over the slice's rows of r x dy, DW_COLUMNS columns and DW_ROWS rows
 * at a time. */
__global__ static void rmsnorm_dw_kernel(view x, view dy, const float *inverses, float *parts,
                                         int64_t rows, int64_t width)
{
    __shared__ float sums[SW_THREADS * SW_VECTOR]; /* [DW_ROWS, DW_COLUMNS] */
    const int64_t share = (rows + SW_NORM_SLICES - 1) / SW_NORM_SLICES;
    const int64_t first = (int64_t)blockIdx.y * share;
    const int64_t end = first + share < rows ? first + share : rows;
    const int64_t j = (int64_t)blockIdx.x * DW_COLUMNS + threadIdx.x % DW_VECTORS * SW_VECTOR;
    const int n = j < width ? sw_left(j, width) : 0;
    float sum[SW_VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 4
    for (int64_t row = first + threadIdx.x / DW_VECTORS; row < end; row += DW_ROWS) {
        float p[SW_VECTOR], d[SW_VECTOR];
        const float r = inverses[row];
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        sw_load8(dy.data, dy.dtype, row * width + j, n, d);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum[k] += p[k] * d[k] * r;
    }
#pragma unroll
    for (int k = 0; k < SW_VECTOR; k++)
        sums[threadIdx.x * SW_VECTOR + k] = sum[k];
    __syncthreads();
    const int64_t column = (int64_t)blockIdx.x * DW_COLUMNS + threadIdx.x;
    if (threadIdx.x < DW_COLUMNS && column < width) {
        float total = 0;
        for (int i = 0; i < DW_ROWS; i++)
            total += sums[i * DW_COLUMNS + threadIdx.x];
        parts[blockIdx.y * width + column] = total;
    }
}

__global__ static void rmsnorm_dw_sum_kernel(const float *parts, view dw, int64_t width)
{
    SW_GRID_STRIDE(j, width)
    {
        float sum = parts[j];
        for (int slice = 1; slice < SW_NORM_SLICES; slice++)
            sum += parts[slice * width + j];
        sw_store(dw.data, dw.dtype, j, sum);
    }
}

/* Elements normalized together: a row, or one head of it. */
static int64_t norm_width(const struct sw_call *call)
{
    return call->op->as.norm.head_dim > 0 ? call->op->as.norm.head_dim : last_size(&call->in[0]);
}

static cudaError_t rmsnorm_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0];
    const int64_t width = norm_width(call), rows = x->elems / width;
    if (rows == 0)
        return cudaSuccess;
    if (width <= SHORT_WIDTH) {
        const int lanes = lanes_of(width);
        const auto kernel = width <= lanes * SW_VECTOR ? short_rmsnorm_kernel<1>
                                                       : short_rmsnorm_kernel<SHORT_VECTORS>;
        SW_LAUNCH(kernel, short_blocks(rows, lanes), SW_THREADS, 0, stream, view_of(x),
                  view_of(&call->in[1]), view_of(&call->out[0]), rows, (int)width, lanes,
                  (float)call->op->as.norm.eps, weight_offset(call));
        return cudaGetLastError();
    }
    SW_LAUNCH(rmsnorm_kernel, (unsigned)rows, SW_THREADS, 0, stream, view_of(x),
              view_of(&call->in[1]), view_of(&call->out[0]), width, (float)call->op->as.norm.eps,
              weight_offset(call));
    return cudaGetLastError();
}
SW_CUDA_RUN(rmsnorm)

extern "C" cudaError_t sw_cuda_rmsnorm_grad(const struct sw_call *call, float *inverse,
                                            cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0], *dy = &call->in[2];
    const int64_t width = norm_width(call), rows = x->elems / width;
    const dim3 grid((unsigned)((width + DW_COLUMNS - 1) / DW_COLUMNS), SW_NORM_SLICES);
    float *parts = (float *)call->workspace;
    view addend = {};
    if (call->op->n_in > 3)
        addend = view_of(&call->in[3]);
    if (rows > 0 && width <= SHORT_WIDTH) {
        const int lanes = lanes_of(width);
        const auto kernel = width <= lanes * SW_VECTOR ? short_rmsnorm_dx_kernel<1>
                                                       : short_rmsnorm_dx_kernel<SHORT_VECTORS>;
        SW_LAUNCH(kernel, short_blocks(rows, lanes), SW_THREADS, 0, stream, view_of(x),
                  view_of(&call->in[1]), view_of(dy), addend, view_of(&call->out[0]), inverse, rows,
                  (int)width, lanes, (float)call->op->as.norm.eps, weight_offset(call));
    } else if (rows > 0)
        SW_LAUNCH(rmsnorm_dx_kernel, (unsigned)rows, SW_THREADS, 0, stream, view_of(x),
                  view_of(&call->in[1]), view_of(dy), addend, view_of(&call->out[0]), inverse,
                  width, (float)call->op->as.norm.eps, weight_offset(call));
    SW_LAUNCH(rmsnorm_dw_kernel, grid, SW_THREADS, 0, stream, view_of(x), view_of(dy), inverse,
              parts, rows, width);
    SW_LAUNCH(rmsnorm_dw_sum_kernel, sw_grid(width), SW_THREADS, 0, stream, parts,
              view_of(&call->out[1]), width);
    return cudaGetLastError();
}

/* ---- RMSNorm of rows that lie split ---- */

/* Sum over a row of x w dy, or of x^2 if w.data is null. */
__global__ static void row_sums_kernel(view x, view w, view dy, view sums, int64_t width,
                                       float offset)
{
    const int64_t row = blockIdx.x;
    float sum = 0;
    for (int64_t j = (int64_t)threadIdx.x * SW_VECTOR; j < width; j += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR], q[SW_VECTOR], d[SW_VECTOR];
        const int n = sw_left(j, width);
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        if (w.data != nullptr) {
            load_weights(w, j, n, offset, q);
            sw_load8(dy.data, dy.dtype, row * width + j, n, d);
        }
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum += w.data != nullptr ? p[k] * q[k] * d[k] : p[k] * p[k];
    }
    sum = sw_block_sum(sum);
    if (threadIdx.x == 0)
        sw_store(sums.data, sums.dtype, row, sum);
}

/* 1 / sqrt(mean of squares + eps) of a row of `whole` elements. */
__device__ static float split_inverse(view sums, int64_t row, float whole, float eps)
{
    return 1.0f / sqrtf(sw_load(sums.data, sums.dtype, row) / whole + eps);
}

__global__ static void split_norm_kernel(view x, view sums, view w, view y, int64_t rows,
                                         int64_t width, float whole, float eps, float offset)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * groups)
    {
        const int64_t row = i / groups, j = i % groups * SW_VECTOR;
        const float r = split_inverse(sums, row, whole, eps);
        const int n = sw_left(j, width);
        float p[SW_VECTOR], q[SW_VECTOR];
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        load_weights(w, j, n, offset, q);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            p[k] = p[k] * r * q[k];
        sw_store8(y.data, y.dtype, row * width + j, n, p);
    }
}

/* dx = r w dy - x r^3 / whole * sum of x w dy. Stores r for dw. */
__global__ static void split_norm_dx_kernel(view x, view sums, view w, view dy, view dots, view dx,
                                            float *inverses, int64_t rows, int64_t width,
                                            float whole, float eps, float offset)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * groups)
    {
        const int64_t row = i / groups, j = i % groups * SW_VECTOR;
        const float r = split_inverse(sums, row, whole, eps);
        const float pull = sw_load(dots.data, dots.dtype, row) * r * r * r / whole;
        const int n = sw_left(j, width);
        float p[SW_VECTOR], q[SW_VECTOR], d[SW_VECTOR];
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        load_weights(w, j, n, offset, q);
        sw_load8(dy.data, dy.dtype, row * width + j, n, d);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            d[k] = d[k] * q[k] * r - p[k] * pull;
        sw_store8(dx.data, dx.dtype, row * width + j, n, d);
        if (j == 0)
            inverses[row] = r;
    }
}

static cudaError_t row_sums_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0];
    const int64_t width = last_size(x), rows = x->elems / width;
    view w = {}, dy = {};
    if (call->op->n_in > 1) {
        w = view_of(&call->in[1]);
        dy = view_of(&call->in[2]);
    }
    if (rows > 0)
        SW_LAUNCH(row_sums_kernel, (unsigned)rows, SW_THREADS, 0, stream, view_of(x), w, dy,
                  view_of(&call->out[0]), width, weight_offset(call));
    return cudaGetLastError();
}
SW_CUDA_RUN(row_sums)

static cudaError_t split_norm_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0];
    const int64_t width = last_size(x), rows = x->elems / width;
    SW_LAUNCH(split_norm_kernel, sw_grid(rows * ((width + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS,
              0, stream, view_of(x), view_of(&call->in[1]), view_of(&call->in[2]),
              view_of(&call->out[0]), rows, width, (float)call->op->as.norm.width,
              (float)call->op->as.norm.eps, weight_offset(call));
    return cudaGetLastError();
}
SW_CUDA_RUN(split_norm)

extern "C" cudaError_t sw_cuda_split_norm_grad(const struct sw_call *call, float *inverse,
                                               cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0], *dy = &call->in[3];
    const int64_t width = last_size(x), rows = x->elems / width;
    const dim3 grid((unsigned)((width + DW_COLUMNS - 1) / DW_COLUMNS), SW_NORM_SLICES);
    float *parts = (float *)call->workspace;
    SW_LAUNCH(split_norm_dx_kernel, sw_grid(rows * ((width + SW_VECTOR - 1) / SW_VECTOR)),
              SW_THREADS, 0, stream, view_of(x), view_of(&call->in[1]), view_of(&call->in[2]),
              view_of(dy), view_of(&call->in[4]), view_of(&call->out[0]), inverse, rows, width,
              (float)call->op->as.norm.width, (float)call->op->as.norm.eps, weight_offset(call));
    SW_LAUNCH(rmsnorm_dw_kernel, grid, SW_THREADS, 0, stream, view_of(x), view_of(dy), inverse,
              parts, rows, width);
    SW_LAUNCH(rmsnorm_dw_sum_kernel, sw_grid(width), SW_THREADS, 0, stream, parts,
              view_of(&call->out[1]), width);
    return cudaGetLastError();
}

/* ---- Biases ---- */

__global__ static void add_bias_kernel(view x, view w, view y, int64_t rows, int64_t width)
{
    const int64_t groups = (width + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, rows * groups)
    {
        const int64_t row = i / groups, j = i % groups * SW_VECTOR;
        const int n = sw_left(j, width);
        float p[SW_VECTOR], q[SW_VECTOR];
        sw_load8(x.data, x.dtype, row * width + j, n, p);
        sw_load8(w.data, w.dtype, j, n, q);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            p[k] += q[k];
        sw_store8(y.data, y.dtype, row * width + j, n, p);
    }
}

/* parts[slice, column] = the sum of the slice's rows. */
__global__ static void bias_parts_kernel(view dy, float *parts, int64_t rows, int64_t width)
{
    const int64_t share = (rows + SW_NORM_SLICES - 1) / SW_NORM_SLICES;
    const int64_t first = (int64_t)blockIdx.y * share;
    const int64_t end = first + share < rows ? first + share : rows;
    const int64_t j = ((int64_t)blockIdx.x * SW_THREADS + threadIdx.x) * SW_VECTOR;
    if (j >= width)
        return;
    const int n = sw_left(j, width);
    float sum[SW_VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int64_t row = first; row < end; row++) {
        float d[SW_VECTOR];
        sw_load8(dy.data, dy.dtype, row * width + j, n, d);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum[k] += d[k];
    }
    for (int k = 0; k < n; k++)
        parts[blockIdx.y * width + j + k] = sum[k];
}

static cudaError_t add_bias_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0];
    const int64_t width = last_size(x), rows = x->elems / width;
    SW_LAUNCH(add_bias_kernel, sw_grid(rows * ((width + SW_VECTOR - 1) / SW_VECTOR)), SW_THREADS, 0,
              stream, view_of(x), view_of(&call->in[1]), view_of(&call->out[0]), rows, width);
    return cudaGetLastError();
}
SW_CUDA_RUN(add_bias)

static cudaError_t bias_grad_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *dy = &call->in[0];
    const int64_t width = last_size(dy), rows = dy->elems / width;
    const int64_t columns = SW_THREADS * SW_VECTOR;
    const dim3 grid((unsigned)((width + columns - 1) / columns), SW_NORM_SLICES);
    float *parts = (float *)call->workspace;
    SW_LAUNCH(bias_parts_kernel, grid, SW_THREADS, 0, stream, view_of(dy), parts, rows, width);
    SW_LAUNCH(rmsnorm_dw_sum_kernel, sw_grid(width), SW_THREADS, 0, stream, parts,
              view_of(&call->out[0]), width);
    return cudaGetLastError();
}
SW_CUDA_RUN(bias_grad)

/* ---- The loss ---- */

/* Largest logit of a row and the sum of exponentials relative to it, in all threads of the block.
 * One pass, since no cache holds the rows: a thread's sum is relative to the largest it has
 * seen. */
__device__ static float row_statistics(const float *row, int64_t vocab, float *largest)
{
    float most = -3.4028234e38f, sum = 0;
    for (int64_t i = (int64_t)threadIdx.x * SW_VECTOR; i < vocab; i += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR], high = most, added = 0;
        const int n = sw_left(i, vocab);
        sw_load8(row, SW_F32, i, n, p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            high = k < n ? fmaxf(high, p[k]) : high;
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            added += k < n ? expf(p[k] - high) : 0.0f;
        sum = sum * expf(most - high) + added;
        most = high;
    }
    *largest = sw_block_max(most);
    return sw_block_sum(sum * expf(most - *largest));
}

/* scale * (softmax - one-hot of the label), in place. Narrow rows keep their stride in floats: the
 * written tile never overtakes the tiles already read. */
__device__ static void row_gradient(float *row, int64_t vocab, int64_t label, bool ignored,
                                    float lse, float scale, float cap, bool narrow)
{
    const float rate = cap != 0.0f ? 1.0f / cap : 0.0f;
    for (int64_t first = 0; first < vocab; first += SW_THREADS * SW_VECTOR) {
        const int64_t i = first + (int64_t)threadIdx.x * SW_VECTOR;
        const int n = i < vocab ? sw_left(i, vocab) : 0;
        float g[SW_VECTOR];
        sw_load8(row, SW_F32, i, n, g);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++) {
            const float slope = 1.0f - (g[k] * rate) * (g[k] * rate);
            g[k] = ignored ? 0.0f
                           : (expf(g[k] - lse) * scale - (i + k == label ? scale : 0.0f)) * slope;
        }
        if (narrow)
            __syncthreads(); /* all have read this tile */
        sw_store8(row, narrow ? SW_BF16_T : SW_F32, i, n, g);
    }
}

/* One block per token: the largest logit, the sum of exponentials relative to it, the label's
 * logit. */
__global__ static void logits_stats_kernel(const float *logits, const int32_t *labels, float *stats,
                                           int64_t vocab, int64_t row_elems, int64_t start)
{
    const int64_t t = blockIdx.x;
    const float *row = logits + t * row_elems;
    float largest;
    const float sum = row_statistics(row, vocab, &largest);
    if (threadIdx.x == 0) {
        const int64_t label = labels[t] - start;
        stats[3 * t] = largest;
        stats[3 * t + 1] = sum;
        stats[3 * t + 2] = labels[t] >= 0 && label >= 0 && label < vocab ? row[label] : 0.0f;
    }
}

__global__ static void logits_grad_kernel(float *logits, const int32_t *labels, const float *lse,
                                          int64_t vocab, int64_t row_elems, int64_t start,
                                          const struct sw_cuda_step *step, float cap, bool narrow)
{
    const int64_t t = blockIdx.x;
    row_gradient(logits + t * row_elems, vocab, labels[t] < 0 ? -1 : labels[t] - start,
                 labels[t] < 0, lse[t], (float)step->loss_scale, cap, narrow);
}

/* The token's loss and its gradient, for an unsharded vocabulary. */
__global__ static void logits_loss_kernel(float *logits, const int32_t *labels, float *losses,
                                          int64_t vocab, int64_t row_elems, int64_t start,
                                          const struct sw_cuda_step *step, float cap, bool narrow)
{
    const int64_t t = blockIdx.x, label = labels[t] < 0 ? -1 : labels[t] - start;
    float *row = logits + t * row_elems;
    /* read before the sums' barriers, after which the row is overwritten */
    const float label_logit = label >= 0 && label < vocab ? row[label] : 0.0f;
    float largest;
    const float sum = row_statistics(row, vocab, &largest);
    const double lse = (double)largest + log((double)sum);
    if (threadIdx.x == 0)
        losses[t] = labels[t] < 0 ? 0.0f : (float)(lse - (double)label_logit);
    row_gradient(row, vocab, label, labels[t] < 0, (float)lse, (float)step->loss_scale, cap,
                 narrow);
}

__global__ static void sum_losses_kernel(const float *losses, float *loss, int64_t tokens,
                                         const struct sw_cuda_step *step)
{
    double total = 0;
    for (int64_t t = threadIdx.x; t < tokens; t += SW_THREADS)
        total += (double)losses[t];
    total = sw_block_sum_double(total);
    if (threadIdx.x == 0)
        loss[0] = (float)(total * step->loss_scale);
}

/* One block: each token's log-sum-exp over the vocabulary shards, and the sum of losses. */
__global__ static void lm_head_loss_kernel(const float *stats, const int32_t *labels, float *loss,
                                           float *lse, int64_t tokens, int64_t shards,
                                           const struct sw_cuda_step *step)
{
    double total = 0;
    for (int64_t t = threadIdx.x; t < tokens; t += SW_THREADS) {
        const float *token = stats + t * shards * 3;
        float most = token[0];
        double sum = 0, label_logit = 0;
        for (int64_t s = 1; s < shards; s++)
            most = fmaxf(most, token[3 * s]);
        for (int64_t s = 0; s < shards; s++) {
            sum += (double)token[3 * s + 1] * exp((double)token[3 * s] - (double)most);
            label_logit += (double)token[3 * s + 2];
        }
        const double token_lse = (double)most + log(sum);
        lse[t] = (float)token_lse;
        if (labels[t] >= 0)
            total += token_lse - label_logit;
    }
    total = sw_block_sum_double(total);
    if (threadIdx.x == 0)
        loss[0] = (float)(total * step->loss_scale);
}

extern "C" cudaError_t sw_cuda_logits_stats(const struct sw_call *call, const float *logits,
                                            int64_t first, int64_t n, cudaStream_t stream)
{
    const struct sw_tensor *w = &call->in[1];
    SW_LAUNCH(logits_stats_kernel, (unsigned)n, SW_THREADS, 0, stream, logits,
              (const int32_t *)call->in[2].data + first, (float *)call->out[0].data + 3 * first,
              w->size[0], sw_lm_head_row_elems(w->size[0]), w->start[0]);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_logits_grad(const struct sw_call *call, float *logits, int64_t first,
                                           int64_t n, bool narrow, const struct sw_cuda_step *step,
                                           cudaStream_t stream)
{
    const struct sw_tensor *w = &call->in[1];
    SW_LAUNCH(logits_grad_kernel, (unsigned)n, SW_THREADS, 0, stream, logits,
              (const int32_t *)call->in[2].data + first, (const float *)call->in[3].data + first,
              w->size[0], sw_lm_head_row_elems(w->size[0]), w->start[0], step,
              (float)call->op->as.head.softcap, narrow);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_logits_loss(const struct sw_call *call, float *logits, int64_t first,
                                           int64_t n, bool narrow, const struct sw_cuda_step *step,
                                           cudaStream_t stream)
{
    const struct sw_tensor *w = &call->in[1];
    SW_LAUNCH(logits_loss_kernel, (unsigned)n, SW_THREADS, 0, stream, logits,
              (const int32_t *)call->in[2].data + first,
              (float *)call->out[call->op->n_out - 1].data + first, w->size[0],
              sw_lm_head_row_elems(w->size[0]), w->start[0], step, (float)call->op->as.head.softcap,
              narrow);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_sum_losses(const struct sw_call *call,
                                          const struct sw_cuda_step *step, cudaStream_t stream)
{
    SW_LAUNCH(sum_losses_kernel, 1, SW_THREADS, 0, stream,
              (const float *)call->out[call->op->n_out - 1].data,
              (float *)call->out[call->op->n_out - 2].data, call->in[2].elems, step);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_lm_head_loss(const struct sw_call *call,
                                            const struct sw_cuda_step *step, cudaStream_t stream)
{
    SW_LAUNCH(lm_head_loss_kernel, 1, SW_THREADS, 0, stream, (const float *)call->in[0].data,
              (const int32_t *)call->in[1].data, (float *)call->out[0].data,
              (float *)call->out[1].data, call->in[1].elems, last_size(&call->in[0]) / 3, step);
    return cudaGetLastError();
}
