/* How the options of one mesh are chosen without trying all of them: recompute level, micro-batch,
 * how sp attends, residual_seq and axis order make some hundreds for each mesh.
 *
 * All options are guessed, fastest guess first, and priced until the guesses, corrected by the
 * prices so far, are slower than the best price; each micro-batch with as little made again as fits
 * (recompute.c); then the axis orders of the best. Every mesh is searched so, by itself: the answer
 * for a mesh does not depend on which others were asked for. A mesh is rejected for memory only
 * when no variant fits with its smallest options: memory grows with less recomputation and larger
 * micro-batches. */
#include "core/cost/links.h"
#include "core/plan/sharding.h"
#include "planner/search/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ORDERS = 3, MOST_WAYS = SW_RING_WAYS * SW_MAX_VARIANTS };
/* Guesses of memory may be this far off before an option is not even tried. */
static const double try_up_to = 1.5;
/* And guesses of time: of an option against the best price as corrected by a price (at first:
 * SW_WORTH_PRICING); of an axis order against the guess at the best one. */
static const double worth_fitting = 1.10, worth_another = 1.02, worth_ordering = 1.002;
/* Of an option of a mesh that the batch does not fill: a larger micro-batch may pay for its padding
 * with fewer gathers of weights, and its guess be further off. */
static const double worth_padded = 1.25;
/* And of either residual_seq: what a guess leaves out, both lack. Of one without a price, against
 * the guess at the best price. */
static const double worth_beside = 1.05;
/* Share of a step that waits for dp from which on moments over dp, too, may be faster. */
static const double worth_dp = 0.01;
/* Less memory is worth so much more time: once this part of it is free, no more. Steps of memory:
 * as near as what needs least is looked for. */
static const double spare_for = 1.01;
enum { SPARE_PART = 5, SPARE_STEPS = 200 };
/* A price that another axis order may bring down to the best. */
static const double another_order_up_to = 1.3;

/* What makes everything again need not need least: below the limit other levels may fit. */
static bool hopeless(const struct sw_searcher *s, const struct sw_sized *sized)
{
    return sized->least_bytes >
           (s->most_bytes > 0 ? s->run->cluster.accelerator.memory_bytes : sw_searcher_limit(s));
}

/* What is known while a mesh is searched. */
struct looking {
    const struct sw_preference *preference;
    const struct sw_mesh *mesh;
    struct sw_decision base[MOST_WAYS]; /* smallest options, in the order guessed best */
    struct sw_guess guess[MOST_WAYS];   /* from them */
    int32_t closest;                    /* variant that needs least; -1: none is admitted */
    int64_t least_bytes;
    /* of either residual_seq, and of either way: which suits depends on the axis order */
    struct sw_candidate best[SW_RING_WAYS][2];
    double guess_at_best;           /* of all; 0: none fits yet */
    double up_to;                   /* seconds beyond which nothing is looked for */
    const struct sw_decision *like; /* options that are tried whatever is guessed; NULL: none */
    bool hopeless; /* the state alone does not fit, headroom or not, or the batch does not */
};

/* NULL, or it does not fit: INFINITY. */
static double seconds_of(const struct sw_candidate *c)
{
    return c != NULL && c->reason == SW_FITS ? c->cost.step_seconds : INFINITY;
}

/* The best of a way that fits so far; NULL: none does. */
static const struct sw_candidate *best_of(const struct looking *l, int32_t way)
{
    const struct sw_candidate *one = &l->best[way][0], *other = &l->best[way][1];
    const bool fits = one->reason == SW_FITS, other_fits = other->reason == SW_FITS;
    if (fits && other_fits)
        return other->cost.step_seconds < one->cost.step_seconds ? other : one;
    return fits ? one : other_fits ? other : NULL;
}

/* Of all so far; INFINITY: none fits. */
static double best_seconds(const struct looking *l)
{
    const double one = seconds_of(best_of(l, SW_ONE_RING)),
                 rings = seconds_of(best_of(l, SW_OF_RINGS));
    return one < rings ? one : rings;
}

