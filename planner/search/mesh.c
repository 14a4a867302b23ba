/* How the options of one mesh are chosen without trying all of them: recompute level, micro-batch,
 * how sp attends, residual_seq and axis order make some hundreds for each mesh.
 *
 * All options are guessed, fastest guess first, and priced until the guesses, corrected by the
 * prices so far, are slower than the best price; each micro-batch with as little made again as fits
 * (recompute.c); then the axis orders of the best. Every mesh is searched so, by itself: the answer
 * for a mesh does not depend on which others were asked for. A mesh is rejected for memory only
 * when no variant fits with its smallest options: memory grows with less recomputation and larger
 * micro-batches.
 *
 * zigzag is tried and contiguous only where 2 x sp does not divide the sequence, or when the run
 * says so: zigzag loads all ranks alike and is never slower. */
#include "core/cost/links.h"
#include "planner/search/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a variant may be looked at: as it is, and where its ring may leave its nodes with that made
 * of inner rings, one node's ranks each. */
enum { ONE_RING, OF_RINGS, RING_WAYS };
enum {
    MAX_OPTIONS = SW_MAX_MICRO_BATCHES,
    MOST_ORDERS = 3,
    MOST_WAYS = RING_WAYS * SW_MAX_VARIANTS
};
/* Guesses of memory may be this far off before an option is not even tried. */
static const double try_up_to = 1.5;
/* And guesses of time: of an option against the best price, at first and as corrected by a price;
 * of an axis order against the guess at the best one, of a variant against the best variant. */
static const double worth_pricing = 1.10, worth_fitting = 1.10, worth_another = 1.02,
                    worth_ordering = 1.002, likely_up_to = 1.25;
/* Of an option of a mesh that the batch does not fill: a larger micro-batch may pay for its padding
 * with fewer gathers of weights, and its guess be further off. */
static const double worth_padded = 1.25;
/* A price that another axis order may bring down to the best. */
static const double another_order_up_to = 1.3;

static int32_t list_variants(const struct sw_searcher *s, const struct sw_mesh *mesh,
                             struct sw_variant out[SW_MAX_VARIANTS])
{
    static const enum sw_attention_strategy all[] = {SW_ATTENTION_RING, SW_ATTENTION_GATHER,
                                                     SW_ATTENTION_ULYSSES};
    const struct sw_run_config *run = s->run;
    const bool any = run->strategy == SW_ATTENTION_AUTO, split = mesh->size[SW_SP] > 1;
    const int64_t shards = mesh->size[SW_SP];
    const bool zigzag =
        run->layout == SW_ZIGZAG && !(any && split && run->sequence_length % (2 * shards) != 0);
    const bool residual = !s->residual_fixed && mesh->size[SW_TP] > 1;
    int32_t count = 0;
    for (int32_t i = 0; i < (any && split ? 3 : 1); i++)
        for (int32_t tp = 0; tp < (residual ? 2 : 1); tp++)
            out[count++] = (struct sw_variant){any ? all[i] : run->strategy,
                                               zigzag ? SW_ZIGZAG : SW_CONTIGUOUS,
                                               s->residual_fixed ? s->residual_tp : tp == 1};
    return count;
}

static int64_t sequences_per_rank(const struct sw_sized *sized)
{
    return sized->decision.train.micro_batch_size * sized->decision.train.accumulation_steps;
}

/* A variant of some way: 2 x variant + ONE_RING or OF_RINGS, by which options name it. */
static int32_t make_way(int32_t variant, int32_t rings)
{
    return RING_WAYS * variant + rings;
}

static bool is_of_rings(int32_t way)
{
    return way % RING_WAYS == OF_RINGS;
}

/* Whether a ring may be made of inner rings, on the mesh's order of axes or (any) on some. */
static bool may_be_of_rings(const struct sw_searcher *s, const struct sw_mesh *mesh,
                            enum sw_attention_strategy strategy, bool any)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_mesh order;
    bool may = false;
    if (strategy != SW_ATTENTION_RING)
        return false;
    if (!any || s->keep_order)
        return sw_links_inner_ring(&s->run->cluster, mesh, sp) > 0;
    for (int32_t k = 0; !may && sw_search_permute(mesh, k, &order); k++)
        may = sw_links_inner_ring(&s->run->cluster, &order, sp) > 0;
    return may;
}

/* The options of a sized program with their guesses, on the axis order that suits it
 * (choose_order) or the one that it has. Returns how many, 0 also where the way is of rings and the
 * order has none, -1: no memory. */
