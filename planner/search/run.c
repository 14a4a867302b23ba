/* The search for commands: the meshes, and why the nearest others do not fit. */
#include "core/base/clock.h"
#include "planner/search/purpose.h"

enum { EXPLAINED = 3 }; /* number of nearest rejected meshes; more on request */

bool sw_search_settles(const struct sw_search *search)
{
    return search->keeping > 0;
}

int sw_search_meshes_alone(const struct sw_run_config *run, int32_t rows, struct sw_search *out,
                           struct sw_error *err)
{
    return sw_search_meshes(run, sw_purpose(SW_FOR_TRAIN), rows, out, NULL, err);
}

/* explain: true to explain the nearest rejected meshes even if others fit. */
static int search_run(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                      bool explain, struct sw_search *out, struct sw_error *err)
{
    const double start = sw_clock_now();
    struct sw_searcher kept;
    struct sw_serving serving;
    const struct sw_decision none = {.serve.stream_weights = SW_STREAM_AUTO};
    if (purpose == SW_FOR_SERVE && !sw_plan_serving(run, &none, &serving)) {
        sw_fail(err, SW_BAD_INPUT,
                "the run has no serve section; add serve: {max_batch: 8}, or "
                "--set serve.max_batch=8");
        if (run->job.place.file != NULL && run->job.place.line > 0) /* set by the run */
            sw_fail_place(err, run->job.place);
        return -1;
    }
    if (sw_search_meshes(run, sw_purpose(purpose), rows, out, &kept, err) != 0)
        return -1;
    const int32_t count = explain || out->feasible == 0 ? EXPLAINED : 0;
    const int status = out->row->explain(&kept, out, out->feasible, count, err);
    sw_program_cache_free(kept.cache);
    if (status != 0) {
        sw_search_free(out);
        return sw_search_blame_rules(run, err);
    }
    out->seconds = sw_clock_now() - start;
    return 0;
}

int sw_search_run(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                  struct sw_search *out, struct sw_error *err)
{
    return search_run(run, purpose, rows, true, out, err);
}

int sw_search_choose(const struct sw_run_config *run, enum sw_purpose purpose, int32_t rows,
                     struct sw_search *out, struct sw_error *err)
{
    return search_run(run, purpose, rows, false, out, err);
}
