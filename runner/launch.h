/* How this process was started: alone, or as one rank of an MPI job. The only place besides
 * collective/mpi.c that knows MPI; without MPI in the build there is one rank. */
#ifndef SW_LAUNCH_H
#define SW_LAUNCH_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_launch {
    int32_t rank, size, local_size; /* local_size: ranks on this node */
    bool mpi;                       /* MPI is initialised */
    char host[256];
};

/* MPI is initialised only under a launcher (mpirun, srun --mpi=pmix). Errors (SW_ENVIRONMENT;
 * SW_BAD_INPUT: srun without MPI, launch->rank is the task's number). */
int sw_launch_begin(struct sw_launch *launch, struct sw_error *err);

/* All ranks call it, each with its own state (NULL: fine): when any failed, the lowest rank that
 * did prints its error, and every rank gets that status. SW_OK when none failed. */
enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err);

/* This rank alone cannot go on: prints the error with the rank and host, and ends the whole job. */
void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err)
    __attribute__((noreturn));

void sw_launch_end(struct sw_launch *launch);

/* "Open MPI v4.1.4", or "none". */
const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes);

#endif
