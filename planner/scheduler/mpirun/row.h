/* The row of mpirun, which has no queue: it starts a run's ranks on the machine where it is
 * called. */
#ifndef SW_SCHEDULER_MPIRUN_ROW_H
#define SW_SCHEDULER_MPIRUN_ROW_H

#include "planner/scheduler/scheduler.h"

extern const struct sw_scheduler sw_scheduler_mpirun;
extern const struct sw_launcher sw_launcher_mpirun;
extern const char sw_template_mpirun_sh[]; /* templates/mpirun.sh at build time */

#endif
