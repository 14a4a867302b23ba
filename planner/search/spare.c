/* Memory left free for little time: options of a chosen mesh that leave a fifth of the memory, or
 * need the least, for 1 % of a step. */
#include "core/plan/sharding.h"
#include "planner/search/mesh.h"

#include <math.h>

/* Factor of time that less memory is worth; part of memory to leave free, above which more is not
 * worth it; number of memory steps, of which one is the accuracy aimed at. */
static const double spare_for = 1.01;
enum { SPARE_PART = 5, SPARE_STEPS = 200 };

/* Goal: options within `seconds`. */
struct sparing {
    struct sw_searcher *s;
    struct sw_preferences preferences;
    struct sw_sharding_decision sharding[SW_SHARDINGS]; /* [sharding_count] */
    int32_t sharding_count;
    double seconds;
    int64_t low;        /* bytes in which no options fit */
    double low_seconds; /* seconds of the fastest in these; 0: unknown */
    bool found;
};

/* Tries equal recomputation in all layers: different layers are two loops, which may take longer
 * than more recomputation. */
static int try_whole(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err)
{
    const struct sw_recompute again = c->decision.train.recompute;
    const int32_t layers = s->run->model.shape.layers;
    struct sw_decision decision = c->decision;
    struct sw_candidate whole;
    if (!s->run->recompute_auto || c->reason != SW_FITS || again.layers >= layers)
        return 0;
    decision.train.recompute =
        sw_recompute_normal((struct sw_recompute){again.values, layers, again.rest}, layers);
    if (sw_searcher_try(s, &decision, &whole, err) != 0)
        return -1;
    if (whole.reason == SW_FITS && whole.cost.step_seconds < c->cost.step_seconds)
        *c = whole;
    return 0;
}

/* Finds the fastest options that need at most that many bytes, over all of the run's shardings. */
static int try_bytes(struct sparing *p, int64_t bytes, struct sw_candidate *out,
                     struct sw_error *err)
{
    struct sw_candidate best = {.reason = SW_REJECT_MEMORY};
    double up_to = p->seconds;
    int status = 0;
    p->s->most_bytes = bytes;
    for (int32_t i = 0; i < p->sharding_count && status == 0; i++) {
        struct sw_candidate c = *out;
        const bool same =
            sw_sharding_decisions_equal(&p->sharding[i], &out->decision.train.sharding);
        p->s->sharding = p->sharding[i];
        status = sw_search_within_limit(p->s, &p->preferences, up_to, same ? &out->decision : NULL,
                                        &c, err);
        if (status == 0)
            status = try_whole(p->s, &c, err);
        if (status != 0 || c.reason != SW_FITS ||
            (best.reason == SW_FITS && c.cost.step_seconds >= best.cost.step_seconds))
            continue;
        best = c;
        up_to = best.cost.step_seconds < up_to ? best.cost.step_seconds : up_to;
    }
    p->s->most_bytes = 0;
    p->found = status == 0 && best.reason == SW_FITS && best.cost.step_seconds <= p->seconds &&
               (out->tp_leaves_domain || !best.tp_leaves_domain);
    if (p->found) {
        best.fastest_seconds = out->fastest_seconds;
        best.fastest_bytes = out->fastest_bytes;
        best.passed_over = out->passed_over;
        best.order_settled = out->order_settled;
        best.may_be_chosen = out->may_be_chosen;
        best.apart_seconds = out->apart_seconds;
        *out = best;
    } else {
        p->low = bytes;
        p->low_seconds = status == 0 && best.reason == SW_FITS ? best.cost.step_seconds : 0;
    }
    return status;
}

/* Bytes to try between p->low and the current options': where the time limit is reached if time
 * grows evenly; at least a step from both. */
static int64_t between(const struct sparing *p, const struct sw_candidate *c, int64_t step)
{
    const double mine = c->cost.step_seconds, other = p->low_seconds;
    const double share = other > p->seconds ? (p->seconds - mine) / (other - mine) : 0.5;
    const int64_t high = c->memory.total - step;
    int64_t bytes = c->memory.total - (int64_t)(share * (double)(c->memory.total - p->low));
    bytes = bytes < p->low + step ? p->low + step : bytes;
    return bytes > high ? high : bytes;
}

int sw_search_spare(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err)
{
    const int64_t all = s->run->cluster.accelerator.memory_bytes, step = all / SPARE_STEPS;
    struct sparing p = {.s = s, .seconds = spare_for * c->fastest_seconds};
    p.low = all - all / SPARE_PART;
    if (c->reason != SW_FITS || sw_run_config_prefers_time(s->run) || c->memory.total <= p.low)
        return 0;
    const bool strict = s->tp_inside;
    sw_searcher_use_segments(s, c->decision.mesh.domain > 0);
    p.sharding_count = sw_plan_shardings(s->run, &c->decision.mesh, p.sharding, err);
    int status = p.sharding_count < 0 ? -1 : 0;
    s->tp_inside = strict || c->passed_over.seconds > 0;
    s->spends_headroom = c->memory.total > sw_searcher_limit(s);
    if (status == 0)
        status = try_bytes(&p, p.low, c, err);
    if (!p.found)
        while (status == 0 && c->memory.total - p.low > step)
            status = try_bytes(&p, between(&p, c, step), c, err);
    s->spends_headroom = false;
    s->tp_inside = strict;
    sw_searcher_use_segments(s, false);
    return status;
}
