/* Memory and price of one decision, from its own program. */
#include "planner/search/internal.h"

#include "core/passes/retarget.h"
#include "core/base/hash.h"
#include "core/cost/links.h"
#include "core/programs/compile.h"

#include <stdlib.h>
#include <string.h>

/* Programs by structure, one cache for each thread: compiling takes ten times as long as resizing.
 * Meshes come sorted by structure, so a few programs suffice, and few fit into a core's cache: nine
 * of ten programs of a search are compiled once, however many are kept. They share a search's
 * memory with the meshes and some logical programs: fewer meshes leave room for more. */
enum { PROGRAM_BYTES = 150000, MEMORY_BYTES = 12000000, FEWEST_PROGRAMS = 32 };

struct sw_cached_program {
    struct sw_program_key key;
    struct sw_program *program;
    struct sw_counted counted;
    struct sw_units units;
    /* sizes of the program, without the axis order; a search returns to them */
    bool sized, placed;
    int32_t mesh[SW_AXIS_COUNT];
    struct sw_recompute recompute;
    int32_t inner_ring;
    int64_t micro_batch, slots, least_arena_bytes;
};
/* Part of an entry that lookups read; kept apart, since entries are large. */
struct sw_told {
    uint64_t hash; /* hash of the key */
    uint64_t used; /* time of the last use, to replace the oldest; 0: empty */
};
struct sw_program_cache {
    uint64_t now;
    struct sw_cost_shared shared; /* shared by all */
    struct sw_orders orders;
    struct sw_logicals *logicals; /* logical programs that they were made from */
    int32_t count;
    struct sw_told *told;             /* [count] */
    struct sw_cached_program entry[]; /* [count] */
};

struct sw_program_cache *sw_program_cache_new(int32_t meshes)
{
    const int64_t left = MEMORY_BYTES - meshes * (int64_t)sizeof(struct sw_candidate);
    const int32_t fit = (int32_t)(left / PROGRAM_BYTES);
    const int32_t count = fit > FEWEST_PROGRAMS ? fit : FEWEST_PROGRAMS;
    struct sw_program_cache *cache =
        calloc(1, sizeof *cache + (size_t)count * sizeof *cache->entry);
    if (cache == NULL)
        return NULL;
    cache->count = count;
    cache->logicals = sw_logicals_new();
    cache->told = calloc((size_t)count, sizeof *cache->told);
    if (cache->logicals == NULL || cache->told == NULL) {
        sw_program_cache_free(cache);
        return NULL;
    }
    return cache;
}

static void clear(struct sw_program_cache *cache, struct sw_cached_program *entry)
{
    cache->told[entry - cache->entry] = (struct sw_told){0, 0};
    sw_program_free(entry->program);
    sw_counted_free(&entry->counted);
    sw_units_free(&entry->units);
    *entry = (struct sw_cached_program){0};
}

void sw_program_cache_free(struct sw_program_cache *cache)
{
    if (cache == NULL)
        return;
    for (int32_t i = 0; cache->told != NULL && i < cache->count; i++)
        clear(cache, &cache->entry[i]);
    free(cache->told);
    sw_logicals_free(cache->logicals);
    free(cache);
}

struct sw_orders *sw_program_cache_orders(struct sw_program_cache *cache)
{
    return &cache->orders;
}

struct sw_program *sw_program_cache_take(struct sw_program_cache *cache,
                                         const struct sw_program *program)
{
    for (int32_t i = 0; i < cache->count; i++)
        if (program != NULL && cache->entry[i].program == program) {
            struct sw_program *taken = cache->entry[i].program;
            cache->entry[i].program = NULL;
            cache->told[i].used = 0;
            return taken;
        }
    return NULL;
}

/* Keys differ in few words: a number rules out all but the wanted one. */
static uint64_t hash_key(const struct sw_program_key *key)
{
    uint64_t hash = SW_HASH_START, word;
    for (size_t at = 0; at + sizeof word <= sizeof *key; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        hash = (hash ^ word) * UINT64_C(11400714819323198485);
        hash ^= hash >> 32;
    }
    return hash;
}

