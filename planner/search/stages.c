#include "planner/search/stages.h"

#include "core/base/json.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"

#include <math.h>
#include <string.h>

void sw_stage_price_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                         struct sw_stage_price *out)
{
    *out = (struct sw_stage_price){.steps = sw_run_steps(run),
                                   .step_seconds = NAN,
                                   .nodes = run->cluster.nodes,
                                   .says_steps = run->says_steps};
    out->accelerators = run->cluster.nodes * run->cluster.accelerators_per_node;
    out->tokens =
        (double)out->steps * (double)run->global_batch_size * (double)run->sequence_length;
    snprintf(out->name, sizeof out->name, "%s", run->stage.name);
    snprintf(out->mesh, sizeof out->mesh, "none fits");
    if (candidate != NULL) {
        out->step_seconds = candidate->cost.step_seconds;
        sw_mesh_format(&candidate->decision.mesh, out->mesh, sizeof out->mesh);
    }
    if (candidate == NULL || sw_search_price_run(run, candidate, NULL, &out->cost, NULL) != 0)
        out->cost = (struct sw_run_cost){.wall_s.value = NAN};
    out->seconds = (double)out->steps * out->step_seconds;
    out->accelerator_hours = out->seconds / 3600 * out->accelerators;
}

bool sw_stages_share_job(const struct sw_run_config *run, const struct sw_run_config *before)
{
    return sw_scheduler_of(&run->cluster)->allocation != NULL &&
           run->nodes_least == before->nodes_least && run->nodes_most == before->nodes_most;
}

const char *sw_stages_link(const struct sw_run_config *run, const struct sw_run_config *before,
                           char *buffer, size_t bytes)
{
    if (sw_scheduler_of(&run->cluster)->allocation == NULL)
        snprintf(buffer, bytes, "a start of its own, by the same script");
    else if (sw_stages_share_job(run, before))
        snprintf(buffer, bytes, "the same chain of jobs: the job at hand goes on with it");
    else
        snprintf(buffer, bytes,
                 "a job of its own on %d node%s, which the job before submits when it is done",
                 (int)run->nodes_most, run->nodes_most == 1 ? "" : "s");
    return buffer;
}

void sw_stages_tell_head(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_config *before)
{
    const struct sw_stage_config *s = &run->stage;
    char text[400], link[160], steps[SW_FORMAT_RATE];
    if (s->count == 0)
        return;
    fprintf(out, "%sstage %d of %d, %s\n", s->number > 1 ? "\n" : "", (int)s->number, (int)s->count,
            s->name);
    if (before == NULL)
        return;
    if (s->continue_schedule)
        snprintf(text, sizeof text,
                 "weights and moments of '%s'; step count, schedule and data continue behind %s; ",
                 before->stage.name, sw_format_counted((double)s->steps_before, "step", steps));
    else
        snprintf(text, sizeof text,
                 "weights and moments of '%s'; step count, schedule and data begin anew; ",
                 before->stage.name);
    fprintf(out, "begins    ");
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s",
             sw_stages_link(run, before, link, sizeof link));
    sw_format_wrapped(out, text, 10, 10, 100);
}

void sw_stages_tell_link(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_config *before)
{
    char link[160];
    fprintf(out, "%s begins with the weights and moments of %s, steps and data %s: %s\n",
            run->stage.name, before->stage.name,
            run->stage.continue_schedule ? "continued" : "anew",
            sw_stages_link(run, before, link, sizeof link));
}

void sw_stages_tell_unmet(const struct sw_run_config *run)
{
    if (run->stage.count > 0)
        fprintf(stderr, "    help: this is stage '%s', %d of %d\n", run->stage.name,
                (int)run->stage.number, (int)run->stage.count);
}

/* ---- Totals ---- */

static struct sw_stage_price sum_of(const struct sw_stage_price *price, int32_t count)
{
    struct sw_stage_price sum = {.says_steps = true};
    for (int32_t i = 0; i < count; i++) {
        sum.steps += price[i].steps;
        sum.tokens += price[i].tokens;
        sum.seconds += price[i].seconds;
        sum.accelerator_hours += price[i].accelerator_hours;
        sum.says_steps = sum.says_steps && price[i].says_steps;
        if (i == 0)
            sum.cost = price[i].cost;
        else
            sw_run_cost_add(&sum.cost, &price[i].cost);
    }
    return sum;
}

