/* Slurm's answers about jobs: one call of squeue for any number of them, and of sacct for those
 * that the controller has forgotten. Both are asked by columns, which are stable over Slurm's
 * versions; --json is not. Owns the answer; keeps no state between calls. */
#ifndef SW_SCHEDULER_SLURM_QUEUE_H
#define SW_SCHEDULER_SLURM_QUEUE_H

#include "core/base/error.h"
#include "planner/scheduler/job.h"

#include <stddef.h>

/* Asks squeue about the jobs with these ids or, ids NULL, about all of the calling user's. Includes
 * jobs that ended a few minutes ago; unknown ids are left out. Errors (SW_ENVIRONMENT): no squeue,
 * no controller, no answer within limit_seconds. Free *out with sw_queued_jobs_free, also after an
 * error. */
int sw_slurm_ask(const char *const *ids, int32_t count, double limit_seconds,
                 struct sw_queued_jobs *out, struct sw_error *err);
/* The same for all jobs that the caller may see, in any partition. */
int sw_slurm_ask_all(double limit_seconds, struct sw_queued_jobs *out, struct sw_error *err);
/* The same from sacct, for jobs that ended long ago. Without accounting the answer is empty and no
 * error. */
int sw_slurm_ask_history(const char *const *ids, int32_t count, double limit_seconds,
                         struct sw_queued_jobs *out, struct sw_error *err);

/* Parse the two programs' output, for tests: take over text (malloc'ed). Unknown lines are skipped.
 * Errors (SW_ENVIRONMENT): memory. */
int sw_squeue_parse(char *text, size_t bytes, struct sw_queued_jobs *out, struct sw_error *err);
int sw_sacct_parse(char *text, size_t bytes, struct sw_queued_jobs *out, struct sw_error *err);
/* Fills is_live and is_running from the state. */
void sw_slurm_judge_state(struct sw_queued_job *job);
/* Seconds of "1-02:03:04", "2:00:00", "3:04", "30"; UNLIMITED: INFINITY; -1: other texts. */
double sw_slurm_duration(const char *text);
/* "2026-11-22T11:41:22", local time, in seconds since 1970; 0: none. */
int64_t sw_slurm_moment(const char *text);

#endif
