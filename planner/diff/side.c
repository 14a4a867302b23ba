/* One side of a diff: reading and pricing it. */
#include "planner/diff/diff.h"

#include "core/programs/compile.h"
#include "core/programs/program_set.h"
#include "planner/command/format.h"
#include "planner/policy/measure.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/frontier.h"
#include "planner/search/run_cost.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listing {
    struct sw_settings *out;
    struct sw_error *err;
    bool failed;
};

static void list_setting(void *context, const char *path, const char *value)
{
    struct listing *l = context;
    l->failed = l->failed || sw_settings_add(l->out, path, value, l->err) != 0;
}

/* Lists the job's settings, which a plan does not contain. */
static int list_job(struct sw_diff_side *out, struct sw_error *err)
{
    out->purpose = sw_run_purpose(out->run);
    const int status =
        sw_settings_add(&out->settings, "run.job.type", sw_job_type_name(out->run->job.type), err);
    sw_settings_sort(&out->settings);
    return status;
}

static int list_run(const struct sw_run_config *run, struct sw_settings *out, struct sw_error *err)
{
    struct listing l = {out, err, false};
    sw_run_config_visit(run, "run", list_setting, &l);
    sw_settings_sort(out);
    return l.failed ? -1 : 0;
}

/* Lists all contents of a plan file with this decision. */
static int list_plan(const struct sw_run_config *run, const struct sw_decision *decision,
                     const struct sw_plan_prediction *prediction,
                     const uint64_t program[SW_PROGRAM_KINDS], struct sw_settings *out,
                     struct sw_error *err)
{
    struct listing l = {out, err, false};
    l.failed =
        sw_plan_visit(run, decision, prediction, program, list_setting, &l, err) != 0 || l.failed;
    sw_settings_sort(out);
    return l.failed ? -1 : 0;
}

static int read_plan(struct sw_diff_side *out, struct sw_error *err)
{
    if (sw_plan_read(out->path, &sw_launchers, &out->plan, err) != 0)
        return -1;
    out->run = out->plan.run;
    if (list_plan(out->run, &out->plan.decision, &out->plan.prediction, out->plan.program_digest,
                  &out->settings, err) != 0)
        return -1;
    if (list_plan(out->run, &out->plan.decision, &out->plan.prediction, out->plan.program_digest,
                  &out->choices, err) != 0 ||
        sw_script_find_job(out->path, &out->plan, &out->suited, err) != 0)
        return -1;
    out->run = out->plan.run;
    return list_job(out, err);
}

/* Prepares a run as `plan search` does. */
static void suit_run(const struct sw_diff_reading *as, struct sw_diff_side *out)
{
    out->suited = *sw_config_run(out->config);
    for (int32_t i = 0; as->stage != NULL && i < sw_config_stage_count(out->config); i++)
        if (strcmp(sw_config_stage(out->config, i)->stage.name, as->stage) == 0)
            out->suited = *sw_config_stage(out->config, i);
    out->run = &out->suited;
    (void)sw_run_suit(&out->suited);
}

/* Applies overrides; the kind of file is known only after reading it. */
static int override(const struct sw_diff_reading *as, struct sw_diff_side *out,
                    struct sw_error *err)
{
    const enum sw_config_kind kind = sw_config_get_kind(out->config);
    if (as->override_count == 0 || (kind != SW_CONFIG_RUN && kind != SW_CONFIG_PLAN))
        return 0;
    if (kind == SW_CONFIG_PLAN)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = out->path},
                          "a plan is compared unchanged; --set needs a run file");
    sw_config_free(out->config);
    out->config =
        sw_config_read(out->path, kind, &sw_launchers, as->override, as->override_count, err);
    return out->config != NULL ? 0 : -1;
}