/* Prices a decision when it may fit. */
static int price(struct sw_searcher *s, const struct sw_decision *decision, struct sw_candidate *c,
                 struct sw_error *err)
{
    struct sw_sized sized;
    c->reason = SW_REJECT_MEMORY;
    if (sw_searcher_size(s, decision, &sized, err) != 0)
        return -1;
    if (sized.program == NULL || hopeless(s, &sized))
        return 0;
    return sw_searcher_price(s, &sized, false, c, err);
}

/* Prices a decision with as little made again as fits, by the guess of a way that is like it; where
 * it is no faster `than` so many seconds, no more than that is told of it. */
static int fit(struct sw_searcher *s, const struct looking *l, int32_t way,
               const struct sw_decision *decision, double than, struct sw_candidate *c,
               struct sw_error *err)
{
    const struct sw_guess *guess = &l->guess[way];
    struct sw_option option = {.micro_batch_size = decision->train.micro_batch_size};
    if (guess->levels.count == 0)
        return price(s, decision, c, err);
    sw_guess_option(guess, &option);
    const double times = (double)option.micro_batch_size / guess->sequences;
    return sw_searcher_fit(s, decision, &guess->levels, times, option.level, guess->limit_bytes,
                           than, c, err);
}

/* Prices one option and keeps it when it is faster. */
static int attempt(struct sw_searcher *s, struct looking *l, const struct sw_option *option,
                   double *seconds, struct sw_error *err)
{
    struct sw_decision decision = l->base[option->variant];
    struct sw_candidate *best =
        &l->best[sw_way_is_of_rings(option->variant)][decision.train.residual_seq_tp];
    struct sw_candidate c;
    decision.train.micro_batch_size = option->micro_batch_size;
    if (fit(s, l, option->variant, &decision, seconds_of(best), &c, err) != 0)
        return -1;
    *seconds = seconds_of(&c);
    if (*seconds < best_seconds(l))
        l->guess_at_best = option->seconds;
    if (c.reason == SW_FITS &&
        (best->reason != SW_FITS || c.cost.step_seconds < best->cost.step_seconds))
        *best = c;
    return 0;
}

/* Guesses the options of one way. Returns how many, -1: err. */
static int32_t look_at(struct sw_searcher *s, struct looking *l, int32_t way,
                       struct sw_option *options, struct sw_error *err)
{
    const int32_t variant = way / SW_RING_WAYS;
    struct sw_sized sized;
    struct sw_compute compute;
    const struct sw_decision smallest =
        sw_searcher_smallest(s, l->mesh, &l->preference->variant[variant]);
    if (sw_searcher_size(s, &smallest, &sized, err) != 0)
        return -1;
    l->hopeless = sized.reason == SW_REJECT_BATCH; /* whatever the variant */
    if (sized.program == NULL)
        return 0;
    if (l->closest < 0 || sized.least_bytes < l->least_bytes) {
        l->closest = variant;
        l->least_bytes = sized.least_bytes;
    }
    /* whatever the variant, too; with the headroom up, as a mesh that is asked for may have it: the
     * one that needs least is the same then */
    l->hopeless = sw_searcher_state_bytes(s, &sized) > s->run->cluster.accelerator.memory_bytes;
    if (l->hopeless || hopeless(s, &sized))
        return 0;
    sw_guess_compute(&sized, s->run, &compute);
    const int32_t count =
        sw_way_guess(s, &sized, way, &compute, true, &l->guess[way], options, err);
    l->base[way] = sized.decision;
    l->base[way].train.inner_ring = l->guess[way].inner_ring;
    return count;
}

/* For a way: micro-batches known to fit with nothing made again (a smaller one is no faster,
 * unless it has less padding) and not to fit; its last price, and the guess at that. */
struct known {
    int64_t fits, fails;
    double seconds, guess; /* 0: none yet */
    bool tried;            /* that price is one of those that are looked for */
};

/* Prices a way's smallest options, whose program is there already, for want of another price.
 */
