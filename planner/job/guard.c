#include "planner/job/guard.h"

#include "core/run/submission.h"
#include "planner/job/status.h"

#include <string.h>

static const double guard_seconds = 2.5;

int sw_job_guard(const char *folder, const char *plan, uint64_t digest, struct sw_error *err)
{
    struct sw_statuses all = {0};
    struct sw_submission record;
    struct sw_queued_job live;
    char note[256];
    int status = 0;
    if (sw_submission_read(folder, &record, note, NULL) != 0 || record.token[0] == '\0' ||
        record.plan_digest == digest || strcmp(record.plan, plan) != 0)
        return 0;
    if (sw_statuses_read(&folder, 1, &all, err) != 0 ||
        sw_statuses_ask(&all, guard_seconds, err) != 0)
        status = -1;
    else if (sw_status_live_jobs(&all, 0, &live, 1) > 0)
        status =
            sw_fail(err, SW_UNMET,
                    "job %s was submitted with another plan of this name and has not ended: it "
                    "would find this one and refuse it; end it ('plan cancel %s'), or write to "
                    "another folder (-o)",
                    live.id, live.id);
    sw_statuses_free(&all);
    return status;
}
