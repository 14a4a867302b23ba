/* Options of one mesh with one sharding, found without trying all: recomputation level,
 * micro-batch, strategy of attention over sp, residual_seq and axis order make some hundreds for
 * each mesh.
 *
 * All options are guessed, and priced in the order of guesses until these, corrected by the prices
 * so far, are slower than the best price; each micro-batch with the least recomputation that fits
 * (recompute.c); then the axis orders of the best (order.c). Every mesh is searched alone, so its
 * result does not depend on other meshes. A mesh is rejected for memory only if no variant fits
 * with its smallest options: memory grows with less recomputation and larger micro-batches. */
#include "core/cost/links.h"
#include "planner/search/mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Guess of memory over the limit, above which an option is not tried. */
static const double try_up_to = 1.5;
/* Guess of time over the best price, above which an option is not priced: corrected by a price of
 * its variant (without one: SW_WORTH_PRICING), then by a price of a tried option. */
static const double worth_fitting = 1.10, worth_another = 1.02;
/* The same for a mesh that the batch does not fill: a larger micro-batch may pay for its padding
 * with fewer gathers of weights, and guesses are less accurate. */
static const double worth_padded = 1.25;
/* The same for a residual_seq without a price, over the guess at the best price: both guesses have
 * the same errors. */
static const double worth_beside = 1.05;
/* Price over the best, up to which another axis order may reach the best. */
static const double another_order_up_to = 1.3;

/* The best of a way that fits so far; NULL: none. */
static const struct sw_candidate *best_of(const struct sw_mesh_search *l, int32_t way)
{
    const struct sw_candidate *one = &l->best[way][0], *other = &l->best[way][1];
    const bool fits = one->reason == SW_FITS, other_fits = other->reason == SW_FITS;
    if (fits && other_fits)
        return other->cost.step_seconds < one->cost.step_seconds ? other : one;
    return fits ? one : other_fits ? other : NULL;
}

/* Best seconds so far; INFINITY: none fits. */
static double best_seconds(const struct sw_mesh_search *l)
{
    const double one = sw_candidate_seconds(best_of(l, SW_ONE_RING)),
                 rings = sw_candidate_seconds(best_of(l, SW_OF_RINGS));
    return one < rings ? one : rings;
}

/* Prices one option and keeps it if faster. */
static int attempt(struct sw_searcher *s, struct sw_mesh_search *l, const struct sw_option *option,
                   double *seconds, struct sw_error *err)
{
    struct sw_decision decision = l->base[option->variant];
    struct sw_candidate *best =
        &l->best[sw_way_is_of_rings(option->variant)][decision.train.residual_seq_tp];
    struct sw_candidate c;
    decision.train.micro_batch_size = option->micro_batch_size;
    if (sw_mesh_search_fit(s, l, option->variant, &decision, sw_candidate_seconds(best), &c, err) !=
        0)
        return -1;
    *seconds = sw_candidate_seconds(&c);
    if (*seconds < best_seconds(l))
        l->guess_at_best = option->seconds;
    if (c.reason == SW_FITS &&
        (best->reason != SW_FITS || c.cost.step_seconds < best->cost.step_seconds))
        *best = c;
    return 0;
}

/* Guesses the options of one way. Returns their number, -1: err. */
static int32_t look_at(struct sw_searcher *s, struct sw_mesh_search *l, int32_t way,
                       struct sw_option *options, struct sw_error *err)
{
    const int32_t variant = way / SW_RING_WAYS;
    struct sw_sized sized;
    struct sw_compute compute;
    const struct sw_decision smallest =
        sw_searcher_smallest(s, l->mesh, &l->preference->variant[variant]);
    if (sw_searcher_size(s, &smallest, &sized, err) != 0)
        return -1;
    l->hopeless = sized.reason == SW_REJECT_BATCH; /* for any variant */
    if (sized.program == NULL)
        return 0;
    if (l->closest < 0 || sized.least_bytes < l->least_bytes) {
        l->closest = variant;
        l->least_bytes = sized.least_bytes;
    }
    /* for any variant, too; without headroom, which a mesh named by the run may use: the smallest
     * is the same then */
    l->hopeless = sw_searcher_state_bytes(s, &sized) > s->run->cluster.accelerator.memory_bytes;
    if (l->hopeless || sw_searcher_lacks_memory(s, &sized))
        return 0;
    sw_guess_compute(&sized, s->run, &compute);
    const int32_t count =
        sw_way_guess(s, &sized, way, &compute, true, &l->guess[way], options, err);
    l->base[way] = sized.decision;
    l->base[way].train.inner_ring = l->guess[way].inner_ring;
    return count;
}

/* For a way: micro-batches known to fit without recomputation (a smaller one is no faster, unless
 * it has less padding) and not to fit; its last price, and the guess for it. */
struct known {
    int64_t fits, fails;
    double seconds, guess; /* 0: none yet */
    bool tried;            /* true if that price is of a listed option */
};

