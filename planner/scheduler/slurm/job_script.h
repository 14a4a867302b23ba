/* A Slurm job's script, as far as it follows from Slurm's settings: values of #SBATCH lines and
 * their defaults, and the lines that prepare the ranks' environment. */
#ifndef SW_SLURM_JOB_SCRIPT_H
#define SW_SLURM_JOB_SCRIPT_H

#include "planner/scheduler/script.h"

extern const struct sw_script_row sw_slurm_script;

#endif
