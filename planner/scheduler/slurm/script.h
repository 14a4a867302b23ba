/* Job requests of a script: its #SBATCH lines, read as sbatch does. */
#ifndef SW_SLURM_SCRIPT_H
#define SW_SLURM_SCRIPT_H

#include "planner/scheduler/slurm/controller.h"

/* Adds requests before the script's first command. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_request_read(const char *script, struct sw_job_request *out, struct sw_error *err);

#endif
