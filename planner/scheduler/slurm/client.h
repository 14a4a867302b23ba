/* How plan runs Slurm's commands: in an environment without what a surrounding job or a user's
 * profile would change in what is asked. */
#ifndef SW_SLURM_CLIENT_H
#define SW_SLURM_CLIENT_H

#include "planner/command/process.h"

/* As sw_process_run. The variables of all of Slurm's commands (SLURM_*, SBATCH_*, SQUEUE_*,
 * SCANCEL_* ...) are left out, but for SLURM_CONF, SLURM_CONF_SERVER and SLURM_JWT;
 * SLURM_TIME_FORMAT=standard is set. Fails (SW_ENVIRONMENT), and starts nothing, where
 * SLURM_CLUSTERS names another cluster than the one that would be asked. A command whose controller
 * is down waits for a minute and more: give it a limit. */
int sw_slurm_process(const char *const *argv, const char *input, double limit_seconds,
                     struct sw_process_result *out, struct sw_error *err);

#endif
