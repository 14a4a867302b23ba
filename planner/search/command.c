#include "planner/command.h"
#include "planner/search/serve.h"

#include <stdlib.h>

static int search_to_serve(const struct sw_options *options, const struct sw_run_config *run)
{
    struct sw_serve_search search = {0};
    struct sw_error err = {0};
    int status = SW_OK;
    if (sw_serve_search_run(run, &search, &err) != 0 ||
        (options->rejected &&
         sw_serve_search_explain(run, &search, search.feasible, search.count, &err) != 0)) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->json)
        sw_serve_search_print_json(stdout, run, &search, options);
    else
        sw_report_serve_search(stdout, run, &search, options);
    if (search.keeping == 0)
        status = sw_serve_unmet(run, &search);
out:
    sw_serve_search_free(&search);
    return status;
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
    if (sw_command_serves(options, &run_file.run)) {
        status = search_to_serve(options, &run_file.run);
        goto out;
    }
    if (sw_search_run(&run_file.run, &search, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->rejected &&
        sw_search_explain(&run_file.run, &search, search.feasible, search.count, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (search.feasible > 0 &&
        sw_search_advise(&run_file.run, &search, &search.mesh[0], &advice, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (search.feasible > 0)
        sw_command_warn_of_choice(options->files[0], &run_file.run, &search.mesh[0], &advice);
    if (search.feasible > 0)
        sw_command_warn_of_time(options, options->files[0], &run_file.run,
                                search.mesh[0].cost.step_seconds);
    if (sw_search_node_counts(&run_file.run, &counts, &count, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (!options->json) {
        sw_report_search(stdout, &run_file.run, &search, options);
        sw_report_node_counts(stdout, &run_file.run, counts, count);
    } else {
        sw_search_print_json(stdout, &run_file.run, &search, options,
                             search.feasible > 0 ? &advice : NULL, counts, count);
    }
    if (search.feasible == 0)
        status = sw_command_unmet(&run_file.run, &search);
out:
    free(counts);
    sw_search_free(&search);
    sw_run_file_free(&run_file);
    return status;
}
