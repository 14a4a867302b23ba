#include "planner/job/status.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/run/excluded.h"
#include "planner/job/judge.h"
#include "planner/job/owned.h"
#include "planner/command/process.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- The folder ---- */

static double age_of(const struct stat *status)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return fmax(0, difftime(now.tv_sec, status->st_mtim.tv_sec));
}

/* 0: missing. */
static time_t written_at(const char *folder, const char *name)
{
    struct stat status;
    char *path = sw_path_join(folder, name);
    const bool there = path != NULL && stat(path, &status) == 0;
    free(path);
    return there ? status.st_mtim.tv_sec : 0;
}

/* Target of `latest`: a symlink, or a file with the name where there are none. false: missing. */
static bool read_latest(const char *path, char *name, size_t bytes)
{
    char *text = NULL;
    size_t length = 0;
    const ssize_t got = readlink(path, name, bytes - 1);
    name[got > 0 ? got : 0] = '\0';
    if (got < 0 && errno == EINVAL &&
        sw_file_read(path, true, bytes - 1, &text, &length, NULL) == 0) {
        text[strcspn(text, "\r\n")] = '\0';
        snprintf(name, bytes, "%s", text);
    }
    free(text);
    return name[0] != '\0';
}

/* Reads the newest checkpoint, "step-000500", from `latest`, which is set once it is on disk. */
static void read_checkpoint(struct sw_run_status *s)
{
    char link[PATH_MAX], name[256];
    struct stat status;
    const char *folder = s->submission.checkpoints;
    const bool staged = s->stages.count > 0,
               inside = folder[0] == '\0' || (staged && strcmp(folder, s->folder) == 0);
    s->checkpoint_step = -1;
    s->checkpoint_age = -1;
    s->checkpoint[0] = '\0';
    const int length = inside
                           ? snprintf(link, sizeof link, "%s/checkpoints/latest", s->inner)
                           : snprintf(link, sizeof link, "%s%s%s/latest", folder, staged ? "/" : "",
                                      staged ? s->stages.stage[s->stage].name : "");
    if (length >= (int)sizeof link || !read_latest(link, name, sizeof name))
        return;
    if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") != strlen(name + 5))
        return;
    if (snprintf(s->checkpoint, sizeof s->checkpoint, "%.*s%s", length - 6, link, name) >=
        (int)sizeof s->checkpoint)
        s->checkpoint[0] = '\0';
    /* age of the named folder */
    if (s->checkpoint[0] == '\0' || stat(s->checkpoint, &status) != 0) {
        s->checkpoint[0] = '\0';
        return;
    }
    s->checkpoint_step = strtoll(name + 5, NULL, 10);
    s->checkpoint_age = age_of(&status);
}

static void note(struct sw_run_status *s, const char *file, const char *what)
{
    if (s->note[0] == '\0')
        snprintf(s->note, sizeof s->note, "%s: %.250s", file, what);
    sw_text_show(s->note);
}

static void read_excluded(struct sw_run_status *s)
{
    struct sw_error err = {0};
    size_t used = 0;
    struct sw_excluded *nodes = malloc(sizeof *nodes);
    s->excluded[0] = '\0';
    if (nodes != NULL && sw_excluded_read(s->folder, nodes, &err) != 0)
        note(s, "excluded_nodes.jsonl", err.message);
    for (int32_t i = 0; nodes != NULL && err.status == SW_OK && i < nodes->count; i++) {
        const size_t room = sizeof s->excluded - used;
        const int wrote =
            snprintf(s->excluded + used, room, "%s%s", used > 0 ? "," : "", nodes->node[i].node);
        if (wrote >= (int)room) {
            s->excluded[used] = '\0';
            break;
        }
        used += (size_t)wrote;
    }
    free(nodes);
}

/* True if job.json belongs to the current job. */
static bool started_is_current(const struct sw_run_status *s)
{
    const struct sw_submission *sub = &s->submission;
    for (int32_t i = 0; i < sub->job_count; i++)
        if (strcmp(sub->job[i], s->started.job) == 0)
            return true;
    return sub->job_count == 0;
}

/* Notes a full disk: the run continues, but its checkpoints and metrics are lost. */
static void note_full(struct sw_run_status *s, const char *folder)
{
    char text[256];
    if (folder[0] == '\0' || !sw_file_disk_is_full(folder))
        return;
    snprintf(text, sizeof text, "no room is left in %.180s: nothing is saved until some is freed",
             folder);
    note(s, "disk", text);
}