static int32_t guess_all(const struct sw_searcher *s, struct sw_sized *sized, int32_t way,
                         const struct sw_compute *compute, bool choose_order,
                         struct sw_guess *guess, struct sw_option options[MAX_OPTIONS],
                         struct sw_error *err)
{
    struct sw_levels levels = {0};
    struct sw_traffics traffics;
    if (s->run->recompute_auto && sw_sized_levels(sized, s->run, &levels, err) != 0)
        return -1;
    if (sw_guess_traffic(sized, &traffics, err) != 0)
        return -1;
    int32_t count = 0;
    if (choose_order && !s->keep_order) {
        struct sw_mesh order[SW_MAX_ORDERS];
        count = sw_guess_orders(sized->program, s->run, &traffics, compute, is_of_rings(way), order,
                                NULL, err);
        if (count > 0)
            sized->decision.mesh = sized->program->mesh = order[0];
    }
    sw_guess_from(sized, s->run, &traffics, compute, &levels, is_of_rings(way), guess);
    guess->limit_bytes = sw_searcher_limit(s);
    sw_traffics_free(&traffics);
    if (count < 0 || (is_of_rings(way) && guess->inner_ring == 0))
        return count < 0 ? -1 : 0;
    count = sw_guess_options(s->run, sequences_per_rank(sized),
                             sized->program->padding_sequences > 0, way, options);
    for (int32_t i = 0; i < count; i++)
        sw_guess_option(guess, &options[i]);
    return count;
}

static bool hopeless(const struct sw_searcher *s, const struct sw_sized *sized)
{
    return sized->least_bytes > sw_searcher_limit(s);
}

/* ---- Preferences ---- */

struct ranked {
    struct sw_option best; /* of the options that may fit; else what needs least */
    bool fits;
    double rings; /* guess at the best of inner rings that may fit; INFINITY: there is none */
    struct sw_variant variant;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    if (!x->fits && x->best.bytes != y->best.bytes)
        return x->best.bytes < y->best.bytes ? -1 : 1;
    return sw_guess_compare(&x->best, &y->best);
}

static struct ranked rank_variant(const struct sw_searcher *s, const struct sw_option *options,
                                  int32_t count, double least)
{
    const double limit = (double)sw_searcher_limit(s);
    struct ranked r = {.best = options[count - 1], .fits = false, .rings = INFINITY};
    r.best.bytes = least;
    for (int32_t i = 0; i < count; i++)
        if (options[i].bytes <= limit && least <= limit &&
            (!r.fits || sw_guess_compare(&options[i], &r.best) < 0)) {
            r.best = options[i];
            r.fits = true;
        }
    return r;
}