static int price_smallest(struct sw_searcher *s, const struct looking *l, int32_t way,
                          struct known *k, struct sw_error *err)
{
    const struct sw_decision *base = &l->base[way];
    const struct sw_guess *guess = &l->guess[way];
    struct sw_sized sized;
    struct sw_cost cost;
    if (sw_searcher_size(s, base, &sized, err) != 0 || sw_searcher_time(s, &sized, &cost, err) != 0)
        return -1;
    k->seconds = cost.step_seconds;
    k->guess =
        sw_guess_seconds(guess, base->train.micro_batch_size, sw_levels_last(&guess->levels));
    return 0;
}

static bool is_variant_of(const struct sw_variant *v, const struct sw_decision *decision)
{
    return v->strategy == decision->train.strategy && v->layout == decision->train.layout &&
           v->residual_seq_tp == decision->train.residual_seq_tp;
}

/* True if an option differs from those at hand in what is made again alone. */
static bool is_like(const struct looking *l, const struct sw_option *o)
{
    const struct sw_decision *d = l->like;
    return d != NULL && o->micro_batch_size == d->train.micro_batch_size &&
           is_variant_of(&l->preference->variant[o->variant / SW_RING_WAYS], d) &&
           sw_way_is_of_rings(o->variant) == (d->train.inner_ring > 0);
}

/* Whether an option may be the best: by its guess, and by its guess as a price of its variant
 * corrects it. */
static int is_worth(struct sw_searcher *s, const struct looking *l, const struct sw_option *o,
                    struct known *k, bool *worth, struct sw_error *err)
{
    const double found = best_seconds(l), best = found < l->up_to ? found : l->up_to;
    const double limit = (double)sw_searcher_limit(s);
    const struct sw_guess *g = &l->guess[o->variant];
    const bool slower = o->micro_batch_size <= k->fits &&
                        sw_guess_places(g, o->micro_batch_size) >= sw_guess_places(g, k->fits);
    const bool residual = l->base[o->variant].train.residual_seq_tp;
    const bool beside = l->best[sw_way_is_of_rings(o->variant)][residual].reason != SW_FITS &&
                        o->seconds <= worth_beside * l->guess_at_best;
    *worth = is_like(l, o);
    if (*worth)
        return 0;
    if (o->bytes > try_up_to * limit || slower ||
        (k->fails > 0 && o->micro_batch_size >= k->fails) ||
        (k->guess == 0 && !beside && o->seconds > SW_WORTH_PRICING * best))
        return 0;
    if (k->guess == 0 && !beside && !isinf(found) && !sw_way_is_of_rings(o->variant) &&
        price_smallest(s, l, o->variant, k, err) != 0)
        return -1;
    const double up_to = (g->padded  ? worth_padded
                          : k->tried ? worth_another
                                     : worth_fitting) *
                         best;
    *worth = beside || k->guess == 0 || o->seconds * k->seconds / k->guess <= up_to;
    return 0;
}

static int search_options(struct sw_searcher *s, struct looking *l, const struct sw_option *options,
                          int32_t count, struct sw_error *err)
{
    struct known known[MOST_WAYS];
    memset(known, 0, sizeof known);
    for (int32_t i = 0; i < count; i++) {
        const struct sw_option *o = &options[i];
        struct known *k = &known[o->variant];
        bool worth;
        double seconds;
        if (is_worth(s, l, o, k, &worth, err) != 0 ||
            (worth && attempt(s, l, o, &seconds, err) != 0))
            return -1;
        if (!worth)
            continue;
        if (isinf(seconds)) {
            k->fails = o->micro_batch_size;
            continue;
        }
        k->fits = o->level == 0 ? o->micro_batch_size : k->fits;
        k->seconds = seconds;
        k->guess = o->seconds;
        k->tried = true;
    }
    return 0;
}

/* The variants [first, end), all of one ring or of rings: their options. may_fit (may be NULL):
 * which have any. */