/* Finds the run's current stage. */
static void read_stages(struct sw_run_status *s)
{
    struct sw_error err = {0};
    char text[256];
    if (sw_stages_read(s->folder, &s->stages, text, &err) != 0)
        note(s, "stages.json", err.message);
    else if (text[0] != '\0')
        note(s, "stages.json", text);
    snprintf(s->inner, sizeof s->inner, "%.4000s", s->folder);
    s->stage = 0;
    if (s->stages.count == 0)
        return;
    s->stage = sw_stages_current(s->folder, &s->stages);
    if (s->stage == s->stages.count)
        s->stage--;
    snprintf(s->inner, sizeof s->inner, "%.4000s/%s", s->folder, s->stages.stage[s->stage].name);
}

static void read_folder(struct sw_run_status *s)
{
    struct sw_error err = {0};
    char text[256];
    s->note[0] = '\0';
    read_stages(s);
    s->unreadable = sw_submission_read(s->folder, &s->submission, text, &err) != 0;
    if (s->unreadable)
        note(s, "submission.json", err.message);
    else if (text[0] != '\0')
        note(s, "submission.json", text);
    sw_text_show(s->submission.run);
    err = (struct sw_error){0};
    if (sw_attempt_read(s->inner, &s->attempt, text, &err) != 0)
        note(s, "attempt.json", err.message);
    else if (text[0] != '\0')
        note(s, "attempt.json", text);
    s->attempt_at = written_at(s->inner, "attempt.json");
    err = (struct sw_error){0};
    if (sw_progress_read(s->inner, &s->progress, &err) != 0)
        note(s, "metrics.jsonl", err.message);
    sw_started_read(s->folder, &s->started, text);
    if (text[0] != '\0')
        note(s, "job.json", text);
    if (!started_is_current(s))
        s->started.type[0] = '\0';
    read_excluded(s);
    read_checkpoint(s);
    note_full(s, s->submission.checkpoints);
    note_full(s, s->folder);
}

