/* `plan cancel`: sends INT to the steps of a training job, which saves and ends for good; cancels
 * jobs with nothing to save. */
#include "core/base/clock.h"
#include "planner/command/command.h"
#include "planner/job/show.h"
#include "planner/job/target.h"
#include "planner/job/watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Time to wait before advice is printed: long steps and large states take a while. */
static const double patience_seconds = 60;

/* Ends one job. *saves: true if a checkpoint is expected. */
static int end_job(const struct sw_queue_row *queue, const struct sw_run_status *s,
                   const struct sw_queued_job *job, bool now, bool *saves, struct sw_error *err)
{
    /* before the first step there is nothing to save, and ranks may not handle signals yet */
    const bool trains = job->is_running && s->state == SW_RUN_RUNNING &&
                        strcmp(s->job.id, job->id) == 0 && s->started.type[0] == '\0';
    if (strcmp(job->state, "COMPLETING") == 0)
        return 0;
    if (job->is_running)
        queue->forbid_requeue(job->id);
    if (!trains || now)
        return queue->end(job->id, now && job->is_running, err);
    *saves = true;
    if (queue->interrupt(job->id, err) != 0)
        return -1;
    fprintf(stderr, "job %s ends after the current step, with a checkpoint\n", job->id);
    return 0;
}

/* Ends a job that does not train, and has nothing to save: all tasks of an array at once, by its
 * number. */
static int end_array(const struct sw_queue_row *queue, const struct sw_queued_job *job, bool now,
                     char ended[SW_JOB_ID_BYTES], struct sw_error *err)
{
    if (ended[0] != '\0' && sw_job_id_is_of(job->id, ended))
        return 0;
    snprintf(ended, SW_JOB_ID_BYTES, "%.*s", (int)strcspn(job->id, "_"), job->id);
    queue->forbid_requeue(ended);
    return queue->end(ended, now, err);
}

static int end_jobs(const struct sw_statuses *all, bool now, bool *saves, int32_t *count,
                    struct sw_error *err)
{
    const struct sw_run_status *s = &all->run[0];
    const struct sw_queue_row *queue = all->scheduler->queue;
    char id[SW_SHOWN_JOB_BYTES], array[SW_JOB_ID_BYTES] = "";
    *count = 0;
    /* waiting jobs first: they may wait for the end of the running one */
    for (int32_t runs = 0; runs < 2; runs++)
        for (int32_t i = 0; i < all->jobs.count; i++) {
            struct sw_queued_job job = all->jobs.job[i];
            if (!job.is_live || job.is_running != (runs == 1) || !sw_status_owns(s, &job))
                continue;
            ++*count;
            const bool can_name = queue->plain_id(job.id, id);
            const bool whole =
                strchr(job.id, '_') != NULL && (!can_name || s->started.type[0] != '\0');
            job.id = id;
            if ((whole ? end_array(queue, &job, now, array, err)
                       : end_job(queue, s, &job, now, saves, err)) != 0)
                return -1;
        }
    return 0;
}

/* saves: true if its files show the end; else only the scheduler does, and soon. */
static int wait_for_end(struct sw_statuses *all, bool saves, struct sw_error *err)
{
    struct sw_watch pace = {0};
    const double begun = sw_clock_now();
    bool said = false;
    if (saves)
        sw_watch_begin_asked(&pace);
    for (;;) {
        struct sw_queued_job live;
        sw_watch_wait();
        if (sw_watch_look(&pace, all, err) != 0)
            return -1;
        if (all->trouble.status == SW_OK &&
            (sw_status_live_jobs(all, 0, &live, 1) == 0 || sw_status_is_over(&all->run[0])))
            return 0;
        if (!said && sw_clock_now() - begun > patience_seconds) {
            said = true;
            fprintf(stderr,
                    "it is still saving, or in a long step; 'plan cancel --now %s' does not wait\n",
                    all->run[0].job_id);
        }
    }
}

static int report(const struct sw_run_status *s, bool saves)
{
    printf("%s: ", sw_show_name(s));
    sw_show_line(stdout, s);
    printf("\n");
    if (s->checkpoint_step >= 0)
        printf("step %" PRId64 " is saved in %s\n", s->checkpoint_step, s->checkpoint);
    if (!saves || s->attempt.verdict == SW_VERDICT_INTERRUPTED ||
        s->attempt.verdict == SW_VERDICT_DONE)
        return SW_OK;
    struct sw_error err = {0};
    sw_fail(&err, SW_UNMET, "the job ended before it wrote the requested checkpoint");
    fflush(stdout);
    return sw_command_fail(&err);
}

static int cancel(const struct sw_options *options, const struct sw_target *target,
                  struct sw_statuses *all)
{
    const char *folder = target->folder;
    struct sw_error err = {0};
    bool saves = false;
    int32_t count = 0;
    if (sw_statuses_read(&folder, 1, all, &err) != 0)
        return sw_command_fail(&err);
    all->run[0].queueless = target->queueless;
    all->every_job = !target->queueless;
    if (sw_statuses_ask(all, SW_WATCH_ASK_SECONDS, &err) != 0)
        return sw_command_fail(&err);
    all->every_job = false;
    if (all->trouble.status != SW_OK)
        return sw_command_fail(&all->trouble);
    if (!all->run[0].is_queued && all->run[0].state == SW_RUN_RUNNING) {
        sw_fail(&err, SW_UNMET,
                "mpirun started it, not %s: press Ctrl-C there, or send TERM to its script",
                all->scheduler->title);
        return sw_command_fail(&err);
    }
    if (end_jobs(all, options->now, &saves, &count, &err) != 0 ||
        (count > 0 && wait_for_end(all, saves, &err) != 0))
        return sw_command_fail(&err);
    if (count == 0)
        fprintf(stderr, "it has no job that waits or runs\n");
    return report(&all->run[0], saves);
}

int sw_command_cancel(const struct sw_options *options)
{
    struct sw_target *target = calloc(1, sizeof *target);
    struct sw_statuses all = {0};
    int status = target == NULL ? SW_ENVIRONMENT : sw_target_find(options, target);
    if (status == SW_OK)
        status = cancel(options, target, &all);
    sw_statuses_free(&all);
    free(target);
    return status;
}
