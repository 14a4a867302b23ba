/* `plan check` and `plan schema`. */
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"

#include "core/base/device.h"
#include "core/config/site.h"
#include "core/programs/compile.h"
#include "core/programs/program_set.h"
#include "planner/command/annotate.h"
#include "planner/emit/budget.h"
#include "planner/emit/emit.h"
#include "planner/emit/script.h"
#include "planner/policy/site.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/report.h"
#include "planner/search/run_cost.h"
#include "planner/command/format.h"
#include "planner/search/lacks.h"
#include "planner/search/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct sw_options *options, const char *path, const struct sw_error *err)
{
    if (!sw_annotates(options))
        return sw_command_fail(err);
    sw_annotate(options, "error", err->file[0] != '\0' ? err->file : path, err->line, err->column,
                err->message, NULL);
    return err->status == SW_OK ? SW_ENVIRONMENT : (int)err->status;
}

static int32_t diagnose(const struct sw_options *options, const struct sw_config *config)
{
    if (!sw_annotates(options))
        return sw_command_diagnose(config, SW_NOTES_SHOWN);
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++) {
        const struct sw_diagnostic *d = sw_config_diagnostic(config, i);
        sw_annotate(options,
                    d->is_warning ? "warning"
                    : d->is_note  ? "notice"
                                  : "error",
                    d->file, d->line, d->column, d->message, d->help);
    }
    return sw_config_error_count(config);
}

static int unmet(const struct sw_options *options, const char *path,
                 const struct sw_run_config *run, const struct sw_search *search)
{
    char message[512];
    if (!sw_annotates(options))
        return sw_report_unmet(run, search);
    const struct sw_candidate *closest = search->count > 0 ? &search->mesh[0] : NULL;
    char missed[160] = "";
    if (search->feasible > 0)
        sw_report_missed(run, closest, missed, sizeof missed);
    snprintf(message, sizeof message, "none of %d meshes %s '%s'%s%s", search->count,
             missed[0] != '\0'                 ? "keeps the latency goals of"
             : search->purpose == SW_FOR_SERVE ? "can serve"
                                               : sw_report_lacks(closest),
             run->name, closest != NULL ? ": " : "",
             missed[0] != '\0' ? missed
             : closest != NULL ? closest->detail
                               : "");
    const struct sw_place *at = &run->mesh_dim_place;
    /* --set and the command line are no files */
    const bool written = at->file != NULL && at->line > 0 && at->file[0] != '-';
    sw_annotate(options, "error", written ? at->file : path, written ? at->line : 0, at->column,
                message, closest != NULL ? closest->help : NULL);
    return SW_UNMET;
}

/* Checks the time limit with the plan that the run would get. */
static void check_limit(const struct sw_options *options, const char *path,
                        const struct sw_run_config *run, const struct sw_decision *decision)
{
    int64_t lead_seconds;
    const struct sw_job_terms terms = sw_job_terms(&run->cluster);
    if (terms.continues != SW_CONTINUE_NONE && terms.time != NULL &&
        sw_emit_signal_lead_of(run, decision, &lead_seconds) == 0)
        sw_emit_warn_of_short_limit(options, path, run, lead_seconds);
}

/* Prints both figures of each link, which shows at once if a file's author confused them. */
static void print_links(const struct sw_cluster_config *cluster)
{
    char one[SW_FORMAT_RATE], node[SW_FORMAT_RATE];
    for (int32_t i = 0; i < cluster->link_count; i++) {
        const struct sw_link_config *link = &cluster->link[i];
        printf("    %s joins %" PRId32 "%s: %s per accelerator, %s per node, one direction\n",
               link->name, link->spans,
               link->spans == cluster->accelerators_per_node ? " (a node)" : "",
               sw_format_rate(link->bandwidth, one),
               sw_format_rate(link->bandwidth * cluster->accelerators_per_node, node));
    }
}

/* Kind and contents of a checked file. */
struct checked {
    enum sw_config_kind kind;
    int32_t meshes, feasible;             /* meshes of a run; -1: not reached */
    struct sw_parameter_count parameters; /* a run's or a model's; total 0: unknown */
    struct sw_budget_source *source;      /* for all files */
};

