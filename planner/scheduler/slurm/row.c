#include "planner/scheduler/slurm/row.h"

#include "core/base/device.h"
#include "planner/command/command.h"
#include "planner/scheduler/slurm/admit.h"
#include "planner/scheduler/slurm/cancel.h"
#include "planner/scheduler/slurm/controller.h"
#include "planner/scheduler/slurm/job_script.h"
#include "planner/scheduler/slurm/queue.h"
#include "planner/scheduler/slurm/place.h"
#include "planner/scheduler/slurm/ranks.h"
#include "planner/scheduler/slurm/submit.h"
#include "planner/scheduler/slurm/words.h"

#include <stdio.h>
#include <string.h>

/* With 22.05 a requeued job keeps the number of tasks that it had. Too many of them for the nodes
 * that it may get also hold it. */
static bool ask_fewer(const struct sw_queued_job *job, int32_t tasks, char *command, int32_t bytes)
{
    const bool held = strcmp(job->reason, "BadConstraints") == 0;
    snprintf(command, (size_t)bytes, "scontrol update JobId=%s NumTasks=%d%s%s", job->id,
             (int)tasks, held ? " && scontrol release " : "", held ? job->id : "");
    return held || strncmp(job->reason, "ReqNodeNotAvail", 15) == 0;
}

/* libslurm is linked by a separate program. */
static void write_version(FILE *out, struct sw_json *json)
{
    char library[32];
    sw_slurm_library_version(library);
    if (json != NULL) {
        sw_json_text(json, "libslurm", library[0] != '\0' ? library : NULL);
        return;
    }
    fprintf(out, "  libslurm: %s\n",
            library[0] != '\0'
                ? library
                : "none (Slurm is asked by its commands; build plan-slurm where "
                  "libslurm-dev is, and keep it beside plan or in ../lib/shardwright)");
}

static const struct sw_queue_row queue = {
    .client = "squeue",
    .admit = sw_slurm_admit_script,
    .admitted = sw_slurm_admitted,
    .read_script = sw_slurm_read_script,
    .submit = sw_slurm_submit,
    .ask = sw_slurm_ask,
    .ask_history = sw_slurm_ask_history,
    .reason_words = sw_slurm_reason_words,
    .end_words = sw_slurm_end_words,
    .end_advice = sw_slurm_end_advice,
    .log = "slurm-%j.out",
    .log_of_task = "slurm-%A_%a.out",
    .resume = "scontrol resume",
    .cancel = "scancel",
    .exclude = "slurm.exclude",
    .ask_fewer = ask_fewer,
    .write_version = write_version,
    .interrupt = sw_slurm_interrupt,
    .end = sw_slurm_end,
    .forbid_requeue = sw_slurm_forbid_requeue,
    .plain_id = sw_slurm_plain_id,
    .import_cluster = sw_slurm_import_cluster,
};

static struct sw_job_terms terms(const struct sw_cluster_config *cluster)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(cluster);
    return (struct sw_job_terms){.time = slurm->time,
                                 .time_s = sw_slurm_time_seconds(slurm->time),
                                 .continues = slurm->continues,
                                 .depends = slurm->dependency != NULL,
                                 .partition = slurm->partition};
}

static void write_start(FILE *out, const struct sw_cluster_config *cluster, int32_t nodes,
                        int32_t per_node)
{
    if (sw_slurm_is_mpirun(sw_slurm_settings(cluster)->mpi)) {
        fprintf(out, "mpirun -n %d --oversubscribe --map-by ppr:%d:node ", (int)(nodes * per_node),
                (int)per_node);
        return;
    }
    fprintf(out, "srun --nodes=%d --ntasks-per-node=%d --distribution=block ", (int)nodes,
            (int)per_node);
    if (sw_device_row(cluster->accelerator.device)->allocated)
        fprintf(out, "--gpus-per-node=%d ", (int)per_node);
    if (sw_slurm_settings(cluster)->mpi != NULL)
        fprintf(out, "--mpi=%s ", sw_slurm_settings(cluster)->mpi);
}

const struct sw_scheduler sw_scheduler_slurm = {
    .name = "slurm",
    .launcher = &sw_launcher_slurm,
    .title = "Slurm",
    .starter = "sbatch",
    .suffix = "sbatch",
    .script = &sw_slurm_script,
    .queue = &queue,
    .forecast = &sw_slurm_forecast,
    .allocation = &sw_slurm_allocation_ops,
    .seconds = sw_slurm_time_seconds,
    .terms = terms,
    .place = sw_slurm_place,
    .has_container = sw_slurm_has_container,
    .write_start = write_start,
};
