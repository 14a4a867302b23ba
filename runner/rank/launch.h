/* Start of this process: alone, or as a rank of an MPI job. Only this and collective/mpi.c use MPI;
 * a build without MPI has one rank. */
#ifndef SW_LAUNCH_H
#define SW_LAUNCH_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { SW_LAUNCH_VALUES = 16 };

struct sw_pulse;
struct sw_launch {
    int32_t rank, size;
    int32_t local_rank, local_size; /* among the ranks of this node, by MPI */
    bool mpi;                       /* true if MPI is initialised */
    char host[256];
    struct sw_pulse *pulse; /* until sw_launch_started; NULL: none */
};

/* Process number that the launcher sets in the environment; 0: alone. For messages once per job
 * before MPI is initialised. */
int32_t sw_launch_number(void);

/* Fills rank and host as far as known before MPI is initialised. */
void sw_launch_name(struct sw_launch *launch);

/* Prints the error to stderr, after its place if any. For errors before there are ranks. */
void sw_launch_print_error(const struct sw_error *err);

/* Checks the environment variables for waiting times. Errors (SW_BAD_INPUT): one is set, not empty,
 * and not a positive number. */
int sw_launch_check_variables(struct sw_error *err);

/* Initialises MPI, only under a launcher (mpirun, srun --mpi=pmix). If the other ranks do not come,
 * ends the process with a line: after SHARDWRIGHT_START_SECONDS, else SHARDWRIGHT_STALL_SECONDS (at
 * least 300), else 300. Errors (SW_ENVIRONMENT; SW_BAD_INPUT: srun without MPI, launch->rank is the
 * task's number). */
int sw_launch_begin(struct sw_launch *launch, struct sw_error *err);

/* Called by every rank once its collectives watch the others (or may take any time). Before, a rank
 * without a sign of life for sw_launch_stall_seconds(0) ends the job with a line that names it. */
void sw_launch_started(struct sw_launch *launch);

/* Called by all ranks, each with its own state (may be NULL). If some failed, the lowest of them,
 * preferably one that blames no other rank, prints its error, and all ranks get that status; else
 * SW_OK. */
enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err);

/* Called by all ranks with values [count <= SW_LAUNCH_VALUES]: first index at which ranks differ,
 * or -1. */
int32_t sw_launch_difference(const struct sw_launch *launch, const uint64_t *values, int32_t count);

/* Called by all ranks with records of equal size; all [size * bytes]: every rank's, in order. */
void sw_launch_gather(const struct sw_launch *launch, const void *mine, int32_t bytes, void *all);

/* Called by all ranks: data [bytes] becomes rank 0's. */
void sw_launch_broadcast(const struct sw_launch *launch, void *data, size_t bytes);

/* Broadcasts when rank 0 may take hours: the others sleep instead of polling, and no stall is
 * reported. */
void sw_launch_pass_on(const struct sw_launch *launch, void *data, size_t bytes);

/* Called by all ranks: largest of their values. */
int64_t sw_launch_max(const struct sw_launch *launch, int64_t value);
/* Largest of each of values [count]; none is NaN. */
void sw_launch_max_floats(const struct sw_launch *launch, float *values, int64_t count);

/* Ends the whole job with this exit code, since this rank alone cannot continue; prints the error
 * with rank and host (NULL: already printed). */
void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err, int code)
    __attribute__((noreturn));

void sw_launch_end(struct sw_launch *launch);

/* Threads of a rank, at least 1: OMP_NUM_THREADS if it begins with a positive number; else the
 * cores this rank may run on: its own if the launcher bound it to some of the node's, else its
 * share of the node's. */
int32_t sw_launch_threads(const struct sw_launch *launch);

/* Seconds without a sign of life after which a rank takes the others for hanging and gives up:
 * SHARDWRIGHT_STALL_SECONDS if positive. Else
 *     max(60, min(20 * longest_s, 240), 4 * longest_s)
 * longest_s: predicted longest silence of a rank (a step; 0: unknown). A file system may take a
 * minute to answer; Slurm's SlurmdTimeout is 300 s, and a run must name the missing rank before
 * Slurm ends the job. */
double sw_launch_stall_seconds(double longest_s);

/* Seconds from SIGTERM until the launcher kills: SHARDWRIGHT_GRACE_SECONDS if positive; else
 * `usual`. */
double sw_launch_grace_seconds(double usual);

/* Job id of the site's scheduler, "" outside a job. */
const char *sw_launch_job(void);

/* "Open MPI v4.1.4", or "none". */
const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes);

#endif
