/* Elementwise and copying kernels: sums, casts, SwiGLU, slices, heads, rope, embedding. */
#include "runner/device/cuda/kernel.cuh"
#include "runner/device/cuda/serving.h"

#include <math.h>

static int64_t vectors(int64_t elems)
{
    return (elems + SW_VECTOR - 1) / SW_VECTOR;
}

/* ---- Sums and casts ---- */

/* y = a + b. y may be a, hence no `restrict`. */
__global__ static void add_kernel(view a, view b, view y, int64_t elems)
{
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float p[SW_VECTOR], q[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(a.data, a.dtype, at, n, p);
        sw_load8(b.data, b.dtype, at, n, q);
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++)
            p[j] += q[j];
        sw_store8(y.data, y.dtype, at, n, p);
    }
}

__global__ static void accumulate_kernel(view a, view b, view y, int64_t elems, bool first,
                                         const struct sw_cuda_step *step)
{
    const bool overwrite = first && step->micro_step == 0;
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float p[SW_VECTOR], q[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(b.data, b.dtype, at, n, q);
        if (!overwrite) {
            sw_load8(a.data, a.dtype, at, n, p);
#pragma unroll
            for (int j = 0; j < SW_VECTOR; j++)
                q[j] = p[j] + q[j];
        }
        sw_store8(y.data, y.dtype, at, n, q);
    }
}

__global__ static void cast_kernel(view x, view y, int64_t elems)
{
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float p[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(x.data, x.dtype, at, n, p);
        sw_store8(y.data, y.dtype, at, n, p);
    }
}

extern "C" cudaError_t sw_cuda_add(const struct sw_tensor *a, const struct sw_tensor *b,
                                   const struct sw_tensor *y, cudaStream_t stream)
{
    SW_LAUNCH(add_kernel, sw_grid(vectors(y->elems)), SW_THREADS, 0, stream, view_of(a), view_of(b),
              view_of(y), y->elems);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_accumulate(const struct sw_tensor *a, const struct sw_tensor *b,
                                          const struct sw_tensor *y, bool first,
                                          const struct sw_cuda_step *step, cudaStream_t stream)
{
    SW_LAUNCH(accumulate_kernel, sw_grid(vectors(y->elems)), SW_THREADS, 0, stream, view_of(a),
              view_of(b), view_of(y), y->elems, first, step);
    return cudaGetLastError();
}

extern "C" cudaError_t sw_cuda_cast(const struct sw_tensor *x, const struct sw_tensor *y,
                                    cudaStream_t stream)
{
    if (x->dtype == y->dtype)
        return cudaMemcpyAsync(y->data, x->data, (size_t)y->elems * sw_dtype_bytes(y->dtype),
                               cudaMemcpyDeviceToDevice, stream);
    SW_LAUNCH(cast_kernel, sw_grid(vectors(y->elems)), SW_THREADS, 0, stream, view_of(x),
              view_of(y), y->elems);
    return cudaGetLastError();
}

__global__ static void scale_kernel(view x, view y, int64_t elems, float factor)
{
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float p[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(x.data, x.dtype, at, n, p);
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++)
            p[j] *= factor;
        sw_store8(y.data, y.dtype, at, n, p);
    }
}

static cudaError_t scale_launch(const struct sw_call *call, cudaStream_t stream)
{
    const int64_t elems = call->out[0].elems;
    SW_LAUNCH(scale_kernel, sw_grid(vectors(elems)), SW_THREADS, 0, stream, view_of(&call->in[0]),
              view_of(&call->out[0]), elems, (float)call->op->as.scale.factor);
    return cudaGetLastError();
}
SW_CUDA_RUN(scale)

/* y may be x. */
__global__ static void softcap_kernel(view x, view y, int64_t elems, float cap)
{
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float p[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(x.data, x.dtype, at, n, p);
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++)
            p[j] = cap * tanhf(p[j] / cap);
        sw_store8(y.data, y.dtype, at, n, p);
    }
}

