#include "planner/scheduler/mpirun/row.h"

#include "core/config/internal.h"

#include <math.h>

/* Only a training is started by hand. */
static bool check_job(struct sw_config *c, const struct node *place,
                      const struct sw_run_config *run)
{
    const char *type = sw_job_type_name(run->job.type);
    if (run->cluster.launchers->row[run->cluster.launcher] != &sw_launcher_mpirun)
        return true;
    if (place->kind != NODE_BROKEN)
        sw_config_error_at(
            c, place,
            sw_config_format(c, "a job of type %s needs a scheduler, and the launcher is mpirun",
                             type),
            sw_config_format(c, "leave 'job' out, and start 'runner %s' with mpirun", type));
    return false;
}

const struct sw_launcher sw_launcher_mpirun = {.name = "mpirun", .check_job = check_job};

/* INFINITY: only the last step ends its ranks. */
static double seconds(const char *time)
{
    (void)time;
    return INFINITY;
}

static struct sw_job_terms terms(const struct sw_cluster_config *cluster)
{
    (void)cluster;
    return (struct sw_job_terms){.time_s = INFINITY, .continues = SW_CONTINUE_NONE};
}

static bool has_container(const struct sw_run_config *run)
{
    (void)run;
    return false;
}

static void write_start(FILE *out, const struct sw_cluster_config *cluster, int32_t nodes,
                        int32_t per_node)
{
    (void)cluster;
    fprintf(out, "mpirun -n %d --oversubscribe --map-by slot ", (int)(nodes * per_node));
}

static const struct sw_script_row script = {
    .training = {"templates/mpirun.sh", sw_template_mpirun_sh},
};

const struct sw_scheduler sw_scheduler_mpirun = {
    .name = "mpirun",
    .launcher = &sw_launcher_mpirun,
    .title = "mpirun",
    .starter = "bash",
    .suffix = "sh",
    .script = &script,
    .seconds = seconds,
    .terms = terms,
    .has_container = has_container,
    .write_start = write_start,
};
