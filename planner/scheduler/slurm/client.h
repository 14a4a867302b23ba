/* Runs Slurm's commands in an environment without variables of a surrounding job or a user's
 * profile that would change the question. */
#ifndef SW_SLURM_CLIENT_H
#define SW_SLURM_CLIENT_H

#include "planner/command/process.h"

/* Like sw_process_run, but without the variables of Slurm's commands (SLURM_*, SBATCH_*, SQUEUE_*,
 * SCANCEL_* ...), except SLURM_CONF, SLURM_CONF_SERVER and SLURM_JWT, and with
 * SLURM_TIME_FORMAT=standard. Fails (SW_ENVIRONMENT), and starts nothing, if SLURM_CLUSTERS names
 * another cluster than the one that would be asked. A command whose controller is down waits for a
 * minute and more: set a limit. */
int sw_slurm_process(const char *const *argv, const char *input, double limit_seconds,
                     struct sw_process_result *out, struct sw_error *err);

#endif
