/* A rank's device and collectives, chosen by the plan's kind of accelerator. */
#ifndef SW_RANK_ACCELERATOR_H
#define SW_RANK_ACCELERATOR_H

#include "core/base/device.h"
#include "runner/collective/collective.h"
#include "runner/device/device.h"
#include "runner/rank/launch.h"

/* Index of a rank's GPU among its `count` >= 1 visible ones: the ranks of a node in rotation. */
int32_t sw_accelerator_gpu(const struct sw_launch *launch, int32_t count);

/* kind: the plan's. threads: of a CPU device. Rank r of a node takes GPU r modulo its visible GPUs.
 * Errors (SW_ENVIRONMENT): sw_cuda_module_load's for a cuda device; no GPU, no driver.
 * SW_BAD_INPUT: unknown SW_CUDA_ATTENTION. */
struct sw_device *sw_accelerator_device(const struct sw_launch *launch, enum sw_device_kind kind,
                                        int32_t threads, struct sw_error *err);

/* Creates the communicator for `device`; collective over all ranks. On GPUs NCCL or, with
 * SW_COLLECTIVES=staged in the environment (several ranks share a GPU), MPI through host memory;
 * rank 0 reports it on stderr. A single rank copies on any device. groups[group_count]: axes of
 * later programs (sw_program_set_axes), may be empty. stall_seconds: see sw_comm_mpi_create. Errors
 * (SW_ENVIRONMENT), SW_BAD_INPUT for an unknown SW_COLLECTIVES. */
int sw_accelerator_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                        const struct sw_axes *groups, int32_t group_count, struct sw_device *device,
                        enum sw_device_kind kind, double stall_seconds, struct sw_comm **out,
                        struct sw_error *err);

/* Creates a communicator for host memory, whatever the device. Errors (SW_ENVIRONMENT). */
int sw_accelerator_host_comm(const struct sw_launch *launch, const struct sw_mesh *mesh,
                             double stall_seconds, struct sw_comm **out, struct sw_error *err);

/* "13.0, cuBLASLt 13.0.2, cuDNN 9.19.0, NCCL", or "none (WHY)". Loads the CUDA device. */
const char *sw_accelerator_versions(char *buffer, size_t buffer_bytes);

#endif
