/* Axis orders of one mesh for its best options. */
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
