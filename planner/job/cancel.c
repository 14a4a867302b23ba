/* `plan cancel`: INT to the steps of a job that trains, which then saves and ends for good;
 * whatever has nothing to save is cancelled. */
#include "core/base/clock.h"
#include "planner/command/command.h"
#include "planner/command/process.h"
#include "planner/job/show.h"
#include "planner/job/target.h"
#include "planner/job/watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Long steps and large states take their time; then it is said what can be done. */
static const double command_seconds = 4, patience_seconds = 60;

static int run(const char *const *argv, struct sw_error *err)
{
    struct sw_process_result result = {0};
    int status = sw_process_run(argv, NULL, command_seconds, &result, err);
    if (status == 0 && result.timed_out)
        status = sw_fail(err, SW_ENVIRONMENT, "Slurm does not answer: %s was given %.0f s", argv[0],
                         command_seconds);
    else if (status == 0 && result.exit_code != 0)
        status = sw_fail(err, SW_ENVIRONMENT, "%s: %.300s", argv[0], sw_process_complaint(&result));
    sw_process_free(&result);
    return status;
}

/* KILL to every step, which on its way to the end of a job would get TERM first and save. What
 * cannot be killed so ends as the job is cancelled. */
static void kill_steps(const char *id)
{
    enum { MOST_STEPS = 16 };
    char which[192];
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    snprintf(which, sizeof which, "--jobs=%s", id);
    const char *const list[] = {"squeue", "--noheader", "--steps", which, "-o", "%i", NULL};
    const char *kill[MOST_STEPS + 3] = {"scancel", "--signal=KILL"};
    int32_t count = 0;
    if (sw_process_run(list, NULL, command_seconds, &result, &ignored) == 0 &&
        result.exit_code == 0) {
        char *rest = NULL;
        for (char *step = strtok_r(result.out, " \n", &rest); step != NULL && count < MOST_STEPS;
             step = strtok_r(NULL, " \n", &rest)) {
            const char *dot = strchr(step, '.'); /* "42.0"; not "42.batch", "42.extern" */
            if (dot != NULL && dot[1] >= '0' && dot[1] <= '9')
                kill[2 + count++] = step;
        }
    }
    if (count > 0)
        (void)run(kill, &ignored);
    sw_process_free(&result);
}

static int end_at_once(const char *id, bool kill, struct sw_error *err)
{
    const char *const plain[] = {"scancel", id, NULL};
    if (kill)
        kill_steps(id);
    return run(plain, err);
}

/* So that Slurm does not start it again when a node fails or its script thinks of it meanwhile;
 * some sites do not let users do so. */
static void forbid_requeue(const char *id)
{
    char job[192];
    struct sw_error ignored = {0};
    snprintf(job, sizeof job, "JobId=%s", id);
    const char *const argv[] = {"scontrol", "update", job, "Requeue=0", NULL};
    (void)run(argv, &ignored);
}

/* One job. *saves: a checkpoint is to be expected. */
static int end_job(const struct sw_run_status *s, const struct sw_queued_job *job, bool now,
                   bool *saves, struct sw_error *err)
{
    /* before the first step there is nothing to save, and the ranks may not listen yet */
    const bool trains = job->is_running && s->state == SW_RUN_RUNNING &&
                        strcmp(s->job.id, job->id) == 0 && s->started.type[0] == '\0';
    if (strcmp(job->state, "COMPLETING") == 0)
        return 0;
    const char *const interrupt[] = {"scancel", "--signal=INT", job->id, NULL};
    if (job->is_running)
        forbid_requeue(job->id);
    if (!trains || now)
        return end_at_once(job->id, now && job->is_running, err);
    *saves = true;
    if (run(interrupt, err) != 0)
        return -1;
    fprintf(stderr, "job %s ends after the step at hand, with a checkpoint\n", job->id);
    return 0;
}

