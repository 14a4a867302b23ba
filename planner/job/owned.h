/* Jobs that belong to a run: by the numbers in its folder, by the token in their comment, or, if
 * submitted by hand or missing in the record, by the folder that they work in. For status.c and its
 * like; see status.h for sw_status_owns. */
#ifndef SW_JOB_OWNED_H
#define SW_JOB_OWNED_H

#include "planner/job/status.h"

/* Number of its last job in its folder's files, for an array the array's; "": none. */
const char *sw_owned_last(const struct sw_run_status *status);

/* The ids of all runs' jobs; the runs keep the texts. only_lost: true for runs without a job. NULL:
 * no memory; to be freed. */
const char **sw_owned_ids(const struct sw_statuses *all, bool only_lost, int32_t *count);

/* Sets status->job to the most important of its own jobs in the answer: one with nodes, before one
 * that waits, before one that is over; among these the newest. */
void sw_owned_choose(const struct sw_queued_jobs *from, struct sw_run_status *status);
/* True if the answer has a live job of the run that `known` lacks. */
bool sw_owned_find_more(const struct sw_queued_jobs *from, const struct sw_queued_jobs *known,
                        const struct sw_run_status *status);

/* True if a live job works in this folder (absolute, without links) and plan submitted it or wrote
 * its script. The folder's files need not mention it. */
bool sw_owned_by_folder(const struct sw_queued_job *job, const char *folder);
/* False if the job's token differs from the record's. */
bool sw_owned_is_current(const struct sw_run_status *status, const struct sw_queued_job *job);

#endif
