/* Services of the CUDA device for all kernels: scratch, cuDNN, notes and errors. */
#include "core/base/number.h"
#include "runner/device/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int sw_cuda_fail(struct sw_error *err, cudaError_t code, const char *call)
{
    return sw_fail(err, SW_ENVIRONMENT, "%s: %s", call, cudaGetErrorString(code));
}

void sw_cuda_note(struct sw_cuda_device *device, const char *format, ...)
{
    char text[512];
    va_list list;
    if (device->note == NULL)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    device->note(device->note_context, text);
}

struct sw_cudnn_attention *sw_cuda_cudnn(struct sw_cuda_device *device)
{
    struct sw_cuda_library *library = &device->library;
    struct sw_error err = {0};
    if (library->asked || library->own)
        return library->cudnn;
    library->asked = true;
    library->cudnn = sw_cudnn_attention_create(device->stream, NULL, &err);
    if (library->cudnn == NULL)
        snprintf(library->why, sizeof library->why, "%.*s", SW_CUDA_WHY_BYTES - 1, err.message);
    return library->cudnn;
}

void *sw_cuda_scratch(struct sw_cuda_device *device, size_t bytes, struct sw_error *err)
{
    struct sw_cuda_scratch *s = &device->scratch;
    if (bytes <= s->bytes)
        return s->data;
    if (device->recording) {
        sw_fail(err, SW_ENVIRONMENT, "the scratch of the GPU cannot grow to %zu bytes now", bytes);
        return NULL;
    }
    if (s->retired_count == s->retired_capacity) {
        const int32_t wanted = s->retired_capacity ? 2 * s->retired_capacity : 8;
        void **grown = realloc(s->retired, (size_t)wanted * sizeof *grown);
        if (grown == NULL) {
            sw_fail(err, SW_ENVIRONMENT, "out of memory for the GPU's scratch");
            return NULL;
        }
        s->retired = grown;
        s->retired_capacity = wanted;
    }
    void *fresh = NULL;
    const size_t rounded = (size_t)sw_align((int64_t)bytes, SW_CUDA_STAGE_BYTES);
    const cudaError_t code = cudaMalloc(&fresh, rounded);
    if (code != cudaSuccess) {
        (void)cudaGetLastError();
        sw_fail(err, SW_ENVIRONMENT,
                "library workspace of %zu bytes does not fit beside the arena, %lld are free; give "
                "the accelerator a larger reserved_memory",
                rounded, (long long)device->base.vtable->free_bytes(&device->base));
        return NULL;
    }
    if (s->data != NULL && device->recordings == 0) { /* no recording holds its address */
        (void)cudaStreamSynchronize(device->stream);
        (void)cudaFree(s->data);
    } else if (s->data != NULL) {
        s->retired[s->retired_count++] = s->data;
        s->retired_bytes += s->bytes;
    }
    s->data = fresh;
    s->bytes = rounded;
    return s->data;
}
