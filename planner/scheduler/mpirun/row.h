/* The row of mpirun, which queues nothing: it starts the ranks of a run where it is called. */
#ifndef SW_SCHEDULER_MPIRUN_ROW_H
#define SW_SCHEDULER_MPIRUN_ROW_H

#include "planner/scheduler/scheduler.h"

extern const struct sw_scheduler sw_scheduler_mpirun;
extern const struct sw_launcher sw_launcher_mpirun;
extern const char sw_template_mpirun_sh[]; /* templates/mpirun.sh, as it was when this was built */

#endif