/* Prints the number of meshes for a run, and the size of its model. */
static void print_run(const char *path, const struct sw_run_config *run,
                      const struct sw_search *search, const struct sw_parameter_count *parameters)
{
    char text[160];
    const bool serves = search->purpose == SW_FOR_SERVE;
    if (run->stage.count > 0)
        printf("%s: stage %s of a run", path, run->stage.name);
    else
        printf("%s: ok, a run", path);
    printf(": %d of %d meshes %s", search->feasible, search->count, serves ? "can serve" : "fit");
    if (search->keeping < search->feasible)
        printf("; %d miss a latency goal", search->feasible - search->keeping);
    printf("\n");
    if (parameters->total > 0)
        printf("    %s\n", sw_report_parameters(parameters, text, sizeof text));
}

/* Reports on the mesh that a run would get for training or serving. */
static void tell_run(const struct sw_options *options, const char *path,
                     const struct sw_run_config *run, const struct sw_search *search)
{
    char warning[192] = "";
    sw_headroom_warning(&search->mesh[0].memory, warning, sizeof warning);
    if (warning[0] != '\0' && sw_annotates(options))
        sw_annotate(options, "warning", path, 0, 0, warning, NULL);
    else if (warning[0] != '\0')
        fprintf(stderr, "%s: warning: %s\n", path, warning);
    if (options->messages == NULL && run->stage.number <= 1)
        print_links(&run->cluster);
    if (search->purpose == SW_FOR_TRAIN) {
        sw_report_warn_of_time(options, path, run, sw_search_trained_step_s(run, &search->mesh[0]));
        check_limit(options, path, run, &search->mesh[0].decision);
    }
    sw_report_warn_of_lacks(options, run, true);
    sw_site_advise(options, run, &search->mesh[0], NULL);
}

/* Reports the remaining budgets of the run's account, if a scheduler can be asked. Returns an exit
 * code. */
static int tell_budgets(const struct sw_options *options, const char *path,
                        const struct sw_run_config *run, const struct sw_search *search,
                        struct sw_budget_source *source)
{
    struct sw_budgets budgets = {0};
    struct sw_error err = {0};
    const int status = sw_budgets_ask(source, run, &search->mesh[0], &budgets, &err);
    if (status == 0)
        sw_budgets_tell(options, path, &budgets);
    sw_budgets_free(&budgets);
    return status == 0 ? SW_OK : fail(options, path, &err);
}

/* Checks mesh_dim and rules by searching, for the job's purpose. */
static int check_run(const struct sw_options *options, const char *path,
                     const struct sw_run_config *described, struct checked *out)
{
    struct sw_run_config suited = *described;
    const struct sw_run_config *run = &suited;
    struct sw_search search = {0};
    struct sw_error err = {0};
    if (sw_command_check_data(run, &err) != 0 ||
        sw_search_choose(run, sw_run_suit(&suited), 1, &search, &err) != 0)
        return fail(options, path, &err);
    int status = SW_OK;
    (void)sw_search_parameters(run, &out->parameters, NULL);
    out->meshes = search.count;
    out->feasible = search.feasible;
    if (!sw_search_settles(&search)) {
        status = unmet(options, path, run, &search);
        if (!sw_annotates(options))
            sw_stages_tell_unmet(run);
    }
    if (status == SW_OK && options->messages == NULL)
        print_run(path, run, &search, &out->parameters);
    if (status == SW_OK) {
        tell_run(options, path, run, &search);
        status = tell_budgets(options, path, run, &search, out->source);
    }
    sw_search_free(&search);
    return status;
}

/* Notes changed inputs of a plan. The plan stays valid by itself, so this is no mistake; but it no
 * longer matches its files. Missing inputs are not mentioned: the plan was moved without them. */
static void check_inputs(const struct sw_options *options, const char *path,
                         const struct sw_plan *plan)
{
    enum sw_plan_input_state state[SW_PLAN_MAX_INPUTS];
    char *file[SW_PLAN_MAX_INPUTS] = {NULL};
    bool any = false;
    for (int32_t i = 0; i < plan->inputs.count; i++) {
        state[i] = sw_plan_input_check(path, &plan->inputs.input[i], &file[i]);
        any = any || state[i] != SW_INPUT_MISSING;
    }
    for (int32_t i = 0; i < plan->inputs.count; i++) {
        char message[512];
        if (any && state[i] != SW_INPUT_SAME) {
            snprintf(message, sizeof message, "'%.300s' %s since this plan was written",
                     plan->inputs.input[i].path,
                     state[i] == SW_INPUT_CHANGED ? "changed" : "has gone");
            sw_text_show(message); /* a path may contain any bytes */
            const char *help = "write it again with 'plan emit'";
            if (sw_annotates(options))
                sw_annotate(options, "warning", path, 0, 0, message, help);
            else
                fprintf(stderr, "%s: warning: %s; %s\n", path, message, help);
        }
        free(file[i]);
    }
}

