/* Ends jobs. See scheduler.h. */
#ifndef SW_SCHEDULER_SLURM_CANCEL_H
#define SW_SCHEDULER_SLURM_CANCEL_H

#include "core/base/error.h"
#include "planner/scheduler/job.h"

int sw_slurm_interrupt(const char *id, struct sw_error *err);
int sw_slurm_end(const char *id, bool kill, struct sw_error *err);
void sw_slurm_forbid_requeue(const char *id);
bool sw_slurm_plain_id(const char *id, char out[SW_SHOWN_JOB_BYTES]);

#endif
