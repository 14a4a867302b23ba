/* How plan runs Slurm's commands: in an environment without what a surrounding job or a user's
 * profile would change in a submission. */
#ifndef SW_SLURM_CLIENT_H
#define SW_SLURM_CLIENT_H

#include "planner/command/process.h"

/* As sw_process_run. SBATCH_*, SLURM_*, SALLOC_* and SRUN_* are left out, but for SLURM_CONF,
 * SLURM_CONF_SERVER and SLURM_JWT; SLURM_TIME_FORMAT=standard is set. A command whose controller is
 * down waits for a minute and more: give it a limit. */
int sw_slurm_process(const char *const *argv, const char *input, double limit_seconds,
                     struct sw_process_result *out, struct sw_error *err);

#endif
