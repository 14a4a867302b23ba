/* What srun and slurmstepd print when ranks end. A folder of its own, for `runner next` reads it,
 * too: scripts that an older `plan` wrote ask that. */
#ifndef SW_SCHEDULER_SLURM_SRUN_LINES_H
#define SW_SCHEDULER_SLURM_SRUN_LINES_H

#include "core/run/launcher.h"

extern const struct sw_launcher_lines sw_srun_lines;

/* True if srun's diagnostics say that the controller did not create the step, for a reason that may
 * pass and tells nothing of the step's nodes. */
bool sw_srun_is_refused(const char *text);

#endif
