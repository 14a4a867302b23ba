/* Kernels of the update: sums of squares, the gradient norm, AdamW with moments in the type of
 * sums, in bf16, or in blockwise codes (core/base/blockwise.h). */
#include "runner/device/cuda/kernel.cuh"

#include "core/base/blockwise.h"

#include <float.h>
#include <math.h>

__global__ static void squares_kernel(view g, double *parts, int64_t elems)
{
    double total = 0;
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float p[SW_VECTOR], sum = 0;
        sw_load8(g.data, g.dtype, i * SW_VECTOR, sw_left(i * SW_VECTOR, elems), p);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            sum += p[k] * p[k];
        total += (double)sum;
    }
    total = sw_block_sum_double(total);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = total;
}

__global__ static void squares_sum_kernel(const double *parts, view out)
{
    double total = 0;
    for (int i = threadIdx.x; i < SW_CUDA_SQUARE_PARTS; i += SW_THREADS)
        total += parts[i];
    total = sw_block_sum_double(total);
    if (threadIdx.x == 0)
        sw_store(out.data, out.dtype, 0, (float)total);
}

struct norm_parts {
    view part[SW_CUDA_NORM_PARTS];
};

/* Adds `count` parts to the earlier launches' sum in `out`; the last launch takes the root. */
__global__ static void grad_norm_kernel(struct norm_parts parts, int count, bool first, bool last,
                                        view out)
{
    double sum = 0;
    if (threadIdx.x != 0)
        return;
    if (!first)
        sum = (double)sw_load(out.data, out.dtype, 0);
    for (int i = 0; i < count; i++)
        sum += (double)sw_load(parts.part[i].data, parts.part[i].dtype, 0);
    sw_store(out.data, out.dtype, 0, (float)(last ? sqrt(sum) : sum));
}

/* sw_step_updates. loss without data: an unguarded update. */
__device__ static bool updates(const struct sw_cuda_step &s, view loss, float length)
{
    return !s.no_update &&
           (loss.data == NULL || ((double)sw_load(loss.data, loss.dtype, 0) <= s.most_loss &&
                                  (double)length <= s.most_norm));
}

/* One element's AdamW step: Loshchilov & Hutter 2019, bias-corrected m and v, decay decoupled from
 * the gradient. keep: factor that decay leaves of a weight. */
__device__ static void adamw(const struct sw_cuda_step &s, float shrink, float keep, float gradient,
                             float &weight, float &mean, float &square)
{
    const float d = gradient * shrink;
    mean = s.beta1 * mean + s.fresh1 * d;
    square = s.beta2 * square + s.fresh2 * d * d;
    weight = weight * keep - s.rate * mean / (sqrtf(square) * s.root + s.eps);
}

/* copy: rounded copy of w; without data: none. */
__global__ static void adamw_kernel(view w, view g, view m, view v, view norm, view loss, view copy,
                                    bool decay, int64_t elems, const struct sw_cuda_step *step)
{
    const struct sw_cuda_step s = *step;
    const float length = sw_load(norm.data, norm.dtype, 0);
    if (!updates(s, loss, length))
        return;
    const float shrink = s.clip > 0 && length > s.clip ? s.clip / length : 1.0f;
    const float keep = decay ? s.keep : 1.0f;
    SW_GRID_STRIDE(i, (elems + SW_VECTOR - 1) / SW_VECTOR)
    {
        float weight[SW_VECTOR], gradient[SW_VECTOR], mean[SW_VECTOR], square[SW_VECTOR];
        const int64_t at = i * SW_VECTOR;
        const int n = sw_left(at, elems);
        sw_load8(w.data, w.dtype, at, n, weight);
        sw_load8(g.data, g.dtype, at, n, gradient);
        sw_load8(m.data, m.dtype, at, n, mean);
        sw_load8(v.data, v.dtype, at, n, square);
#pragma unroll
        for (int k = 0; k < SW_VECTOR; k++)
            adamw(s, shrink, keep, gradient[k], weight[k], mean[k], square[k]);
        sw_store8(w.data, w.dtype, at, n, weight);
        sw_store8(m.data, m.dtype, at, n, mean);
        sw_store8(v.data, v.dtype, at, n, square);
        if (copy.data != NULL)
            sw_store8(copy.data, copy.dtype, at, n, weight);
    }
}

/* sw_blockwise_code */
__device__ static uint8_t code_of(const struct sw_blockwise_table &table, float ratio, int least)
{
    int code = 0;
    for (int half = SW_BLOCKWISE_CODES / 2; half > 0; half /= 2)
        code += ratio > table.middle[code + half - 1] ? half : 0;
    return (uint8_t)(code > least ? code : least);
}

/* Largest magnitude in a warp; infinity if an element is not finite. */
__device__ static float largest(const float *x, int count)
{
    float most = 0;
    for (int i = 0; i < count; i++)
        most = fmaxf(most, fabsf(x[i]) <= FLT_MAX ? fabsf(x[i]) : INFINITY);
    for (int lane = SW_WARP / 2; lane > 0; lane /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lane));
    return most;
}

/* Moments in codes by blocks of w, and each block's largest magnitude. */
struct codes {
    uint8_t *m, *v;
    float *most_m, *most_v;
    int64_t blocks;
    int block; /* elements */
};

