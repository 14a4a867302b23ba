/* Weights of 8 or 4 bits: our own skinny kernel, else panels through cuBLASLt. */
#include "runner/device/cuda/quantized.h"

static int queued(cudaError_t code, struct sw_error *err)
{
    return code == cudaSuccess ? 0 : sw_cuda_fail(err, code, "a product with quantized weights");
}

/* Runs one panel of consecutive outputs or inputs, as b is stored. */
static int run_panel(struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul,
                     int64_t first, int64_t count, void *wide, float *results, struct sw_error *err)
{
    struct sw_cuda_matmul product = *matmul;
    product.n = count;
    product.b = wide;
    product.b_dtype = matmul->a_dtype;
    product.b_row = matmul->b_row == 1 ? 1 : count;
    product.b_column = matmul->b_row == 1 ? matmul->k : 1;
    product.c = results;
    product.c_dtype = SW_F32;
    product.c_row = count;
    product.addend = NULL;
    product.scales = NULL;
    return queued(sw_cuda_quantized_widen(matmul, first, count, wide, device->stream), err) != 0 ||
                   sw_cuda_matmul(device, &product, err) != 0 ||
                   queued(sw_cuda_quantized_scale(matmul, first, count, results, device->stream),
                          err) != 0
               ? -1
               : 0;
}

int sw_cuda_matmul_quantized(struct sw_cuda_device *device, const struct sw_cuda_matmul *matmul,
                             struct sw_error *err)
{
    struct sw_quantized_panels panels;
    const bool scaled = matmul->scales != NULL || matmul->b_dtype == SW_I4;
    if (!scaled || (matmul->a_dtype != SW_F32 && matmul->a_dtype != SW_BF16_T))
        return sw_fail(err, SW_ENVIRONMENT, "a matrix product of %s and %s has no cuda kernel",
                       sw_dtype_name(matmul->a_dtype), sw_dtype_name(matmul->b_dtype));
    if (sw_quantized_in_kernel(matmul->m, matmul->k, matmul->n, matmul->a_dtype) &&
        sw_cuda_quantized_is_aligned(matmul))
        return queued(sw_cuda_quantized_product(matmul, device->stream), err);
    sw_quantized_panels_of(matmul->m, matmul->k, matmul->n, matmul->a_dtype, &panels);
    char *wide = matmul->workspace;
    if (matmul->workspace_bytes < panels.bytes) /* the plan's target was not a GPU */
        wide = sw_cuda_scratch(device, (size_t)panels.bytes, err);
    if (wide == NULL)
        return -1;
    for (int64_t first = 0; first < matmul->n; first += panels.outputs) {
        const int64_t left = matmul->n - first;
        const int64_t count = left < panels.outputs ? left : panels.outputs;
        if (run_panel(device, matmul, first, count, wide, (float *)(wide + panels.results), err) !=
            0)
            return -1;
    }
    return 0;
}