static int search_either(struct sw_searcher *s, struct looking *l, int32_t first, int32_t end,
                         int32_t rings, bool may_fit[SW_MAX_VARIANTS], struct sw_error *err)
{
    struct sw_option options[SW_MAX_VARIANTS * SW_MAX_MICRO_BATCHES];
    int32_t count = 0;
    for (int32_t i = first; i < end && !l->hopeless; i++) {
        if (rings == SW_OF_RINGS && !l->preference->rings[i])
            continue;
        const int32_t added = look_at(s, l, sw_way_make(i, rings), &options[count], err);
        if (added < 0)
            return -1;
        if (may_fit != NULL)
            may_fit[i] = added > 0;
        count += added;
    }
    qsort(options, (size_t)count, sizeof *options, sw_guess_compare);
    return search_options(s, l, options, count, err);
}

/* The variants [first, end) of one ring: their options, and where none fits their smallest. */
static int search_variants(struct sw_searcher *s, struct looking *l, int32_t first, int32_t end,
                           struct sw_error *err)
{
    bool may_fit[SW_MAX_VARIANTS] = {false};
    double seconds;
    if (search_either(s, l, first, end, SW_ONE_RING, may_fit, err) != 0)
        return -1;
    for (int32_t i = first; i < end && isinf(best_seconds(l)) && isinf(l->up_to); i++) {
        const int32_t way = sw_way_make(i, SW_ONE_RING);
        const struct sw_option least = {.micro_batch_size = l->base[way].train.micro_batch_size,
                                        .variant = way};
        if (may_fit[i] && attempt(s, l, &least, &seconds, err) != 0)
            return -1;
    }
    return 0;
}

/* Orders of the best decision's axes, best guess first, with the guesses. Returns how many, -1:
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

/* The best decision on other axis orders: the same program, priced again, where inner rings are as
 * long. */