/* squeue's "42_[4-15%8]" as scancel takes it, without what limits how many run at a time. false: it
 * does not take it, as "42_[0-98:2]", and lists that are cut short, with dots or without. */
static bool plain_id(const char *id, char out[SW_SHOWN_JOB_BYTES])
{
    const size_t length = strcspn(id, "%]");
    memcpy(out, id, length);
    out[length] = id[length] != '\0' ? ']' : '\0';
    out[length + (id[length] != '\0')] = '\0';
    return strpbrk(id, ":.") == NULL && (strchr(id, '[') == NULL || strchr(id, ']') != NULL);
}

/* A job that does not train has nothing to save: all tasks of an array end at once, by its number.
 */
static int end_array(const struct sw_queued_job *job, bool now, char ended[SW_JOB_ID_BYTES],
                     struct sw_error *err)
{
    if (ended[0] != '\0' && sw_job_id_is_of(job->id, ended))
        return 0;
    snprintf(ended, SW_JOB_ID_BYTES, "%.*s", (int)strcspn(job->id, "_"), job->id);
    forbid_requeue(ended);
    return end_at_once(ended, now, err);
}

static int end_jobs(const struct sw_statuses *all, bool now, bool *saves, int32_t *count,
                    struct sw_error *err)
{
    const struct sw_run_status *s = &all->run[0];
    char id[SW_SHOWN_JOB_BYTES], array[SW_JOB_ID_BYTES] = "";
    *count = 0;
    /* those that wait first: they may wait for the end of the one that runs */
    for (int32_t runs = 0; runs < 2; runs++)
        for (int32_t i = 0; i < all->jobs.count; i++) {
            struct sw_queued_job job = all->jobs.job[i];
            if (!job.is_live || job.is_running != (runs == 1) || !sw_status_owns(s, &job))
                continue;
            ++*count;
            const bool can_name = plain_id(job.id, id);
            const bool whole =
                strchr(job.id, '_') != NULL && (!can_name || s->started.type[0] != '\0');
            job.id = id;
            if ((whole ? end_array(&job, now, array, err) : end_job(s, &job, now, saves, err)) != 0)
                return -1;
        }
    return 0;
}

/* saves: its files tell when it has ended; else Slurm alone does, and soon. */
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
                    "it still saves, or its step is long; 'plan cancel --now %s' does not "
                    "wait for it\n",
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
    sw_fail(&err, SW_UNMET, "it ended without the checkpoint that it was asked for");
    fflush(stdout);
    return sw_command_fail(&err);
}

static int cancel(const struct sw_options *options, const char *folder, struct sw_statuses *all)
{
    struct sw_error err = {0};
    bool saves = false;
    int32_t count = 0;
    if (sw_statuses_read(&folder, 1, all, &err) != 0 ||
        sw_statuses_ask(all, SW_WATCH_ASK_SECONDS, &err) != 0)
        return sw_command_fail(&err);
    if (all->trouble.status != SW_OK)
        return sw_command_fail(&all->trouble);
    if (!all->run[0].by_slurm && all->run[0].state == SW_RUN_RUNNING) {
        sw_fail(&err, SW_UNMET,
                "mpirun started it, not Slurm: press Ctrl-C there, or send INT to its script");
        return sw_command_fail(&err);
    }
    if (end_jobs(all, options->now, &saves, &count, &err) != 0 ||
        (count > 0 && wait_for_end(all, saves, &err) != 0))
        return sw_command_fail(&err);
    if (count == 0)
        fprintf(stderr, "no job of it waits or runs\n");
    return report(&all->run[0], saves);
}

int sw_command_cancel(const struct sw_options *options)
{
    struct sw_target *target = calloc(1, sizeof *target);
    struct sw_statuses all = {0};
    int status = target == NULL ? SW_ENVIRONMENT : sw_target_find(options, target);
    if (status == SW_OK)
        status = cancel(options, target->folder, &all);
    sw_statuses_free(&all);
    free(target);
    return status;
}