/* The entry of that structure, or the one to replace. */
static struct sw_cached_program *find_entry(struct sw_program_cache *cache,
                                            const struct sw_program_key *key, uint64_t hash,
                                            bool *found)
{
    const struct sw_told *told = cache->told;
    int32_t oldest = 0;
    for (int32_t i = 0; i < cache->count; i++) {
        *found = told[i].hash == hash && told[i].used > 0 &&
                 memcmp(&cache->entry[i].key, key, sizeof *key) == 0;
        if (*found)
            return &cache->entry[i];
        oldest = told[i].used < told[oldest].used ? i : oldest;
    }
    return &cache->entry[oldest];
}

/* Gives the entry's program the sizes of these options, unless it has them. */
static int resize(struct sw_cached_program *entry, const struct sw_program_options *options,
                  struct sw_error *err)
{
    if (entry->sized && entry->micro_batch == options->micro_batch_per_rank &&
        entry->slots == options->serving.slots_per_rank &&
        entry->inner_ring == options->inner_ring &&
        sw_recompute_equal(entry->recompute, options->recompute) &&
        memcmp(entry->mesh, options->mesh.size, sizeof entry->mesh) == 0) {
        entry->program->mesh = options->mesh;
        return 0;
    }
    entry->sized = entry->placed = false;
    if (sw_program_resize(entry->program, options, err) != 0)
        return -1;
    if (entry->counted.known.sent != NULL)
        sw_cost_known_reset(&entry->counted.known);
    entry->sized = true;
    entry->micro_batch = options->micro_batch_per_rank;
    entry->slots = options->serving.slots_per_rank;
    entry->inner_ring = options->inner_ring;
    entry->recompute = options->recompute;
    entry->least_arena_bytes = entry->program->arena_bytes;
    memcpy(entry->mesh, options->mesh.size, sizeof entry->mesh);
    return 0;
}

static int compile(struct sw_program_cache *cache, const struct sw_program_options *options,
                   struct sw_program **out, struct sw_error *err)
{
    struct sw_program_options quick = *options;
    quick.unverified = true;
    return sw_program_compile_with(cache->logicals, &quick, out, err);
}

static struct sw_cached_program *find_program(struct sw_program_cache *cache,
                                              const struct sw_program_options *options,
                                              struct sw_error *err)
{
    struct sw_program_key key;
    sw_program_structure(options, &key);
    const uint64_t hash = hash_key(&key);
    bool found = false;
    struct sw_cached_program *entry = find_entry(cache, &key, hash, &found);
    cache->now++;
    if (!found) {
        clear(cache, entry);
        if (compile(cache, options, &entry->program, err) != 0)
            return NULL;
        entry->key = key;
    }
    cache->told[entry - cache->entry] = (struct sw_told){hash, cache->now};
    if (resize(entry, options, err) != 0 ||
        (!found && sw_guess_count(entry->program, &entry->counted, err) != 0)) {
        clear(cache, entry);
        return NULL;
    }
    entry->counted.known.shared = &cache->shared;
    return entry;
}

static void fill_sized(const struct sw_searcher *s, struct sw_cached_program *cached,
                       struct sw_sized *out)
{
    const int64_t reserved = s->run->cluster.accelerator.reserved_memory_bytes;
    out->cached = cached;
    out->program = cached->program;
    out->counted = &cached->counted;
    out->units = &cached->units;
    out->reason = SW_FITS;
    out->least_bytes = cached->least_arena_bytes + reserved;
    out->most_bytes = sw_program_most_bytes(out->program) + reserved;
}

int sw_searcher_program(struct sw_searcher *s, const struct sw_program_options *options,
                        struct sw_sized *out, struct sw_error *err)
{
    out->program = NULL;
    out->least_bytes = out->most_bytes = 0;
    out->reason = sw_program_admits(options, NULL, NULL);
    if (out->reason != SW_FITS)
        return 0;
    struct sw_error why = {0};
    struct sw_cached_program *cached = find_program(s->cache, options, &why);
    if (cached == NULL && (why.status != SW_UNMET || s->run->rule_count == 0))
        return sw_fail_as(err, &why);
    if (cached == NULL)
        out->reason = SW_REJECT_RULES;
    else
        fill_sized(s, cached, out);
    return 0;
}

enum sw_reject sw_searcher_admits(struct sw_searcher *s, const struct sw_program_options *options,
                                  char detail[256], char help[256])
{
    struct sw_error why = {0};
    const enum sw_reject reason = sw_program_admits(options, detail, help);
    if (reason != SW_FITS || find_program(s->cache, options, &why) != NULL)
        return reason;
    snprintf(detail, 256, "%.255s", why.message);
    snprintf(help, 256, "let rules use each mesh axis once in a tensor, or give that axis size 1");
    return SW_REJECT_RULES;
}