static cudaError_t softcap_launch(const struct sw_call *call, cudaStream_t stream)
{
    const int64_t elems = call->out[0].elems;
    SW_LAUNCH(softcap_kernel, sw_grid(vectors(elems)), SW_THREADS, 0, stream, view_of(&call->in[0]),
              view_of(&call->out[0]), elems, (float)call->op->as.softcap.cap);
    return cudaGetLastError();
}
SW_CUDA_RUN(softcap)

extern "C" cudaError_t sw_cuda_softcap(float *x, int64_t elems, float cap, cudaStream_t stream)
{
    const view of = {x, SW_F32};
    SW_LAUNCH(softcap_kernel, sw_grid(vectors(elems)), SW_THREADS, 0, stream, of, of, elems, cap);
    return cudaGetLastError();
}

/* ---- SwiGLU ---- */

/* The gate and its slope, as the CPU's gate_vec, with an exponential that stays finite. */
__device__ static inline float gate_value(float x, bool gelu, float *slope)
{
    const float square = x * x;
    const float e =
        gelu ? expf(fminf(-1.59576912f * x * (1.0f + 0.044715f * square), 80.0f)) : expf(-x);
    const float s = 1.0f / (1.0f + e), gated = x * s;
    *slope = gelu ? s + gated * (s * e) * (1.59576912f * (1.0f + 0.134145f * square))
                  : s + gated * (1.0f - s);
    return gated;
}

__global__ static void swiglu_kernel(view gate, view up, view h, int64_t elems, bool gelu)
{
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float g[SW_VECTOR], u[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(gate.data, gate.dtype, at, n, g);
        sw_load8(up.data, up.dtype, at, n, u);
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++) {
            float slope;
            u[j] *= gelu ? gate_value(g[j], true, &slope) : g[j] / (1.0f + expf(-g[j]));
        }
        sw_store8(h.data, h.dtype, at, n, u);
    }
}

/* h = a(g) u: dg = dh u a'(g), du = dh a(g). */
__global__ static void swiglu_grad_kernel(view gate, view up, view dh, view dgate, view dup,
                                          int64_t elems, bool gelu)
{
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float g[SW_VECTOR], u[SW_VECTOR], d[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(gate.data, gate.dtype, at, n, g);
        sw_load8(up.data, up.dtype, at, n, u);
        sw_load8(dh.data, dh.dtype, at, n, d);
#pragma unroll
        for (int j = 0; j < SW_VECTOR; j++) {
            float slope;
            const float gated = gate_value(g[j], gelu, &slope);
            g[j] = d[j] * u[j] * slope;
            u[j] = d[j] * gated;
        }
        sw_store8(dgate.data, dgate.dtype, at, n, g);
        sw_store8(dup.data, dup.dtype, at, n, u);
    }
}

static cudaError_t swiglu_launch(const struct sw_call *call, cudaStream_t stream)
{
    const int64_t elems = call->out[0].elems;
    SW_LAUNCH(swiglu_kernel, sw_grid(vectors(elems)), SW_THREADS, 0, stream, view_of(&call->in[0]),
              view_of(&call->in[1]), view_of(&call->out[0]), elems, call->op->as.swiglu.gelu);
    return cudaGetLastError();
}
SW_CUDA_RUN(swiglu)

static cudaError_t swiglu_grad_launch(const struct sw_call *call, cudaStream_t stream)
{
    const int64_t elems = call->in[2].elems;
    SW_LAUNCH(swiglu_grad_kernel, sw_grid(vectors(elems)), SW_THREADS, 0, stream,
              view_of(&call->in[0]), view_of(&call->in[1]), view_of(&call->in[2]),
              view_of(&call->out[0]), view_of(&call->out[1]), elems, call->op->as.swiglu.gelu);
    return cudaGetLastError();
}
SW_CUDA_RUN(swiglu_grad)

/* ---- Slice ---- */

/* Units of `unit` bytes: the largest of 16, 8, 4, 2 dividing every offset, size and address. */
struct slice {
    int64_t to[4], from[4], offset[4]; /* last dimension in units */
};

