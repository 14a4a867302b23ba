#include "planner/job/target.h"

#include "core/base/file.h"
#include "core/plan/plan.h"
#include "planner/command/command.h"
#include "planner/job/owned.h"
#include "planner/command/process.h"
#include "planner/job/status.h"
#include "planner/scheduler/scheduler.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FOLDERS = 50000, MAX_DEPTH = 16 };
static const double ask_seconds = 4;

bool sw_folder_is_run(const char *folder)
{
    static const char *const files[] = {"submission.json", "attempt.json", "metrics.jsonl",
                                        "job.json", "stages.json"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, files[i]) < (int)sizeof path &&
            access(path, F_OK) == 0)
            return true;
    return false;
}

/* ---- Runs below a folder ---- */

static int add(struct sw_folders *out, const char *path, struct sw_error *err)
{
    if ((out->count & (out->count + 1)) == 0) { /* full at 0, 1, 3, 7 ... */
        char **grown = realloc(out->path, (size_t)(2 * out->count + 1) * sizeof *grown);
        if (grown == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the list of runs");
        out->path = grown;
    }
    out->path[out->count] = strdup(path);
    if (out->path[out->count] == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the list of runs");
    out->count++;
    return 0;
}

static int look_into(const char *folder, int32_t depth, int32_t *seen, struct sw_folders *out,
                     struct sw_error *err)
{
    if (sw_folder_is_run(folder))
        return add(out, folder, err);
    if (depth == MAX_DEPTH)
        return 0;
    if (++*seen > MAX_FOLDERS)
        return sw_fail(err, SW_BAD_INPUT,
                       "more than %d folders to look into; name the one that the runs are in",
                       MAX_FOLDERS);
    DIR *open_folder = opendir(folder);
    if (open_folder == NULL && depth == 0)
        return sw_fail(err, SW_BAD_INPUT, "cannot read the folder '%s': %s", folder,
                       strerror(errno));
    int status = 0;
    const struct dirent *entry;
    while (status == 0 && open_folder != NULL && (entry = readdir(open_folder)) != NULL) {
        /* some file systems do not give the type: opendir does */
        if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
            continue;
        char *path =
            strcmp(folder, ".") == 0 ? strdup(entry->d_name) : sw_path_join(folder, entry->d_name);
        if (path == NULL)
            status = sw_fail(err, SW_ENVIRONMENT, "out of memory for the list of runs");
        else
            status = look_into(path, depth + 1, seen, out, err);
        free(path);
    }
    if (open_folder != NULL)
        closedir(open_folder);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int sw_folders_find(const char *root, struct sw_folders *out, struct sw_error *err)
{
    int32_t seen = 0;
    *out = (struct sw_folders){0};
    if (look_into(root, 0, &seen, out, err) != 0)
        return -1;
    if (out->count > 0)
        qsort(out->path, (size_t)out->count, sizeof out->path[0], by_name);
    return 0;
}

void sw_folders_free(struct sw_folders *folders)
{
    for (int32_t i = 0; i < folders->count; i++)
        free(folders->path[i]);
    free(folders->path);
    *folders = (struct sw_folders){0};
}

/* ---- One run ---- */

static bool has_job(const char *folder, const char *id)
{
    struct sw_submission *record = malloc(sizeof *record);
    struct sw_attempt attempt = {0};
    struct sw_started started;
    char note[256];
    bool found = false;
    if (record != NULL && sw_submission_read(folder, record, note, NULL) == 0)
        for (int32_t i = 0; i < record->job_count; i++)
            found |= sw_job_id_is_of(id, record->job[i]);
    free(record);
    if (!found && sw_attempt_read(folder, &attempt, note, NULL) == 0)
        found = sw_job_id_is_of(id, attempt.job);
    sw_started_read(folder, &started, note);
    found |= started.type[0] != '\0' && sw_job_id_is_of(id, started.job);
    return found;
}

static int take(struct sw_target *out, const char *folder, struct sw_error *err)
{
    if (snprintf(out->folder, sizeof out->folder, "%s", folder) >= (int)sizeof out->folder)
        return sw_fail(err, SW_BAD_INPUT, "the path of the folder is too long");
    return 0;
}

/* Asks the scheduler for a job, whose script or folder leads to the run's folder. */
static int ask_for_job(const char *id, struct sw_target *out, struct sw_error *err)
{
    struct sw_queued_jobs jobs;
    const struct sw_queued_job *job = NULL;
    const struct sw_scheduler *scheduler = sw_scheduler_here();
    int status = scheduler->queue->ask(&id, 1, ask_seconds, &jobs, err);
    if (status == 0)
        job = sw_queued_jobs_find(&jobs, id);
    if (status == 0 && job == NULL)
        status = sw_fail(err, SW_BAD_INPUT,
                         "%s knows no job %s (any more), and no run below this folder had it; "
                         "name the run's directory",
                         scheduler->title, id);
    if (status == 0) {
        char *beside = sw_path_folder(job->command);
        char works_in[PATH_MAX];
        const char *folders[2] = {beside != NULL ? beside : "", job->folder};
        status = -1;
        for (int32_t i = 0; status != 0 && i < 2; i++)
            if (folders[i][0] == '/' && has_job(folders[i], id))
                status = take(out, folders[i], err);
        /* its script was submitted by hand, and none of its ranks has begun */
        if (status != 0 && realpath(job->folder, works_in) != NULL &&
            sw_owned_by_folder(job, works_in))
            status = take(out, works_in, err);
        if (status != 0)
            sw_fail(err, SW_BAD_INPUT,
                    "job %s is not known to %s as a job of a run; name the "
                    "run's directory",
                    id, scheduler->title);
        free(beside);
    }
    sw_queued_jobs_free(&jobs);
    return status;
}

/* Another cluster may have given the same number, or this one years ago: then the scheduler
 * decides. */
static int find_job(const char *id, struct sw_target *out, struct sw_error *err)
{
    struct sw_folders runs;
    struct sw_error ignored = {0}, trouble = {0};
    int32_t found = 0, first = 0;
    int status = 0;
    (void)sw_folders_find(".", &runs, &ignored);
    for (int32_t i = 0; i < runs.count; i++)
        if (has_job(runs.path[i], id) && found++ == 0)
            first = i;
    if (found == 1)
        status = take(out, runs.path[first], err);
    else if (found == 0)
        status = ask_for_job(id, out, err);
    else if (ask_for_job(id, out, &trouble) != 0)
        status = sw_fail(err, SW_BAD_INPUT,
                         "%d runs below this folder had a job %s, '%.300s' for one; name the run's "
                         "directory",
                         (int)found, id, runs.path[first]);
    sw_folders_free(&runs);
    return status;
}

/* True if a script submitted by hand waits for nodes to work in this folder, which has no files
 * yet. false, with an error, too: the scheduler does not answer. */
static bool has_unrecorded_job(const char *folder, struct sw_error *err)
{
    char *real = realpath(folder, NULL);
    const struct sw_queue_row *queue = sw_scheduler_here()->queue;
    struct sw_queued_jobs mine = {0};
    bool found = false;
    if (real != NULL && sw_process_exists(queue->client) &&
        queue->ask(NULL, 0, ask_seconds, &mine, err) == 0)
        for (int32_t i = 0; i < mine.count; i++)
            found |= sw_owned_by_folder(&mine.job[i], real);
    if (mine.no_cluster)
        *err = (struct sw_error){0};
    sw_queued_jobs_free(&mine);
    free(real);
    return found;
}

/* Takes the run's folder; for a stage, that of the whole run. */
static int take_run(struct sw_target *out, const struct sw_run_config *run, struct sw_error *err)
{
    char *folder = sw_run_folder(run);
    const int status = folder != NULL
                           ? take(out, folder, err)
                           : sw_fail(err, SW_ENVIRONMENT, "out of memory for the run's folder");
    free(folder);
    return status;
}

/* A job that does not train has no steps. */
static int64_t steps_of(const struct sw_run_config *run)
{
    return run->job.type == SW_JOB_TRAIN ? run->optimizer.total_steps : 0;
}

static int find_in_file(const struct sw_options *options, struct sw_target *out)
{
    const char *path = options->files[0];
    const size_t length = strlen(path);
    static const char end[] = ".plan.yaml";
    struct sw_error err = {0};
    int status = SW_OK;
    if (length >= sizeof end && strcmp(path + length + 1 - sizeof end, end) == 0) {
        struct sw_plan plan;
        struct sw_run_config suited;
        if (sw_plan_read(path, &sw_launchers, &plan, &err) != 0)
            return sw_command_fail(&err);
        status = sw_script_find_job(path, &plan, &suited, &err) == 0 ? take_run(out, plan.run, &err)
                                                                     : SW_ENVIRONMENT;
        out->steps = steps_of(plan.run);
        out->queueless = sw_scheduler_of(&plan.run->cluster)->queue == NULL;
        sw_plan_free(&plan);
    } else {
        struct sw_run_file run_file;
        status = sw_run_file_open(options, true, &run_file);
        if (status == SW_OK) {
            out->steps = steps_of(&run_file.run);
            out->queueless = sw_scheduler_of(&run_file.run.cluster)->queue == NULL;
            status = take_run(out, &run_file.run, &err);
        }
        sw_run_file_free(&run_file);
    }
    return err.status == SW_OK ? status : sw_command_fail(&err);
}

int sw_target_find(const struct sw_options *options, struct sw_target *out)
{
    struct sw_error err = {0};
    const char *name = options->file_count > 0 ? options->files[0] : ".";
    struct stat status;
    *out = (struct sw_target){0};
    if (options->file_count > 1) {
        sw_fail(&err, SW_BAD_INPUT, "one run at a time; 'plan runs' shows all of a folder");
        return sw_command_fail(&err);
    }
    if (stat(name, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (access(name, R_OK | X_OK) != 0)
            sw_fail(&err, SW_ENVIRONMENT, "cannot look into '%.400s': %s", name, strerror(errno));
        else if (take(out, name, &err) == 0 && !sw_folder_is_run(name) &&
                 !has_unrecorded_job(name, &err) && err.status == SW_OK)
            sw_fail(
                &err, SW_BAD_INPUT,
                "'%.400s' is not a run's directory; name one, a run file or a job's number ('plan "
                "runs' lists the runs below a folder)",
                name);
    } else if (sw_job_id_is_valid(name) && stat(name, &status) != 0) {
        (void)find_job(name, out, &err);
    } else {
        return find_in_file(options, out);
    }
    return err.status == SW_OK ? SW_OK : sw_command_fail(&err);
}
