/* A plan that a live job will look for again is not written over with another one. */
#ifndef SW_JOB_GUARD_H
#define SW_JOB_GUARD_H

#include "core/base/error.h"

#include <stdint.h>

/* Before `plan emit` writes a plan with this digest at this absolute path: whether a live job that
 * was submitted in the run's folder would find another plan than its script was written for.
 * Errors: SW_UNMET: it would, and what to do. Where the scheduler cannot be asked nothing is
 * refused: the runner does not take a plan of another digest than its script's. */
int sw_job_guard(const char *folder, const char *plan, uint64_t digest, struct sw_error *err);

#endif
