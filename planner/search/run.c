/* The search as commands ask for it: the meshes, and why the nearest of the others do not fit. */
#include "core/base/clock.h"
#include "planner/search/internal.h"

enum { EXPLAINED = 3 }; /* of the rejected, the nearest; more when asked for */

int sw_search_meshes_alone(const struct sw_run_config *run, struct sw_search *out,
                           struct sw_error *err)
{
    return sw_search_meshes(run, out, NULL, err);
}

int sw_search_run(const struct sw_run_config *run, struct sw_search *out, struct sw_error *err)
{
    const double start = sw_clock_now();
    struct sw_searcher kept;
    if (sw_search_meshes(run, out, &kept, err) != 0)
        return -1;
    const int status = sw_search_explain_with(&kept, out, out->feasible, EXPLAINED, err);
    sw_program_cache_free(kept.cache);
    if (status != 0) {
        sw_search_free(out);
        return sw_search_blame_rules(run, err);
    }
    out->seconds = sw_clock_now() - start;
    return 0;
}
