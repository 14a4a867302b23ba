/* One mesh for training: within the headroom and without, with each sharding of the run, in
 * segments. options.c finds the options. */
#include "core/plan/sharding.h"
#include "planner/search/mesh.h"

#include <math.h>

/* Share of waits for dp in a step from which on moments over dp as well may be faster. */
static const double worth_dp = 0.01;

/* True if another sharding's options are better for the mesh: those that keep the headroom, then
 * the faster ones; if none fits, those that need less. */
static bool is_better(const struct sw_candidate *a, const struct sw_candidate *b)
{
    if (a->reason != SW_FITS || b->reason != SW_FITS)
        return a->reason == SW_FITS ||
               (a->reason == SW_REJECT_MEMORY && b->reason == SW_REJECT_MEMORY &&
                a->memory.total < b->memory.total);
    const enum sw_fit_verdict mine = sw_memory_verdict(&a->memory),
                              other = sw_memory_verdict(&b->memory);
    return mine != other ? mine < other : a->cost.step_seconds < b->cost.step_seconds;
}

/* True if options fit without recomputation and hardly wait for dp: moments over dp as well then
 * gain nothing. */
static bool gains_by_memory_alone(const struct sw_candidate *c)
{
    return c->reason == SW_FITS && sw_memory_verdict(&c->memory) == SW_VERDICT_FITS &&
           sw_recompute_equal(c->decision.train.recompute, sw_recompute_none()) &&
           c->cost.exposed_seconds[SW_DP] < worth_dp * c->cost.step_seconds;
}

/* Finds the best of the run's shardings, and makes it the current one. */
static int search_shardings(struct sw_searcher *s, struct sw_preferences *preferences,
                            struct sw_candidate *out, struct sw_error *err)
{
    struct sw_sharding_decision choice[SW_SHARDINGS];
    const int32_t count = sw_plan_shardings(s->run, &out->decision.mesh, choice, err);
    if (count < 0)
        return -1;
    s->sharding = choice[0];
    int status = sw_search_with_headroom(s, preferences, out, err);
    for (int32_t i = 1; i < count && status == 0; i++) {
        struct sw_candidate c = {.decision.mesh = out->decision.mesh};
        if (choice[i].moments_over_dp && gains_by_memory_alone(out))
            continue;
        s->sharding = choice[i];
        status = sw_search_with_headroom(s, preferences, &c, err);
        if (status == 0 && is_better(&c, out))
            *out = c;
    }
    s->sharding = out->decision.train.sharding;
    return status;
}

int sw_search_sharding(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err)
{
    const int status = sw_search_within_limit(s, preferences, INFINITY, NULL, out, err);
    out->fastest_seconds = out->cost.step_seconds;
    out->fastest_bytes = out->memory.total;
    return status;
}

int sw_search_mesh(struct sw_searcher *s, struct sw_preferences *preferences,
                   struct sw_candidate *out, struct sw_error *err)
{
    const bool asked = s->run->cluster.placement.asked > 0;
    sw_searcher_use_segments(s, asked);
    int status = search_shardings(s, preferences, out, err);
    if (status == 0 && !asked)
        status = sw_search_segments(s, preferences, out, err);
    out->fastest_seconds = out->cost.step_seconds;
    out->fastest_bytes = out->memory.total;
    return status;
}
