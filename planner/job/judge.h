/* What a run's state is, why, and what to do about it, from what its folder and the scheduler said:
 * the words of `plan status`. status.h reads and asks; nothing is asked here. */
#ifndef SW_JOB_JUDGE_H
#define SW_JOB_JUDGE_H

#include "planner/job/status.h"

/* Fills what of a status is concluded: state, words, advice, the run's job and attempt, its steps
 * and their speed. all: the answers of the scheduler, or why there is none. */
void sw_status_judge(const struct sw_statuses *all, struct sw_run_status *s);

/* attempt.json is about the job at hand, not about one before it. */
bool sw_status_attempt_is_current(const struct sw_run_status *s);
/* As the files have it, an attempt of its job is on. */
bool sw_status_does_steps(const struct sw_run_status *s);

#endif
