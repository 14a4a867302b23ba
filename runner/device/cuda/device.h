/* The CUDA device's interface for the runner. Compiled only if CUDA is found; building needs no
 * GPU. */
#ifndef SW_DEVICE_CUDA_DEVICE_H
#define SW_DEVICE_CUDA_DEVICE_H

#ifdef __cplusplus
#define _Static_assert static_assert
extern "C" {
#endif

#include "runner/device/device.h"

/* index: GPU of this node, from 0. The caller frees the device with its `destroy`. Errors
 * (SW_ENVIRONMENT), each with its remedy: no GPU, no driver or one too old, out of memory. */
struct sw_device *sw_cuda_device_create(int32_t index, struct sw_error *err);

/* GPUs usable by this process; -1 with an error if the driver does not answer. */
int32_t sw_cuda_device_count(struct sw_error *err);

/* "NVIDIA H200, compute 9.0, driver 13.0, runtime 13.0", for the start's log. */
const char *sw_cuda_device_describe(struct sw_device *device, char *buffer, size_t buffer_bytes);

/* Uses own attention kernels even for bf16. Call before the first op. */
void sw_cuda_device_own_attention(struct sw_device *device);

/* "cuDNN 9.19.0 in bf16, own kernels in f32", or "own kernels (WHY)", for the start's log. */
const char *sw_cuda_device_attention(struct sw_device *device, char *buffer, size_t buffer_bytes);

/* Calls `note` (NULL: nothing) with a line, without its newline, for each finding of the first
 * step: once per shape that cuDNN has no kernel for; at the second step's start, the library memory
 * outside the arena. */
void sw_cuda_device_on_note(struct sw_device *device, void (*note)(void *context, const char *text),
                            void *context);

/* "13.0, cuBLASLt 13.0.2, cuDNN 9.19.0": the libraries of this build; needs no GPU. */
const char *sw_cuda_versions(char *buffer, size_t buffer_bytes);

/* The compute stream (a cudaStream_t); queued work runs on it in order. */
void *sw_cuda_device_stream(struct sw_device *device);

#ifdef __cplusplus
}
#endif

#endif
