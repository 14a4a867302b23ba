#include "planner/policy/measure.h"

#include "planner/scheduler/scheduler.h"
#include "planner/search/report.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <string.h>

/* Seconds of the limit in the run's script; INFINITY: none; NAN: no job. */
static double time_limit(const struct sw_run_config *run, double step_seconds)
{
    char time[SW_TIME_BYTES];
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    if (row->queue == NULL)
        return (double)NAN;
    return row->seconds(sw_script_time_limit(row, run, step_seconds, 0, time));
}

void sw_measures_take(const struct sw_run_config *run, enum sw_purpose purpose,
                      const struct sw_candidate *c, const struct sw_run_cost *cost,
                      double communication_bytes, struct sw_measures *out)
{
    double waiting = 0;
    const bool serves = purpose == SW_FOR_SERVE;
    const char *partition = sw_job_terms(&run->cluster).partition;
    double *value = out->value;
    *out = (struct sw_measures){.serves = serves};
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        waiting += c->cost.exposed_seconds[a];
    value[SW_MEASURE_STEP] = serves ? NAN : c->cost.step_seconds;
    value[SW_MEASURE_TOKEN] = serves ? c->cost.step_seconds : NAN;
    value[SW_MEASURE_FIRST] = serves ? c->serve.first_seconds : NAN;
    value[SW_MEASURE_BESIDE] = serves ? c->serve.beside_seconds : NAN;
    value[SW_MEASURE_MEMORY] = (double)c->memory.total;
    value[SW_MEASURE_LIMIT] = (double)c->memory.limit;
    value[SW_MEASURE_TOKENS_PER_SECOND] = c->tokens_per_second;
    value[SW_MEASURE_MFU] = serves ? NAN : c->mfu;
    value[SW_MEASURE_COMMUNICATION] = waiting;
    value[SW_MEASURE_COMMUNICATION_BYTES] = communication_bytes;
    value[SW_MEASURE_HEADROOM] = (double)c->memory.headroom;
    value[SW_MEASURE_ACCELERATORS] = sw_mesh_rank_count(&c->decision.mesh);
    value[SW_MEASURE_DURATION] = serves ? NAN : sw_report_run_seconds(run, c->cost.step_seconds);
    value[SW_MEASURE_ACCELERATOR_HOURS] =
        serves ? NAN : sw_report_accelerator_hours(run, c->cost.step_seconds);
    value[SW_MEASURE_RUN_HOURS] = cost->accelerator_hours.value;
    value[SW_MEASURE_END] = cost->wall_s.value;
    value[SW_MEASURE_MONEY] = cost->money.value;
    value[SW_MEASURE_ENERGY] = cost->energy_joules.value;
    value[SW_MEASURE_NODES] = run->cluster.nodes;
    value[SW_MEASURE_TIME_LIMIT] = time_limit(run, c->cost.step_seconds);
    sw_mesh_format(&c->decision.mesh, out->word[SW_ASPECT_MESH], SW_ASPECT_BYTES);
    snprintf(out->word[SW_ASPECT_RECOMPUTE], SW_ASPECT_BYTES, "%s",
             sw_recompute_word(c->decision.train.recompute));
    snprintf(out->word[SW_ASPECT_VERDICT], SW_ASPECT_BYTES, "%s",
             sw_verdict_name(sw_candidate_verdict(c)));
    snprintf(out->word[SW_ASPECT_PARTITION], SW_ASPECT_BYTES, "%s",
             partition != NULL ? partition : "");
    snprintf(out->currency, sizeof out->currency, "%s", sw_run_unit_of_price(run));
}
