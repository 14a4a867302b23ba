/* The CUDA device as a file of its own, runner-cuda.so, which the runner loads when a plan asks for
 * cuda (runner/rank/cuda_load.h): the runner itself names no library of NVIDIA's and starts without
 * them. The file has code of its own for everything that both use; they share no state. */
#ifndef SW_RANK_CUDA_MODULE_H
#define SW_RANK_CUDA_MODULE_H

#include "runner/collective/collective.h"
#include "runner/device/cuda/device.h"

struct sw_nccl_job; /* runner/collective/nccl.h */

/* What both sides must have been compiled with: the sizes of what goes from one to the other. */
struct sw_cuda_stamp {
    size_t stamp, module, device, call, tensor, op, step, comm, collective_call;
    int32_t op_count;
    char version[20];
};

/* The functions of device.h and collective/nccl.h, by the ends of their names. */
struct sw_cuda_module {
    const struct sw_cuda_stamp *stamp; /* stands first in every version */
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

#ifdef SW_VERSION /* of what is built as one of the two sides */
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

/* The one name that runner-cuda.so gives out. */
#define SW_CUDA_MODULE_NAME "sw_cuda_module"
extern const struct sw_cuda_module sw_cuda_module;

#endif