static int check_plan(const struct sw_options *options, const char *path)
{
    struct sw_plan plan = {0};
    struct sw_program_options program_options;
    struct sw_program_set *programs = NULL;
    struct sw_error err = {0};
    struct sw_run_config suited;
    int status = SW_OK;
    if (sw_plan_read(path, &sw_launchers, &plan, &err) != 0)
        return fail(options, path, &err);
    /* a serving plan on a mesh that cannot train has no training programs */
    const bool trains = plan.program_digest[SW_PROGRAM_TRAIN] != 0;
    if (sw_plan_program_options(plan.run, &plan.decision, &program_options, &err) != 0 ||
        (trains && sw_program_set_compile(&program_options, &programs, &err) != 0)) {
        /* unless a rule's mistake names its own */
        sw_fail_place(&err, plan.decision_place);
        status = fail(options, path, &err);
        goto out;
    }
    enum sw_program_kind other =
        trains ? sw_program_set_differs(programs, plan.program_digest) : SW_PROGRAM_KINDS;
    if (other == SW_PROGRAM_KINDS) {
        uint64_t digests[SW_PROGRAM_KINDS] = {0};
        if (sw_search_serving_digests(plan.run, &plan.decision, digests, &err) != 0) {
            sw_fail_place(&err, plan.decision_place);
            status = fail(options, path, &err);
            goto out;
        }
        for (int32_t k = SW_PROGRAM_KINDS - 1; k >= 0; k--)
            if (sw_program_traits((enum sw_program_kind)k)->state == SW_STATE_SERVING &&
                digests[k] != plan.program_digest[k])
                other = (enum sw_program_kind)k;
    }
    if (other != SW_PROGRAM_KINDS) {
        (void)sw_plan_refuse_program(&plan, other, &err);
        status = fail(options, path, &err);
        goto out;
    }
    if (sw_script_find_job(path, &plan, &suited, &err) != 0 ||
        sw_command_check_data(plan.run, &err) != 0) {
        status = fail(options, path, &err);
        goto out;
    }
    check_inputs(options, path, &plan);
    if (options->messages == NULL)
        printf("%s: ok, a plan, digest %016" PRIx64 "\n", path, plan.digest);
out:
    sw_program_set_free(programs);
    sw_plan_free(&plan);
    return status;
}

static int check_file(const struct sw_options *options, const char *path, struct checked *out)
{
    static const char *const names[] = {"a model", "an accelerator", "a cluster", "a run",
                                        "a plan",  "a profile",      "a curve",   "a fabric"};
    struct sw_error err = {0};
    struct sw_config *config = sw_command_read(path, SW_CONFIG_UNKNOWN, options, &err);
    const bool piped = strcmp(path, "-") == 0;
    path = sw_command_shown(path);
    if (config == NULL)
        return fail(options, path, &err);
    const enum sw_config_kind kind = out->kind = sw_config_get_kind(config);
    int status = SW_OK;
    if (diagnose(options, config) > 0) {
        status = SW_BAD_INPUT;
    } else if (kind == SW_CONFIG_PLAN && piped) {
        sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){path, 1, 1},
                   "a plan cannot be read from standard input: its inputs lie beside its file; "
                   "name the file");
        status = fail(options, path, &err);
    } else if (kind == SW_CONFIG_PLAN) {
        status = check_plan(options, path);
    } else if (kind == SW_CONFIG_RUN) {
        const int32_t stages = sw_config_stage_count(config);
        status = check_run(options, path, sw_config_run(config), out);
        for (int32_t i = 1; i < stages; i++) {
            const int other = check_run(options, path, sw_config_stage(config, i), out);
            status = other > status ? other : status;
        }
        if (stages > 0 && status == SW_OK && options->messages == NULL)
            printf("%s: ok, a run of %d stage%s\n", path, (int)stages, stages == 1 ? "" : "s");
    } else {
        char text[160] = "";
        if (kind == SW_CONFIG_MODEL &&
            sw_program_count_parameters(&sw_config_model(config)->shape, NULL, NULL,
                                        &out->parameters, NULL) == 0)
            sw_report_parameters(&out->parameters, text, sizeof text);
        if (options->messages == NULL)
            printf("%s: ok, %s\n%s%s%s", path,
                   kind < SW_CONFIG_UNKNOWN ? names[kind] : "a description",
                   text[0] != '\0' ? "    " : "", text, text[0] != '\0' ? "\n" : "");
    }
    if (status == SW_OK && kind == SW_CONFIG_CLUSTER && options->messages == NULL)
        print_links(sw_config_cluster(config));
    sw_config_free(config);
    return status;
}