/* Prices a way's smallest options, whose program exists, if there is no other price. */
static int price_smallest(struct sw_searcher *s, const struct sw_mesh_search *l, int32_t way,
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

/* True if an option differs from the best ones in recomputation only. */
static bool is_like(const struct sw_mesh_search *l, const struct sw_option *o)
{
    const struct sw_decision *d = l->like;
    return d != NULL && o->micro_batch_size == d->train.micro_batch_size &&
           sw_variant_is_of(&l->preference->variant[o->variant / SW_RING_WAYS], d) &&
           sw_way_is_of_rings(o->variant) == (d->train.inner_ring > 0);
}

/* True if an option may be the best: by its guess, and by its guess corrected by a price of its
 * variant. */
static int is_worth(struct sw_searcher *s, const struct sw_mesh_search *l,
                    const struct sw_option *o, struct known *k, bool *worth, struct sw_error *err)
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

static int search_options(struct sw_searcher *s, struct sw_mesh_search *l,
                          const struct sw_option *options, int32_t count, struct sw_error *err)
{
    struct known known[SW_MOST_WAYS];
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

/* Searches the options of variants [first, end), all with one ring or all with inner rings. may_fit
 * (may be NULL): true for variants with any. */
static int search_either(struct sw_searcher *s, struct sw_mesh_search *l, int32_t first,
                         int32_t end, int32_t rings, bool may_fit[SW_MAX_VARIANTS],
                         struct sw_error *err)
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

/* Searches the options of variants [first, end) with one ring, and if none fits, prices their
 * smallest. */
static int search_variants(struct sw_searcher *s, struct sw_mesh_search *l, int32_t first,
                           int32_t end, struct sw_error *err)
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

/* Rejects the mesh with the closest variant. */
static int reject(struct sw_searcher *s, const struct sw_mesh_search *l, struct sw_candidate *out,
                  struct sw_error *err)
{
    struct sw_sized sized;
    const struct sw_decision decision =
        sw_searcher_smallest(s, l->mesh, &l->preference->variant[l->closest < 0 ? 0 : l->closest]);
    if (sw_searcher_size(s, &decision, &sized, err) != 0)
        return -1;
    return sw_searcher_price(s, &sized, false, out, err);
}

/* Searches the unlikely variants if no likely one fits; else, among them, the one that attends like
 * the best, with the other residual_seq. */
static int search_others(struct sw_searcher *s, struct sw_mesh_search *l, struct sw_error *err)
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

/* Tries the result with other axis orders and other rings. */
static int search_around(struct sw_searcher *s, struct sw_mesh_search *l, struct sw_candidate *out,
                         struct sw_error *err)
{
    const double best[SW_RING_WAYS] = {sw_candidate_seconds(best_of(l, SW_ONE_RING)),
                                       best_seconds(l)};
    out->reason = SW_REJECT_MEMORY;
    for (int32_t i = 0; i < SW_RING_WAYS * 2; i++) {
        struct sw_candidate *c = &l->best[i / 2][i % 2];
        const double up_to = i / 2 == SW_OF_RINGS ? worth_another : another_order_up_to;
        if (c->reason != SW_FITS || c->cost.step_seconds > up_to * best[i / 2])
            continue;
        if (sw_search_orders(s, c, err) != 0 || sw_search_rings(s, l, c, err) != 0)
            return -1;
        if (out->reason != SW_FITS || c->cost.step_seconds < out->cost.step_seconds)
            *out = *c;
    }
    return 0;
}

int sw_search_within_limit(struct sw_searcher *s, struct sw_preferences *preferences, double up_to,
                           const struct sw_decision *like, struct sw_candidate *out,
                           struct sw_error *err)
{
    const struct sw_preference *preference =
        sw_search_prefer(s, &out->decision.mesh, preferences, err);
    if (preference == NULL)
        return -1;
    struct sw_mesh mesh = out->decision.mesh;
    struct sw_mesh_search l; /* large: `sequences` and `reason` mark filled entries */
    l.preference = preference;
    l.mesh = &mesh;
    l.closest = -1;
    l.least_bytes = 0;
    l.guess_at_best = 0;
    l.up_to = up_to;
    l.like = like;
    l.hopeless = false;
    for (int32_t i = 0; i < SW_MOST_WAYS; i++)
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

/* If nothing keeps the headroom, also searches for options that use it up: a mesh named by the run
 * may use it. Full recomputation, by which a mesh is rejected, does not always need least: if
 * smaller options turn up, they keep the headroom after all. */
int sw_search_with_headroom(struct sw_searcher *s, struct sw_preferences *preferences,
                            struct sw_candidate *out, struct sw_error *err)
{
    int status = sw_search_within_limit(s, preferences, INFINITY, NULL, out, err);
    if (status != 0 || out->reason != SW_REJECT_MEMORY ||
        (!s->asked && out->memory.total > s->run->cluster.accelerator.memory_bytes))
        return status;
    struct sw_candidate wide = *out;
    s->spends_headroom = true;
    status = sw_search_within_limit(s, preferences, INFINITY, NULL, &wide, err);
    s->spends_headroom = false;
    if (status == 0 &&
        (s->asked || (wide.reason == SW_FITS && wide.memory.total <= sw_searcher_limit(s))))
        *out = wide;
    return status;
}
