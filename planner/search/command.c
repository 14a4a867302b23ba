#include "planner/search/report.h"
#include "planner/search/run_cost.h"

#include <stdlib.h>

/* What the choice for training leaves on the table, and of an elastic run each number of nodes. */
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

/* How many rows are printed. */
static int32_t shown_rows(const struct sw_options *options)
{
    const int64_t by_default = options->json ? SW_EVERY_ROW : SW_SHOWN_ROWS;
    const int64_t top = options->top > 0 ? options->top : by_default;
    return top < SW_EVERY_ROW ? (int32_t)top : SW_EVERY_ROW;
}

int sw_command_search(const struct sw_options *options)
{
    struct sw_run_file run_file;
    struct sw_search search = {0};
    struct sw_error err = {0};
    struct sw_node_count *counts = NULL;
    struct sw_advice advice;
    int32_t count = 0;
    int status = sw_run_file_open(options, false, &run_file);
    if (status != SW_OK)
        goto out;
    const struct sw_run_config *run = &run_file.run;
    const enum sw_purpose purpose = sw_search_purpose(options, run);
    /* people are shown the nearest of the rejected; who asks for all has them explained below */
    if ((options->json || options->rejected
             ? sw_search_choose(run, purpose, shown_rows(options), &search, &err)
             : sw_search_run(run, purpose, shown_rows(options), &search, &err)) != 0 ||
        (options->rejected &&
         sw_search_explain(run, &search, search.feasible, search.count, &err) != 0) ||
        sw_search_whole_weights(run, &search, &err) != 0 ||
        (search.feasible > 0 &&
         sw_search_price_run(run, &search.mesh[0], NULL, &search.run_cost, &err) != 0) ||
        (search.purpose == SW_FOR_TRAIN &&
         advise(options, run, &search, &advice, &counts, &count, &err) != 0)) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->json) {
        const struct sw_search_told told = {search.feasible > 0 ? &advice : NULL, counts, count};
        sw_search_print_json(stdout, run, &search, options, &told);
    } else {
        sw_report_search(stdout, run, &search, options);
        sw_report_node_counts(stdout, run, counts, count);
    }
    if (!sw_search_settles(&search))
        status = sw_report_unmet(run, &search);
out:
    free(counts);
    sw_search_free(&search);
    sw_run_file_free(&run_file);
    return status;
}
