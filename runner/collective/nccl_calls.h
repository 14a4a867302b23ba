/* One collective call through NCCL, on a stream: as it lies, or packed into the call's workspace
 * piece by piece (core/ir/messages.h says which). Owns nothing. */
#ifndef SW_COLLECTIVE_NCCL_CALLS_H
#define SW_COLLECTIVE_NCCL_CALLS_H

#include "runner/collective/collective.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

/* Which library said no; both 0: neither. */
struct sw_nccl_status {
    ncclResult_t nccl;
    cudaError_t cuda;
};

/* group: members of `comm`, >= 1. A checked call (sw_collective_call_check) of at least one
 * element, in device memory. */
struct sw_nccl_status sw_nccl_call(const struct sw_collective_call *call, int32_t group,
                                   ncclComm_t comm, cudaStream_t stream);

ncclDataType_t sw_nccl_type(enum sw_dtype dtype);

#endif
