/* Keeps `plan emit` from overwriting a plan that a live job still needs. */
#ifndef SW_JOB_GUARD_H
#define SW_JOB_GUARD_H

#include "core/base/error.h"

#include <stdint.h>

/* Call before writing a plan with this digest at this absolute path: fails if a live job submitted
 * in the run's folder would find another plan than its script was written for. Errors: SW_UNMET: it
 * would, with help. If the scheduler cannot be asked, nothing is refused: the runner rejects a plan
 * with another digest than its script's. */
int sw_job_guard(const char *folder, const char *plan, uint64_t digest, struct sw_error *err);

#endif