/* Adds the variant to those ranked, when the mesh admits it. */
static int add_ranked(struct sw_searcher *s, const struct sw_mesh *mesh,
                      const struct sw_variant *variant, struct ranked *ranked, int32_t *n,
                      struct sw_error *err)
{
    struct sw_sized sized;
    struct sw_compute compute;
    struct sw_guess guess;
    struct sw_option options[MAX_OPTIONS];
    const struct sw_decision smallest = sw_searcher_smallest(s, mesh, variant);
    if (sw_searcher_size(s, &smallest, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    const double least = (double)sized.least_bytes;
    struct ranked *now = &ranked[*n];
    sw_guess_compute(&sized, s->run, &compute);
    int32_t count =
        guess_all(s, &sized, make_way(*n, ONE_RING), &compute, false, &guess, options, err);
    if (count < 0)
        return -1;
    *now = rank_variant(s, options, count, least);
    now->variant = *variant;
    if (may_be_of_rings(s, mesh, variant->strategy, false)) {
        count = guess_all(s, &sized, make_way(*n, OF_RINGS), &compute, false, &guess, options, err);
        if (count < 0)
            return -1;
        const struct ranked rings = rank_variant(s, options, count, least);
        now->rings = rings.fits ? rings.best.seconds : INFINITY;
    }
    (*n)++;
    return 0;
}

/* Puts those in front that may be the fastest of some mesh, and returns how many: those not far
 * behind the best, the best of either residual_seq (guesses compare these badly) and what needs
 * least. */
static int32_t sort_likely(struct ranked *ranked, int32_t n)
{
    int32_t likely = 0, least = 0;
    bool have[2] = {false, false};
    for (int32_t i = 1; i < n; i++)
        if (ranked[i].best.bytes < ranked[least].best.bytes)
            least = i;
    for (int32_t i = 0; i < n; i++) {
        const struct ranked r = ranked[i];
        const bool near = r.best.seconds <= likely_up_to * ranked[0].best.seconds;
        if (i != least && !(r.fits && (near || !have[r.variant.residual_seq_tp])))
            continue;
        have[r.variant.residual_seq_tp] = true;
        memmove(&ranked[likely + 1], &ranked[likely], (size_t)(i - likely) * sizeof *ranked);
        ranked[likely++] = r;
    }
    return likely;
}

/* residual_seq and how sp attends hardly touch: the other strategies are ranked with the
 * residual_seq that suits the first, and follow with the other one for want of memory only. */
static int rank_variants(struct sw_searcher *s, const struct sw_mesh *mesh,
                         struct sw_preference *out, struct sw_error *err)
{
    struct sw_variant variants[SW_MAX_VARIANTS];
    struct ranked ranked[SW_MAX_VARIANTS];
    const int32_t count = list_variants(s, mesh, variants);
    int32_t n = 0, first = 0;
    while (first < count && variants[first].strategy == variants[0].strategy)
        if (add_ranked(s, mesh, &variants[first++], ranked, &n, err) != 0)
            return -1;
    qsort(ranked, (size_t)n, sizeof *ranked, compare_ranked);
    const bool settled = n > 0, residual = settled && ranked[0].variant.residual_seq_tp;
    for (int32_t i = first; i < count; i++)
        if (!settled || variants[i].residual_seq_tp == residual)
            if (add_ranked(s, mesh, &variants[i], ranked, &n, err) != 0)
                return -1;
    qsort(ranked, (size_t)n, sizeof *ranked, compare_ranked);
    out->likely = sort_likely(ranked, n);
    double least = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        const struct ranked *r = &ranked[i];
        least = r->fits && r->best.seconds < least ? r->best.seconds : least;
        least = r->rings < least ? r->rings : least;
    }
    for (int32_t i = 0; i < n; i++) {
        out->rings[out->count] = ranked[i].rings <= worth_pricing * least;
        out->variant[out->count++] = ranked[i].variant;
    }
    for (int32_t i = first; settled && i < count; i++)
        if (variants[i].residual_seq_tp != residual)
            out->variant[out->count++] = variants[i];
    return 0;
}

/* The answer is that of the mesh with all the rest in fsdp, or, where that is not admitted, in dp:
 * hardly any other is then. */
int sw_search_prefer(struct sw_searcher *s, const struct sw_mesh *mesh, struct sw_preference *out,
                     struct sw_error *err)
{
    const int32_t tp = mesh->size[SW_TP], sp = mesh->size[SW_SP];
    const int32_t rest = mesh->size[SW_DP] * mesh->size[SW_FSDP];
    const struct sw_mesh likes[2] = {sw_mesh_make(1, rest, tp, sp), sw_mesh_make(rest, 1, tp, sp)};
    *out = (struct sw_preference){.tp = tp, .sp = sp};
    for (int32_t i = 0; i < 2 && out->count == 0; i++)
        if (rank_variants(s, &likes[i], out, err) != 0)
            return -1;
    if (out->count == 0) /* to be rejected, with one of them */
        out->count = list_variants(s, mesh, out->variant);
    return 0;
}

void sw_search_list_variants(const struct sw_searcher *s, const struct sw_mesh *mesh,
                             struct sw_preference *out)
{
    *out = (struct sw_preference){.tp = mesh->size[SW_TP], .sp = mesh->size[SW_SP]};
    out->count = list_variants(s, mesh, out->variant);
}

/* ---- One mesh ---- */

/* What is known while a mesh is searched. */
struct looking {
    const struct sw_preference *preference;
    const struct sw_mesh *mesh;
    struct sw_decision base[MOST_WAYS]; /* smallest options, in the order guessed best */
    struct sw_guess guess[MOST_WAYS];   /* from them */
    int32_t closest;                    /* variant that needs least; -1: none is admitted */
    int64_t least_bytes;
    /* of either residual_seq, and of either way: which suits depends on the axis order */
    struct sw_candidate best[RING_WAYS][2];
    bool hopeless; /* the state alone does not fit, headroom or not, or the batch does not */
};

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

/* Prices a decision with as little made again as fits, by the guess of a way that is like it. */
static int fit(struct sw_searcher *s, const struct looking *l, int32_t way,
               const struct sw_decision *decision, struct sw_candidate *c, struct sw_error *err)
{
    const struct sw_guess *guess = &l->guess[way];
    struct sw_option option = {.micro_batch_size = decision->train.micro_batch_size};
    if (guess->levels.count == 0)
        return price(s, decision, c, err);
    sw_guess_option(guess, &option);
    const double times = (double)option.micro_batch_size / guess->sequences;
    return sw_searcher_fit(s, decision, &guess->levels, times, option.level, guess->limit_bytes, c,
                           err);
}

/* Prices one option and keeps it when it is faster. */
static int attempt(struct sw_searcher *s, struct looking *l, const struct sw_option *option,
                   double *seconds, struct sw_error *err)
{
    struct sw_decision decision = l->base[option->variant];
    struct sw_candidate *best =
        &l->best[is_of_rings(option->variant)][decision.train.residual_seq_tp];
    struct sw_candidate c;
    decision.train.micro_batch_size = option->micro_batch_size;
    if (fit(s, l, option->variant, &decision, &c, err) != 0)
        return -1;
    *seconds = c.reason == SW_FITS ? c.cost.step_seconds : INFINITY;
    if (c.reason == SW_FITS &&
        (best->reason != SW_FITS || c.cost.step_seconds < best->cost.step_seconds))
        *best = c;
    return 0;
}

/* Guesses the options of one way. Returns how many, -1: err. */
static int32_t look_at(struct sw_searcher *s, struct looking *l, int32_t way,
                       struct sw_option *options, struct sw_error *err)
{
    const int32_t variant = way / RING_WAYS;
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
    const int32_t count = guess_all(s, &sized, way, &compute, true, &l->guess[way], options, err);
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

/* The best of a way that fits so far; NULL: none does. */
static const struct sw_candidate *best_of(const struct looking *l, int32_t way)
{
    const struct sw_candidate *one = &l->best[way][0], *other = &l->best[way][1];
    const bool fits = one->reason == SW_FITS, other_fits = other->reason == SW_FITS;
    if (fits && other_fits)
        return other->cost.step_seconds < one->cost.step_seconds ? other : one;
    return fits ? one : other_fits ? other : NULL;
}

static double seconds_of(const struct sw_candidate *c)
{
    return c != NULL ? c->cost.step_seconds : INFINITY;
}

static double best_seconds(const struct looking *l)
{
    const double one = seconds_of(best_of(l, ONE_RING)), rings = seconds_of(best_of(l, OF_RINGS));
    return one < rings ? one : rings;
}

/* Prices a way's smallest options, whose program is there already, for want of another price.
 */
static int price_smallest(struct sw_searcher *s, const struct looking *l, int32_t way,
                          struct known *k, struct sw_error *err)
{
    const struct sw_decision *base = &l->base[way];
    const struct sw_guess *guess = &l->guess[way];
    struct sw_sized sized;
    struct sw_cost cost;
    if (sw_searcher_size(s, base, &sized, err) != 0 ||
        sw_cost_price_known(sized.program, &s->run->cluster, NULL, &sized.counted->known, &cost,
                            err) != 0)
        return -1;
    k->seconds = cost.step_seconds;
    k->guess =
        sw_guess_seconds(guess, base->train.micro_batch_size, sw_levels_last(&guess->levels));
    return 0;
}

/* Whether an option may be the best: by its guess, and by its guess as a price of its variant
 * corrects it. */
static int is_worth(struct sw_searcher *s, const struct looking *l, const struct sw_option *o,
                    struct known *k, bool *worth, struct sw_error *err)
{
    const double best = best_seconds(l), limit = (double)sw_searcher_limit(s);
    const struct sw_guess *g = &l->guess[o->variant];
    const bool slower = o->micro_batch_size <= k->fits &&
                        sw_guess_places(g, o->micro_batch_size) >= sw_guess_places(g, k->fits);
    *worth = false;
    if (o->bytes > try_up_to * limit || slower ||
        (k->fails > 0 && o->micro_batch_size >= k->fails) ||
        (k->guess == 0 && o->seconds > worth_pricing * best))
        return 0;
    if (k->guess == 0 && !isinf(best) && !is_of_rings(o->variant) &&
        price_smallest(s, l, o->variant, k, err) != 0)
        return -1;
    const double up_to = (g->padded  ? worth_padded
                          : k->tried ? worth_another
                                     : worth_fitting) *
                         best;
    *worth = k->guess == 0 || o->seconds * k->seconds / k->guess <= up_to;
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
    struct sw_option options[SW_MAX_VARIANTS * MAX_OPTIONS];
    int32_t count = 0;
    for (int32_t i = first; i < end && !l->hopeless; i++) {
        if (rings == OF_RINGS && !l->preference->rings[i])
            continue;
        const int32_t added = look_at(s, l, make_way(i, rings), &options[count], err);
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
    if (search_either(s, l, first, end, ONE_RING, may_fit, err) != 0)
        return -1;
    for (int32_t i = first; i < end && isinf(best_seconds(l)); i++) {
        const int32_t way = make_way(i, ONE_RING);
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
                                          best->decision.train.inner_ring > 0, order, guess, err);
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
        if (guess[i] == last)
            continue;
        last = guess[i];
        decision.mesh = order[i];
        if (found.train.inner_ring > 0)
            decision.train.inner_ring = sw_links_inner_ring(&s->run->cluster, &order[i], sp);
        if (price(s, &decision, &c, err) != 0)
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

static bool is_variant_of(const struct sw_variant *v, const struct sw_decision *decision)
{
    return v->strategy == decision->train.strategy && v->layout == decision->train.layout &&
           v->residual_seq_tp == decision->train.residual_seq_tp;
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
    if (fits || !is_known(l, make_way(i, ONE_RING)))
        return 0;
    if (fit(s, l, make_way(i, ONE_RING), &decision, &c, err) != 0)
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
    if (d->train.inner_ring > 0 || !may_be_of_rings(s, &d->mesh, d->train.strategy, false) ||
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
    const struct sw_candidate *best = best_of(l, ONE_RING);
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
    const double best[RING_WAYS] = {seconds_of(best_of(l, ONE_RING)), best_seconds(l)};
    out->reason = SW_REJECT_MEMORY;
    for (int32_t i = 0; i < RING_WAYS * 2; i++) {
        struct sw_candidate *c = &l->best[i / 2][i % 2];
        const double up_to = i / 2 == OF_RINGS ? worth_another : another_order_up_to;
        if (c->reason != SW_FITS || c->cost.step_seconds > up_to * best[i / 2])
            continue;
        if (search_orders(s, c, err) != 0 || search_rings(s, l, c, err) != 0)
            return -1;
        if (out->reason != SW_FITS || c->cost.step_seconds < out->cost.step_seconds)
            *out = *c;
    }
    return 0;
}

static int search_within_limit(struct sw_searcher *s, const struct sw_preference *preference,
                               struct sw_candidate *out, struct sw_error *err)
{
    struct sw_mesh mesh = out->decision.mesh;
    struct looking l = {.preference = preference, .mesh = &mesh, .closest = -1};
    if (!s->keep_order)
        mesh =
            sw_mesh_make(mesh.size[SW_DP], mesh.size[SW_FSDP], mesh.size[SW_TP], mesh.size[SW_SP]);
    for (int32_t i = 0; i < RING_WAYS * 2; i++)
        l.best[i / 2][i % 2].reason = SW_REJECT_MEMORY;
    if (search_variants(s, &l, 0, preference->likely, err) != 0 || search_others(s, &l, err) != 0)
        return -1;
    if (best_of(&l, ONE_RING) == NULL)
        return reject(s, &l, out, err);
    if (search_either(s, &l, 0, preference->count, OF_RINGS, NULL, err) != 0)
        return -1;
    return search_around(s, &l, out, err);
}

/* Where nothing keeps the headroom, what uses it up is looked for, too: a mesh that is asked for
 * may use it. And making everything again, which a mesh is rejected by, is not always what needs
 * least: where that is found now, it keeps the headroom after all. */
int sw_search_mesh(struct sw_searcher *s, const struct sw_preference *preference,
                   struct sw_candidate *out, struct sw_error *err)
{
    int status = search_within_limit(s, preference, out, err);
    if (status != 0 || out->reason != SW_REJECT_MEMORY ||
        (!s->asked && out->memory.total > s->run->cluster.accelerator.memory_bytes))
        return status;
    struct sw_candidate wide = *out;
    s->spends_headroom = true;
    status = search_within_limit(s, preference, &wide, err);
    s->spends_headroom = false;
    if (status == 0 &&
        (s->asked || (wide.reason == SW_FITS && wide.memory.total <= sw_searcher_limit(s))))
        *out = wide;
    return status;
}
