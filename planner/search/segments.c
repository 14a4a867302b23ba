/* Segments of nodes that a job may ask its scheduler for, if worth waiting for. */
#include "planner/search/mesh.h"

void sw_searcher_use_segments(struct sw_searcher *s, bool segments)
{
    struct sw_orders *orders = sw_program_cache_orders(s->cache);
    if (s->segments == segments)
        return;
    s->segments = orders->segments = segments;
    orders->count = 0;
}

/* True if segments may shorten a step by more than the margin: at best nothing waits. */
static bool may_gain(const struct sw_searcher *s, const struct sw_candidate *c)
{
    double waits = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        waits += c->cost.exposed_seconds[a];
    return c->reason == SW_FITS && s->run->cluster.placement.segments &&
           c->cost.step_seconds > (c->cost.step_seconds - waits) * (1 + s->run->prefer_within);
}

int sw_search_segments(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err)
{
    const double apart = out->cost.step_seconds;
    struct sw_candidate placed = *out;
    if (!may_gain(s, out))
        return 0;
    sw_searcher_use_segments(s, true);
    const int status = sw_search_with_headroom(s, preferences, &placed, err);
    sw_searcher_use_segments(s, false);
    if (status != 0 || placed.reason != SW_FITS ||
        placed.cost.step_seconds * (1 + s->run->prefer_within) >= apart)
        return status;
    *out = placed;
    out->apart_seconds = apart;
    return 0;
}
