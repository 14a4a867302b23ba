/* How the options of one mesh are chosen without trying all of them: recompute level, micro-batch,
 * how sp attends, residual_seq and axis order make some hundreds for each mesh.
 *
 * Shallow, for every mesh: with the variant that suits its tp and sp, the options in the order of
 * guessed time until one fits. A mesh is rejected for memory only when no variant fits with its
 * smallest options: memory grows with less recomputation and larger micro-batches.
 *
 * Thorough, for the meshes that could be chosen or be the fastest: options of all variants, fastest
 * guess first, are priced until the guesses are clearly slower than the best price, each recompute
 * level with the largest micro-batch that fits (a larger one only saves time: fewer gathers, longer
 * operations); then the axis orders of the best.
 *
 * zigzag is tried and contiguous only where 2 x sp does not divide the sequence, or when the run
 * says so: zigzag loads all ranks alike and is never slower. */
#include "planner/search/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ATTEMPTS = 4, /* shallow: options tried for one mesh */
    MAX_OPTIONS = SW_MAX_MICRO_BATCHES,
    THOROUGH_ORDERS = 6
};
/* Guesses of memory may be this far off before an option is not even tried. */
static const double try_up_to = 1.10, try_thoroughly_up_to = 1.5;
/* And guesses of time, against the best price. */
static const double worth_pricing = 1.10;

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
    return sized->decision.micro_batch_size * sized->decision.accumulation_steps;
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
    if (s->run->recompute_auto && sw_levels_find(sized->program, s->run, &levels, err) != 0)
        return -1;
    if (sw_guess_traffic(sized->program, &traffics, err) != 0)
        return -1;
    int32_t count = 0;
    if (choose_order && !s->keep_order) {
        struct sw_mesh order[SW_MAX_ORDERS];
        count = sw_guess_orders(sized->program, s->run, &traffics, compute, order, err);
        if (count > 0)
            sized->decision.mesh = sized->program->mesh = order[0];
    }
    sw_guess_from(sized, s->run, &traffics, compute, &levels, guess);
    sw_traffics_free(&traffics);
    if (count < 0)
        return -1;
    count = sw_guess_options(s->run, sequences_per_rank(sized), variant, options);
    for (int32_t i = 0; i < count; i++)
        sw_guess_option(guess, &options[i]);
    return count;
}

static bool hopeless(const struct sw_searcher *s, const struct sw_sized *sized)
{
    return sized->least_bytes > s->run->cluster.accelerator.memory_bytes;
}

