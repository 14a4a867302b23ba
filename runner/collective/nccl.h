/* A communicator of one rank per GPU through NCCL (nccl.c); built where CUDA, NCCL and MPI are. */
#ifndef SW_COLLECTIVE_NCCL_H
#define SW_COLLECTIVE_NCCL_H

#include "runner/collective/collective.h"

/* The ranks are the processes of MPI_COMM_WORLD, each with a GPU of its own that is current; MPI is
 * called here and in `barrier` only. compute_stream: the device's (a cudaStream_t).
 * stall_seconds: as for sw_comm_mpi_create. Errors (SW_ENVIRONMENT): NCCL's with axis and peers,
 * CUDA's, MPI's, memory. */
int sw_comm_nccl_create(const struct sw_mesh *mesh, void *compute_stream, double stall_seconds,
                        struct sw_comm **out, struct sw_error *err);

#endif
