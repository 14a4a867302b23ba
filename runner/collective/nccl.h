/* Communicator through NCCL, one rank per GPU (nccl.c); built with CUDA and NCCL. */
#ifndef SW_COLLECTIVE_NCCL_H
#define SW_COLLECTIVE_NCCL_H

#include "runner/collective/collective.h"

/* The job's own communication before NCCL exists; every rank makes the same calls. */
struct sw_nccl_job {
    int32_t rank;
    void *context;
    int (*broadcast)(void *context, void *data, size_t bytes); /* rank 0's data to all */
    /* lowest rank with `mine` false; -1: none */
    int32_t (*agree)(void *context, bool mine);
    int (*barrier)(void *context);
};

/* Creates the communicator, collective over ranks that each have their own GPU current.
 * groups[count]: axes of later calls, whose communicators are made now, before an arena takes the
 * memory; others are made at their first call. compute_stream: the device's (a cudaStream_t).
 * stall_seconds: see sw_comm_mpi_create. *job is copied, its context outlives the communicator.
 * Errors (SW_ENVIRONMENT): NCCL's with axis and peers, CUDA's, the job's, memory. */
int sw_comm_nccl_create(const struct sw_mesh *mesh, const struct sw_nccl_job *job,
                        const struct sw_axes *groups, int32_t count, void *compute_stream,
                        double stall_seconds, struct sw_comm **out, struct sw_error *err);

#endif
