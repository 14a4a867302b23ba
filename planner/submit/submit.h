/* `plan submit`: one job at a time for a run's folder, and a record of it that survives being
 * killed at any moment.
 *
 * The order: lock (.submission.lock, which sbatch inherits, so that it stays locked while an sbatch
 * is on its way even when plan was killed) - is there a live job? - plan and script - the record
 * with a token, "submitting" - sbatch, whose job's comment and script path lead back to the record
 * - the record with the job's number, "submitted". Whoever comes later and finds "submitting" asks
 * Slurm for the job of that token or script. */
#ifndef SW_JOB_SUBMIT_H
#define SW_JOB_SUBMIT_H

#include "core/base/error.h"

#include <stdint.h>

/* The number of what sbatch --parsable prints, "42" or "42;cluster", in its last line. Returns 0,
 * or -1: there is none. */
int sw_submit_parse_id(const char *text, char *out, int32_t bytes);

#endif
