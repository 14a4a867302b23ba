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

enum { MAX_OPTIONS = SW_MAX_MICRO_BATCHES, MOST_ORDERS = 3 };
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

/* The options of a sized program with their guesses, on the axis order that suits it
 * (choose_order) or the one that it has. Returns how many, -1: no memory. */
static int32_t guess_all(const struct sw_searcher *s, struct sw_sized *sized, int32_t variant,
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
        count = sw_guess_orders(sized->program, s->run, &traffics, compute, order, NULL, err);
        if (count > 0)
            sized->decision.mesh = sized->program->mesh = order[0];
    }
    sw_guess_from(sized, s->run, &traffics, compute, &levels, guess);
    guess->limit_bytes = sw_searcher_limit(s);
    sw_traffics_free(&traffics);
    if (count < 0)
        return -1;
    count = sw_guess_options(s->run, sequences_per_rank(sized),
                             sized->program->padding_sequences > 0, variant, options);
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
    struct ranked r = {.best = options[count - 1], .fits = false};
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
    sw_guess_compute(&sized, s->run, &compute);
    const int32_t count = guess_all(s, &sized, *n, &compute, false, &guess, options, err);
    if (count < 0)
        return -1;
    ranked[*n] = rank_variant(s, options, count, (double)sized.least_bytes);
    ranked[(*n)++].variant = *variant;
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
    for (int32_t i = 0; i < n; i++)
        out->variant[out->count++] = ranked[i].variant;
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
    struct sw_decision base[SW_MAX_VARIANTS]; /* smallest options, in the order guessed best */
    struct sw_guess guess[SW_MAX_VARIANTS];   /* from them */
    int32_t closest;                          /* variant that needs least; -1: none is admitted */
    int64_t least_bytes;
    struct sw_candidate best[2]; /* of either residual_seq: which suits depends on the axis order */
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

/* Prices one option, with as little made again as fits, and keeps it when it is faster. */
static int attempt(struct sw_searcher *s, struct looking *l, const struct sw_option *option,
                   double *seconds, struct sw_error *err)
{
    const struct sw_guess *guess = &l->guess[option->variant];
    struct sw_decision decision = l->base[option->variant];
    struct sw_candidate *best = &l->best[decision.train.residual_seq_tp];
    struct sw_candidate c;
    decision.train.micro_batch_size = option->micro_batch_size;
    const double times = (double)option->micro_batch_size / guess->sequences;
    if (guess->levels.count == 0 ? price(s, &decision, &c, err) != 0
                                 : sw_searcher_fit(s, &decision, &guess->levels, times,
                                                   option->level, guess->limit_bytes, &c, err) != 0)
        return -1;
    *seconds = c.reason == SW_FITS ? c.cost.step_seconds : INFINITY;
    if (c.reason == SW_FITS &&
        (best->reason != SW_FITS || c.cost.step_seconds < best->cost.step_seconds))
        *best = c;
    return 0;
}

/* Guesses the options of one variant. Returns how many, -1: err. */
static int32_t look_at(struct sw_searcher *s, struct looking *l, int32_t variant,
                       struct sw_option *options, struct sw_error *err)
{
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
        guess_all(s, &sized, variant, &compute, true, &l->guess[variant], options, err);
    l->base[variant] = sized.decision;
    return count;
}

/* For a variant: micro-batches known to fit with nothing made again (a smaller one is no faster,
 * unless it has less padding) and not to fit; its last price, and the guess at that. */
struct known {
    int64_t fits, fails;
    double seconds, guess; /* 0: none yet */
    bool tried;            /* that price is one of those that are looked for */
};

/* Seconds of the best that fits so far. */
static double best_seconds(const struct looking *l)
{
    double best = INFINITY;
    for (int32_t i = 0; i < 2; i++)
        if (l->best[i].reason == SW_FITS && l->best[i].cost.step_seconds < best)
            best = l->best[i].cost.step_seconds;
    return best;
}

/* Prices a variant's smallest options, whose program is there already, for want of another price.
 */