template <typename UNIT>
__global__ static void slice_kernel(const UNIT *in, UNIT *out, struct slice s, int64_t units)
{
    SW_GRID_STRIDE(i, units)
    {
        int64_t rest = i;
        const int64_t l = rest % s.to[3];
        rest /= s.to[3];
        const int64_t k = rest % s.to[2];
        rest /= s.to[2];
        const int64_t j = rest % s.to[1], h = rest / s.to[1];
        const int64_t row =
            ((s.offset[0] + h) * s.from[1] + s.offset[1] + j) * s.from[2] + s.offset[2] + k;
        out[i] = in[row * s.from[3] + s.offset[3] + l];
    }
}

extern "C" cudaError_t sw_cuda_slice(const struct sw_tensor *in, const struct sw_tensor *out,
                                     cudaStream_t stream)
{
    struct slice s;
    const int missing = SW_MAX_DIMS - in->ndim;
    const int64_t element = (int64_t)sw_dtype_bytes(in->dtype);
    if (out->elems == 0)
        return cudaSuccess;
    for (int d = 0; d < SW_MAX_DIMS; d++) {
        s.from[d] = d < missing ? 1 : in->size[d - missing];
        s.to[d] = d < missing ? 1 : out->size[d - missing];
        s.offset[d] = d < missing ? 0 : out->start[d - missing] - in->start[d - missing];
        if (s.offset[d] < 0 || s.offset[d] + s.to[d] > s.from[d])
            return cudaErrorInvalidValue;
    }
    int64_t unit = 16;
    const int64_t all = s.from[3] * element | s.to[3] * element | s.offset[3] * element |
                        (int64_t)(uintptr_t)in->data | (int64_t)(uintptr_t)out->data;
    while (unit > element && all % unit != 0)
        unit /= 2;
    s.from[3] = s.from[3] * element / unit;
    s.to[3] = s.to[3] * element / unit;
    s.offset[3] = s.offset[3] * element / unit;
    const int64_t units = out->elems * element / unit;
    const unsigned grid = sw_grid(units);
    if (unit == 16)
        SW_LAUNCH(slice_kernel<uint4>, grid, SW_THREADS, 0, stream, (const uint4 *)in->data,
                  (uint4 *)out->data, s, units);
    else if (unit == 8)
        SW_LAUNCH(slice_kernel<uint64_t>, grid, SW_THREADS, 0, stream, (const uint64_t *)in->data,
                  (uint64_t *)out->data, s, units);
    else if (unit == 4)
        SW_LAUNCH(slice_kernel<uint32_t>, grid, SW_THREADS, 0, stream, (const uint32_t *)in->data,
                  (uint32_t *)out->data, s, units);
    else
        SW_LAUNCH(slice_kernel<uint16_t>, grid, SW_THREADS, 0, stream, (const uint16_t *)in->data,
                  (uint16_t *)out->data, s, units);
    return cudaGetLastError();
}

/* ---- Embedding ---- */