/* True if the decision is the latest one, byte for byte: it is often asked for again at once. */
static bool is_latest(const struct sw_searcher *s, const struct sw_decision *decision)
{
    return s->latest_program != NULL && s->latest_at == s->cache->now &&
           memcmp(&s->latest, decision, sizeof s->latest) == 0;
}

int sw_searcher_size(struct sw_searcher *s, const struct sw_decision *decision,
                     struct sw_sized *out, struct sw_error *err)
{
    struct sw_program_options options;
    out->decision = *decision;
    if (is_latest(s, decision)) {
        fill_sized(s, s->latest_program, out);
        out->program->mesh = decision->mesh;
    } else {
        s->latest_program = NULL;
        if (sw_plan_program_options(s->run, decision, &options, err) != 0 ||
            sw_searcher_program(s, &options, out, err) != 0)
            return -1;
        if (out->program == NULL)
            return 0;
        memcpy(&s->latest, decision, sizeof s->latest);
        s->latest_program = out->cached;
        s->latest_at = s->cache->now;
    }
    out->decision.train.accumulation_steps = out->program->accumulation_steps;
    return 0;
}

void sw_sized_place(struct sw_sized *sized)
{
    if (!sized->cached->placed)
        sw_program_assign_offsets(sized->program);
    sized->cached->placed = true;
}

int64_t sw_searcher_state_bytes(const struct sw_searcher *s, const struct sw_sized *sized)
{
    const struct sw_program *p = sized->program;
    return p->parameter_bytes + p->weight_bytes + p->gradient_bytes + p->optimizer_bytes +
           s->run->cluster.accelerator.reserved_memory_bytes;
}

int64_t sw_searcher_limit(const struct sw_searcher *s)
{
    const int64_t all = s->run->cluster.accelerator.memory_bytes;
    const int64_t limit = s->spends_headroom ? all : all - sw_headroom_bytes(s->run);
    return s->most_bytes > 0 && s->most_bytes < limit ? s->most_bytes : limit;
}

struct sw_memory sw_memory_with_arena(const struct sw_run_config *run, int64_t arena_bytes)
{
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    return (struct sw_memory){.limit = a->memory_bytes,
                              .headroom = sw_headroom_bytes(run),
                              .reserved = a->reserved_memory_bytes,
                              .arena = arena_bytes,
                              .total = arena_bytes + a->reserved_memory_bytes};
}

static void fill_memory(const struct sw_run_config *run, const struct sw_program *p,
                        struct sw_memory *m)
{
    *m = sw_memory_with_arena(run, p->arena_bytes);
    m->parameters = p->parameter_bytes + p->weight_bytes;
    m->gradients = p->gradient_bytes;
    m->optimizer = p->optimizer_bytes;
    m->activations = p->activation_bytes;
    m->workspace = p->workspace_bytes;
}

int sw_searcher_measure(struct sw_searcher *s, struct sw_sized *sized, struct sw_candidate *out,
                        struct sw_error *err)
{
    const struct sw_run_config *run = s->run;
    struct sw_program *p = sized->program;
    memset(out, 0, sizeof *out);
    out->decision = sized->decision;
    out->reason = sized->reason;
    out->tp_leaves_domain = sw_search_tp_leaves(&run->cluster, &out->decision.mesh);
    if (p == NULL) {
        struct sw_program_options options;
        if (sw_plan_program_options(run, &sized->decision, &options, err) != 0)
            return -1;
        sw_searcher_admits(s, &options, out->detail, out->help);
        return 0;
    }
    p->mesh = sized->decision.mesh; /* the axis order may have changed: no size depends on it */
    sw_sized_place(sized);
    fill_memory(run, p, &out->memory);
    out->padding_sequences = p->padding_sequences;
    if (out->memory.total > sw_searcher_limit(s))
        out->reason = SW_REJECT_MEMORY;
    return 0;
}

/* Sets the share of padding: a step takes as long as if it were sequences. */
static void price_padding(const struct sw_program *p, struct sw_candidate *out)
{
    double seconds = 0;
    for (int32_t r = 0; r < p->region_count; r++)
        if (p->regions[r].phase != SW_PHASE_UPDATE)
            seconds += out->cost.region[r].seconds;
    out->padding_seconds = seconds * (double)p->padding_sequences /
                           ((double)p->accumulation_steps * (double)p->micro_batch);
}

