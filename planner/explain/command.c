/* `plan explain`: memory and time of one mesh by their parts, and the reason for its choice. */
#include "core/base/file.h"
#include "core/base/json.h"
#include "planner/explain/explain.h"
#include "planner/explain/sources.h"
#include "planner/html/html.h"
#include "planner/search/frontier.h"
#include "planner/search/purpose.h"
#include "planner/search/stages.h"

#include "planner/command/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int write_html(const char *path, const struct sw_explain *x, struct sw_error *err)
{
    struct sw_new_file file;
    if (sw_file_begin(&file, path, 0666, err) != 0)
        return sw_path_blame(err, errno, "name another file with --html");
    sw_html_page(file.out, x);
    return sw_file_commit(&file, err);
}

/* Searches every mesh of the cluster, for comparison if mesh_dim names one; *requested is then
 * true. */
static int search_all(const struct sw_run_config *run, const struct sw_search *search,
                      struct sw_search *all, bool *requested, struct sw_error *err)
{
    struct sw_run_config open = *run;
    *requested = sw_search_mesh_is_named(run) && search->count == 1;
    if (!*requested)
        return 0;
    open.mesh_dim = "auto";
    return sw_search_run(&open, SW_FOR_TRAIN, SW_EVERY_ROW, all, err);
}

/* Reports numbers of nodes of an elastic run. */
static int tell_counts(const struct sw_run_config *run, struct sw_error *err)
{
    struct sw_node_count *counts;
    int32_t count;
    if (sw_search_node_counts(run, &counts, &count, err) != 0)
        return -1;
    if (count > 0)
        printf("\n");
    sw_report_node_counts(stdout, run, counts, count);
    free(counts);
    return 0;
}

static int tell(const struct sw_options *options, const struct sw_explain *x, struct sw_error *err)
{
    if (options->html != NULL && write_html(options->html, x, err) != 0)
        return -1;
    const struct sw_program_set *set =
        sw_program_traits(options->program_kind)->state == SW_STATE_TRAINING ? x->programs
                                                                             : x->serving_programs;
    if (options->program && set == NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "the run has no serve section; add serve: {max_batch: 8}, or "
                       "--set serve.max_batch=8");
    if (options->program && set->program[options->program_kind] == NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "this run has no program '%s': its tokens are not read one by one "
                       "(docs/serving.md)",
                       sw_program_kind_name(options->program_kind));
    if (options->program)
        sw_program_print(stdout, set->program[options->program_kind],
                         sw_device_row(x->run->cluster.accelerator.device)->transport);
    else if (options->json)
        sw_explain_print_json(stdout, x, options->rejected);
    else if (options->html == NULL)
        sw_explain_text(stdout, x, options->rejected);
    else
        return 0;
    return options->program || options->json ? 0 : tell_counts(x->run, err);
}

/* Reports constants for one mesh, priced or too large for the memory. */
static int tell_sources(const struct sw_options *options, const struct sw_run_config *run,
                        enum sw_purpose purpose, const struct sw_search *search,
                        struct sw_error *err)
{
    struct sw_sources sources;
    if (sw_sources_make(run, &search->mesh[0], purpose, &sources, err) != 0)
        return -1;
    if (options->json)
        sw_sources_print_json(stdout, &sources);
    else
        sw_sources_text(stdout, &sources);
    return 0;
}

/* Checks options with a table or a page of their own. */
static int check_options(const struct sw_options *options, struct sw_error *err)
{
    if (options->sources && (options->program || options->html != NULL || options->rejected))
        return sw_fail(err, SW_BAD_INPUT,
                       "--sources goes with none of --program, --html and --rejected; ask for one "
                       "after the other");
    if (options->program && options->json)
        return sw_fail(err, SW_BAD_INPUT,
                       "--program prints text alone; leave --json out, or --program");
    return 0;
}

/* Explains memory and time of the mesh, beside the other meshes. */
static int explain_training(const struct sw_options *options, const struct sw_run_config *run,
                            struct sw_search *search, struct sw_error *err)
{
    struct sw_search others = {0};
    struct sw_explain x = {0};
    bool requested = false;
    int status = -1;
    if (search_all(run, search, &others, &requested, err) != 0)
        goto out;
    struct sw_search *all = requested ? &others : search;
    struct sw_run_config any = *run;
    if (requested)
        any.mesh_dim = "auto";
    const bool reasons = options->rejected || options->html != NULL;
    if ((!reasons || sw_search_explain(&any, all, all->feasible, all->count, err) == 0) &&
        sw_explain_make(run, &search->mesh[0], all, requested, &x, err) == 0)
        status = tell(options, &x, err);
out:
    sw_explain_free(&x);
    sw_search_free(&others);
    return status;
}

