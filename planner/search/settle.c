/* Axis orders of one mesh that keep tp inside the fastest link domain. */
#include "core/cost/links.h"
#include "planner/search/mesh.h"

#include <math.h>
#include <string.h>

bool sw_search_is_settled(const struct sw_searcher *s, const struct sw_candidate *c)
{
    const int32_t *size = c->decision.mesh.size;
    const struct sw_mesh inner = sw_mesh_make(size[SW_DP], size[SW_FSDP], size[SW_TP], size[SW_SP]);
    return s->keep_order || s->run->prefer != SW_PREFER_FSDP || c->order_settled ||
           !c->tp_leaves_domain || sw_search_tp_leaves(&s->run->cluster, &inner);
}

/* Prices the decision in every order that keeps tp inside, and keeps the fastest that fits if it
 * beats the best. */
static int price_inside(struct sw_searcher *s, const struct sw_decision *like,
                        struct sw_candidate *best, struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_decision decision = *like;
    for (int32_t k = 0; sw_search_permute(&like->mesh, k, &decision.mesh); k++) {
        struct sw_candidate c;
        struct sw_sized sized;
        decision.mesh.domain = s->segments ? sw_links_segment(&s->run->cluster, &decision.mesh) : 0;
        if (sw_search_tp_leaves(&s->run->cluster, &decision.mesh))
            continue;
        if (like->train.inner_ring > 0)
            decision.train.inner_ring = sw_links_inner_ring(&s->run->cluster, &decision.mesh, sp);
        if (sw_searcher_size(s, &decision, &sized, err) != 0 ||
            sw_searcher_price_faster(s, &sized, sw_candidate_seconds(best), &c, err) != 0)
            return -1;
        if (c.reason == SW_FITS && c.cost.step_seconds < sw_candidate_seconds(best))
            *best = c;
    }
    return 0;
}

int sw_search_settle_order(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err)
{
    const double up_to = c->fastest_seconds * (1 + s->run->prefer_within);
    struct sw_preferences preferences = {.count = 0};
    struct sw_candidate inside = *c;
    sw_searcher_use_segments(s, c->decision.mesh.domain > 0);
    s->sharding = c->decision.train.sharding;
    s->spends_headroom = c->memory.total > sw_searcher_limit(s);
    s->tp_inside = true;
    int status = sw_search_within_limit(s, &preferences, up_to, &c->decision, &inside, err);
    if (status == 0) /* guesses of orders are poor if many axes share a link */
        status = price_inside(s, &c->decision, &inside, err);
    s->spends_headroom = s->tp_inside = false;
    sw_searcher_use_segments(s, false);
    c->order_settled = true;
    if (status != 0 || inside.reason != SW_FITS || inside.cost.step_seconds > up_to)
        return status;
    inside.fastest_seconds = inside.cost.step_seconds;
    inside.fastest_bytes = inside.memory.total;
    inside.passed_over.mesh = c->decision.mesh;
    inside.passed_over.seconds = c->fastest_seconds;
    inside.apart_seconds = inside.decision.mesh.domain > 0 ? c->apart_seconds : 0;
    *c = inside;
    return 0;
}
