#include "runner/rank/cuda_module.h"

#ifdef SW_HAVE_NCCL
#include "runner/collective/nccl.h"
#endif

__attribute__((visibility("default"))) const struct sw_cuda_module sw_cuda_module = {
    .stamp = &sw_cuda_stamp,
    .device_count = sw_cuda_device_count,
    .device_create = sw_cuda_device_create,
    .describe = sw_cuda_device_describe,
    .own_attention = sw_cuda_device_own_attention,
    .attention = sw_cuda_device_attention,
    .on_note = sw_cuda_device_on_note,
    .versions = sw_cuda_versions,
    .stream = sw_cuda_device_stream,
#ifdef SW_HAVE_NCCL
    .nccl_create = sw_comm_nccl_create,
#endif
};
