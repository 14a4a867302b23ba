/* Ways to consider a mesh's variants, with guesses at their options, and the variants that may be
 * the fastest of all meshes with the same tp and sp: the sharding of residual_seq and the strategy
 * of attention over sp. Based on guesses (guess.c); mesh.c prices.
 *
 * Zigzag is tried first; contiguous only if 2 x sp does not divide the sequence, or if the run asks
 * for it: zigzag loads all ranks equally and is never slower. */
#include "core/cost/links.h"
#include "planner/search/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limit of a variant's time guess, relative to the best variant's. */
static const double likely_up_to = 1.25;

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

int32_t sw_way_make(int32_t variant, int32_t rings)
{
    return SW_RING_WAYS * variant + rings;
}

bool sw_way_is_of_rings(int32_t way)
{
    return way % SW_RING_WAYS == SW_OF_RINGS;
}

bool sw_may_be_of_rings(const struct sw_searcher *s, const struct sw_mesh *mesh,
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

int32_t sw_way_guess(const struct sw_searcher *s, struct sw_sized *sized, int32_t way,
                     const struct sw_compute *compute, bool choose_order, struct sw_guess *guess,
                     struct sw_option options[SW_MAX_MICRO_BATCHES], struct sw_error *err)
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
        count = sw_guess_orders(sized->program, s->run, &traffics, compute, sw_way_is_of_rings(way),
                                s->tp_inside, sw_program_cache_orders(s->cache), order, NULL, err);
        if (count > 0)
            sized->decision.mesh = sized->program->mesh = order[0];
    }
    sw_guess_from(sized, s->run, &traffics, compute, &levels, sw_way_is_of_rings(way), guess);
    guess->limit_bytes = sw_searcher_limit(s);
    sw_traffics_free(&traffics);
    if (count < 0 || (sw_way_is_of_rings(way) && guess->inner_ring == 0))
        return count < 0 ? -1 : 0;
    count = sw_guess_options(s->run, sequences_per_rank(sized),
                             sized->program->padding_sequences > 0, way, options);
    for (int32_t i = 0; i < count; i++)
        sw_guess_option(guess, &options[i]);
    return count;
}

/* ---- Preferences ---- */

struct ranked {
    struct sw_option best; /* best of the options that may fit; else the smallest */
    bool fits;
    double rings; /* guess for the best of inner rings that may fit; INFINITY: none */
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

/* Adds the variant to the ranked ones if the mesh admits it. */
static int add_ranked(struct sw_searcher *s, const struct sw_mesh *mesh,
                      const struct sw_variant *variant, struct ranked *ranked, int32_t *n,
                      struct sw_error *err)
{
    struct sw_sized sized;
    struct sw_compute compute;
    struct sw_guess guess;
    struct sw_option options[SW_MAX_MICRO_BATCHES];
    const struct sw_decision smallest = sw_searcher_smallest(s, mesh, variant);
    if (sw_searcher_size(s, &smallest, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    const double least = (double)sized.least_bytes;
    struct ranked *now = &ranked[*n];
    sw_guess_compute(&sized, s->run, &compute);
    int32_t count = sw_way_guess(s, &sized, sw_way_make(*n, SW_ONE_RING), &compute, false, &guess,
                                 options, err);
    if (count < 0)
        return -1;
    *now = rank_variant(s, options, count, least);
    now->variant = *variant;
    if (sw_may_be_of_rings(s, mesh, variant->strategy, false)) {
        count = sw_way_guess(s, &sized, sw_way_make(*n, SW_OF_RINGS), &compute, false, &guess,
                             options, err);
        if (count < 0)
            return -1;
        if (count > 0) { /* 0: none of the axes that rules leave to keys is split */
            const struct ranked rings = rank_variant(s, options, count, least);
            now->rings = rings.fits ? rings.best.seconds : INFINITY;
        }
    }
    (*n)++;
    return 0;
}

/* Moves to the front those that may be the fastest of some mesh, and returns their number: those
 * close to the best, the best of either residual_seq (guesses compare these badly) and the one that
 * needs least. */
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

/* residual_seq and the strategy hardly interact: other strategies are ranked with the first one's
 * best residual_seq, and follow with the other one only if memory is short. */
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
        out->rings[out->count] = ranked[i].rings <= SW_WORTH_PRICING * least;
        out->variant[out->count++] = ranked[i].variant;
    }
    for (int32_t i = first; settled && i < count; i++)
        if (variants[i].residual_seq_tp != residual)
            out->variant[out->count++] = variants[i];
    return 0;
}

/* Asks the mesh with all the rest in fsdp or, if not admitted, in dp: then hardly any other is. */
static int prefer(struct sw_searcher *s, const struct sw_mesh *mesh, struct sw_preference *out,
                  struct sw_error *err)
{
    const int32_t tp = mesh->size[SW_TP], sp = mesh->size[SW_SP];
    const int32_t rest = mesh->size[SW_DP] * mesh->size[SW_FSDP];
    const struct sw_mesh likes[2] = {sw_mesh_make(1, rest, tp, sp), sw_mesh_make(rest, 1, tp, sp)};
    *out = (struct sw_preference){.tp = tp, .sp = sp};
    for (int32_t i = 0; i < 2 && out->count == 0; i++)
        if (rank_variants(s, &likes[i], out, err) != 0)
            return -1;
    if (out->count == 0) /* one of them explains the rejection */
        out->count = list_variants(s, mesh, out->variant);
    return 0;
}

const struct sw_preference *sw_search_prefer(struct sw_searcher *s, const struct sw_mesh *mesh,
                                             struct sw_preferences *all, struct sw_error *err)
{
    int32_t at = 0;
    while (at < all->count && !sw_sharding_decisions_equal(&all->sharding[at], &s->sharding))
        at++;
    if (at == all->count) {
        if (prefer(s, mesh, &all->of[at], err) != 0)
            return NULL;
        all->sharding[all->count++] = s->sharding;
    }
    return &all->of[at];
}

void sw_search_list_variants(const struct sw_searcher *s, const struct sw_mesh *mesh,
                             struct sw_preference *out)
{
    *out = (struct sw_preference){.tp = mesh->size[SW_TP], .sp = mesh->size[SW_SP]};
    out->count = list_variants(s, mesh, out->variant);
}
