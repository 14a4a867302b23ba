#include "planner/search/lacks.h"

#include "planner/scheduler/scheduler.h"

#include "core/base/file.h"
#include "core/base/lora.h"
#include "core/base/text.h"
#include "core/plan/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checks before a job is queued: on the nodes it is too late. */
static const char no_data[] =
    "the run names no data to train on, so its plan is good for planning only";
static const char no_data_help[] = "add data: {path: FILE} before 'runner train'";

static const char no_device_help[] = "name a cluster that it can run on";

struct finding {
    struct sw_lack *out;
    int32_t count;
    bool queued;
};

static void add(struct finding *f, struct sw_place at, const char *help, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct finding *f, struct sw_place at, const char *help, const char *format, ...)
{
    struct sw_lack *lack = &f->out[f->count++];
    va_list arguments;
    va_start(arguments, format);
    *lack = (struct sw_lack){.at = at};
    snprintf(lack->help, sizeof lack->help, "%s", help);
    vsnprintf(lack->message, sizeof lack->message, format, arguments);
    va_end(arguments);
}

/* Writes the help for a finding into `help`. */
static void complete(const struct finding *f, const char *remedy, char *help, size_t bytes)
{
    snprintf(help, bytes, "%s%s", remedy,
             f->queued ? ", or 'plan submit --force' where only the nodes see it" : "");
}

/* Looks at a file to read, or a folder. what: "the data file". */
static void look(struct finding *f, struct sw_place at, const char *what, const char *path,
                 bool folder, const char *remedy)
{
    enum { SHOWN = 300 };
    char shown[SHOWN + 4], help[sizeof f->out->help];
    struct stat status;
    complete(f, remedy, help, sizeof help);
    sw_text_shown(path, SHOWN, shown);
    if (stat(path, &status) != 0)
        add(f, at, help, "%s '%s' is not here: %s", what, shown, strerror(errno));
    else if (folder ? !S_ISDIR(status.st_mode) : S_ISDIR(status.st_mode))
        add(f, at, help, "%s '%s' is %s", what, shown, folder ? "no folder" : "a folder");
    else if (access(path, folder ? R_OK | X_OK : R_OK) != 0)
        add(f, at, help, "%s '%s' cannot be read: %s", what, shown, strerror(errno));
    else if (!folder && S_ISREG(status.st_mode) && status.st_size == 0)
        add(f, at, help, "%s '%s' is empty", what, shown);
}

/* True for "step-000500", not for one kept aside ("step-000500.damaged"). */
static bool is_step(const char *name)
{
    return strncmp(name, "step-", 5) == 0 && name[5] != '\0' &&
           name[5 + strspn(name + 5, "0123456789")] == '\0';
}

/* True if PATH/NAME exists, or may exist but cannot be examined. */
static bool has(const char *path, const char *name)
{
    char *joined = sw_path_join(path, name);
    const bool there = joined == NULL || access(joined, F_OK) == 0 || errno == EACCES;
    free(joined);
    return there;
}

/* True if a folder is a model's or an adapter's. */
static bool is_model(const char *path)
{
    return has(path, "config.json") || has(path, SW_ADAPTER_CONFIG);
}

/* True if a folder has a checkpoint of a step, not just a subfolder of that name, or cannot be
 * read. */
static bool has_checkpoint(const char *folder)
{
    DIR *files = opendir(folder);
    const struct dirent *entry;
    bool found = files == NULL && errno == EACCES;
    while (files != NULL && !found && (entry = readdir(files)) != NULL) {
        char *step = is_step(entry->d_name) ? sw_path_join(folder, entry->d_name) : NULL;
        found = step != NULL && is_model(step);
        free(step);
    }
    if (files != NULL)
        closedir(files);
    return found;
}

/* Looks at a folder of weights: a model's, a checkpoint, or a folder of checkpoints, the run's own
 * or its run's. */
