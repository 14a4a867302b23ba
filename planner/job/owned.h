/* Which of a scheduler's jobs are a run's: by the numbers that its folder tells, by the token in
 * their comment, or, submitted by hand, by the script that plan wrote and the folder that it works
 * in. For status.c and its like; see status.h for sw_status_owns. */
#ifndef SW_JOB_OWNED_H
#define SW_JOB_OWNED_H

#include "planner/job/status.h"

/* The number of its last job as its folder tells it, of an array that of the array; "": none. */
const char *sw_owned_last(const struct sw_run_status *status);

/* The ids of all runs' jobs; their texts stay the runs'. only_lost: of those without a job. NULL:
 * no memory; to be freed. */
const char **sw_owned_ids(const struct sw_statuses *all, bool only_lost, int32_t *count);

/* Sets status->job to the one of the answer that matters most, if one is its own: one that has
 * nodes, before one that waits, before one that is over; among these the newest. */
void sw_owned_choose(const struct sw_queued_jobs *from, struct sw_run_status *status);
/* The same of live jobs that were submitted by hand, of which nothing in the folder need tell. */
void sw_owned_choose_unrecorded(const struct sw_queued_jobs *from, struct sw_run_status *status);

/* Whether a live job works in this folder (absolute, without links) with a script that plan wrote.
 */
bool sw_owned_by_hand(const struct sw_queued_job *job, const char *folder);

#endif