/* What lasts from step to step: every variant splits it alike. */
static int64_t state_bytes(const struct sw_searcher *s, const struct sw_sized *sized)
{
    const struct sw_program *p = sized->program;
    return p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes +
           s->run->cluster.accelerator.reserved_memory_bytes;
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
    const double limit = (double)s->run->cluster.accelerator.memory_bytes;
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
                      const struct sw_variant *variant, struct sw_compute *compute,
                      struct ranked *ranked, int32_t *n, struct sw_error *err)
{
    struct sw_sized sized;
    struct sw_guess guess;
    struct sw_option options[MAX_OPTIONS];
    const struct sw_decision smallest = sw_searcher_smallest(s, mesh, variant);
    if (sw_searcher_size(s, &smallest, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    sw_guess_compute(sized.program, s->run, compute);
    const int32_t count = guess_all(s, &sized, *n, compute, false, &guess, options, err);
    if (count < 0)
        return -1;
    ranked[*n] = rank_variant(s, options, count, (double)sized.least_bytes);
    ranked[(*n)++].variant = *variant;
    return 0;
}

/* residual_seq and how sp attends hardly touch: the other strategies are ranked with the
 * residual_seq that suits the first, and follow with the other one for want of memory only. */
int sw_search_prefer(struct sw_searcher *s, const struct sw_mesh *mesh, struct sw_preference *out,
                     struct sw_error *err)
{
    struct sw_variant variants[SW_MAX_VARIANTS];
    struct ranked ranked[SW_MAX_VARIANTS];
    const int32_t count = list_variants(s, mesh, variants);
    int32_t n = 0, first = 0;
    *out = (struct sw_preference){.tp = mesh->size[SW_TP], .sp = mesh->size[SW_SP]};
    while (first < count && variants[first].strategy == variants[0].strategy) {
        struct sw_compute compute;
        const int32_t before = n;
        if (add_ranked(s, mesh, &variants[first++], &compute, ranked, &n, err) != 0)
            return -1;
        if (before == 0 && n == 1)
            out->compute = compute;
    }
    qsort(ranked, (size_t)n, sizeof *ranked, compare_ranked);
    const bool settled = n > 0, residual = settled && ranked[0].variant.residual_seq_tp;
    for (int32_t i = first; i < count; i++) {
        struct sw_compute compute;
        const int32_t before = n;
        if (settled && variants[i].residual_seq_tp != residual)
            continue;
        if (add_ranked(s, mesh, &variants[i], &compute, ranked, &n, err) != 0)
            return -1;
        if (before == 0 && n == 1)
            out->compute = compute;
    }
    qsort(ranked, (size_t)n, sizeof *ranked, compare_ranked);
    for (int32_t i = 0; i < n; i++)
        out->variant[out->count++] = ranked[i].variant;
    for (int32_t i = first; settled && i < count; i++)
        if (variants[i].residual_seq_tp != residual)
            out->variant[out->count++] = variants[i];
    return 0;
}

/* ---- Shallow ---- */

/* Prices a decision when it may fit. */
static int price(struct sw_searcher *s, const struct sw_decision *decision, struct sw_candidate *c,
                 struct sw_error *err)
{
    struct sw_sized sized;
    c->reason = SW_REJECT_MEMORY;
    if (sw_searcher_size(s, decision, &sized, err) != 0)
        return -1;
    return sized.program == NULL || hopeless(s, &sized) ? 0
                                                        : sw_searcher_price(s, &sized, false, c, err);
}

/* Prices one option, with as little made again as fits, and keeps it when it is faster. */
static int attempt(struct sw_searcher *s, const struct sw_decision *base,
                   const struct sw_guess *guess, const struct sw_option *option,
                   struct sw_candidate *best, bool *fits, struct sw_error *err)
{
    struct sw_candidate c;
    struct sw_decision decision = *base;
    decision.micro_batch_size = option->micro_batch_size;
    const double times = (double)option->micro_batch_size / guess->sequences;
    if (guess->levels.count == 0 ? price(s, &decision, &c, err) != 0
                                 : sw_searcher_fit(s, &decision, &guess->levels, times,
                                                   option->level, guess->limit_bytes, &c, err) != 0)
        return -1;
    *fits = c.reason == SW_FITS;
    if (*fits && (best->reason != SW_FITS || c.cost.step_seconds < best->cost.step_seconds))
        *best = c;
    return 0;
}

/* The options of one variant in the order of guessed time until one fits, the smallest last. */
static int try_variant(struct sw_searcher *s, const struct sw_preference *preference,
                       struct sw_sized *smallest, struct sw_candidate *best, struct sw_error *err)
{
    struct sw_option options[MAX_OPTIONS];
    struct sw_guess guess;
    int32_t attempts = 0;
    bool fits = false;
    const int32_t count =
        guess_all(s, smallest, 0, &preference->compute, true, &guess, options, err);
    if (count < 0)
        return -1;
    const struct sw_decision base = smallest->decision;
    qsort(options, (size_t)count, sizeof *options, sw_guess_compare);
    const double limit = (double)s->run->cluster.accelerator.memory_bytes;
    for (int32_t i = 0; i < count && attempts < MAX_ATTEMPTS && !fits; i++) {
        if (options[i].bytes > try_up_to * limit)
            continue;
        attempts++;
        if (attempt(s, &base, &guess, &options[i], best, &fits, err) != 0)
            return -1;
    }
    const struct sw_option last = {.micro_batch_size = base.micro_batch_size,
                                   .level = sw_levels_last(&guess.levels)};
    return fits ? 0 : attempt(s, &base, &guess, &last, best, &fits, err);
}

/* What a rejected mesh is rejected with: the variant that comes closest. */
static int reject(struct sw_searcher *s, const struct sw_variant *closest,
                  const struct sw_mesh *mesh, struct sw_candidate *out, struct sw_error *err)
{
    struct sw_sized sized;
    const struct sw_decision decision = sw_searcher_smallest(s, mesh, closest);
    if (sw_searcher_size(s, &decision, &sized, err) != 0)
        return -1;
    return sw_searcher_price(s, &sized, false, out, err);
}

static int search_shallow(struct sw_searcher *s, const struct sw_preference *preference,
                          const struct sw_mesh *mesh, struct sw_candidate *out,
                          struct sw_error *err)
{
    struct sw_variant variants[SW_MAX_VARIANTS];
    int32_t count = list_variants(s, mesh, variants), closest = -1;
    int64_t least = 0;
    if (preference->count > 0) {
        count = preference->count;
        memcpy(variants, preference->variant, sizeof variants);
    }
    out->reason = SW_REJECT_MEMORY;
    for (int32_t i = 0; i < count; i++) {
        struct sw_sized sized;
        const struct sw_decision smallest = sw_searcher_smallest(s, mesh, &variants[i]);
        if (sw_searcher_size(s, &smallest, &sized, err) != 0)
            return -1;
        if (sized.reason == SW_REJECT_BATCH)
            break; /* whatever the variant */
        if (sized.program == NULL)
            continue;
        if (closest < 0 || sized.least_bytes < least) {
            closest = i;
            least = sized.least_bytes;
        }
        if (state_bytes(s, &sized) > s->run->cluster.accelerator.memory_bytes)
            break; /* whatever the variant */
        if (hopeless(s, &sized))
            continue;
        if (try_variant(s, preference, &sized, out, err) != 0)
            return -1;
        if (out->reason == SW_FITS)
            return 0;
    }
    return reject(s, &variants[closest < 0 ? 0 : closest], mesh, out, err);
}

/* ---- Thorough ---- */

/* For a variant: micro-batches known to fit with no more made again than asked for (a smaller one is
 * no faster), and not to. */
struct known {
    int64_t fits, fails;
};

static int search_options(struct sw_searcher *s, const struct sw_decision *base,
                          const struct sw_guess *guess, const struct sw_option *options,
                          int32_t count, struct sw_candidate *best, struct sw_error *err)
{
    struct known known[SW_MAX_VARIANTS];
    const double limit = (double)s->run->cluster.accelerator.memory_bytes;
    memset(known, 0, sizeof known);
    for (int32_t i = 0; i < count; i++) {
        const struct sw_option *o = &options[i];
        struct known *k = &known[o->variant];
        bool fits = false;
        if (o->bytes > try_thoroughly_up_to * limit || o->micro_batch_size <= k->fits ||
            (k->fails > 0 && o->micro_batch_size >= k->fails))
            continue;
        if (best->reason == SW_FITS && o->seconds > worth_pricing * best->cost.step_seconds)
            continue;
        if (attempt(s, &base[o->variant], &guess[o->variant], o, best, &fits, err) != 0)
            return -1;
        if (fits && (o->level == 0 || guess[o->variant].levels.count == 0))
            k->fits = o->micro_batch_size;
        else if (!fits)
            k->fails = o->micro_batch_size;
    }
    return 0;
}

/* The best decision on other axis orders: the same program, priced again. */
static int search_orders(struct sw_searcher *s, struct sw_candidate *best, struct sw_error *err)
{
    struct sw_compute compute;
    struct sw_traffics traffics;
    struct sw_mesh order[SW_MAX_ORDERS];
    struct sw_sized sized;
    if (s->keep_order || best->reason != SW_FITS)
        return 0;
    if (sw_searcher_size(s, &best->decision, &sized, err) != 0)
        return -1;
    sw_guess_compute(sized.program, s->run, &compute);
    if (sw_guess_traffic(sized.program, &traffics, err) != 0)
        return -1;
    const int32_t count = sw_guess_orders(sized.program, s->run, &traffics, &compute, order, err);
    sw_traffics_free(&traffics);
    if (count < 0)
        return -1;
    for (int32_t i = 0; i < count && i < THOROUGH_ORDERS; i++) {
        struct sw_candidate c;
        sized.decision.mesh = order[i];
        if (sw_searcher_price(s, &sized, false, &c, err) != 0)
            return -1;
        if (c.cost.step_seconds < best->cost.step_seconds)
            *best = c;
    }
    return 0;
}

static int search_thorough(struct sw_searcher *s, const struct sw_mesh *mesh,
                           struct sw_candidate *out, struct sw_error *err)
{
    struct sw_variant variants[SW_MAX_VARIANTS];
    struct sw_decision base[SW_MAX_VARIANTS];
    struct sw_option options[SW_MAX_VARIANTS * MAX_OPTIONS];
    struct sw_guess guess[SW_MAX_VARIANTS];
    const int32_t variant_count = list_variants(s, mesh, variants);
    int32_t count = 0;
    for (int32_t i = 0; i < variant_count; i++) {
        struct sw_sized sized;
        struct sw_compute compute;
        const struct sw_decision smallest = sw_searcher_smallest(s, mesh, &variants[i]);
        if (sw_searcher_size(s, &smallest, &sized, err) != 0)
            return -1;
        if (sized.program == NULL || hopeless(s, &sized))
            continue;
        sw_guess_compute(sized.program, s->run, &compute);
        const int32_t added = guess_all(s, &sized, i, &compute, true, &guess[i], &options[count], err);
        if (added < 0)
            return -1;
        count += added;
        base[i] = sized.decision;
    }
    qsort(options, (size_t)count, sizeof *options, sw_guess_compare);
    if (search_options(s, base, guess, options, count, out, err) != 0 || search_orders(s, out, err) != 0)
        return -1;
    out->thorough = true;
    return 0;
}

int sw_search_mesh(struct sw_searcher *s, const struct sw_preference *preference, bool thorough,
                   struct sw_candidate *out, struct sw_error *err)
{
    struct sw_mesh mesh = out->decision.mesh;
    if (!s->keep_order)
        mesh =
            sw_mesh_make(mesh.size[SW_DP], mesh.size[SW_FSDP], mesh.size[SW_TP], mesh.size[SW_SP]);
    if (out->reason != SW_FITS || out->cost.step_seconds == 0)
        if (search_shallow(s, preference, &mesh, out, err) != 0)
            return -1;
    return thorough && out->reason == SW_FITS ? search_thorough(s, &mesh, out, err) : 0;
}