/* One block per token. */
/* scales: of a table in int8, [rows]; else NULL. */
__global__ static void embedding_kernel(const int32_t *tokens, view table, const float *scales,
                                        view y, int64_t start, int64_t rows, int64_t width,
                                        int64_t stride)
{
    const int64_t t = blockIdx.x, row = tokens[t] - start;
    const bool here = row >= 0 && row < rows;
    for (int64_t j = (int64_t)threadIdx.x * SW_VECTOR; j < width; j += SW_THREADS * SW_VECTOR) {
        float p[SW_VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
        const int n = sw_left(j, width);
        if (here && scales == NULL)
            sw_load8(table.data, table.dtype, row * stride + j, n, p);
        for (int i = 0; here && scales != NULL && i < n; i++)
            p[i] = (float)((const int8_t *)table.data)[row * stride + j + i] * scales[row];
        sw_store8(y.data, y.dtype, t * width + j, n, p);
    }
}

/* Sorts the tokens by row, keeping their order, so that a row's block reads only its tokens and
 * sums deterministically. */

/* counts[row]: tokens of the row. */
__global__ static void count_tokens_kernel(const int32_t *tokens, int32_t *counts, int64_t start,
                                           int64_t rows, int64_t count)
{
    SW_GRID_STRIDE(t, count)
    {
        const int64_t row = tokens[t] - start;
        if (row >= 0 && row < rows)
            atomicAdd(&counts[row], 1);
    }
}

/* One block. next[row]: tokens of all earlier rows. */
__global__ static void start_rows_kernel(const int32_t *counts, int32_t *next, int64_t rows)
{
    __shared__ int32_t sums[SW_THREADS];
    const int64_t each = (rows + SW_THREADS - 1) / SW_THREADS;
    const int64_t first = (int64_t)threadIdx.x * each;
    const int64_t end = first + each < rows ? first + each : rows;
    int32_t sum = 0;
    for (int64_t r = first; r < end; r++)
        sum += counts[r];
    sums[threadIdx.x] = sum;
    __syncthreads();
    int32_t before = 0;
    for (int i = 0; i < (int)threadIdx.x; i++)
        before += sums[i];
    for (int64_t r = first; r < end; r++) {
        next[r] = before;
        before += counts[r];
    }
}

/* One block sorts the tokens in order: order[next[row]++] = t. A thread counts equal tokens before
 * it in its block of tokens; the last of them advances `next`. */
__global__ static void sort_tokens_kernel(const int32_t *tokens, int32_t *next, int32_t *order,
                                          int64_t start, int64_t rows, int64_t count)
{
    __shared__ int32_t seen[SW_THREADS];
    for (int64_t first = 0; first < count; first += SW_THREADS) {
        const int64_t t = first + threadIdx.x;
        const int64_t wanted = t < count ? (int64_t)tokens[t] - start : -1;
        const int32_t row = wanted >= 0 && wanted < rows ? (int32_t)wanted : -1;
        int32_t rank = 0, later = 0;
        seen[threadIdx.x] = row;
        __syncthreads();
#pragma unroll 8
        for (int i = 0; i < SW_THREADS; i++) {
            const int32_t same = seen[i] == row ? 1 : 0;
            rank += i < (int)threadIdx.x ? same : 0;
            later += i > (int)threadIdx.x ? same : 0;
        }
        if (row >= 0)
            order[next[row] + rank] = (int32_t)t;
        __syncthreads(); /* all have read `next` */
        if (row >= 0 && later == 0)
            next[row] += rank + 1;
        __syncthreads();
    }
}

/* One block per row of the table and slab of columns. next[row]: end of its tokens. kept: factor of
 * the table before the row's sum is added; NULL or 0: overwrites. */
__global__ static void embedding_grad_kernel(const int32_t *counts, const int32_t *next,
                                             const int32_t *order, view dy, view table,
                                             int64_t width, int64_t stride, const float *kept)
{
    const int64_t row = blockIdx.x;
    const int64_t j = ((int64_t)blockIdx.y * SW_THREADS + threadIdx.x) * SW_VECTOR;
    const int n = j < width ? sw_left(j, width) : 0;
    const int32_t end = next[row];
    const bool adds = kept != NULL && *kept != 0;
    float sum[SW_VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (n == 0 || (adds && counts[row] == 0))
        return;
    for (int32_t i = end - counts[row]; i < end; i++) {
        float d[SW_VECTOR];
        sw_load8(dy.data, dy.dtype, (int64_t)order[i] * width + j, n, d);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum[k] += d[k];
    }
    if (adds) {
        float before[SW_VECTOR];
        sw_load8(table.data, table.dtype, row * stride + j, n, before);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum[k] += before[k];
    }
    sw_store8(table.data, table.dtype, row * stride + j, n, sum);
}

static cudaError_t embedding_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *table = &call->in[1], *y = &call->out[0];
    const int64_t width = y->size[y->ndim - 1], count = call->in[0].elems;
    if (count == 0)
        return cudaSuccess;
    SW_LAUNCH(embedding_kernel, (unsigned)count, SW_THREADS, 0, stream,
              (const int32_t *)call->in[0].data, view_of(table),
              table->dtype == SW_I8 ? (const float *)call->in[2].data : NULL, view_of(y),
              table->start[0], table->size[0], width, table->size[1]);
    return cudaGetLastError();
}
SW_CUDA_RUN(embedding)

extern "C" size_t sw_cuda_embedding_grad_bytes(const struct sw_call *call)
{
    const int64_t rows = call->out[0].size[0], count = call->in[0].elems;
    return (size_t)(2 * rows + count) * sizeof(int32_t);
}

extern "C" cudaError_t sw_cuda_embedding_grad(const struct sw_call *call, const float *kept,
                                              void *scratch, cudaStream_t stream)
{
    const struct sw_tensor *dy = &call->in[1], *table = &call->out[0];
    const int32_t *tokens = (const int32_t *)call->in[0].data;
    const int64_t width = dy->size[dy->ndim - 1], count = call->in[0].elems, rows = table->size[0];
    const int64_t slab = SW_THREADS * SW_VECTOR;
    const dim3 grid((unsigned)rows, (unsigned)((width + slab - 1) / slab));
    int32_t *counts = (int32_t *)scratch, *next = counts + rows, *order = next + rows;
    const cudaError_t code = cudaMemsetAsync(counts, 0, (size_t)rows * sizeof *counts, stream);
    if (code != cudaSuccess || table->elems == 0)
        return code;
    SW_LAUNCH(count_tokens_kernel, sw_grid(count), SW_THREADS, 0, stream, tokens, counts,
              table->start[0], rows, count);
    SW_LAUNCH(start_rows_kernel, 1, SW_THREADS, 0, stream, (const int32_t *)counts, next, rows);
    SW_LAUNCH(sort_tokens_kernel, 1, SW_THREADS, 0, stream, tokens, next, order, table->start[0],
              rows, count);
    SW_LAUNCH(embedding_grad_kernel, grid, SW_THREADS, 0, stream, (const int32_t *)counts,
              (const int32_t *)next, (const int32_t *)order, view_of(dy), view_of(table), width,
              table->size[1], kept);
    const cudaError_t queued = cudaGetLastError();
    return queued == cudaSuccess ? sw_cuda_zero_padding(table, stream) : queued;
}

extern "C" cudaError_t sw_cuda_zero_padding(const struct sw_tensor *matrix, cudaStream_t stream)
{
    const size_t element = sw_dtype_bytes(matrix->dtype), row = (size_t)matrix->size[1] * element;
    const size_t right = (size_t)matrix->padding[1] * element;
    const size_t rows = (size_t)(matrix->size[0] - matrix->padding[0]);
    char *data = (char *)matrix->data;
    cudaError_t code = cudaSuccess;
    if (right > 0 && rows > 0)
        code = cudaMemset2DAsync(data + row - right, row, 0, right, rows, stream);
    if (code == cudaSuccess && matrix->padding[0] > 0)
        code = cudaMemsetAsync(data + rows * row, 0, (size_t)matrix->padding[0] * row, stream);
    return code;
}

/* ---- Heads ---- */

#define TWO_PI 6.283185307179586476925286766559

/* Turns of each pair per position, passed as a launch argument: 2 KiB of the 4 KiB limit. */
struct frequencies {
    double turns[SW_CUDA_MAX_HEAD_DIM / 2];
};

/* One block per position computes sines and cosines once for all sequences and heads. Turns are in
 * double, and only the fraction of the last turn becomes an fp32 angle: thousands of turns would
 * leave no digits. */
/* A block per position: of all sequences, of one, or, with `slot_fields` > 0, of one slot, whose
 * first position precedes the next slot's fields and whose tokens here begin with `start`. */
__global__ static void rope_kernel(view x, view y, const int32_t *positions, int64_t slot_fields,
                                   int64_t start, const struct frequencies frequency, int64_t batch,
                                   int64_t seq, int64_t width, int dim, int rotated, float factor,
                                   float sign)
{
    __shared__ float cosine[SW_CUDA_MAX_HEAD_DIM / 2], sine[SW_CUDA_MAX_HEAD_DIM / 2];
    const int64_t s = (int64_t)blockIdx.x % seq, first_row = (int64_t)blockIdx.x / seq;
    const int64_t position =
        slot_fields > 0 ? positions[first_row * slot_fields] + start + s : positions[blockIdx.x];
    const int half = rotated / 2, groups = (half + SW_VECTOR - 1) / SW_VECTOR;
    for (int j = threadIdx.x; j < half; j += SW_THREADS) {
        const double turns = (double)position * frequency.turns[j];
        const float angle = (float)((turns - rint(turns)) * TWO_PI);
        cosine[j] = factor * cosf(angle);
        sine[j] = factor * sign * sinf(angle);
    }
    __syncthreads();
    const int64_t heads = width / dim, items = batch * heads * groups;
    for (int64_t i = threadIdx.x; i < items; i += SW_THREADS) {
        const int j = (int)(i % groups) * SW_VECTOR, n = sw_left(j, half);
        const int64_t head = i / groups % heads, b = first_row + i / groups / heads;
        const int64_t at = (b * seq + s) * width + head * dim + j;
        float a[SW_VECTOR], c[SW_VECTOR], first[SW_VECTOR], second[SW_VECTOR];
        sw_load8(x.data, x.dtype, at, n, a);
        sw_load8(x.data, x.dtype, at + half, n, c);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++) {
            const float cs = k < n ? cosine[j + k] : 0.0f, sn = k < n ? sine[j + k] : 0.0f;
            first[k] = a[k] * cs - c[k] * sn;
            second[k] = c[k] * cs + a[k] * sn;
        }
        sw_store8(y.data, y.dtype, at, n, first);
        sw_store8(y.data, y.dtype, at + half, n, second);
    }
    /* elements of a head that are not rotated */
    const int kept = dim - rotated, kept_groups = (kept + SW_VECTOR - 1) / SW_VECTOR;
    const int64_t kept_items = batch * heads * kept_groups;
    for (int64_t i = threadIdx.x; i < kept_items; i += SW_THREADS) {
        const int j = (int)(i % kept_groups) * SW_VECTOR, n = sw_left(j, kept);
        const int64_t head = i / kept_groups % heads, b = first_row + i / kept_groups / heads;
        const int64_t at = (b * seq + s) * width + head * dim + rotated + j;
        float a[SW_VECTOR];
        sw_load8(x.data, x.dtype, at, n, a);
        sw_store8(y.data, y.dtype, at, n, a);
    }
}

