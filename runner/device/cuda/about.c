/* Facts about the CUDA device: GPU count, names, versions, limits of a block. */
#include "runner/device/cuda/cuda.h"

#include <cublasLt.h>
#include <stdio.h>

int32_t sw_cuda_device_count(struct sw_error *err)
{
    int count = 0, driver = 0, runtime = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0)
        return (int32_t)count;
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (code == cudaSuccess || code == cudaErrorNoDevice)
        return sw_fail(err, SW_ENVIRONMENT,
                       "no NVIDIA GPU is visible here; check nvidia-smi, CUDA_VISIBLE_DEVICES and "
                       "the job's --gpus");
    if (code == cudaErrorInsufficientDriver && driver == 0)
        return sw_fail(err, SW_ENVIRONMENT,
                       "no NVIDIA driver is loaded here; run on a GPU node, or use cpu for cuda: "
                       "the plan's device, calibrate's --device");
    if (code == cudaErrorInsufficientDriver)
        return sw_fail(err, SW_ENVIRONMENT,
                       "the NVIDIA driver supports CUDA %d.%d, this build needs %d.%d; update the "
                       "driver or build with an older CUDA",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return sw_cuda_fail(err, code, "the NVIDIA driver does not answer");
}

int sw_cuda_check_shared(const struct sw_cuda_device *device, size_t bytes, const char *what,
                         int32_t head_dim, struct sw_error *err)
{
    if (bytes <= device->shared_bytes)
        return 0;
    return sw_fail(err, SW_UNMET,
                   "%s: heads of %d take %zu KB of a block's shared memory without cuDNN, this GPU "
                   "gives %zu; compute in bf16 where cuDNN is installed, or use another GPU",
                   what, (int)head_dim, bytes / 1000, device->shared_bytes / 1000);
}

const char *sw_cuda_device_describe(struct sw_device *device, char *buffer, size_t buffer_bytes)
{
    struct cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (cudaGetDeviceProperties(&properties, ((struct sw_cuda_device *)device)->index) !=
        cudaSuccess)
        snprintf(buffer, buffer_bytes, "a GPU that does not answer");
    else
        snprintf(buffer, buffer_bytes, "%s, compute %d.%d, driver %d.%d, runtime %d.%d",
                 properties.name, properties.major, properties.minor, driver / 1000,
                 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return buffer;
}

const char *sw_cuda_versions(char *buffer, size_t buffer_bytes)
{
    const size_t cublas = cublasLtGetVersion();
    int length =
        snprintf(buffer, buffer_bytes, "%d.%d, cuBLASLt %zu.%zu.%zu", CUDART_VERSION / 1000,
                 CUDART_VERSION % 1000 / 10, cublas / 10000, cublas / 100 % 100, cublas % 100);
    const int32_t cudnn = sw_cudnn_version();
    if (cudnn > 0 && length > 0 && (size_t)length < buffer_bytes)
        length += snprintf(buffer + length, buffer_bytes - (size_t)length, ", cuDNN %d.%d.%d",
                           cudnn / 10000, cudnn / 100 % 100, cudnn % 100);
    (void)length;
    return buffer;
}
