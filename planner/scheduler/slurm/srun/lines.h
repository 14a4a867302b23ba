/* What srun and slurmstepd print when ranks end. A folder of its own, for `runner next` reads it,
 * too: scripts that an older `plan` wrote ask that. */
#ifndef SW_SCHEDULER_SLURM_SRUN_LINES_H
#define SW_SCHEDULER_SLURM_SRUN_LINES_H

#include "core/run/launcher.h"

extern const struct sw_launcher_lines sw_srun_lines;

#endif