/* Fills in figures that follow from out->cost. */
static void tell_speed(const struct sw_searcher *s, const struct sw_program *p,
                       struct sw_candidate *out)
{
    const struct sw_run_config *run = s->run;
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    const double peak = run->compute == SW_BF16_T ? a->peak_bf16_flops : a->peak_fp32_flops;
    price_padding(p, out);
    out->tokens_per_second = (double)p->tokens_per_step / out->cost.step_seconds;
    out->mfu = s->model_flops / (out->cost.step_seconds * peak * sw_mesh_rank_count(&p->mesh));
}

int sw_searcher_time(const struct sw_searcher *s, const struct sw_sized *sized, struct sw_cost *out,
                     struct sw_error *err)
{
    return sw_cost_price_known(sized->program, &s->run->cluster, NULL, &sized->counted->known, out,
                               err);
}

int sw_searcher_price(struct sw_searcher *s, struct sw_sized *sized, bool always,
                      struct sw_candidate *out, struct sw_error *err)
{
    if (sw_searcher_measure(s, sized, out, err) != 0)
        return -1;
    if (sized->program == NULL || (out->reason != SW_FITS && !always))
        return 0;
    if (sw_searcher_time(s, sized, &out->cost, err) != 0)
        return -1;
    tell_speed(s, sized->program, out);
    return 0;
}

int sw_searcher_price_as(struct sw_searcher *s, struct sw_sized *sized, const struct sw_cost *cost,
                         struct sw_candidate *out, struct sw_error *err)
{
    if (sw_searcher_measure(s, sized, out, err) != 0)
        return -1;
    if (out->reason != SW_FITS)
        return 0;
    out->cost = *cost;
    tell_speed(s, sized->program, out);
    return 0;
}

int sw_searcher_price_faster(struct sw_searcher *s, struct sw_sized *sized, double than,
                             struct sw_candidate *out, struct sw_error *err)
{
    struct sw_cost cost;
    if (sized->program == NULL)
        return sw_searcher_price(s, sized, false, out, err);
    sized->program->mesh = sized->decision.mesh;
    if (sw_searcher_time(s, sized, &cost, err) != 0)
        return -1;
    if (cost.step_seconds < than)
        return sw_searcher_price_as(s, sized, &cost, out, err);
    out->reason = SW_FITS;
    out->cost.step_seconds = cost.step_seconds;
    return 0;
}

struct sw_decision sw_searcher_smallest(const struct sw_searcher *s, const struct sw_mesh *mesh,
                                        const struct sw_variant *variant)
{
    const struct sw_run_config *run = s->run;
    return (struct sw_decision){
        .mesh = *mesh,
        .train.micro_batch_size = run->micro_batch_size > 0 ? run->micro_batch_size : 1,
        .train.recompute = run->recompute_auto
                               ? sw_recompute_full()
                               : sw_recompute_normal(s->recompute, run->model.shape.layers),
        .train.strategy = variant->strategy,
        .train.layout = variant->layout,
        .train.residual_seq_tp = variant->residual_seq_tp,
        .train.sharding = s->sharding};
}

int sw_search_evaluate(const struct sw_run_config *run, const struct sw_decision *decision,
                       double model_flops, struct sw_candidate *out, struct sw_program **program,
                       struct sw_error *err)
{
    struct sw_searcher s = {.run = run, .model_flops = model_flops, .spends_headroom = true};
    s.cache = sw_program_cache_new(1);
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    struct sw_sized sized;
    int status = sw_searcher_size(&s, decision, &sized, err);
    if (status == 0)
        status = sw_searcher_price(&s, &sized, true, out, err);
    if (status == 0)
        (void)sw_plan_tell_sharding(run, decision, &out->sharding);
    if (status == 0 && out->reason == SW_REJECT_RULES)
        status = sw_fail(err, SW_UNMET, "%s", out->detail);
    if (status == 0 && program != NULL) {
        *program = sw_program_cache_take(s.cache, sized.program);
        if (*program != NULL && sw_program_number_names(*program, err) != 0) {
            sw_program_free(*program);
            *program = NULL;
            status = -1;
        }
    }
    sw_program_cache_free(s.cache);
    return status;
}
