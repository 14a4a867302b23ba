#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "planner/search/frontier.h"
#include "planner/search/report.h"
#include "planner/search/run_cost.h"
#include "planner/search/stages.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Advises on the choice for training, and lists each number of nodes of an elastic run. */
static int advise(const struct sw_options *options, const struct sw_run_config *run,
                  const struct sw_search *search, struct sw_advice *advice,
                  struct sw_node_count **counts, int32_t *count, struct sw_error *err)
{
    if (search->feasible > 0) {
        const struct sw_candidate *chosen = &search->mesh[0];
        if (sw_search_advise(run, search, chosen, advice, err) != 0)
            return -1;
        sw_report_warn_of_choice(options->files[0], run, chosen, advice);
        sw_report_warn_of_time(options, options->files[0], run,
                               sw_run_trained_step_s(&search->run_cost, chosen));
    }
    return sw_search_node_counts(run, counts, count, err);
}

/* Number of printed rows. */
static int32_t shown_rows(const struct sw_options *options)
{
    const int64_t by_default = options->json ? SW_EVERY_ROW : SW_SHOWN_ROWS;
    const int64_t top = options->top > 0 ? options->top : by_default;
    return top < SW_EVERY_ROW ? (int32_t)top : SW_EVERY_ROW;
}

/* Numbers of nodes to compare: --nodes, or those of an elastic run with a limit or preference of
 * cost. out->count 0: none. */
static int list_nodes(const struct sw_options *options, const struct sw_run_config *run,
                      const struct sw_cost_limits *limits, struct sw_node_list *out,
                      struct sw_error *err)
{
    out->count = 0;
    if (options->nodes != NULL)
        return sw_node_list_parse(options->nodes, out, err);
    if (run->nodes_least == run->nodes_most ||
        (run->prefer != SW_PREFER_COST && limits->count == 0 && options->html == NULL))
        return 0;
    for (int32_t n = run->nodes_least; n <= run->nodes_most; n++)
        out->nodes[out->count++] = n;
    return 0;
}

static int read_limits(const struct sw_options *options, const struct sw_run_config *run,
                       struct sw_cost_limits *out, struct sw_error *err)
{
    const int64_t now = (int64_t)time(NULL);
    *out = (struct sw_cost_limits){.count = 0};
    for (int32_t i = 0; i < options->budget_count; i++)
        if (sw_budget_parse(options->budget[i], sw_run_unit_of_price(run),
                            &out->limit[out->count++], err) != 0)
            return -1;
    out->has_deadline = options->deadline != NULL;
    if (out->has_deadline) {
        struct sw_cost_limit *deadline = &out->limit[out->count++];
        if (sw_deadline_parse(options->deadline, now, deadline, err) != 0)
            return -1;
        out->now = deadline->is_date ? now : 0;
    }
    return sw_cost_limits_check(run, out, err);
}

/* Checks options that only training has, or a comparison of numbers of nodes. */
static int check_options(const struct sw_options *options, enum sw_purpose purpose,
                         const struct sw_node_list *nodes, struct sw_error *err)
{
    if (purpose != SW_FOR_TRAIN &&
        (options->nodes != NULL || options->budget_count > 0 || options->deadline != NULL))
        return sw_fail(err, SW_BAD_INPUT,
                       "--nodes, --budget and --deadline are about a training, which ends; leave "
                       "them out, or --for serve");
    if (options->html != NULL && nodes->count == 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "--html of search draws numbers of nodes; give some with --nodes, or use "
                       "'plan explain --html' for one mesh");
    return 0;
}

static int write_page(const char *path, const struct sw_run_config *run,
                      const struct sw_frontier *frontier, struct sw_error *err)
{
    struct sw_new_file file;
    if (sw_file_begin(&file, path, 0666, err) != 0)
        return sw_path_blame(err, errno, "name another file with --html");
    sw_frontier_page(file.out, run, frontier);
    return sw_file_commit(&file, err);
}

/* Compares numbers of nodes; run[0..stages) become the runs on the chosen number, or the
 * closest. */