/* positions i32[s] or i32[b,s], or slots i32[b,3] */
static cudaError_t rope_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_rope_attributes *as = &call->op->as.rope;
    const bool of_slots = as->slots;
    const struct sw_tensor *x = &call->in[0], *y = &call->out[0];
    const int dim = as->head_dim, rotated = sw_rope_rotated(as);
    struct frequencies frequency;
    if (dim > SW_CUDA_MAX_HEAD_DIM || dim % 2 != 0)
        return cudaErrorInvalidValue;
    for (int j = 0; j < rotated / 2; j++)
        frequency.turns[j] = sw_rope_frequency(as, call->rope_divisors, j) / TWO_PI;
    for (int j = rotated / 2; j < SW_CUDA_MAX_HEAD_DIM / 2; j++)
        frequency.turns[j] = 0;
    if (y->elems == 0)
        return cudaSuccess;
    const int64_t rows = of_slots || as->rows ? x->size[0] : 1;
    SW_LAUNCH(rope_kernel, (unsigned)(rows * x->size[1]), SW_THREADS, 0, stream, view_of(x),
              view_of(y), (const int32_t *)call->in[1].data, of_slots ? call->in[1].size[1] : 0,
              x->start[1], frequency, x->size[0] / rows, x->size[1], x->size[2], dim, rotated,
              (float)sw_rope_attention_factor(as), as->inverse ? -1.0f : 1.0f);
    return cudaGetLastError();
}
SW_CUDA_RUN(rope)

