#include "planner/command.h"

int sw_command_search(const struct sw_options *options)
{
    struct sw_session session;
    struct sw_search search = {0};
    struct sw_error err = {0};
    int status = sw_session_open(options, false, &session);
    if (status != SW_OK)
        goto out;
    if (sw_search_run(&session.run, &search, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (options->rejected &&
        sw_search_explain(&session.run, &search, search.feasible, search.count, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (search.feasible > 0)
        sw_command_warn_of_time(options, options->files[0], &session.run,
                                search.mesh[0].cost.step_seconds);
    if (!options->json)
        sw_report_search(stdout, &session.run, &search, options);
    else
        sw_search_print_json(stdout, &session.run, &search, options);
    if (search.feasible == 0)
        status = sw_command_unmet(&session.run, &search);
out:
    sw_search_free(&search);
    sw_session_free(&session);
    return status;
}
