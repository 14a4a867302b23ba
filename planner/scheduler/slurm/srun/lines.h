/* Lines of srun and slurmstepd about the end of ranks. In a folder of its own, since `runner next`,
 * which older scripts call, reads them too. */
#ifndef SW_SCHEDULER_SLURM_SRUN_LINES_H
#define SW_SCHEDULER_SLURM_SRUN_LINES_H

#include "core/run/launcher.h"

extern const struct sw_launcher_lines sw_srun_lines;

/* True if srun's diagnostics say that the controller did not create the step, for a reason that may
 * pass and does not concern the step's nodes. */
bool sw_srun_is_refused(const char *text);

#endif
