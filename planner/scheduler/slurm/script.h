/* A job as its script asks for it: the #SBATCH lines, read as sbatch reads them. */
#ifndef SW_SLURM_SCRIPT_H
#define SW_SLURM_SCRIPT_H

#include "planner/scheduler/slurm/controller.h"

/* Adds what the lines before the script's first command say. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_request_read(const char *script, struct sw_job_request *out, struct sw_error *err);

#endif
