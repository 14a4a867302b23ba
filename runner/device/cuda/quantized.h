/* Internal to the CUDA device: products with weights in 8 bits, int8 or e4m3, a scale for each
 * output (core/base/quantize.h), or in 4: y = (x W) scales (+ z), summed in f32 and rounded once.
 */
#ifndef SW_CUDA_QUANTIZED_H
#define SW_CUDA_QUANTIZED_H

#include "runner/device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* b is of 8 bits, scales are given; or of SW_I4, element (i, j) being of block b[i / 32 * b_row + j
 * * b_column] (core/base/int4.h), whose numbers are bf16's to the bit. Its workspace, or scratch,
 * is as sw_quantized_panels_of says.
 */
int sw_cuda_matmul_quantized(struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul,
                             struct sw_error *err);

/* ---- Kernels: each queues and returns the launch's error ---- */

/* The whole product, where sw_quantized_in_kernel() says so and sw_cuda_quantized_is_aligned(). */
bool sw_cuda_quantized_is_aligned(const struct sw_cuda_matmul *matmul);
cudaError_t sw_cuda_quantized_product(const struct sw_cuda_matmul *matmul, cudaStream_t stream);
/* Of the outputs [first, first + count): wide = those of b in a's dtype, packed as b lies. */
cudaError_t sw_cuda_quantized_widen(const struct sw_cuda_matmul *matmul, int64_t first,
                                    int64_t count, void *wide, cudaStream_t stream);
/* c's columns [first, first + count) = results [m, count] scales (+ addend), rounded. No scales:
 * ones. */
cudaError_t sw_cuda_quantized_scale(const struct sw_cuda_matmul *matmul, int64_t first,
                                    int64_t count, const float *results, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
