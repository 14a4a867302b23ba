#include "planner/job/owned.h"

#include "core/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- By hand ---- */

static bool is_suffix(const char *end)
{
    bool is = false;
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++)
        is |= sw_schedulers[i]->queue != NULL && strcmp(end, sw_schedulers[i]->suffix) == 0;
    return is;
}

/* True for scripts with one of the lines that this plan, or an older one, writes; scripts from a
 * user's template may lack them, but lie beside the run's files. */
static bool is_script_of(const char *path, const char *folder)
{
    char head[256];
    size_t got = 0;
    const char *name = sw_path_name(path), *end = strrchr(name, '.');
    char *beside = sw_path_folder(path);
    FILE *in = fopen(path, "re");
    if (in != NULL) {
        got = fread(head, 1, sizeof head - 1, in);
        (void)fclose(in);
    }
    head[got] = '\0';
    const bool is = strstr(head, "\n# Written by 'plan emit'") != NULL ||
                    strstr(head, "\n# Written by plan ") != NULL ||
                    (in != NULL && beside != NULL && strcmp(beside, folder) == 0 && end != NULL &&
                     is_suffix(end + 1));
    free(beside);
    return is;
}

/* The token in its comment; NULL: not submitted by plan, or its script sets a comment. */
static const char *token_of(const struct sw_queued_job *job)
{
    static const char mark[] = "shardwright:";
    const char *token = strstr(job->comment, mark);
    return token != NULL ? token + strlen(mark) : NULL;
}

bool sw_owned_by_folder(const struct sw_queued_job *job, const char *folder)
{
    char works_in[PATH_MAX];
    return job->is_live && job->folder[0] == '/' &&
           (strcmp(job->folder, folder) == 0 ||
            (realpath(job->folder, works_in) != NULL && strcmp(works_in, folder) == 0)) &&
           (token_of(job) != NULL ||
            (job->command[0] == '/' && is_script_of(job->command, folder)));
}

/* ---- Ownership ---- */

static bool is_recorded(const struct sw_submission *sub, const char *id)
{
    for (int32_t i = 0; i < sub->job_count; i++)
        if (sw_job_id_is_of(id, sub->job[i]))
            return true;
    return false;
}

/* True for a live job with the record's script, working anywhere but in another run's folder: there
 * that run's plan has replaced this one's. */
static bool has_script(const struct sw_submission *sub, const struct sw_queued_job *job)
{
    char record[PATH_MAX];
    return sub->script[0] != '\0' && job->is_live && strcmp(job->command, sub->script) == 0 &&
           snprintf(record, sizeof record, "%s/submission.json", job->folder) <
               (int)sizeof record &&
           access(record, F_OK) != 0;
}

/* A number recurs after some millions of jobs; a token identifies the job. A live job with an older
 * token than the record's belongs to the run if it works in its folder: a record may have been lost
 * or replaced. */
bool sw_status_owns(const struct sw_run_status *s, const struct sw_queued_job *job)
{
    const struct sw_submission *sub = &s->submission;
    const char *token = token_of(job);
    const bool on_record =
        sub->token[0] != '\0' && token != NULL
            ? strcmp(token, sub->token) == 0
            : is_recorded(sub, job->id) || sw_job_id_is_of(job->id, s->attempt.job) ||
                  (s->started.type[0] != '\0' && sw_job_id_is_of(job->id, s->started.job));
    return on_record || has_script(sub, job) || sw_owned_by_folder(job, s->folder);
}

bool sw_owned_is_current(const struct sw_run_status *s, const struct sw_queued_job *job)
{
    const char *token = token_of(job);
    return token == NULL || strcmp(token, s->submission.token) == 0;
}

int32_t sw_status_live_jobs(const struct sw_statuses *statuses, int32_t run,
                            struct sw_queued_job *out, int32_t most)
{
    int32_t count = 0;
    for (int32_t i = 0; i < statuses->jobs.count && count < most; i++)
        if (statuses->jobs.job[i].is_live &&
            sw_status_owns(&statuses->run[run], &statuses->jobs.job[i]))
            out[count++] = statuses->jobs.job[i];
    return count;
}

/* ---- The most important job ---- */

static int32_t weight(const struct sw_queued_job *job)
{
    return job->is_running ? 2 : job->is_live ? 1 : 0;
}

static void prefer(const struct sw_queued_job *job, struct sw_run_status *s)
{
    if (s->job.id == NULL || weight(job) > weight(&s->job) ||
        (weight(job) == weight(&s->job) &&
         strtoll(job->id, NULL, 10) > strtoll(s->job.id, NULL, 10)))
        s->job = *job;
}

void sw_owned_choose(const struct sw_queued_jobs *from, struct sw_run_status *s)
{
    s->tasks_running = 0;
    for (int32_t i = 0; i < from->count; i++) {
        const struct sw_queued_job *job = &from->job[i];
        if (!sw_status_owns(s, job))
            continue;
        prefer(job, s);
        s->tasks_running += job->is_running;
    }
}

bool sw_owned_find_more(const struct sw_queued_jobs *from, const struct sw_queued_jobs *known,
                        const struct sw_run_status *s)
{
    for (int32_t i = 0; i < from->count; i++)
        if (from->job[i].is_live && sw_status_owns(s, &from->job[i]) &&
            sw_queued_jobs_find(known, from->job[i].id) == NULL)
            return true;
    return false;
}

const char *sw_owned_last(const struct sw_run_status *s)
{
    const struct sw_submission *sub = &s->submission;
    if (sw_job_id_is_valid(s->attempt.job) && !is_recorded(sub, s->attempt.job) &&
        s->attempt.attempt >= sub->attempt)
        return s->attempt.job; /* its script was submitted by hand */
    if (sub->job_count > 0)
        return sub->job[sub->job_count - 1];
    return s->started.type[0] != '\0' ? s->started.job : "";
}

const char **sw_owned_ids(const struct sw_statuses *all, bool only_lost, int32_t *count)
{
    size_t room = 1;
    *count = 0;
    for (int32_t i = 0; i < all->count; i++)
        room += (size_t)all->run[i].submission.job_count + 2;
    const char **ids = malloc(room * sizeof *ids);
    for (int32_t i = 0; ids != NULL && i < all->count; i++) {
        const struct sw_run_status *s = &all->run[i];
        const struct sw_submission *sub = &s->submission;
        if (only_lost && s->job.id != NULL)
            continue;
        for (int32_t k = 0; k < sub->job_count; k++)
            ids[(*count)++] = sub->job[k];
        if (sw_job_id_is_valid(s->attempt.job) && !is_recorded(sub, s->attempt.job))
            ids[(*count)++] = s->attempt.job;
        if (s->started.type[0] != '\0' && !is_recorded(sub, s->started.job))
            ids[(*count)++] = s->started.job;
    }
    return ids;
}
