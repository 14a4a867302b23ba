/* Gain of whole weights for a run that splits them: a search restricted to zero 3 reports zero 1 or
 * 2 if much faster. */
#include "planner/search/purpose.h"

#include <string.h>

/* Share of the chosen step from which on the gain is reported. */
static const double worth_a_line = 0.05;

/* False if whole weights need too many bytes with any options. */
static int may_fit(struct sw_searcher *s, const struct sw_mesh *mesh, bool *out,
                   struct sw_error *err)
{
    struct sw_preference p;
    struct sw_sized sized;
    sw_search_list_variants(s, mesh, &p);
    const struct sw_decision smallest = sw_searcher_smallest(s, mesh, &p.variant[0]);
    if (sw_searcher_size(s, &smallest, &sized, err) != 0)
        return -1;
    *out = sized.program != NULL && sw_searcher_state_bytes(s, &sized) <= sw_searcher_limit(s);
    return 0;
}

/* Tries the mesh with zero 1 and 2, and keeps it if faster than *best. */
static int try_mesh(struct sw_searcher *s, const struct sw_mesh *mesh, double *least,
                    struct sw_candidate *best, struct sw_error *err)
{
    static const struct sw_sharding_decision whole[] = {{.zero = SW_ZERO_2}, {.zero = SW_ZERO_1}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        struct sw_preferences preferences = {.count = 0};
        struct sw_candidate c = {.decision.mesh = *mesh};
        bool fits = false;
        s->sharding = whole[i];
        if (may_fit(s, mesh, &fits, err) != 0)
            return -1;
        if (!fits)
            continue;
        if (sw_search_sharding(s, &preferences, &c, err) != 0)
            return -1;
        if (c.reason == SW_FITS && c.cost.step_seconds < *least && !sw_search_is_settled(s, &c) &&
            sw_search_settle_order(s, &c, err) != 0)
            return -1;
        if (c.reason != SW_FITS || c.cost.step_seconds >= *least)
            continue;
        *least = c.cost.step_seconds;
        *best = c;
    }
    return 0;
}

/* False if it cannot gain. Whole weights save the gathers of every micro-step and nothing else: a
 * mesh that computes as long is no faster, and one with dp, whose ranks share whole weights as
 * fsdp's do, is little slower than with all of dp in fsdp. */
static bool may_be_faster(const struct sw_candidate *c, bool chosen, double least)
{
    const int32_t *size = c->decision.mesh.size;
    return (size[SW_DP] == 1 || chosen) && size[SW_FSDP] * size[SW_SP] > 1 &&
           c->cost.compute_seconds < least;
}

int sw_search_whole_weights(const struct sw_run_config *run, struct sw_search *search,
                            struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_searcher s;
    int status = 0;
    if (run->zero != SW_ZERO_3 || search->purpose != SW_FOR_TRAIN || search->feasible == 0 ||
        sw_mesh_request_parse(run->mesh_dim, &request, NULL) != 0)
        return 0;
    double least = search->mesh[0].cost.step_seconds / (1 + worth_a_line);
    if (sw_searcher_init(&s, run, search->row, &request, err) != 0)
        return -1;
    s.cache = sw_program_cache_new(1);
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    for (int32_t i = 0; i < search->feasible && status == 0; i++)
        if (may_be_faster(&search->mesh[i], i == 0, least))
            status =
                try_mesh(&s, &search->mesh[i].decision.mesh, &least, &search->whole_weights, err);
    sw_program_cache_free(s.cache);
    (void)sw_plan_tell_sharding(run, &search->whole_weights.decision,
                                &search->whole_weights.sharding);
    return status;
}
