/* Conclusions about a run from its folder and the scheduler's answers: state, reason and advice of
 * `plan status`. status.h reads and asks; this does neither. */
#ifndef SW_JOB_JUDGE_H
#define SW_JOB_JUDGE_H

#include "planner/job/status.h"

/* Fills in the concluded part of a status: state, words, advice, the run's job and attempt, its
 * steps and their speed. all: the scheduler's answers, or why there are none. */
void sw_status_judge(const struct sw_statuses *all, struct sw_run_status *s);

/* True if attempt.json belongs to the current job, not to an earlier one. */
bool sw_status_attempt_is_current(const struct sw_run_status *s);
/* True if, by its files, an attempt of its job is running. */
bool sw_status_does_steps(const struct sw_run_status *s);

#endif