static int compare_nodes(const struct sw_options *options, const struct sw_node_list *nodes,
                         const struct sw_cost_limits *limits, struct sw_run_config *run,
                         int32_t stages, struct sw_frontier *frontier, struct sw_error *err)
{
    const double start = sw_clock_now();
    if (sw_frontier_find_stages(run, stages, nodes, limits, frontier, err) != 0)
        return -1;
    if (options->html != NULL && write_page(options->html, run, frontier, err) != 0)
        return -1;
    if (!options->json) {
        sw_frontier_tell(stdout, run, frontier, sw_clock_now() - start, options->rejected);
        return 0;
    }
    const int32_t at = frontier->chosen >= 0 ? frontier->chosen : frontier->closest;
    for (int32_t i = 0; i < stages && at >= 0; i++) {
        const struct sw_run_config before = run[i];
        if (sw_run_at_nodes(&before, frontier->row[at].nodes, &run[i], err) != 0)
            return -1;
    }
    return 0;
}

/* Judges the run on its own nodes by its limits. */
static int judge(const struct sw_run_config *run, const struct sw_search *search,
                 const struct sw_cost_limits *limits, struct sw_frontier *frontier,
                 struct sw_error *err)
{
    if (limits->count == 0 || search->feasible == 0)
        return 0;
    return sw_frontier_of_run(run, &search->mesh[0], limits, frontier, err);
}

/* Searches on the run's nodes and reports. before: the run of the earlier stage; price is filled
 * (NULL: no stage). */
static int search_nodes(const struct sw_options *options, const struct sw_run_config *run,
                        enum sw_purpose purpose, const struct sw_cost_limits *limits,
                        struct sw_frontier *frontier, const struct sw_run_config *before,
                        struct sw_stage_price *price)
{
    struct sw_search search = {0};
    struct sw_error err = {0};
    struct sw_node_count *counts = NULL;
    struct sw_advice advice;
    int32_t count = 0;
    int status = SW_OK;
    /* people see the nearest rejected meshes; with --rejected all are explained below */
    if ((options->json || options->rejected
             ? sw_search_choose(run, purpose, shown_rows(options), &search, &err)
             : sw_search_run(run, purpose, shown_rows(options), &search, &err)) != 0 ||
        (options->rejected &&
         sw_search_explain(run, &search, search.feasible, search.count, &err) != 0) ||
        sw_search_whole_weights(run, &search, &err) != 0 ||
        (search.feasible > 0 &&
         sw_search_price_run(run, &search.mesh[0], NULL, &search.run_cost, &err) != 0) ||
        (search.purpose == SW_FOR_TRAIN &&
         advise(options, run, &search, &advice, &counts, &count, &err) != 0) ||
        (frontier->count == 0 && judge(run, &search, limits, frontier, &err) != 0)) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->json) {
        const struct sw_search_told told = {search.feasible > 0 ? &advice : NULL, counts, count,
                                            frontier->count > 0 ? frontier : NULL, before};
        sw_search_print_json(stdout, run, &search, options, &told);
    } else {
        sw_stages_tell_head(stdout, run, before);
        sw_report_search(stdout, run, &search, options);
        sw_report_node_counts(stdout, run, counts, count);
        if (frontier->count > 0)
            sw_frontier_tell_limits(stdout, run, frontier);
    }
    if (price != NULL)
        sw_stage_price_make(run, search.feasible > 0 ? &search.mesh[0] : NULL, price);
    if (!sw_search_settles(&search)) {
        fflush(stdout);
        status = sw_report_unmet(run, &search);
        sw_stages_tell_unmet(run);
    }
out:
    free(counts);
    sw_search_free(&search);
    return status;
}

/* Compares numbers for all stages together; with a limit, their own number of nodes, too. */
static int compare_stages(const struct sw_options *options, struct sw_run_config *run,
                          int32_t stages, struct sw_frontier *frontier, struct sw_error *err)
{
    struct sw_cost_limits limits;
    struct sw_node_list nodes;
    if (read_limits(options, run, &limits, err) != 0 ||
        list_nodes(options, run, &limits, &nodes, err) != 0)
        return -1;
    if (nodes.count == 0 && limits.count > 0)
        nodes = (struct sw_node_list){.count = 1, .nodes = {run->cluster.nodes}};
    if (check_options(options, sw_search_purpose(options, run), &nodes, err) != 0)
        return -1;
    return nodes.count == 0 ? 0
                            : compare_nodes(options, &nodes, &limits, run, stages, frontier, err);
}

/* Reports every stage, all together, and the compared numbers of nodes. Returns the exit code of
 * the first that fails. */
