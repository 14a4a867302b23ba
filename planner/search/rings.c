/* Inner rings, of one node's ranks each, on the current axis order. */
#include "core/cost/links.h"
#include "planner/search/mesh.h"

#include <math.h>

static bool is_known(const struct sw_mesh_search *l, int32_t way)
{
    return l->guess[way].sequences > 0;
}

/* Keeps a decision if it fits and is faster by that factor. */
static int keep_faster(struct sw_searcher *s, const struct sw_decision *decision, double times,
                       struct sw_candidate *best, bool *fits, struct sw_error *err)
{
    struct sw_candidate c;
    if (sw_searcher_try(s, decision, &c, err) != 0)
        return -1;
    *fits = c.reason == SW_FITS;
    if (*fits && c.cost.step_seconds * times < best->cost.step_seconds)
        *best = c;
    return 0;
}

/* Tries the best decision with inner rings. If their blocks do not fit, recomputes more. */
static int try_rings(struct sw_searcher *s, const struct sw_mesh_search *l,
                     struct sw_candidate *best, struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_decision decision = best->decision;
    struct sw_candidate c;
    bool fits;
    int32_t i = 0;
    decision.train.inner_ring = sw_links_inner_ring(&s->run->cluster, &decision.mesh, sp);
    if (keep_faster(s, &decision, SW_WORTH_ORDERING, best, &fits, err) != 0)
        return -1;
    while (!sw_variant_is_of(&l->preference->variant[i], &decision))
        i++;
    if (fits || !is_known(l, sw_way_make(i, SW_ONE_RING)))
        return 0;
    if (sw_mesh_search_fit(s, l, sw_way_make(i, SW_ONE_RING), &decision, INFINITY, &c, err) != 0)
        return -1;
    if (c.reason == SW_FITS && c.cost.step_seconds * SW_WORTH_ORDERING < best->cost.step_seconds)
        *best = c;
    return 0;
}

/* Tries strategies without a ring on the best decision's axis order. */
static int try_others(struct sw_searcher *s, const struct sw_mesh_search *l,
                      struct sw_candidate *best, struct sw_error *err)
{
    struct sw_decision decision = best->decision;
    bool fits;
    decision.train.inner_ring = 0;
    for (int32_t i = 0; i < l->preference->count; i++) {
        const struct sw_variant *v = &l->preference->variant[i];
        decision.train.strategy = v->strategy;
        decision.train.layout = v->layout;
        decision.train.residual_seq_tp = v->residual_seq_tp;
        if (v->strategy != SW_ATTENTION_RING && keep_faster(s, &decision, 1, best, &fits, err) != 0)
            return -1;
    }
    return 0;
}

int sw_search_rings(struct sw_searcher *s, const struct sw_mesh_search *l,
                    struct sw_candidate *best, struct sw_error *err)
{
    const struct sw_decision *d = &best->decision;
    if (d->train.inner_ring > 0 || !sw_may_be_of_rings(s, &d->mesh, d->train.strategy, false) ||
        best->cost.exposed_seconds[SW_SP] < (SW_WORTH_ORDERING - 1) * best->cost.step_seconds)
        return 0;
    if (try_rings(s, l, best, err) != 0)
        return -1;
    return d->train.inner_ring > 0 ? try_others(s, l, best, err) : 0;
}