static void look_at_weights(struct finding *f, struct sw_place at, const char *what,
                            const char *path, const char *remedy)
{
    enum { SHOWN = 300 };
    char shown[SHOWN + 4], help[sizeof f->out->help];
    const int32_t before = f->count;
    look(f, at, what, path, true, remedy);
    char *own = f->count == before ? sw_path_join(path, "checkpoints") : NULL;
    const bool there = is_model(path) || has(path, "latest/config.json") ||
                       has(path, "latest/" SW_ADAPTER_CONFIG) || has_checkpoint(path) ||
                       (own != NULL && has_checkpoint(own));
    free(own);
    if (f->count > before || there)
        return;
    complete(f, remedy, help, sizeof help);
    sw_text_shown(path, SHOWN, shown);
    add(f, at, help,
        "%s '%s' has no config.json, so it is neither a Hugging Face model nor a "
        "checkpoint",
        what, shown);
}

static void look_at_data(struct finding *f, const struct sw_paths *paths, const char *remedy)
{
    struct sw_data_files files;
    struct sw_error err = {0};
    char help[sizeof f->out->help];
    if (sw_data_files_find(paths, &files, &err) != 0) {
        complete(f, remedy, help, sizeof help);
        add(f, (struct sw_place){paths->item[0].place.file, err.line, err.column}, help, "%.*s",
            (int)strcspn(err.message, ";"), err.message);
        return;
    }
    const int32_t before = f->count; /* report the first missing file only */
    for (int32_t i = 0; i < files.items; i++)
        for (int32_t j = files.begin[i]; j < files.begin[i + 1] && f->count == before; j++)
            look(f, paths->item[i].place, "the data file", files.path[j], false, remedy);
    sw_data_files_free(&files);
}

static void look_at_training(struct finding *f, const struct sw_run_config *run, bool may_come)
{
    if (run->data_path == NULL) {
        add(f, run->data_place, no_data_help, "%s", no_data);
        f->out[f->count - 1].anywhere = true;
    } else if (!may_come) {
        look_at_data(f, &run->data_paths, "name another as data.path");
        look_at_data(f, &run->data_validation, "name another as data.validation");
    }
    /* a run that resumes reads its own checkpoint, and the model below adapters */
    const bool goes_on = has_checkpoint(run->checkpoint_directory);
    if (run->init_adapter != NULL && !may_come && !goes_on)
        look_at_weights(f, run->adapter_place, "the adapters to go on with,", run->init_adapter,
                        "name others as init.adapter");
    if (run->init_from != NULL && !may_come && (!goes_on || run->lora.rank > 0))
        look_at_weights(f, run->init_place, "the model to start from,", run->init_from,
                        "name another as init.from");
}

static void look_at_texts(struct finding *f, const struct sw_run_config *run)
{
    const struct sw_job_config *job = &run->job;
    if (job->checkpoint != NULL)
        look_at_weights(f, job->checkpoint_place, "the checkpoint", job->checkpoint,
                        "name another as job.checkpoint");
    else if (!has_checkpoint(run->checkpoint_directory))
        add(f, job->place, "name one as job.checkpoint, or train first",
            "the run has no checkpoint in '%.300s' to take weights from",
            run->checkpoint_directory);
    if (run->lora.rank > 0 && run->init_from != NULL)
        look_at_weights(f, run->init_place, "the model that adapters stand on,", run->init_from,
                        "name another as init.from");
    if (job->input != NULL && job->type != SW_JOB_SERVE)
        look(f, job->input_place, "the job's input", job->input, false,
             "name another as job.input");
    if (job->token_file != NULL && job->type == SW_JOB_SERVE)
        look(f, job->token_place, "the token file", job->token_file, false, "write it");
}

int32_t sw_lacks_find(const struct sw_run_config *run, struct sw_lack out[SW_LACKS])
{
    struct finding f = {.out = out, .queued = sw_scheduler_of(&run->cluster)->queue != NULL};
    const bool may_come = sw_job_terms(&run->cluster).depends;
    if (run->cluster.accelerator.planning_only) {
        add(&f, run->cluster.accelerator.at.planning_only, no_device_help,
            "'runner' has no device for %.64s, which is for planning only",
            run->cluster.accelerator.name);
        f.out[f.count - 1].anywhere = true;
    }
    if (run->job.type == SW_JOB_TRAIN)
        look_at_training(&f, run, may_come);
    else if (!may_come)
        look_at_texts(&f, run);
    return f.count;
}
