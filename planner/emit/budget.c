#include "planner/emit/budget.h"

#include "core/base/json.h"
#include "planner/command/annotate.h"
#include "planner/emit/script.h"
#include "planner/search/run_cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The job ---- */

/* Reads the job requests of the run's script. */
static int read_script(const struct sw_run_config *run, const struct sw_emit_plan *plan,
                       struct sw_job_request *out, struct sw_error *err)
{
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    struct sw_run_config scripted = *run;
    struct sw_script *script = calloc(1, sizeof *script);
    char *text = NULL;
    int status = -1;
    if (script == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the job of a run");
    scripted.cluster.settings = plan->placed.run.cluster.settings;
    if (sw_script_prepare(script, &scripted, run->name, "", plan, 1, NULL, ".", err) == 0)
        text = sw_script_fill(&scripted, script, err);
    if (text != NULL)
        status = row->forecast->read(text, out, err);
    free(text);
    sw_script_free(script);
    return status;
}

static int make_request(const struct sw_run_config *run, const struct sw_candidate *candidate,
                        struct sw_job_request *out, struct sw_error *err)
{
    struct sw_emit_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the job of a run");
    plan->nodes = run->cluster.nodes;
    plan->candidate = *candidate;
    const int status = sw_search_place(run, candidate, &plan->placed, err) == 0 &&
                               sw_emit_price_save(run, plan, err) == 0
                           ? read_script(run, plan, out, err)
                           : -1;
    free(plan);
    return status;
}

/* ---- Asking ---- */

void sw_budget_source_close(struct sw_budget_source *source)
{
    if (source->forecast != NULL)
        source->row->forecast->close(source->forecast);
    *source = (struct sw_budget_source){0};
}

/* Opens the scheduler of a cluster; false: it cannot be asked. */
static bool open_source(struct sw_budget_source *source, const struct sw_cluster_config *cluster)
{
    struct sw_error err = {0};
    const struct sw_scheduler *row = sw_scheduler_of(cluster);
    if (row->forecast == NULL || row->forecast->budgets == NULL || !row->forecast->is_here())
        return false;
    if (source->row != NULL && source->row != row)
        sw_budget_source_close(source);
    source->row = row;
    if (source->forecast == NULL && !source->silent) {
        source->forecast = row->forecast->open(&err);
        source->silent = source->forecast == NULL;
        if (source->silent)
            fprintf(stderr, "plan: note: what is left to the account is not known: %s\n",
                    err.message);
    }
    return source->forecast != NULL;
}

int sw_budgets_say_run(const struct sw_run_config *run, const struct sw_candidate *candidate,
                       double limit_s, struct sw_budgets *out, int32_t first, struct sw_error *err)
{
    struct sw_run_cost cost;
    if (first == out->count || !isfinite(limit_s) || limit_s <= 0)
        return 0;
    if (sw_search_price_run(run, candidate, NULL, &cost, err) != 0)
        return -1;
    const double jobs = cost.terms.steps > 0 ? cost.time.held_s / limit_s : 0;
    for (int32_t i = first; i < out->count; i++) {
        struct sw_budget *b = &out->of[i];
        const double left = sw_budget_left(b) / b->asked;
        const size_t length = strlen(b->message);
        if (b->is_license || !(jobs > fmax(1, left)))
            continue;
        snprintf(b->message + length, sizeof b->message - length,
                 "; the whole run takes as much as %.3g such jobs, %.3g are left", jobs, left);
    }
    return 0;
}

int sw_budgets_ask(struct sw_budget_source *source, const struct sw_run_config *run,
                   const struct sw_candidate *candidate, struct sw_budgets *out,
                   struct sw_error *err)
{
    struct sw_job_request request = {0};
    struct sw_error no_answer = {0};
    if (!open_source(source, &run->cluster))
        return 0;
    const int32_t first = out->count;
    int status = make_request(run, candidate, &request, err);
    const bool answered = status == 0 && source->row->forecast->budgets(source->forecast, &request,
                                                                        out, &no_answer) == 0;
    if (answered)
        status = sw_budgets_say_run(run, candidate,
                                    source->row->seconds(sw_job_request_get(&request, "time")), out,
                                    first, err);
    else if (status == 0) {
        fprintf(stderr, "plan: note: what is left to the account is not known: %s\n",
                no_answer.message);
        source->row->forecast->close(source->forecast);
        source->forecast = NULL;
        source->silent = true;
    }
    sw_job_request_free(&request);
    return status;
}

/* ---- Telling ---- */

void sw_budgets_tell(const struct sw_options *options, const char *path,
                     const struct sw_budgets *budgets)
{
    for (int32_t i = 0; i < budgets->count; i++) {
        const struct sw_budget *b = &budgets->of[i];
        const bool enough = b->end == SW_BUDGET_ENOUGH;
        if (path != NULL && sw_annotates(options))
            sw_annotate(options, enough ? "notice" : "warning", path, 0, 0, b->message, NULL);
        else
            fprintf(stderr, "%s: %s: %s\n", path != NULL ? path : "plan",
                    enough ? "note" : "warning", b->message);
    }
}

static void write_known(struct sw_json *j, const char *key, double value)
{
    sw_json_number(j, key, value >= 0 ? value : (double)NAN);
}

void sw_budgets_write_json(struct sw_json *j, const char *key, const struct sw_budgets *budgets)
{
    sw_json_array(j, key);
    for (int32_t i = 0; i < budgets->count; i++) {
        const struct sw_budget *b = &budgets->of[i];
        sw_json_object(j, NULL);
        sw_json_text(j, "holder", b->holder);
        sw_json_text(j, "limit", b->limit);
        sw_json_text(j, "resource", b->resource);
        sw_json_text(j, "unit", b->is_license ? "licenses" : "minutes");
        sw_json_number(j, "most", b->most);
        write_known(j, "used", b->used);
        write_known(j, "held", b->held);
        sw_json_number(j, "left", sw_budget_left(b));
        sw_json_number(j, "asked", b->asked);
        sw_json_text(j, "end", sw_budget_end_name(b->end));
        sw_json_text(j, "message", b->message);
        sw_json_end(j);
    }
    sw_json_end(j);
}
