/* The CUDA device, as the runner sees it. Built only where CUDA is found; needs no GPU to build. */
#ifndef SW_DEVICE_CUDA_DEVICE_H
#define SW_DEVICE_CUDA_DEVICE_H

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#include "runner/device/device.h"

/* index: which GPU of this node, from 0. The caller destroys it through its vtable. Errors
 * (SW_ENVIRONMENT): no GPU, no driver or one that is too old, out of memory; each says what to do.
 */
struct sw_device *sw_cuda_device_create(int32_t index, struct sw_error *err);

/* GPUs that this process can use; -1 with an error when the driver does not answer. */
int32_t sw_cuda_device_count(struct sw_error *err);

/* "NVIDIA H200, compute 9.0, driver 13.0, runtime 13.0"; for one line at the start. */
const char *sw_cuda_device_describe(struct sw_device *device, char *buffer, size_t buffer_bytes);

/* Own attention kernels for bf16 too, where cuDNN's would be used. Before the first op. */
void sw_cuda_device_own_attention(struct sw_device *device);

/* "cuDNN 9.19.0 in bf16, own kernels in f32", or "own kernels (WHY)"; for one line at the start. */
const char *sw_cuda_device_attention(struct sw_device *device, char *buffer, size_t buffer_bytes);

/* What the first step finds out is told to `note` (NULL: to nobody), a line without its end each: a
 * shape that cuDNN has no kernel for, once; when the second step begins, how much memory libraries
 * work in beside the arena. */
void sw_cuda_device_on_note(struct sw_device *device, void (*note)(void *context, const char *text),
                            void *context);

/* "13.0, cuBLASLt 13.0.2, cuDNN 9.19.0": the libraries this was built with; needs no GPU. */
const char *sw_cuda_versions(char *buffer, size_t buffer_bytes);

/* Everything that is queued runs in this order on this stream (a cudaStream_t). */
void *sw_cuda_device_stream(struct sw_device *device);

#ifdef __cplusplus
}
#endif

#endif
