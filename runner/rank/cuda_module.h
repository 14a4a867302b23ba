/* The CUDA device as a separate file, runner-cuda.so, loaded when a plan needs cuda
 * (runner/rank/cuda_load.h): the runner itself links no NVIDIA library and starts without them. The
 * file contains its own copy of shared code; no state is shared. */
#ifndef SW_RANK_CUDA_MODULE_H
#define SW_RANK_CUDA_MODULE_H

#include "runner/collective/collective.h"
#include "runner/device/cuda/device.h"

struct sw_nccl_job; /* runner/collective/nccl.h */

/* Layout check: sizes of the structs passed between runner and module. */
struct sw_cuda_stamp {
    size_t stamp, module, device, call, tensor, op, step, comm, collective_call;
    int32_t op_count;
    char version[20];
};

/* Functions of device.h and collective/nccl.h, by the ends of their names. */
struct sw_cuda_module {
    const struct sw_cuda_stamp *stamp; /* first member in every version */
    int32_t (*device_count)(struct sw_error *err);
    struct sw_device *(*device_create)(int32_t index, struct sw_error *err);
    const char *(*describe)(struct sw_device *device, char *buffer, size_t buffer_bytes);
    void (*own_attention)(struct sw_device *device);
    const char *(*attention)(struct sw_device *device, char *buffer, size_t buffer_bytes);
    void (*on_note)(struct sw_device *device, void (*note)(void *context, const char *text),
                    void *context);
    const char *(*versions)(char *buffer, size_t buffer_bytes);
    void *(*stream)(struct sw_device *device);
    /* NULL: built without NCCL */
    int (*nccl_create)(const struct sw_mesh *mesh, const struct sw_nccl_job *job,
                       const struct sw_axes *groups, int32_t count, void *compute_stream,
                       double stall_seconds, struct sw_comm **out, struct sw_error *err);
};

#ifdef SW_VERSION /* only in the two sides of the module */
static const struct sw_cuda_stamp sw_cuda_stamp = {.stamp = sizeof(struct sw_cuda_stamp),
                                                   .module = sizeof(struct sw_cuda_module),
                                                   .device = sizeof(struct sw_device_vtable),
                                                   .call = sizeof(struct sw_call),
                                                   .tensor = sizeof(struct sw_tensor),
                                                   .op = sizeof(struct sw_op),
                                                   .step = sizeof(struct sw_step),
                                                   .comm = sizeof(struct sw_comm_vtable),
                                                   .collective_call =
                                                       sizeof(struct sw_collective_call),
                                                   .op_count = SW_OP_COUNT,
                                                   .version = SW_VERSION};
#endif

/* The only symbol that runner-cuda.so exports. */
#define SW_CUDA_MODULE_NAME "sw_cuda_module"
extern const struct sw_cuda_module sw_cuda_module;

#endif
