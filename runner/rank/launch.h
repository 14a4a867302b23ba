/* How this process was started: alone, or as one rank of an MPI job. The only place besides
 * collective/mpi.c that knows MPI; without MPI in the build there is one rank. */
#ifndef SW_LAUNCH_H
#define SW_LAUNCH_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { SW_LAUNCH_VALUES = 16 };

struct sw_pulse;
struct sw_launch {
    int32_t rank, size;
    int32_t local_rank, local_size; /* among the ranks on this node, as MPI sees it */
    bool mpi;                       /* MPI is initialised */
    char host[256];
    struct sw_pulse *pulse; /* until sw_launch_started; NULL: none */
};

/* This process's number as its launcher says it in the environment; 0: alone. For what must be said
 * once per job before MPI is initialised. */
int32_t sw_launch_number(void);

/* Fills rank and host as far as they are known before MPI is initialised. */
void sw_launch_name(struct sw_launch *launch);

/* Prints the error to stderr, its place first when it has one. For errors before there are ranks.
 */
void sw_launch_print_error(const struct sw_error *err);

/* Whether the variables of the environment that say how long to wait do. Errors (SW_BAD_INPUT): one
 * is set, not empty, and no positive number. */
int sw_launch_check_variables(struct sw_error *err);

/* MPI is initialised only under a launcher (mpirun, srun --mpi=pmix). Ends the process with a line
 * when the other ranks don't come: after SHARDWRIGHT_START_SECONDS, else SHARDWRIGHT_STALL_SECONDS
 * (300 at least), else 300. Errors (SW_ENVIRONMENT; SW_BAD_INPUT: srun without MPI, launch->rank is
 * the task's number). */
int sw_launch_begin(struct sw_launch *launch, struct sw_error *err);

/* All ranks call it, each when it has got so far that its collectives look after the others (or
 * that they may take as long as they like): until then, a rank that gives no sign of life for
 * sw_launch_stall_seconds(0) ends the job with a line that names it. */
void sw_launch_started(struct sw_launch *launch);

/* All ranks call it, each with its own state (NULL: fine): when any failed, the lowest rank that
 * did, and blames no other rank if there is such a one, prints its error, and every rank gets that
 * status. SW_OK when none failed. */
enum sw_status sw_launch_agree(const struct sw_launch *launch, const struct sw_error *err);

/* All ranks call it with values [count <= SW_LAUNCH_VALUES]: the first index at which they are not
 * the same on every rank, or -1. */
int32_t sw_launch_difference(const struct sw_launch *launch, const uint64_t *values, int32_t count);

/* All ranks call it with a record of the same size each; all [size * bytes] gets those of every
 * rank in order. */
void sw_launch_gather(const struct sw_launch *launch, const void *mine, int32_t bytes, void *all);

/* All ranks call it: data [bytes] becomes rank 0's. */
void sw_launch_broadcast(const struct sw_launch *launch, void *data, size_t bytes);

/* The same where rank 0 may take long to come, hours: the others sleep until it does, instead of
 * looking for it all the time, and no stall is called. */
void sw_launch_pass_on(const struct sw_launch *launch, void *data, size_t bytes);

/* All ranks call it: the largest of their values. */
int64_t sw_launch_max(const struct sw_launch *launch, int64_t value);
/* The same of each of values [count]; none is NaN. */
void sw_launch_max_floats(const struct sw_launch *launch, float *values, int64_t count);

/* This rank alone cannot go on: prints the error with the rank and host (NULL: it was said), and
 * ends the whole job with this exit code. */
void sw_launch_abort(const struct sw_launch *launch, const struct sw_error *err, int code)
    __attribute__((noreturn));

void sw_launch_end(struct sw_launch *launch);

/* Threads that a rank works with, at least 1: OMP_NUM_THREADS where it starts with a positive
 * number; else the cores that this rank may run on, which are its own when its launcher bound it to
 * some of the node's and are shared by the node's ranks when not. */
int32_t sw_launch_threads(const struct sw_launch *launch);

/* Seconds that a rank waits for the others without a sign of life before it takes them for hanging
 * and gives up: SHARDWRIGHT_STALL_SECONDS where that is a positive number. Else
 *     max(60, min(20 * longest_s, 240), 4 * longest_s)
 * where longest_s is the longest that a rank is predicted to say nothing (a step; 0: not known): a
 * minute is what a file system may take to answer, and less than Slurm's SlurmdTimeout (300 s),
 * so that a run says who is missing before Slurm ends the job. */
double sw_launch_stall_seconds(double longest_s);

/* Seconds from SIGTERM until the launcher kills: SHARDWRIGHT_GRACE_SECONDS where that is a positive
 * number; else `usual`. */
double sw_launch_grace_seconds(double usual);

/* The job's id at the site's scheduler, "" outside of one. */
const char *sw_launch_job(void);

/* "Open MPI v4.1.4", or "none". */
const char *sw_launch_mpi_version(char *buffer, int32_t buffer_bytes);

#endif
