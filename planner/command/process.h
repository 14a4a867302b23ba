/* A program that plan asks something of (sbatch, squeue, plan-slurm ...): started without a shell,
 * with a time limit, and everything that it prints in memory. A Slurm command whose controller is
 * down waits for a minute and more; plan answers within seconds. */
#ifndef SW_JOB_PROCESS_H
#define SW_JOB_PROCESS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sw_process_result {
    int exit_code;  /* 128 + signal where one ended it; 127: it could not be started */
    bool timed_out; /* it was killed after the limit, with all that it had started */
    char *out;      /* standard output, ended by a 0 that out_bytes does not count */
    size_t out_bytes;
    char *diagnostics; /* standard error, likewise; at most 64 KiB of it are kept */
    size_t diagnostics_bytes;
};

/* Runs argv (argv[0] is looked for in PATH; NULL ends it) with `input` (NULL: nothing) as standard
 * input. The environment is plan's own without what a surrounding job or a user's profile would
 * change in a submission: SBATCH_*, SLURM_*, SALLOC_*, SRUN_*, PMI* and OMPI_* but SLURM_CONF,
 * SLURM_CONF_SERVER and SLURM_JWT; LC_ALL=C and SLURM_TIME_FORMAT=standard are set. *out is to be
 * freed with sw_process_free, also after an error.
 * A program that ends with a failure or runs out of time is no error here: look at *out.
 * Errors (SW_ENVIRONMENT): no memory, no process, more than 256 MiB of output; a program that is
 * not in PATH, with a help text that names Slurm's client commands. */
int sw_process_run(const char *const *argv, const char *input, double limit_seconds,
                   struct sw_process_result *out, struct sw_error *err);
/* The same within a job: with this process's environment as it is, without input, and told to end
 * (TERM) five seconds before it is killed. */
int sw_process_run_within(const char *const *argv, double limit_seconds,
                          struct sw_process_result *out, struct sw_error *err);
void sw_process_free(struct sw_process_result *result);

/* Starts argv in this process's group and environment, without input; out: its standard output and
 * error, -1: this process's own. Nothing waits for it: *child is the caller's to wait for, and what
 * is not there to be started ends with 127 and a line. Errors: SW_ENVIRONMENT: no process. */
int sw_process_start(const char *const *argv, int out, pid_t *child, struct sw_error *err);
/* The exit code of what waitpid(2) said: 128 + signal where one ended it. */
int sw_process_code(int status);

/* The last line of its standard error without the "sbatch: error: " before it; "" where it said
 * nothing. Points into the result, which it changes. */
const char *sw_process_complaint(struct sw_process_result *result);

/* Whether a program of this name can be started from PATH. */
bool sw_process_exists(const char *program);

#endif
