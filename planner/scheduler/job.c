#include "planner/scheduler/job.h"

#include "core/run/submission.h"

#include <stdlib.h>

void sw_queued_jobs_free(struct sw_queued_jobs *jobs)
{
    free(jobs->job);
    free(jobs->text);
    *jobs = (struct sw_queued_jobs){0};
}

const struct sw_queued_job *sw_queued_jobs_find(const struct sw_queued_jobs *jobs, const char *id)
{
    for (int32_t i = 0; i < jobs->count; i++)
        if (sw_job_id_is_of(jobs->job[i].id, id))
            return &jobs->job[i];
    return NULL;
}
