/* Which of a scheduler's jobs are a run's: by the numbers that its folder tells, by the token in
 * their comment, or, submitted by hand or no longer on record, by the folder that they work in. For
 * status.c and its like; see status.h for sw_status_owns. */
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
/* True if the answer has a live job of the run that `known` lacks. */
bool sw_owned_find_more(const struct sw_queued_jobs *from, const struct sw_queued_jobs *known,
                        const struct sw_run_status *status);

/* True if a live job works in this folder (absolute, without links) and plan submitted it or wrote
 * its script. Nothing in the folder need tell of it. */
bool sw_owned_by_folder(const struct sw_queued_job *job, const char *folder);
/* True unless the job's token is another than the record's. */
bool sw_owned_is_current(const struct sw_run_status *status, const struct sw_queued_job *job);

#endif