static int search_orders(struct sw_searcher *s, struct sw_candidate *best, struct sw_error *err)
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
    double last = -1; /* priced: orders that lie on the links alike are guessed alike */
    for (int32_t i = 0; i < count; i++)
        if (memcmp(order[i].order, found.mesh.order, sizeof order[i].order) == 0)
            last = guess[i];
    for (int32_t i = 0; i < count && i < MOST_ORDERS && guess[i] <= worth_ordering * guess[0];
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

static bool is_known(const struct looking *l, int32_t way)
{
    return l->guess[way].sequences > 0;
}

/* Keeps a decision where it fits and is faster by so much. */
static int keep_faster(struct sw_searcher *s, const struct sw_decision *decision, double times,
                       struct sw_candidate *best, bool *fits, struct sw_error *err)
{
    struct sw_candidate c;
    if (price(s, decision, &c, err) != 0)
        return -1;
    *fits = c.reason == SW_FITS;
    if (*fits && c.cost.step_seconds * times < best->cost.step_seconds)
        *best = c;
    return 0;
}

/* The best decision with its ring made of inner rings. Where their blocks do not fit, more is made
 * again. */
static int try_rings(struct sw_searcher *s, const struct looking *l, struct sw_candidate *best,
                     struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_decision decision = best->decision;
    struct sw_candidate c;
    bool fits;
    int32_t i = 0;
    decision.train.inner_ring = sw_links_inner_ring(&s->run->cluster, &decision.mesh, sp);
    if (keep_faster(s, &decision, worth_ordering, best, &fits, err) != 0)
        return -1;
    while (!is_variant_of(&l->preference->variant[i], &decision))
        i++;
    if (fits || !is_known(l, sw_way_make(i, SW_ONE_RING)))
        return 0;
    if (fit(s, l, sw_way_make(i, SW_ONE_RING), &decision, INFINITY, &c, err) != 0)
        return -1;
    if (c.reason == SW_FITS && c.cost.step_seconds * worth_ordering < best->cost.step_seconds)
        *best = c;
    return 0;
}

/* The strategies that have no ring, on the best decision's order of axes. */
static int try_others(struct sw_searcher *s, const struct looking *l, struct sw_candidate *best,
                      struct sw_error *err)
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

/* The best decision of one ring with that made of inner rings, on its order of axes, where compute
 * waits for it. Another order may have been the best for that: where it is faster, the other ways
 * to attend are looked at on this one. */
static int search_rings(struct sw_searcher *s, const struct looking *l, struct sw_candidate *best,
                        struct sw_error *err)
{
    const struct sw_decision *d = &best->decision;
    if (d->train.inner_ring > 0 || !sw_may_be_of_rings(s, &d->mesh, d->train.strategy, false) ||
        best->cost.exposed_seconds[SW_SP] < (worth_ordering - 1) * best->cost.step_seconds)
        return 0;
    if (try_rings(s, l, best, err) != 0)
        return -1;
    return d->train.inner_ring > 0 ? try_others(s, l, best, err) : 0;
}

/* What a rejected mesh is rejected with: the variant that comes closest. */
static int reject(struct sw_searcher *s, const struct looking *l, struct sw_candidate *out,
                  struct sw_error *err)
{
    struct sw_sized sized;
    const struct sw_decision decision =
        sw_searcher_smallest(s, l->mesh, &l->preference->variant[l->closest < 0 ? 0 : l->closest]);
    if (sw_searcher_size(s, &decision, &sized, err) != 0)
        return -1;
    return sw_searcher_price(s, &sized, false, out, err);
}

/* The variants that were not likely, where none of those fits; else of them the one that attends as
 * the best does, with the other residual_seq. */
static int search_others(struct sw_searcher *s, struct looking *l, struct sw_error *err)
{
    const struct sw_preference *p = l->preference;
    const struct sw_candidate *best = best_of(l, SW_ONE_RING);
    if (best == NULL)
        return search_variants(s, l, p->likely, p->count, err);
    const enum sw_attention_strategy strategy = best->decision.train.strategy;
    for (int32_t i = p->likely; i < p->count; i++)
        if (p->variant[i].strategy == strategy)
            return search_variants(s, l, i, i + 1, err);
    return 0;
}

/* What was found, on other orders of axes and with other rings. */
static int search_around(struct sw_searcher *s, struct looking *l, struct sw_candidate *out,
                         struct sw_error *err)
{
    const double best[SW_RING_WAYS] = {seconds_of(best_of(l, SW_ONE_RING)), best_seconds(l)};
    out->reason = SW_REJECT_MEMORY;
    for (int32_t i = 0; i < SW_RING_WAYS * 2; i++) {
        struct sw_candidate *c = &l->best[i / 2][i % 2];
        const double up_to = i / 2 == SW_OF_RINGS ? worth_another : another_order_up_to;
        if (c->reason != SW_FITS || c->cost.step_seconds > up_to * best[i / 2])
            continue;
        if (search_orders(s, c, err) != 0 || search_rings(s, l, c, err) != 0)
            return -1;
        if (out->reason != SW_FITS || c->cost.step_seconds < out->cost.step_seconds)
            *out = *c;
    }
    return 0;
}

/* up_to: seconds; where nothing is found that is as fast, less is told of what is not. like (may be
 * NULL): options that are among those that may be. */
static int search_within_limit(struct sw_searcher *s, struct sw_preferences *preferences,
                               double up_to, const struct sw_decision *like,
                               struct sw_candidate *out, struct sw_error *err)
{
    const struct sw_preference *preference =
        sw_search_prefer(s, &out->decision.mesh, preferences, err);
    if (preference == NULL)
        return -1;
    struct sw_mesh mesh = out->decision.mesh;
    struct looking l; /* large: what is filled in is told by `sequences` and `reason` */
    l.preference = preference;
    l.mesh = &mesh;
    l.closest = -1;
    l.least_bytes = 0;
    l.guess_at_best = 0;
    l.up_to = up_to;
    l.like = like;
    l.hopeless = false;
    for (int32_t i = 0; i < MOST_WAYS; i++)
        l.guess[i].sequences = l.guess[i].levels.count = 0;
    if (!s->keep_order)
        mesh =
            sw_mesh_make(mesh.size[SW_DP], mesh.size[SW_FSDP], mesh.size[SW_TP], mesh.size[SW_SP]);
    mesh.domain = s->segments ? sw_links_segment(&s->run->cluster, &mesh) : 0;
    for (int32_t i = 0; i < SW_RING_WAYS * 2; i++)
        l.best[i / 2][i % 2].reason = SW_REJECT_MEMORY;
    if (search_variants(s, &l, 0, preference->likely, err) != 0 || search_others(s, &l, err) != 0)
        return -1;
    if (best_of(&l, SW_ONE_RING) == NULL && isinf(up_to))
        return reject(s, &l, out, err);
    if (search_either(s, &l, 0, preference->count, SW_OF_RINGS, NULL, err) != 0)
        return -1;
    return search_around(s, &l, out, err);
}

/* Where nothing keeps the headroom, what uses it up is looked for, too: a mesh that is asked for
 * may use it. And making everything again, which a mesh is rejected by, is not always what needs
 * least: where that is found now, it keeps the headroom after all. */
static int search_with_headroom(struct sw_searcher *s, struct sw_preferences *preferences,
                                struct sw_candidate *out, struct sw_error *err)
{
    int status = search_within_limit(s, preferences, INFINITY, NULL, out, err);
    if (status != 0 || out->reason != SW_REJECT_MEMORY ||
        (!s->asked && out->memory.total > s->run->cluster.accelerator.memory_bytes))
        return status;
    struct sw_candidate wide = *out;
    s->spends_headroom = true;
    status = search_within_limit(s, preferences, INFINITY, NULL, &wide, err);
    s->spends_headroom = false;
    if (status == 0 &&
        (s->asked || (wide.reason == SW_FITS && wide.memory.total <= sw_searcher_limit(s))))
        *out = wide;
    return status;
}

/* True if the options of another sharding are the better ones for the mesh: those that keep the
 * headroom, then the faster ones; where none fit, those that need less. */
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

/* True if options fit with nothing made again, and hardly wait for dp: moments over dp too then
 * gain nothing. */
static bool gains_by_memory_alone(const struct sw_candidate *c)
{
    return c->reason == SW_FITS && sw_memory_verdict(&c->memory) == SW_VERDICT_FITS &&
           sw_recompute_equal(c->decision.train.recompute, sw_recompute_none()) &&
           c->cost.exposed_seconds[SW_DP] < worth_dp * c->cost.step_seconds;
}

/* The best of the run's shardings, which is the one that is looked at from then on. */
static int search_shardings(struct sw_searcher *s, struct sw_preferences *preferences,
                            struct sw_candidate *out, struct sw_error *err)
{
    struct sw_sharding_decision choice[SW_SHARDINGS];
    const int32_t count = sw_plan_shardings(s->run, &out->decision.mesh, choice, err);
    if (count < 0)
        return -1;
    s->sharding = choice[0];
    int status = search_with_headroom(s, preferences, out, err);
    for (int32_t i = 1; i < count && status == 0; i++) {
        struct sw_candidate c = {.decision.mesh = out->decision.mesh};
        if (choice[i].moments_over_dp && gains_by_memory_alone(out))
            continue;
        s->sharding = choice[i];
        status = search_with_headroom(s, preferences, &c, err);
        if (status == 0 && is_better(&c, out))
            *out = c;
    }
    s->sharding = out->decision.train.sharding;
    return status;
}

int sw_search_sharding(struct sw_searcher *s, struct sw_preferences *preferences,
                       struct sw_candidate *out, struct sw_error *err)
{
    const int status = search_within_limit(s, preferences, INFINITY, NULL, out, err);
    out->fastest_seconds = out->cost.step_seconds;
    out->fastest_bytes = out->memory.total;
    return status;
}

static void use_segments(struct sw_searcher *s, bool segments)
{
    struct sw_orders *orders = sw_program_cache_orders(s->cache);
    if (s->segments == segments)
        return;
    s->segments = orders->segments = segments;
    orders->count = 0;
}

/* True if segments may make a step shorter by more than the margin: at best nothing waits. */
static bool may_gain(const struct sw_searcher *s, const struct sw_candidate *c)
{
    double waits = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        waits += c->cost.exposed_seconds[a];
    return c->reason == SW_FITS && s->run->cluster.placement.segments &&
           c->cost.step_seconds > (c->cost.step_seconds - waits) * (1 + s->run->prefer_within);
}

/* The same in segments, where without them the step takes longer by more than the margin: a job
 * that asks for them may wait. */
static int search_segments(struct sw_searcher *s, struct sw_preferences *preferences,
                           struct sw_candidate *out, struct sw_error *err)
{
    const double apart = out->cost.step_seconds;
    struct sw_candidate placed = *out;
    if (!may_gain(s, out))
        return 0;
    use_segments(s, true);
    const int status = search_with_headroom(s, preferences, &placed, err);
    use_segments(s, false);
    if (status != 0 || placed.reason != SW_FITS ||
        placed.cost.step_seconds * (1 + s->run->prefer_within) >= apart)
        return status;
    *out = placed;
    out->apart_seconds = apart;
    return 0;
}

int sw_search_mesh(struct sw_searcher *s, struct sw_preferences *preferences,
                   struct sw_candidate *out, struct sw_error *err)
{
    const bool asked = s->run->cluster.placement.asked > 0;
    use_segments(s, asked);
    int status = search_shardings(s, preferences, out, err);
    if (status == 0 && !asked)
        status = search_segments(s, preferences, out, err);
    out->fastest_seconds = out->cost.step_seconds;
    out->fastest_bytes = out->memory.total;
    return status;
}

/* ---- tp inside the fastest link domain ---- */

bool sw_search_is_settled(const struct sw_searcher *s, const struct sw_candidate *c)
{
    const int32_t *size = c->decision.mesh.size;
    const struct sw_mesh inner = sw_mesh_make(size[SW_DP], size[SW_FSDP], size[SW_TP], size[SW_SP]);
    return s->keep_order || s->run->prefer != SW_PREFER_FSDP || c->order_settled ||
           !c->tp_leaves_domain || sw_search_tp_leaves(&s->run->cluster, &inner);
}

/* The decision in every order that keeps tp inside: the fastest that fits is kept where it is
 * faster than the best. */
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
            sw_searcher_price_faster(s, &sized, seconds_of(best), &c, err) != 0)
            return -1;
        if (c.reason == SW_FITS && c.cost.step_seconds < seconds_of(best))
            *best = c;
    }
    return 0;
}