static int price_smallest(struct sw_searcher *s, const struct looking *l, int32_t variant,
                          struct known *k, struct sw_error *err)
{
    const struct sw_decision *base = &l->base[variant];
    const struct sw_guess *guess = &l->guess[variant];
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
    if (k->guess == 0 && !isinf(best) && price_smallest(s, l, o->variant, k, err) != 0)
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
    struct known known[SW_MAX_VARIANTS];
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

/* The variants [first, end): their options, and where none fits their smallest. */
static int search_variants(struct sw_searcher *s, struct looking *l, int32_t first, int32_t end,
                           struct sw_error *err)
{
    struct sw_option options[SW_MAX_VARIANTS * MAX_OPTIONS];
    bool may_fit[SW_MAX_VARIANTS] = {false};
    double seconds;
    int32_t count = 0;
    for (int32_t i = first; i < end && !l->hopeless; i++) {
        const int32_t added = look_at(s, l, i, &options[count], err);
        if (added < 0)
            return -1;
        may_fit[i] = added > 0;
        count += added;
    }
    qsort(options, (size_t)count, sizeof *options, sw_guess_compare);
    if (search_options(s, l, options, count, err) != 0)
        return -1;
    for (int32_t i = first; i < end && isinf(best_seconds(l)); i++) {
        const struct sw_decision *base = &l->base[i];
        const struct sw_option least = {.micro_batch_size = base->train.micro_batch_size,
                                        .variant = i,
                                        .level = sw_levels_last(&l->guess[i].levels)};
        if (may_fit[i] && attempt(s, l, &least, &seconds, err) != 0)
            return -1;
    }
    return 0;
}

/* The best decision on other axis orders: the same program, priced again. */
static int search_orders(struct sw_searcher *s, struct sw_candidate *best, struct sw_error *err)
{
    struct sw_compute compute;
    struct sw_traffics traffics;
    struct sw_mesh order[SW_MAX_ORDERS];
    double guess[SW_MAX_ORDERS];
    struct sw_sized sized;
    if (s->keep_order)
        return 0;
    if (sw_searcher_size(s, &best->decision, &sized, err) != 0)
        return -1;
    sw_guess_compute(&sized, s->run, &compute);
    if (sw_guess_traffic(&sized, &traffics, err) != 0)
        return -1;
    const int32_t count =
        sw_guess_orders(sized.program, s->run, &traffics, &compute, order, guess, err);
    sw_traffics_free(&traffics);
    if (count < 0)
        return -1;
    double last = -1; /* priced: orders that lie on the links alike are guessed alike */
    for (int32_t i = 0; i < count; i++)
        if (memcmp(order[i].order, best->decision.mesh.order, sizeof order[i].order) == 0)
            last = guess[i];
    for (int32_t i = 0; i < count && i < MOST_ORDERS && guess[i] <= worth_ordering * guess[0];
         i++) {
        struct sw_candidate c;
        if (guess[i] == last)
            continue;
        last = guess[i];
        sized.decision.mesh = order[i];
        if (sw_searcher_price(s, &sized, false, &c, err) != 0)
            return -1;
        if (c.cost.step_seconds < best->cost.step_seconds)
            *best = c;
    }
    return 0;
}

/* Keeps a decision where it fits and is faster. */
static int keep_faster(struct sw_searcher *s, const struct sw_decision *decision, double times,
                       struct sw_candidate *best, struct sw_error *err)
{
    struct sw_sized sized;
    struct sw_candidate c;
    if (sw_searcher_size(s, decision, &sized, err) != 0 ||
        sw_searcher_price(s, &sized, false, &c, err) != 0)
        return -1;
    if (c.reason == SW_FITS && c.cost.step_seconds * times < best->cost.step_seconds)
        *best = c;
    return 0;
}

/* The best decision with its ring made of inner rings, one node's ranks each, where compute waits
 * for one that goes through all of them in turn. Another order of axes may have been the best for
 * that: on this one the other ways to attend are looked at again. */
static int search_rings(struct sw_searcher *s, const struct sw_preference *preference,
                        struct sw_candidate *best, struct sw_error *err)
{
    const struct sw_axes sp = {1, {SW_SP}};
    struct sw_decision decision = best->decision;
    decision.train.inner_ring = sw_links_inner_ring(&s->run->cluster, &decision.mesh, sp);
    if (decision.train.strategy != SW_ATTENTION_RING || decision.train.inner_ring == 0 ||
        best->cost.exposed_seconds[SW_SP] < (worth_ordering - 1) * best->cost.step_seconds)
        return 0;
    if (keep_faster(s, &decision, worth_ordering, best, err) != 0)
        return -1;
    if (best->decision.train.inner_ring == 0)
        return 0;
    for (int32_t i = 0; i < preference->count; i++) {
        const struct sw_variant *v = &preference->variant[i];
        decision.train.strategy = v->strategy;
        decision.train.layout = v->layout;
        decision.train.residual_seq_tp = v->residual_seq_tp;
        decision.train.inner_ring = 0;
        if (v->strategy != SW_ATTENTION_RING && keep_faster(s, &decision, 1, best, err) != 0)
            return -1;
    }
    return 0;
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
    const double seconds = best_seconds(l);
    if (isinf(seconds))
        return search_variants(s, l, p->likely, p->count, err);
    const struct sw_decision *best =
        &l->best[l->best[1].reason == SW_FITS && l->best[1].cost.step_seconds == seconds].decision;
    for (int32_t i = p->likely; i < p->count; i++)
        if (p->variant[i].strategy == best->train.strategy)
            return search_variants(s, l, i, i + 1, err);
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
    for (int32_t i = 0; i < 2; i++)
        l.best[i].reason = SW_REJECT_MEMORY;
    if (search_variants(s, &l, 0, preference->likely, err) != 0 || search_others(s, &l, err) != 0)
        return -1;
    const double best = best_seconds(&l);
    if (isinf(best))
        return reject(s, &l, out, err);
    out->reason = SW_REJECT_MEMORY;
    for (int32_t i = 0; i < 2; i++) {
        struct sw_candidate *c = &l.best[i];
        if (c->reason != SW_FITS || c->cost.step_seconds > another_order_up_to * best)
            continue;
        if (search_orders(s, c, err) != 0 || search_rings(s, preference, c, err) != 0)
            return -1;
        if (out->reason != SW_FITS || c->cost.step_seconds < out->cost.step_seconds)
            *out = *c;
    }
    return 0;
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
