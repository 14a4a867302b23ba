/* Internal to the CUDA device: products with weights of 8 bits (int8 or e4m3, a scale per output;
 * core/base/quantize.h) or 4 bits: y = (x W) scales (+ z), summed in f32 and rounded once. */
#ifndef SW_CUDA_QUANTIZED_H
#define SW_CUDA_QUANTIZED_H

#include "runner/device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* b has 8 bits with scales, or is SW_I4: element (i, j) is in block b[i / 32 * b_row + j *
 * b_column] (core/base/int4.h), exact in bf16. Workspace or scratch: sw_quantized_panels_of. */
int sw_cuda_matmul_quantized(struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul,
                             struct sw_error *err);

/* ---- Kernels: each queues and returns the launch's error ---- */

/* The whole product, if sw_quantized_in_kernel() and sw_cuda_quantized_is_aligned(). */
bool sw_cuda_quantized_is_aligned(const struct sw_cuda_matmul *matmul);
cudaError_t sw_cuda_quantized_product(const struct sw_cuda_matmul *matmul, cudaStream_t stream);
/* wide = outputs [first, first + count) of b in a's dtype, packed in b's layout. */
cudaError_t sw_cuda_quantized_widen(const struct sw_cuda_matmul *matmul, int64_t first,
                                    int64_t count, void *wide, cudaStream_t stream);
/* c's columns [first, first + count) = results [m, count] scales (+ addend), rounded. No scales:
 * all 1. */
cudaError_t sw_cuda_quantized_scale(const struct sw_cuda_matmul *matmul, int64_t first,
                                    int64_t count, const float *results, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