/* Operands of both directions of replicate_heads: the first heads' global numbers. */
struct replication {
    int64_t rows, sources, heads, sources_first, heads_first;
    int dim, copies;
};

__global__ static void replicate_kernel(view x, view y, struct replication r)
{
    const int groups = (r.dim + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, r.rows * r.heads * groups)
    {
        const int j = (int)(i % groups) * SW_VECTOR, n = sw_left(j, r.dim);
        const int64_t h = i / groups % r.heads, row = i / groups / r.heads;
        const int64_t source = (r.heads_first + h) / r.copies - r.sources_first;
        float p[SW_VECTOR];
        sw_load8(x.data, x.dtype, (row * r.sources + source) * r.dim + j, n, p);
        sw_store8(y.data, y.dtype, (row * r.heads + h) * r.dim + j, n, p);
    }
}

__global__ static void replicate_grad_kernel(view dy, view dx, struct replication r)
{
    const int groups = (r.dim + SW_VECTOR - 1) / SW_VECTOR;
    SW_GRID_STRIDE(i, r.rows * r.sources * groups)
    {
        const int j = (int)(i % groups) * SW_VECTOR, n = sw_left(j, r.dim);
        const int64_t g = i / groups % r.sources, row = i / groups / r.sources;
        float sum[SW_VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int c = 0; c < r.copies; c++) {
            const int64_t h = (r.sources_first + g) * r.copies + c - r.heads_first;
            float d[SW_VECTOR];
            if (h < 0 || h >= r.heads)
                continue;
            sw_load8(dy.data, dy.dtype, (row * r.heads + h) * r.dim + j, n, d);
#pragma unroll
            for (int k = 0; k < SW_VECTOR; k++)
                sum[k] += d[k];
        }
        sw_store8(dx.data, dx.dtype, (row * r.sources + g) * r.dim + j, n, sum);
    }
}

