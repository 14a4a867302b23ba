#include "core/base/file.h"
#include "core/plan/plan.h"
#include "planner/command/command.h"
#include "planner/command/process.h"
#include "planner/scheduler/mpirun/row.h"
#include "planner/scheduler/slurm/row.h"

#include <stdlib.h>
#include <string.h>

const struct sw_scheduler *const sw_schedulers[] = {&sw_scheduler_slurm, &sw_scheduler_mpirun,
                                                    NULL};

const struct sw_launchers sw_launchers = {
    .about = "what starts the ranks: a Slurm job, or mpirun",
    .row = {&sw_launcher_slurm, &sw_launcher_mpirun},
};

const struct sw_scheduler *sw_scheduler_of(const struct sw_cluster_config *cluster)
{
    return sw_schedulers[cluster->launcher];
}

const struct sw_scheduler *sw_scheduler_of_jobs(const struct sw_cluster_config *cluster)
{
    const struct sw_scheduler *own = sw_scheduler_of(cluster);
    int32_t i = 0;
    while (own->queue == NULL && sw_schedulers[i] != NULL && sw_schedulers[i]->queue == NULL)
        i++;
    return own->queue != NULL ? own : sw_schedulers[i];
}

const struct sw_scheduler *sw_scheduler_here(void)
{
    const struct sw_scheduler *first = NULL;
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++) {
        const struct sw_scheduler *row = sw_schedulers[i];
        if (row->queue != NULL && sw_process_exists(row->queue->client))
            return row;
        if (row->queue != NULL && first == NULL)
            first = row;
    }
    return first;
}

const struct sw_scheduler *sw_scheduler_of_script(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (int32_t i = 0; dot != NULL && sw_schedulers[i] != NULL; i++)
        if (sw_schedulers[i]->queue != NULL && strcmp(dot + 1, sw_schedulers[i]->suffix) == 0)
            return sw_schedulers[i];
    return sw_scheduler_here();
}

int sw_script_find_job(const char *path, struct sw_plan *plan, struct sw_run_config *suited,
                       struct sw_error *err)
{
    enum { SCRIPT_BYTES_MAX = 1 << 22 };
    static const enum sw_job_type types[] = {SW_JOB_GENERATE, SW_JOB_SCORE, SW_JOB_SERVE};
    char line[32];
    char *folder = sw_path_folder(path), *script = NULL, *text = NULL;
    size_t bytes = 0;
    *suited = *plan->run;
    plan->run = suited;
    if (folder == NULL || asprintf(&script, "%s/%s.%s", folder, suited->name,
                                   sw_scheduler_of(&suited->cluster)->suffix) < 0) {
        free(folder);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while reading '%s'", path);
    }
    /* a missing scheduler is reported where one is needed */
    if (sw_file_read(script, true, SCRIPT_BYTES_MAX, &text, &bytes, NULL) == 0)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            snprintf(line, sizeof line, "\ntype=%s\n", sw_job_type_name(types[i]));
            if (strstr(text, line) != NULL)
                suited->job.type = types[i];
        }
    free(text);
    free(script);
    free(folder);
    return 0;
}

struct sw_job_terms sw_job_terms(const struct sw_cluster_config *cluster)
{
    return sw_scheduler_of(cluster)->terms(cluster);
}

int sw_scheduler_fail_no_queue(const struct sw_cluster_config *cluster, const char *what,
                               struct sw_error *err)
{
    return sw_fail(err, SW_BAD_INPUT, "the launcher of cluster '%s' is %s, so there is no %s",
                   cluster->name, sw_scheduler_of(cluster)->name, what);
}

int sw_command_import_cluster(const struct sw_options *options)
{
    const struct sw_scheduler *row = sw_scheduler_here();
    struct sw_error err = {0};
    if (row->queue->import_cluster != NULL)
        return row->queue->import_cluster(options);
    sw_fail(&err, SW_UNMET, "%s cannot say what a cluster file needs; write one by hand",
            row->title);
    return sw_command_fail(&err);
}