int sw_diff_side_read(const char *path, const struct sw_diff_reading *as, bool quiet,
                      bool *is_other, struct sw_diff_side *out)
{
    struct sw_error err = {0};
    memset(out, 0, sizeof *out);
    out->path = path;
    out->base = as->base;
    if (is_other != NULL)
        *is_other = false;
    /* other files of a folder are skipped, but this may be a run */
    if (is_other != NULL && access(path, R_OK) != 0) {
        sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){.file = path}, "cannot open it: %s",
                   strerror(errno));
        return quiet ? SW_BAD_INPUT : sw_command_fail(&err);
    }
    out->config = sw_config_read(path, SW_CONFIG_UNKNOWN, &sw_launchers, NULL, 0, &err);
    if (out->config == NULL || override(as, out, &err) != 0)
        return quiet && err.status == SW_BAD_INPUT ? SW_BAD_INPUT : sw_command_fail(&err);
    const enum sw_config_kind kind = sw_config_get_kind(out->config);
    if (kind != SW_CONFIG_RUN && kind != SW_CONFIG_PLAN && is_other != NULL) {
        *is_other = true;
        return SW_OK;
    }
    if (sw_config_error_count(out->config) > 0) {
        if (!quiet)
            sw_command_diagnose(out->config, SW_NOTES_HIDDEN);
        return SW_BAD_INPUT;
    }
    if (kind != SW_CONFIG_RUN && kind != SW_CONFIG_PLAN) {
        sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){path, 1, 1},
                   "neither a run nor a plan; compare those");
    } else if (kind == SW_CONFIG_PLAN) {
        out->is_plan = true;
        read_plan(out, &err);
    } else {
        suit_run(as, out);
        if (list_run(out->run, &out->settings, &err) == 0)
            list_job(out, &err);
    }
    if (err.status == SW_OK)
        return SW_OK;
    return quiet && err.status == SW_BAD_INPUT ? SW_BAD_INPUT : sw_command_fail(&err);
}

int32_t sw_diff_side_stages(const struct sw_diff_side *side)
{
    const bool is_run = side->config != NULL && sw_config_get_kind(side->config) == SW_CONFIG_RUN;
    return is_run ? sw_config_stage_count(side->config) : 0;
}

static int sum_traffic(const struct sw_program *p, struct sw_traffics *out, struct sw_error *err)
{
    struct sw_traffic_walk sent = sw_traffic_begin(p);
    while (sw_traffic_next(&sent))
        if (sw_traffics_add(out, &sent, SW_TRAFFIC_ANY, err) == NULL)
            return -1;
    return 0;
}

static int measure(struct sw_diff_side *side, struct sw_error *err)
{
    double bytes = 0;
    for (int32_t i = 0; i < side->traffic.count; i++)
        bytes += side->traffic.entry[i].bytes;
    if (side->fits && sw_search_price_run(side->run, &side->chosen, NULL, &side->cost, err) != 0)
        return -1;
    sw_measures_take(side->run, side->purpose, &side->chosen, &side->cost, bytes, &side->measures);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const struct sw_diff_verdict *x = a, *y = b;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        if (x->size[i] != y->size[i])
            return x->size[i] > y->size[i] ? -1 : 1;
    return 0;
}

/* Explains a rejection, since the search explains only the first; for memory its numbers
 * suffice. */
static void describe_verdict(const struct sw_candidate *c, struct sw_diff_verdict *v)
{
    char needed[SW_FORMAT_BYTES], limit[SW_FORMAT_BYTES];
    snprintf(v->detail, sizeof v->detail, "%s", c->detail);
    if (c->detail[0] == '\0' && c->reason == SW_REJECT_MEMORY && c->memory.total > 0)
        snprintf(v->detail, sizeof v->detail, "needs %s of %s%s",
                 sw_format_bytes((double)c->memory.total, needed),
                 sw_format_bytes((double)c->memory.limit, limit),
                 sw_candidate_verdict(c) == SW_VERDICT_NO_HEADROOM ? ", without headroom" : "");
}

