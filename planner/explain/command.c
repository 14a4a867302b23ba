/* `plan explain`: where the memory and the time of one mesh go, and why it was chosen. */
#include "core/base/file.h"
#include "planner/explain/data.h"

#include <stdlib.h>
#include <string.h>

static int write_html(const char *path, const struct sw_explain *x, struct sw_error *err)
{
    struct sw_new_file file;
    if (sw_file_begin(&file, path, 0666, err) != 0)
        return -1;
    sw_html_page(file.out, x);
    return sw_file_commit(&file, err);
}

/* Every mesh of the cluster, for comparison when mesh_dim names one; *requested tells. */
static int search_all(const struct sw_run_config *run, const struct sw_search *search,
                      struct sw_search *all, bool *requested, struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_run_config open = *run;
    *requested = sw_mesh_request_parse(run->mesh_dim, &request, NULL) == 0 && !request.is_auto &&
                 search->count == 1;
    if (!*requested)
        return 0;
    open.mesh_dim = "auto";
    return sw_search_run(&open, all, err);
}

static int tell(const struct sw_options *options, const struct sw_explain *x, struct sw_error *err)
{
    if (options->html != NULL && write_html(options->html, x, err) != 0)
        return -1;
    if (options->program)
        sw_program_print(stdout, x->programs->program[options->program_kind]);
    else if (options->json)
        sw_explain_print_json(stdout, x, options->rejected);
    else if (options->html == NULL)
        sw_explain_text(stdout, x, options->rejected);
    return 0;
}

int sw_command_explain(const struct sw_options *options)
{
    struct sw_session session;
    struct sw_search search = {0}, others = {0};
    struct sw_explain x = {0};
    struct sw_error err = {0};
    bool requested = false;
    int status = sw_session_open(options, false, &session);
    if (status != SW_OK)
        goto out;
    const struct sw_run_config *run = &session.run;
    if (sw_search_run(run, &search, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    /* one mesh that only lacks memory can be explained: that is when one wants to know most */
    if (search.feasible == 0 && (search.count != 1 || search.mesh[0].reason != SW_REJECT_MEMORY)) {
        status = sw_command_unmet(run, &search);
        goto out;
    }
    if (search_all(run, &search, &others, &requested, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    struct sw_search *all = requested ? &others : &search;
    struct sw_run_config any = *run;
    if (requested)
        any.mesh_dim = "auto";
    const bool reasons = options->rejected || options->html != NULL;
    if ((reasons && sw_search_explain(&any, all, all->feasible, all->count, &err) != 0) ||
        sw_explain_make(run, &search.mesh[0], all, requested, &x, &err) != 0 ||
        tell(options, &x, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (search.feasible == 0)
        status = sw_command_unmet(run, &search);
out:
    sw_explain_free(&x);
    sw_search_free(&others);
    sw_search_free(&search);
    sw_session_free(&session);
    return status;
}