static struct replication describe_replication(const struct sw_call *call,
                                               const struct sw_tensor *narrow,
                                               const struct sw_tensor *wide)
{
    struct replication r;
    r.dim = call->op->as.copies.head_dim;
    r.copies = call->op->as.copies.copies;
    r.rows = narrow->size[0] * narrow->size[1];
    r.sources = narrow->size[2] / r.dim;
    r.heads = wide->size[2] / r.dim;
    r.sources_first = narrow->start[2] / r.dim;
    r.heads_first = wide->start[2] / r.dim;
    return r;
}

static cudaError_t replicate_heads_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *x = &call->in[0], *y = &call->out[0];
    const struct replication r = describe_replication(call, x, y);
    if (r.heads > 0 && (r.heads_first / r.copies < r.sources_first ||
                        (r.heads_first + r.heads - 1) / r.copies >= r.sources_first + r.sources))
        return cudaErrorInvalidValue; /* the source heads are on another rank */
    SW_LAUNCH(replicate_kernel, sw_grid(vectors(y->elems)), SW_THREADS, 0, stream, view_of(x),
              view_of(y), r);
    return cudaGetLastError();
}
SW_CUDA_RUN(replicate_heads)

static cudaError_t replicate_heads_grad_launch(const struct sw_call *call, cudaStream_t stream)
{
    const struct sw_tensor *dy = &call->in[0], *dx = &call->out[0];
    const struct replication r = describe_replication(call, dx, dy);
    SW_LAUNCH(replicate_grad_kernel, sw_grid(vectors(dx->elems)), SW_THREADS, 0, stream,
              view_of(dy), view_of(dx), r);
    return cudaGetLastError();
}
SW_CUDA_RUN(replicate_heads_grad)