static int keep_verdicts(const struct sw_search *search, struct sw_diff_side *side,
                         struct sw_error *err)
{
    side->accelerators = search->accelerators;
    side->mesh_count = search->count;
    side->fit_count = search->feasible;
    side->verdict = calloc((size_t)search->count + 1, sizeof *side->verdict);
    if (side->verdict == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    for (int32_t i = 0; i < search->count; i++) {
        struct sw_diff_verdict *v = &side->verdict[i];
        memcpy(v->size, search->mesh[i].decision.mesh.size, sizeof v->size);
        v->reason = search->mesh[i].reason;
        describe_verdict(&search->mesh[i], v);
    }
    if (search->count > 0)
        qsort(side->verdict, (size_t)search->count, sizeof *side->verdict, by_size);
    return 0;
}

/* Prices serving with the decision, and a token's collectives. */
static int price_serving(struct sw_diff_side *side, const struct sw_decision *decision,
                         struct sw_error *err)
{
    struct sw_program_set *programs = NULL;
    struct sw_candidate *c = &side->chosen;
    if (sw_search_evaluate_serving(side->run, decision, c, err) != 0)
        return -1;
    side->fits = c->reason == SW_FITS && !c->serve.misses_token && !c->serve.misses_first;
    side->memory_verdict = sw_candidate_verdict(c);
    if (c->reason == SW_FITS &&
        sw_search_serving_programs(side->run, &c->decision, &programs, err) != 0)
        return -1;
    const int status = programs != NULL
                           ? sum_traffic(programs->program[SW_PROGRAM_DECODE], &side->traffic, err)
                           : 0;
    sw_program_set_free(programs);
    return status == 0 ? measure(side, err) : status;
}

/* Compiles the decision's program, for its price and its collectives. */
static int price_decision(struct sw_diff_side *side, const struct sw_decision *decision,
                          struct sw_error *err)
{
    if (side->purpose == SW_FOR_SERVE)
        return price_serving(side, decision, err);
    struct sw_program *program = NULL;
    double flops = 0;
    int status = 0;
    if (sw_search_model_flops(side->run, &flops, err) != 0 ||
        sw_search_evaluate(side->run, decision, flops, &side->chosen, &program, err) != 0)
        return -1;
    side->fits = side->chosen.reason == SW_FITS;
    side->memory_verdict = sw_candidate_verdict(&side->chosen);
    if (program != NULL)
        status = sum_traffic(program, &side->traffic, err);
    sw_program_free(program);
    return status == 0 ? measure(side, err) : status;
}

/* closest: NULL: no mesh. */
static void say_why_not(struct sw_diff_side *side, const struct sw_candidate *closest)
{
    if (side->fits)
        return;
    if (closest != NULL && closest->reason == SW_FITS)
        sw_report_missed(side->run, closest, side->why_not, sizeof side->why_not);
    else
        snprintf(side->why_not, sizeof side->why_not, "%s%s%s",
                 closest != NULL ? closest->detail : "no mesh of that size",
                 closest != NULL && closest->help[0] != '\0' ? "; " : "",
                 closest != NULL ? closest->help : "");
}

int sw_diff_side_price(struct sw_diff_side *side, struct sw_error *err)
{
    struct sw_search search = {0};
    struct sw_parameter_count count;
    int status = -1;
    if (side->priced)
        return 0;
    side->parameters = sw_search_parameters(side->run, &count, NULL) == 0 ? count.total : 0;
    if ((!side->is_plan && sw_frontier_settle(NULL, &side->suited, err) != 0) ||
        sw_search_run(side->run, side->purpose, 1, &search, err) != 0 ||
        keep_verdicts(&search, side, err) != 0)
        goto out;
    const struct sw_candidate *closest = search.count > 0 ? &search.mesh[0] : NULL;
    if (side->is_plan) {
        if (price_decision(side, &side->plan.decision, err) != 0)
            goto out;
        closest = &side->chosen;
    } else if (sw_search_settles(&search)) {
        const struct sw_plan_prediction none = {.step_seconds = 0};
        const uint64_t no_program[SW_PROGRAM_KINDS] = {0};
        if (price_decision(side, &search.mesh[0].decision, err) != 0 ||
            list_plan(side->run, &side->chosen.decision, &none, no_program, &side->choices, err) !=
                0)
            goto out;
    }
    say_why_not(side, closest);
    side->priced = true;
    status = 0;
out:
    sw_search_free(&search);
    return status;
}

void sw_diff_side_free(struct sw_diff_side *side)
{
    sw_settings_free(&side->settings);
    sw_settings_free(&side->choices);
    sw_traffics_free(&side->traffic);
    free(side->verdict);
    sw_plan_free(&side->plan);
    sw_config_free(side->config);
    memset(side, 0, sizeof *side);
}