/* Explains the mesh in the search's words. */
static int explain_serving(const struct sw_options *options, const struct sw_run_config *run,
                           struct sw_search *search, struct sw_error *err)
{
    const struct sw_candidate *c = &search->mesh[0];
    char why[320];
    (void)err;
    if (!options->json) {
        printf("%s on %s, to serve\n", run->name, run->cluster.name);
        sw_report_model_line(stdout, run);
        sw_serve_tell_mesh(stdout, run, c, NULL);
        sw_report_why(stdout, run, SW_FOR_SERVE);
        return 0;
    }
    struct sw_json j = {.out = stdout, .style = SW_JSON_TABS};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.explain.serve/1");
    sw_json_text(&j, "run", run->name);
    sw_run_parameters_write_json(&j, run);
    sw_json_text(&j, "why", sw_rank_why(run, SW_FOR_SERVE, why, sizeof why));
    sw_serve_write_mesh(&j, "mesh", &search->layer_values, c);
    sw_json_end(&j);
    putchar('\n');
    return 0;
}

/* Explanations of the chosen mesh, or of one that only lacks memory: that is when users need it
 * most. Training explains such a mesh if there is no other. */
static const struct {
    int (*explain)(const struct sw_options *options, const struct sw_run_config *run,
                   struct sw_search *search, struct sw_error *err);
    bool beside_others;
} purposes[] = {
    [SW_FOR_TRAIN] = {explain_training, false}, [SW_FOR_SERVE] = {explain_serving, true}};

static bool is_told(const struct sw_search *search)
{
    return search->count > 0 && (search->mesh[0].reason == SW_FITS ||
                                 (search->mesh[0].reason == SW_REJECT_MEMORY &&
                                  (search->count == 1 || purposes[search->purpose].beside_others)));
}

static int check_purpose(const struct sw_options *options, enum sw_purpose purpose,
                         struct sw_error *err)
{
    if (purpose == SW_FOR_SERVE && (options->program || options->html != NULL))
        return sw_fail(err, SW_BAD_INPUT,
                       options->purpose != NULL
                           ? "--for serve goes neither with --program nor with --html; 'plan "
                             "explain --program decode' prints a program"
                           : "the run's job does not train, and --program and --html tell of "
                             "training; add --for train, with which '--program decode' prints a "
                             "program of serving, too");
    return 0;
}

static int explain(const struct sw_options *options, const struct sw_run_config *run,
                   enum sw_purpose purpose, struct sw_search *search, struct sw_error *err)
{
    if (options->sources)
        return tell_sources(options, run, purpose, search, err);
    return purposes[purpose].explain(options, run, search, err);
}

/* Explains a run or one of its stages. Returns an exit code. */
static int explain_one(const struct sw_options *options, const struct sw_run_config *given,
                       const struct sw_run_config *before)
{
    struct sw_run_config settled = *given;
    const struct sw_run_config *run = &settled;
    struct sw_search search = {0};
    struct sw_error err = {0};
    const enum sw_purpose purpose = sw_search_purpose(options, run);
    int status = SW_OK;
    if (!options->json && !options->program && options->html == NULL)
        sw_stages_tell_head(stdout, run, before);
    if (check_purpose(options, purpose, &err) != 0 ||
        (purpose == SW_FOR_TRAIN && sw_frontier_settle(options->files[0], &settled, &err) != 0) ||
        sw_search_run(run, purpose, SW_EVERY_ROW, &search, &err) != 0 ||
        (is_told(&search) && explain(options, run, purpose, &search, &err) != 0)) {
        status = sw_command_fail(&err);
    } else if (!sw_search_settles(&search)) {
        fflush(stdout);
        status = sw_report_unmet(run, &search);
        sw_stages_tell_unmet(run);
    }
    sw_search_free(&search);
    return status;
}

/* Explains every stage; as JSON, a list of objects. Returns the exit code of the first that
 * fails. */
static int explain_stages(const struct sw_options *options, const struct sw_run_file *run_file)
{
    struct sw_run_config run, before;
    int status = SW_OK;
    if (options->json)
        printf("{\n\t\"schema\": \"shardwright.explain.stages/1\",\n\t\"run\": \"%s\",\n"
               "\t\"stages\": [\n",
               run_file->run.name); /* a name's letters need no escape */
    for (int32_t i = 0; i < run_file->count && (status == SW_OK || status == SW_UNMET); i++) {
        if (options->json && i > 0)
            printf(",\n");
        run = sw_run_file_stage(options, run_file, i);
        const int one = explain_one(options, &run, i > 0 ? &before : NULL);
        status = status == SW_OK || one > status ? one : status;
        before = run;
    }
    if (options->json)
        printf("]\n}\n");
    return status;
}

int sw_command_explain(const struct sw_options *options)
{
    struct sw_run_file run_file;
    struct sw_error err = {0};
    if (check_options(options, &err) != 0)
        return sw_command_fail(&err);
    int status = sw_run_file_open(options, false, &run_file);
    if (status == SW_OK && run_file.count > 1 && (options->program || options->html != NULL)) {
        sw_fail(&err, SW_BAD_INPUT, "%s shows one stage of the run; name it, as in --stage %s",
                options->program ? "--program" : "--html", run_file.run.stage.name);
        status = sw_command_fail(&err);
    } else if (status == SW_OK && run_file.count > 1) {
        status = explain_stages(options, &run_file);
    } else if (status == SW_OK) {
        struct sw_run_config before;
        status =
            explain_one(options, &run_file.run, sw_run_file_before(options, &run_file, &before));
    }
    sw_run_file_free(&run_file);
    return status;
}