int sw_statuses_read(const char *const *folders, int32_t count, struct sw_statuses *out,
                     struct sw_error *err)
{
    *out = (struct sw_statuses){.count = count};
    out->run = calloc((size_t)count + 1, sizeof *out->run);
    for (int32_t i = 0; out->run != NULL && i < count; i++) {
        out->run[i].folder = realpath(folders[i], NULL);
        if (out->run[i].folder == NULL)
            out->run[i].folder = strdup(folders[i]);
        if (out->run[i].folder == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for %d runs", (int)count);
    }
    if (out->run == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for %d runs", (int)count);
    const char *script = "";
    for (int32_t i = 0; i < count; i++) {
        read_folder(&out->run[i]);
        if (script[0] == '\0')
            script = out->run[i].submission.script;
    }
    sw_statuses_use(out, sw_scheduler_of_script(script));
    return 0;
}

void sw_statuses_use(struct sw_statuses *statuses, const struct sw_scheduler *scheduler)
{
    statuses->scheduler = scheduler;
    for (int32_t i = 0; i < statuses->count; i++)
        statuses->run[i].scheduler = scheduler;
}

void sw_statuses_free(struct sw_statuses *statuses)
{
    for (int32_t i = 0; statuses->run != NULL && i < statuses->count; i++)
        free(statuses->run[i].folder);
    free(statuses->run);
    sw_queued_jobs_free(&statuses->jobs);
    sw_queued_jobs_free(&statuses->history);
    *statuses = (struct sw_statuses){0};
}

/* ---- The scheduler ---- */

void sw_statuses_refresh(struct sw_statuses *all)
{
    for (int32_t i = 0; i < all->count; i++) {
        read_folder(&all->run[i]);
        sw_status_judge(all, &all->run[i]);
    }
}

static void note_ending(struct sw_run_status *s)
{
    const bool ending = s->job.id != NULL && strcmp(s->job.state, "COMPLETING") == 0 &&
                        sw_status_attempt_is_current(s) && s->attempt.verdict != SW_VERDICT_RUNNING;
    if (!ending)
        s->ending_since = 0;
    else if (s->ending_since == 0)
        s->ending_since = sw_clock_now();
}

bool sw_status_is_over(const struct sw_run_status *s)
{
    enum { ENOUGH_SECONDS = 15 };
    return !sw_run_state_is_live(s->state) ||
           (s->ending_since > 0 && sw_clock_now() - s->ending_since > ENOUGH_SECONDS);
}

/* Asks about one run without a live job known to the scheduler, or with all jobs wanted: its script
 * may have been submitted by hand, and no rank has begun. Runs of mpirun have no job. */
static void ask_for_unrecorded(struct sw_statuses *all, double limit_seconds)
{
    struct sw_run_status *s = &all->run[0];
    const struct sw_queue_row *queue = all->scheduler->queue;
    struct sw_queued_jobs mine = {0};
    struct sw_error trouble = {0};
    const bool by_mpirun =
        s->submission.token[0] == '\0' && s->attempt.attempt > 0 && s->attempt.job[0] == '\0';
    if (all->count != 1 || by_mpirun || (s->job.id != NULL && s->job.is_live && !all->every_job) ||
        limit_seconds <= 0 || !sw_process_exists(queue->client))
        return;
    if (queue->ask(NULL, 0, limit_seconds, &mine, &trouble) != 0 &&
        ((!all->asked && !s->queueless) || all->every_job))
        all->trouble = trouble; /* the answer covers recorded jobs */
    if (!sw_owned_find_more(&mine, &all->jobs, s)) {
        sw_queued_jobs_free(&mine);
        return;
    }
    sw_queued_jobs_free(&all->jobs);
    all->jobs = mine;
    all->asked = true;
    s->job = (struct sw_queued_job){0};
    sw_owned_choose(&all->jobs, s);
}

int sw_statuses_ask(struct sw_statuses *all, double limit_seconds, struct sw_error *err)
{
    const double end = sw_clock_now() + limit_seconds;
    const struct sw_queue_row *queue = all->scheduler->queue;
    struct sw_error trouble = {0};
    int32_t count = 0;
    bool unsure = false, ids_known = false;
    const char **ids = sw_owned_ids(all, false, &count);
    if (ids == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the ids of jobs");
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_submission *sub = &all->run[i].submission;
        unsure |= sub->token[0] != '\0' && !sub->submitted;
        ids_known |= sub->job_count > 0 || sw_owned_last(&all->run[i])[0] != '\0';
        all->run[i].job = (struct sw_queued_job){0};
    }
    sw_queued_jobs_free(&all->jobs);
    sw_queued_jobs_free(&all->history);
    all->asked = unsure || ids_known;
    all->trouble = (struct sw_error){0};
    if (all->asked)
        (void)queue->ask(unsure ? NULL : ids, count, limit_seconds, &all->jobs, &trouble);
    for (int32_t i = 0; i < all->count; i++)
        sw_owned_choose(&all->jobs, &all->run[i]);
    free(ids);
    if (trouble.status == SW_OK)
        ask_for_unrecorded(all, end - sw_clock_now());
    ids = sw_owned_ids(all, true, &count);
    if (ids == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the ids of jobs");
    if (trouble.status == SW_OK && count > 0 && end > sw_clock_now())
        (void)queue->ask_history(ids, count, end - sw_clock_now(), &all->history, NULL);
    free(ids);
    if (trouble.status != SW_OK)
        all->trouble = trouble;
    for (int32_t i = 0; i < all->count; i++) {
        if (all->run[i].job.id == NULL)
            sw_owned_choose(&all->history, &all->run[i]);
        all->run[i].did_steps = sw_status_does_steps(&all->run[i]);
        note_ending(&all->run[i]);
        sw_status_judge(all, &all->run[i]);
    }
    return 0;
}

int sw_status_exit_code(const struct sw_run_status *s)
{
    switch (s->state) {
    case SW_RUN_DONE:
        return SW_OK;
    case SW_RUN_STOPPED:
    case SW_RUN_FAILED:
    case SW_RUN_LOST:
    case SW_RUN_ENDING:
        if (sw_status_attempt_is_current(s) && s->attempt.verdict > 0)
            return s->attempt.verdict;
        return s->state == SW_RUN_ENDING    ? SW_OK
               : s->state == SW_RUN_STOPPED ? SW_VERDICT_TERMINATED
                                            : SW_ENVIRONMENT;
    default:
        return SW_OK;
    }
}
