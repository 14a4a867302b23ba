/* One collective call through NCCL on a stream: in place, or packed into the call's workspace piece
 * by piece (see core/ir/messages.h). Owns nothing. */
#ifndef SW_COLLECTIVE_NCCL_CALLS_H
#define SW_COLLECTIVE_NCCL_CALLS_H

#include "runner/collective/collective.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

/* Status of the library that failed; both 0: success. */
struct sw_nccl_status {
    ncclResult_t nccl;
    cudaError_t cuda;
};

/* Runs a checked call (sw_collective_call_check) of at least one element in device memory. group:
 * members of `comm`, >= 1. */
struct sw_nccl_status sw_nccl_call(const struct sw_collective_call *call, int32_t group,
                                   ncclComm_t comm, cudaStream_t stream);

ncclDataType_t sw_nccl_type(enum sw_dtype dtype);

#endif