/* A warp per block of codes; a lane takes every 32nd element. */
__global__ static void adamw_codes_kernel(view w, view g, struct codes c, view norm, view loss,
                                          view copy, bool decay,
                                          const struct sw_blockwise_table *tables,
                                          const struct sw_cuda_step *step)
{
    enum { EACH = SW_BLOCKWISE_MOST / SW_WARP };
    __shared__ struct sw_blockwise_table table[2];
    const struct sw_cuda_step s = *step;
    const float length = sw_load(norm.data, norm.dtype, 0);
    if (!updates(s, loss, length))
        return;
    for (int i = threadIdx.x; i < (int)sizeof table / (int)sizeof(float); i += SW_THREADS)
        ((float *)table)[i] = ((const float *)tables)[i];
    __syncthreads();
    const float shrink = s.clip > 0 && length > s.clip ? s.clip / length : 1.0f;
    const float keep = decay ? s.keep : 1.0f;
    const int lane = threadIdx.x % SW_WARP, warps = SW_THREADS / SW_WARP;
    for (int64_t k = blockIdx.x * (int64_t)warps + threadIdx.x / SW_WARP; k < c.blocks;
         k += gridDim.x * (int64_t)warps) {
        float mean[EACH], square[EACH];
        const float of_m = c.most_m[k], of_v = c.most_v[k];
        int held = 0;
        for (int i = lane; i < c.block; i += SW_WARP, held++) {
            const int64_t at = k * c.block + i;
            float weight = sw_load(w.data, w.dtype, at);
            mean[held] = table[0].value[c.m[at]] * of_m;
            square[held] = table[1].value[c.v[at]] * of_v;
            adamw(s, shrink, keep, sw_load(g.data, g.dtype, at), weight, mean[held], square[held]);
            sw_store(w.data, w.dtype, at, weight);
            if (copy.data != NULL)
                sw_store(copy.data, copy.dtype, at, weight);
        }
        const float most_m = largest(mean, held), most_v = largest(square, held);
        for (int j = 0; j < held; j++) {
            const int64_t at = k * c.block + lane + j * SW_WARP;
            c.m[at] = code_of(table[0], most_m > 0 ? mean[j] / most_m : 0, 0);
            c.v[at] = code_of(table[1], most_v > 0 ? square[j] / most_v : 0, square[j] > 0);
        }
        if (lane == 0) {
            c.most_m[k] = most_m <= FLT_MAX ? most_m : NAN;
            c.most_v[k] = most_v <= FLT_MAX ? most_v : NAN;
        }
    }
}

extern "C" cudaError_t sw_cuda_sum_squares(const struct sw_call *call, double *parts,
                                           cudaStream_t stream)
{
    SW_LAUNCH(squares_kernel, SW_CUDA_SQUARE_PARTS, SW_THREADS, 0, stream, view_of(&call->in[0]),
              parts, call->in[0].elems);
    SW_LAUNCH(squares_sum_kernel, 1, SW_THREADS, 0, stream, (const double *)parts,
              view_of(&call->out[0]));
    return cudaGetLastError();
}

static cudaError_t grad_norm_launch(const struct sw_call *call, cudaStream_t stream)
{
    const int total = call->op->n_in;
    for (int done = 0; done < total; done += SW_CUDA_NORM_PARTS) {
        struct norm_parts parts = {};
        const int count = total - done < SW_CUDA_NORM_PARTS ? total - done : SW_CUDA_NORM_PARTS;
        for (int i = 0; i < count; i++)
            parts.part[i] = view_of(&call->in[done + i]);
        SW_LAUNCH(grad_norm_kernel, 1, SW_WARP, 0, stream, parts, count, done == 0,
                  done + count == total, view_of(&call->out[0]));
    }
    return cudaGetLastError();
}
SW_CUDA_RUN(grad_norm)

extern "C" cudaError_t sw_cuda_adamw(const struct sw_call *call, const struct sw_cuda_step *step,
                                     const struct sw_blockwise_table *tables, cudaStream_t stream)
{
    const struct sw_adamw_operands at = sw_adamw_operands(call->op);
    const int64_t elems = call->out[0].elems, block = call->op->as.adamw.block;
    const bool decay = call->op->as.adamw.decay;
    const view w = view_of(&call->out[0]), g = view_of(&call->in[1]);
    const view m = view_of(&call->out[at.m]), v = view_of(&call->out[at.v]);
    const view norm = view_of(&call->in[at.norm]);
    const view loss = at.loss >= 0 ? view_of(&call->in[at.loss]) : view{};
    const view copy = at.copy >= 0 ? view_of(&call->out[at.copy]) : view{};
    if (block > 0) {
        const struct codes c = {(uint8_t *)m.data,
                                (uint8_t *)v.data,
                                (float *)call->out[at.most_m].data,
                                (float *)call->out[at.most_v].data,
                                elems / block,
                                (int)block};
        SW_LAUNCH(adamw_codes_kernel, sw_grid(c.blocks * SW_WARP), SW_THREADS, 0, stream, w, g, c,
                  norm, loss, copy, decay, tables, step);
    } else {
        SW_LAUNCH(adamw_kernel, sw_grid((elems + SW_VECTOR - 1) / SW_VECTOR), SW_THREADS, 0, stream,
                  w, g, m, v, norm, loss, copy, decay, elems, step);
    }
    return cudaGetLastError();
}