int sw_search_settle_order(struct sw_searcher *s, struct sw_candidate *c, struct sw_error *err)
{
    const double up_to = c->fastest_seconds * (1 + s->run->prefer_within);
    struct sw_preferences preferences = {.count = 0};
    struct sw_candidate inside = *c;
    use_segments(s, c->decision.mesh.domain > 0);
    s->sharding = c->decision.train.sharding;
    s->spends_headroom = c->memory.total > sw_searcher_limit(s);
    s->tp_inside = true;
    int status = search_within_limit(s, &preferences, up_to, &c->decision, &inside, err);
    if (status == 0) /* orders are guessed badly where many axes share a link */
        status = price_inside(s, &c->decision, &inside, err);
    s->spends_headroom = s->tp_inside = false;
    use_segments(s, false);
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

/* ---- Memory that little time buys ---- */

/* What is looked for: options within `seconds`. */
struct sparing {
    struct sw_searcher *s;
    struct sw_preferences preferences;
    struct sw_sharding_decision sharding[SW_SHARDINGS]; /* [sharding_count] */
    int32_t sharding_count;
    double seconds;
    int64_t low;        /* bytes in which there are none */
    double low_seconds; /* of the fastest in these; 0: not known */
    bool found;
};

/* Layers that are not all made alike are two loops, which may take longer than one that makes more
 * again. */
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
    if (price(s, &decision, &whole, err) != 0)
        return -1;
    if (whole.reason == SW_FITS && whole.cost.step_seconds < c->cost.step_seconds)
        *c = whole;
    return 0;
}

/* The fastest options that need no more than so many bytes, where there are any, of all shardings
 * of the run. */
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
        status = search_within_limit(p->s, &p->preferences, up_to, same ? &out->decision : NULL, &c,
                                     err);
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

/* Bytes to try between p->low and those of the options at hand: where the time runs out if it grows
 * evenly; at least a step from both. */
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
    use_segments(s, c->decision.mesh.domain > 0);
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
    use_segments(s, false);
    return status;
}