static void tell_row(FILE *out, const char *name, const struct sw_stage_price *p, int32_t width)
{
    char steps[SW_FORMAT_BYTES], tokens[SW_FORMAT_BYTES],
        step[SW_FORMAT_BYTES] = "", took[SW_FORMAT_BYTES] = "-", hours[SW_FORMAT_RATE] = "";
    if (p->mesh[0] != '\0' && !isnan(p->step_seconds))
        sw_format_seconds(p->step_seconds, step);
    if (!isnan(p->seconds)) {
        sw_format_duration(p->seconds, took);
        sw_format_accelerator_hours(p->accelerator_hours, hours);
    }
    fprintf(out, "  %-*s %10s %10s  %-14s %10s %10s  %s\n", (int)width, name,
            sw_format_count((double)p->steps, steps), sw_format_short(p->tokens, tokens), p->mesh,
            step, took, hours);
}

void sw_stages_tell_totals(FILE *out, const struct sw_run_config *run,
                           const struct sw_stage_price *price, int32_t count)
{
    const struct sw_stage_price sum = sum_of(price, count);
    int32_t width = 5;
    char line[320];
    for (int32_t i = 0; i < count; i++)
        width = (int32_t)strlen(price[i].name) > width ? (int32_t)strlen(price[i].name) : width;
    fprintf(out, "\n%s, all %d stages%s\n", run->name, (int)count,
            sum.says_steps ? ""
                           : "; steps assumed where a stage does not say optimizer.total_steps");
    fprintf(out, "  %-*s %10s %10s  %-14s %10s %10s\n", (int)width, "stage", "steps", "tokens",
            "mesh_dim", "a step", "time");
    for (int32_t i = 0; i < count; i++)
        tell_row(out, price[i].name, &price[i], width);
    tell_row(out, "sum", &sum, width);
    if (sum.says_steps && !isnan(sum.cost.wall_s.value)) {
        fprintf(out, "whole run ");
        sw_format_wrapped(out, sw_report_run_cost(run, &sum.cost, line, sizeof line), 10, 10, 100);
    }
}

void sw_stages_write_totals(struct sw_json *j, const char *key, const struct sw_run_config *run,
                            const struct sw_stage_price *price, int32_t count)
{
    const struct sw_stage_price sum = sum_of(price, count);
    sw_json_object(j, key);
    sw_json_integer(j, "steps", sum.steps);
    sw_json_bool(j, "steps_assumed", !sum.says_steps);
    sw_json_number(j, "tokens", sum.tokens);
    sw_json_number(j, "run_seconds", sum.seconds);
    sw_json_number(j, "accelerator_hours", sum.accelerator_hours);
    if (sum.says_steps && !isnan(sum.cost.wall_s.value))
        sw_run_cost_write_json(j, "run_cost", run, &sum.cost);
    else
        sw_json_null(j, "run_cost");
    sw_json_end(j);
}

void sw_stages_write_stage(struct sw_json *j, const struct sw_run_config *run,
                           const struct sw_run_config *before)
{
    char link[160];
    if (run->stage.count == 0)
        return;
    sw_json_inline(j, "stage");
    sw_json_text(j, "name", run->stage.name);
    sw_json_integer(j, "number", run->stage.number);
    sw_json_integer(j, "of", run->stage.count);
    sw_json_text(j, "begins_with", before != NULL ? before->stage.name : NULL);
    sw_json_bool(j, "continue_schedule", run->stage.continue_schedule);
    sw_json_integer(j, "steps", sw_run_steps(run));
    if (before != NULL) {
        sw_json_bool(j, "same_job", sw_stages_share_job(run, before));
        sw_json_text(j, "link", sw_stages_link(run, before, link, sizeof link));
    }
    sw_json_end(j);
}
