/* What Slurm says about jobs: one call of squeue for any number of them, and of sacct for those
 * that the controller no longer knows. Both are asked through their columns, which have stayed the
 * same over Slurm's versions where --json has not. Owns the answer; keeps nothing between two
 * calls. */
#ifndef SW_SCHEDULER_SLURM_QUEUE_H
#define SW_SCHEDULER_SLURM_QUEUE_H

#include "core/base/error.h"
#include "planner/scheduler/job.h"

#include <stddef.h>

/* Asks squeue about the jobs with these ids, or, ids NULL, about all of the calling user's. Those
 * that ended a few minutes ago are among them; ids that nobody knows are left out. Errors
 * (SW_ENVIRONMENT): no squeue, no controller, no answer within limit_seconds. *out is to be freed
 * with sw_queued_jobs_free, also after an error. */
int sw_slurm_ask(const char *const *ids, int32_t count, double limit_seconds,
                 struct sw_queued_jobs *out, struct sw_error *err);
/* The same about everybody's that the caller may see, in any partition. */
int sw_slurm_ask_all(double limit_seconds, struct sw_queued_jobs *out, struct sw_error *err);
/* The same of sacct, for jobs that are long over. Where there is no accounting the answer is empty
 * and no error. */
int sw_slurm_ask_history(const char *const *ids, int32_t count, double limit_seconds,
                         struct sw_queued_jobs *out, struct sw_error *err);

/* What the two programs print, for tests: takes over text (malloc'ed). A line that is none of them
 * is passed over. Errors (SW_ENVIRONMENT): memory. */
int sw_squeue_parse(char *text, size_t bytes, struct sw_queued_jobs *out, struct sw_error *err);
int sw_sacct_parse(char *text, size_t bytes, struct sw_queued_jobs *out, struct sw_error *err);
/* Fills is_live and is_running from the state. */
void sw_slurm_judge_state(struct sw_queued_job *job);
/* "1-02:03:04", "2:00:00", "3:04", "30": seconds; UNLIMITED: INFINITY; -1: none of these. */
double sw_slurm_duration(const char *text);
/* "2026-11-22T11:41:22", this machine's time, in seconds since 1970; 0: none. */
int64_t sw_slurm_moment(const char *text);

#endif