static const char *const kind_names[] = {"model", "accelerator", "cluster", "run",
                                         "plan",  "profile",     "curve",   "fabric"};
enum { KINDS = sizeof kind_names / sizeof kind_names[0] };
_Static_assert((int)SW_CONFIG_UNKNOWN == (int)KINDS, "a name for every kind, in their order");

/* Writes a file and its messages as an object. */
static int check_as_json(const struct sw_options *options, const char *path, struct sw_json *j,
                         struct sw_budget_source *source)
{
    struct sw_options with = *options;
    struct checked what = {
        .kind = SW_CONFIG_UNKNOWN, .meshes = -1, .feasible = -1, .source = source};
    with.messages = j;
    sw_json_object(j, NULL);
    sw_json_text(j, "path", sw_command_shown(path));
    sw_json_array(j, "messages");
    const int status = check_file(&with, path, &what);
    sw_json_end(j);
    sw_json_bool(j, "ok", status == SW_OK);
    sw_json_text(j, "kind", what.kind < SW_CONFIG_UNKNOWN ? kind_names[what.kind] : NULL);
    if (what.meshes >= 0) {
        sw_json_integer(j, "meshes", what.meshes);
        sw_json_integer(j, "feasible", what.feasible);
    }
    if (what.parameters.total > 0)
        sw_parameters_write_json(j, &what.parameters);
    sw_json_end(j);
    return status;
}

/* Returns the worst exit code of several files: the environment, then bad input, then a run that
 * fits nowhere. */
int sw_command_check(const struct sw_options *options)
{
    struct sw_budget_source source = {0};
    struct sw_error err = {0};
    int status = SW_OK;
    if (options->file_count == 0) {
        sw_fail(&err, SW_BAD_INPUT,
                "name the files to check, as in 'plan check configs/runs/*.yaml'");
        return sw_command_fail(&err);
    }
    if (options->json && options->github) {
        sw_fail(&err, SW_BAD_INPUT, "--json or --format github, not both");
        return sw_command_fail(&err);
    }
    struct sw_json json = {.out = stdout, .style = SW_JSON_TABS};
    if (options->json) {
        sw_json_object(&json, NULL);
        sw_json_text(&json, "schema", "shardwright.check/1");
        sw_json_array(&json, "files");
    }
    for (int32_t i = 0; i < options->file_count; i++) {
        struct checked what = {.meshes = -1, .source = &source};
        const int one = options->json ? check_as_json(options, options->files[i], &json, &source)
                                      : check_file(options, options->files[i], &what);
        status = one > status ? one : status;
    }
    sw_budget_source_close(&source);
    if (options->json) {
        sw_json_end(&json);
        sw_json_end(&json);
        putchar('\n');
    }
    return status;
}

int sw_command_schema(const struct sw_options *options)
{
    struct sw_error err = {0};
    if (options->file_count != 1) {
        sw_fail(&err, SW_BAD_INPUT,
                "one kind: 'plan schema "
                "model|accelerator|profile|curve|fabric|cluster|run|plan|site|template'");
        return sw_command_fail(&err);
    }
    if (strcmp(options->files[0], "site") == 0 && !options->markdown) {
        sw_site_schema(stdout);
        return SW_OK;
    }
    if (strcmp(options->files[0], "template") == 0) {
        if (options->markdown) {
            sw_script_write_reference(stdout);
            return SW_OK;
        }
        sw_fail(&err, SW_BAD_INPUT,
                "a template is a script and has no JSON Schema; --markdown shows its placeholders");
        return sw_command_fail(&err);
    }
    for (int i = 0; i < KINDS; i++)
        if (strcmp(options->files[0], kind_names[i]) == 0) {
            if (options->markdown)
                sw_config_reference(stdout, (enum sw_config_kind)i, &sw_launchers);
            else
                sw_config_schema(stdout, (enum sw_config_kind)i, &sw_launchers);
            return SW_OK;
        }
    const char *near = sw_text_nearest(options->files[0], kind_names, KINDS);
    if (near != NULL)
        sw_fail(&err, SW_BAD_INPUT, "no schema '%.40s'; did you mean '%s'?", options->files[0],
                near);
    else
        sw_fail(&err, SW_BAD_INPUT,
                "no schema '%.40s'; use model, accelerator, profile, curve, fabric, cluster, run, "
                "plan, site or template",
                options->files[0]);
    return sw_command_fail(&err);
}
