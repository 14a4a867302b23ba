/* A job as its script asks for it: the #SBATCH lines, read as sbatch reads them. */
#ifndef SW_SLURM_SCRIPT_H
#define SW_SLURM_SCRIPT_H

#include "planner/scheduler/slurm/controller.h"

/* Adds what the lines before the script's first command say. Errors (SW_ENVIRONMENT): memory. */
int sw_slurm_request_read(const char *script, struct sw_slurm_request *out, struct sw_error *err);
/* A copy with one option (or none: name NULL) of another value; value NULL: without it. */
int sw_slurm_request_vary(const struct sw_slurm_request *from, const char *name, const char *value,
                          struct sw_slurm_request *out, struct sw_error *err);

#endif