static int tell_stages(const struct sw_options *options, const struct sw_run_config *run,
                       int32_t stages, const struct sw_frontier *frontier,
                       struct sw_stage_price *price)
{
    struct sw_json json = {.out = stdout, .style = SW_JSON_TABS}, *j = &json;
    int status = SW_OK;
    if (options->json)
        printf("{\n\t\"schema\": \"shardwright.search.stages/1\",\n\t\"run\": \"%s\",\n"
               "\t\"stages\": [\n",
               run->name); /* a name's letters need no escape */
    for (int32_t i = 0; i < stages; i++) {
        if (options->json && i > 0)
            printf(",\n");
        struct sw_frontier none = {.chosen = -1};
        const struct sw_cost_limits no_limits = {.count = 0};
        const int one = search_nodes(options, &run[i], sw_search_purpose(options, &run[i]),
                                     &no_limits, &none, i > 0 ? &run[i - 1] : NULL, &price[i]);
        sw_frontier_free(&none);
        status = status == SW_OK ? one : status;
        if (one != SW_OK && one != SW_UNMET)
            break;
    }
    if (options->json) {
        printf("],\n\t\"totals\": ");
        sw_stages_write_totals(j, NULL, run, price, stages);
        if (frontier->count > 0) {
            printf(",\n\t\"frontier\": ");
            sw_frontier_write_json(j, NULL, run, frontier);
        }
        printf("\n}\n");
    } else if (status == SW_OK || status == SW_UNMET) {
        sw_stages_tell_totals(stdout, run, price, stages);
    }
    return status;
}

static int search_stages(const struct sw_options *options, const struct sw_run_file *run_file)
{
    struct sw_run_config *run = calloc((size_t)run_file->count, sizeof *run);
    struct sw_stage_price *price = calloc((size_t)run_file->count, sizeof *price);
    struct sw_frontier frontier = {.chosen = -1};
    struct sw_error err = {0};
    int status = SW_OK;
    if (run == NULL || price == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory for the stages");
        status = sw_command_fail(&err);
        goto out;
    }
    for (int32_t i = 0; i < run_file->count; i++)
        run[i] = sw_run_file_stage(options, run_file, i);
    if (compare_stages(options, run, run_file->count, &frontier, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (frontier.count == 0 || options->json)
        status = tell_stages(options, run, run_file->count, &frontier, price);
    if (frontier.count > 0 && frontier.chosen < 0 && status == SW_OK) {
        sw_frontier_unmet(run, &frontier, &err);
        status = sw_command_fail(&err);
    }
out:
    sw_frontier_free(&frontier);
    free(price);
    free(run);
    return status;
}

int sw_command_search(const struct sw_options *options)
{
    struct sw_run_file run_file;
    struct sw_frontier frontier = {.chosen = -1};
    struct sw_cost_limits limits;
    struct sw_node_list nodes;
    struct sw_error err = {0};
    int status = sw_run_file_open(options, false, &run_file);
    if (status == SW_OK && run_file.count > 1) {
        status = search_stages(options, &run_file);
        goto out;
    }
    if (status != SW_OK)
        goto out;
    struct sw_run_config *run = &run_file.run, before;
    const enum sw_purpose purpose = sw_search_purpose(options, run);
    if (read_limits(options, run, &limits, &err) != 0 ||
        list_nodes(options, run, &limits, &nodes, &err) != 0 ||
        check_options(options, purpose, &nodes, &err) != 0 ||
        (nodes.count > 0 &&
         compare_nodes(options, &nodes, &limits, run, 1, &frontier, &err) != 0)) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (nodes.count == 0 && run->prefer == SW_PREFER_COST && purpose == SW_FOR_TRAIN)
        fprintf(stderr,
                "%s: note: prefer: cost chooses among numbers of nodes, and there is one: the "
                "fastest mesh costs least; give more with --nodes, or 'nodes' of the run\n",
                sw_command_shown(options->files[0]));
    if (nodes.count == 0 || options->json)
        status = search_nodes(options, run, purpose, &limits, &frontier,
                              sw_run_file_before(options, &run_file, &before), NULL);
    if (frontier.count > 0 && frontier.chosen < 0 && (status == SW_OK || nodes.count > 0)) {
        sw_frontier_unmet(run, &frontier, &err);
        status = sw_command_fail(&err);
    }
out:
    sw_frontier_free(&frontier);
    sw_run_file_free(&run_file);
    return status;
}
