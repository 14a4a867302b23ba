/* A communicator of one rank per GPU through NCCL (nccl.c); built where CUDA and NCCL are. */
#ifndef SW_COLLECTIVE_NCCL_H
#define SW_COLLECTIVE_NCCL_H

#include "runner/collective/collective.h"

/* How the ranks of a job find each other before there is NCCL; every rank makes the same calls. */
struct sw_nccl_job {
    int32_t rank;
    void *context;
    int (*broadcast)(void *context, void *data, size_t bytes); /* data becomes rank 0's */
    /* the lowest rank that does not say so; -1: all do */
    int32_t (*agree)(void *context, bool mine);
    int (*barrier)(void *context);
};

/* Each rank has a GPU of its own that is current; collective over them. groups[count]: the axes of
 * calls to come, whose communicators are made now, before an arena takes the memory; others are
 * made at their first call. compute_stream: the device's (a cudaStream_t). stall_seconds: as for
 * sw_comm_mpi_create. *job is copied, its context outlives the communicator. Errors
 * (SW_ENVIRONMENT): NCCL's with axis and peers, CUDA's, the job's, memory. */
int sw_comm_nccl_create(const struct sw_mesh *mesh, const struct sw_nccl_job *job,
                        const struct sw_axes *groups, int32_t count, void *compute_stream,
                        double stall_seconds, struct sw_comm **out, struct sw_error *err);

#endif
