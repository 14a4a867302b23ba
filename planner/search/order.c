/* Axis orders of one mesh: those of the best options, and those that keep tp inside the fastest
 * link domain. */
#include "core/cost/links.h"
#include "planner/search/mesh.h"

#include <math.h>
#include <string.h>

enum { MOST_ORDERS = 3 };

/* Orders of the best decision's axes, best guess first, with the guesses. Returns their number, -1:
 * err. */
static int32_t guess_orders(struct sw_searcher *s, const struct sw_candidate *best,
                            struct sw_mesh order[SW_MAX_ORDERS], double guess[SW_MAX_ORDERS],
                            struct sw_error *err)
{
    struct sw_compute compute;
    struct sw_traffics traffics;
    struct sw_sized sized;
    struct sw_decision one = best->decision;
    one.train.inner_ring = 0;
    if (sw_searcher_size(s, &one, &sized, err) != 0)
        return -1;
    sw_guess_compute(&sized, s->run, &compute);
    if (sw_guess_traffic(&sized, &traffics, err) != 0)
        return -1;
    const int32_t count = sw_guess_orders(sized.program, s->run, &traffics, &compute,
                                          best->decision.train.inner_ring > 0, s->tp_inside,
                                          sw_program_cache_orders(s->cache), order, guess, err);
    sw_traffics_free(&traffics);
    return count;
}

int sw_search_orders(struct sw_searcher *s, struct sw_candidate *best, struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    const struct sw_decision found = best->decision;
    struct sw_mesh order[SW_MAX_ORDERS];
    double guess[SW_MAX_ORDERS];
    if (s->keep_order)
        return 0;
    const int32_t count = guess_orders(s, best, order, guess, err);
    if (count < 0)
        return -1;
    double last = -1; /* priced: orders with equal placements have equal guesses */
    for (int32_t i = 0; i < count; i++)
        if (memcmp(order[i].order, found.mesh.order, sizeof order[i].order) == 0)
            last = guess[i];
    for (int32_t i = 0; i < count && i < MOST_ORDERS && guess[i] <= SW_WORTH_ORDERING * guess[0];
         i++) {
        struct sw_decision decision = found;
        struct sw_candidate c;
        struct sw_sized sized;
        if (guess[i] == last)
            continue;
        last = guess[i];
        decision.mesh = order[i];
        if (found.train.inner_ring > 0)
            decision.train.inner_ring = sw_links_inner_ring(&s->run->cluster, &order[i], sp);
        if (sw_searcher_size(s, &decision, &sized, err) != 0 ||
            sw_searcher_price_faster(s, &sized, best->cost.step_seconds, &c, err) != 0)
            return -1;
        if (c.reason == SW_FITS && c.cost.step_seconds < best->cost.step_seconds)
            *best = c;
    }
    return 0;
}

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
