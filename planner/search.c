/* How the options of a mesh are chosen without trying all of them. A large cluster has hundreds of
 * meshes, and each mesh has three recompute levels times the micro-batches. Programs of one
 * structure are compiled once and retargeted.
 *
 * 1. Every mesh is compiled with its smallest options (full recomputation, one sequence). Memory
 * only grows with less recomputation and larger micro-batches, so a mesh that does not fit now
 * never fits.
 * 2. From that program, memory and time of the other options are guessed; they are compiled in the
 * order of guessed time until one fits.
 * 3. The meshes that could be chosen or be the fastest are searched thoroughly: for every recompute
 * level the largest micro-batch that fits (a larger one only saves time: fewer gathers, longer
 * operations). Small searches do that for every mesh at once. A guess decides what is tried, never
 * what is reported. */
#include "planner/search.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "planner/format.h"

enum {
    MAX_MICRO_BATCHES = 24,
    MAX_OPTIONS = 3 * MAX_MICRO_BATCHES,
    MAX_ATTEMPTS = 3,    /* step 2: options compiled for one mesh */
    THOROUGH_TOP = 4,    /* step 3: meshes from the top of each order */
    THOROUGH_ROUNDS = 3, /* the order changes when a mesh gets faster */
    SMALL_SEARCH = 24,   /* meshes; up to here every one is searched thoroughly */
    CACHE_ENTRIES = 512, /* structures are some dozens */
    MAX_THREADS = 16,
    PARALLEL_FROM = 32 /* meshes; threads do not pay below */
};

/* Share of the full level's saving (memory) and price (time) that recomputing attention alone has:
 * attention's inputs are a few of the values a layer saves. A guess: it orders attempts only. */
static const double attention_memory_share = 0.15, attention_time_share = 0.15;
/* Guesses of memory may be this far off before an option is not even tried. */
static const double try_up_to = 1.10, try_thoroughly_up_to = 1.5;

/* Programs by structure, one cache for each thread: compiling takes ten times as long as
 * retargeting. */
struct cached {
    uint64_t structure;
    struct sw_program *program;
};
struct cache {
    struct cached entry[CACHE_ENTRIES];
};

struct guess {
    double fixed_bytes, bytes_per_sequence; /* as compiled */
    double saved_bytes; /* per sequence: what no recomputation would keep in addition */
    double compute_seconds, recompute_seconds, weight_seconds, batch_seconds;
    double sequences; /* of a micro-step, as compiled */
};

struct option {
    enum sw_recompute recompute;
    int64_t micro_batch_size;
    double bytes, seconds;
};

struct work {
    const struct sw_run_config *run;
    struct sw_search *search;
    double model_flops;
    const int32_t *indices; /* NULL: all */
    int32_t count;
    bool thorough;
    atomic_int next, failed_at; /* failed_at: the smallest index that failed */
    pthread_mutex_t lock;       /* of err */
    struct sw_error err;
};

static void fill_memory(const struct sw_run_config *run, const struct sw_program *p,
                        struct sw_memory *m)
{
    m->limit = run->cluster.accelerator.memory_bytes;
    m->reserved = run->cluster.accelerator.reserved_memory_bytes;
    m->arena = p->arena_bytes;
    m->total = m->arena + m->reserved;
    m->parameters = p->parameter_bytes;
    m->gradients = p->gradient_bytes;
    m->optimizer = p->optimizer_bytes;
    m->activations = p->activation_bytes;
    m->workspace = p->workspace_bytes;
}

static void explain_memory(const struct sw_run_config *run, struct sw_candidate *c)
{
    static const char *const levels[] = {"none", "attention", "full"};
    char total[SW_FORMAT_BYTES], limit[SW_FORMAT_BYTES], state[SW_FORMAT_BYTES],
        rest[SW_FORMAT_BYTES];
    const int64_t states = c->memory.parameters + c->memory.gradients + c->memory.optimizer;
    snprintf(c->detail, sizeof c->detail,
             "needs %s of %s per accelerator (%s state, %s activations and workspace) even with "
             "micro_batch_size %" PRId64 " and recompute %s",
             sw_format_bytes((double)c->memory.total, total),
             sw_format_bytes((double)c->memory.limit, limit),
             sw_format_bytes((double)states, state),
             sw_format_bytes((double)(c->memory.arena - states), rest),
             c->decision.micro_batch_size, levels[c->decision.recompute]);
    const char *help;
    if (run->recompute != SW_RECOMPUTE_AUTO && run->recompute != SW_RECOMPUTE_FULL)
        help = "allow recompute: auto";
    else if (run->micro_batch_size > 1)
        help = "allow micro_batch_size: auto";
    else if (states + c->memory.reserved > c->memory.limit)
        help = "split the state over more accelerators: a larger fsdp, tp or sp";
    else
        help = "split the activations: a larger sp or tp, or a smaller sequence_length";
    snprintf(c->help, sizeof c->help, "%s", help);
}

/* The program of these options: retargeted from one of the same structure where the cache has one.
 * The cache owns it, until its next use. */
static struct sw_program *compile(struct cache *cache, const struct sw_program_options *options,
                                  struct sw_error *err)
{
    const uint64_t structure = sw_program_structure(options);
    struct cached *entry = &cache->entry[structure % CACHE_ENTRIES];
    if (entry->program != NULL && entry->structure == structure)
        return sw_program_retarget(entry->program, options, err) == 0 ? entry->program : NULL;
    sw_program_free(entry->program);
    entry->program = NULL;
    entry->structure = structure;
    return sw_program_compile(options, SW_LAID_OUT, &entry->program, err) == 0 ? entry->program
                                                                               : NULL;
}

static void free_cache(struct cache *cache)
{
    for (int32_t i = 0; i < CACHE_ENTRIES; i++)
        sw_program_free(cache->entry[i].program);
}

/* As sw_search_evaluate; *program belongs to the cache. */
static int evaluate(const struct sw_run_config *run, const struct sw_decision *decision,
                    double model_flops, struct cache *cache, struct sw_candidate *out,
                    const struct sw_program **program, struct sw_error *err)
{
    struct sw_program_options options;
    memset(out, 0, sizeof *out);
    out->decision = *decision;
    if (sw_plan_program_options(run, decision, &options, err) != 0)
        return -1;
    out->reason = sw_program_admits(&options, out->detail, out->help);
    if (out->reason != SW_FITS)
        return 0;
    const struct sw_program *p = compile(cache, &options, err);
    if (p == NULL)
        return -1;
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    const double peak = run->compute == SW_BF16 ? a->peak_bf16_flops : a->peak_fp32_flops;
    fill_memory(run, p, &out->memory);
    out->decision.accumulation_steps = p->accumulation_steps;
    if (sw_cost_price(p, run, &out->cost, err) != 0)
        return -1;
    out->tokens_per_second = (double)p->tokens_per_step / out->cost.step_seconds;
    out->mfu = model_flops / (out->cost.step_seconds * peak * sw_mesh_rank_count(&p->mesh));
    if (out->memory.total > out->memory.limit) {
        out->reason = SW_REJECT_MEMORY;
        explain_memory(run, out);
    }
    if (program != NULL)
        *program = p;
    return 0;
}

int sw_search_evaluate(const struct sw_run_config *run, const struct sw_decision *decision,
                       double model_flops, struct sw_candidate *out, struct sw_program **program,
                       struct sw_error *err)
{
    struct cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    const struct sw_program *p = NULL;
    const int status = evaluate(run, decision, model_flops, cache, out, &p, err);
    if (program != NULL) /* out of the cache, into the caller's hands */
        for (int32_t i = 0; i < CACHE_ENTRIES && p != NULL; i++)
            if (cache->entry[i].program == p) {
                *program = cache->entry[i].program;
                cache->entry[i].program = NULL;
            }
    free_cache(cache);
    free(cache);
    return status;
}

static bool has_batch(const struct sw_value *value)
{
    for (uint8_t d = 0; d < value->ndim; d++)
        if (value->axis[d] == SW_L_BATCH)
            return true;
    return false;
}

/* Values that no op writes any more (partition made versions of them) have no storage. Returns NULL
 * without memory. */
static bool *find_written(const struct sw_program *p)
{
    bool *written = calloc((size_t)p->value_count + 1, sizeof *written);
    for (int32_t i = 0; written != NULL && i < p->op_count; i++)
        for (uint8_t k = 0; k < p->ops[i].n_out; k++)
            written[p->ops[i].out[k].value] = true;
    return written;
}

static int guess_from(const struct sw_program *p, const struct sw_candidate *c, struct guess *g,
                      struct sw_error *err)
{
    double stacked = 0, moving = 0, fixed = 1, saved = 0;
    bool *written = find_written(p);
    if (written == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        const double bytes = (double)(value->slot_bytes * value->slots);
        if (value->role != SW_ROLE_ACTIVATION || value->alias >= 0 || !written[v])
            continue;
        if (!has_batch(value))
            fixed += bytes;
        else if (value->slots > 2)
            stacked += bytes;
        else
            moving += bytes;
    }
    free(written);
    for (int32_t i = 0; i < p->op_count; i++)
        for (uint8_t k = 0; p->ops[i].stage == SW_STAGE_RECOMPUTE && k < p->ops[i].n_out; k++)
            if (has_batch(&p->values[p->ops[i].out[k].value]))
                saved += (double)p->values[p->ops[i].out[k].value].slot_bytes * p->layers;
    const double state = (double)(c->memory.parameters + c->memory.gradients + c->memory.optimizer);
    double rest = (double)c->memory.arena - state - stacked;
    if (rest < 0)
        rest = 0;
    *g = (struct guess){.fixed_bytes =
                            (double)c->memory.reserved + state + rest * fixed / (fixed + moving),
                        .bytes_per_sequence = stacked + rest * moving / (fixed + moving),
                        .saved_bytes = saved,
                        .compute_seconds = c->cost.compute_seconds - c->cost.recompute_seconds,
                        .recompute_seconds = c->cost.recompute_seconds,
                        .weight_seconds = c->cost.weight_seconds,
                        .batch_seconds = c->cost.batch_seconds,
                        .sequences = (double)c->decision.micro_batch_size};
    return 0;
}

static void guess_option(const struct guess *g, struct option *o)
{
    double kept = 0, again = 1;
    if (o->recompute == SW_RECOMPUTE_NONE) {
        kept = 1;
        again = 0;
    } else if (o->recompute == SW_RECOMPUTE_ATTENTION) {
        kept = 1 - attention_memory_share;
        again = attention_time_share;
    }
    const double times = (double)o->micro_batch_size / g->sequences;
    o->bytes = g->fixed_bytes + times * (g->bytes_per_sequence + kept * g->saved_bytes);
    const double compute = g->compute_seconds + again * g->recompute_seconds + g->batch_seconds;
    const double communication = g->weight_seconds / times + g->batch_seconds;
    /* mostly hidden, never quite: the larger counts whole, the other a little */
    o->seconds =
        compute > communication ? compute + 0.05 * communication : communication + 0.05 * compute;
}

static int compare_options(const void *a, const void *b)
{
    const struct option *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->recompute != y->recompute)
        return x->recompute < y->recompute ? -1 : 1;
    return (x->micro_batch_size < y->micro_batch_size) -
           (x->micro_batch_size > y->micro_batch_size);
}

static int64_t sequences_per_rank(const struct sw_run_config *run, const struct sw_mesh *mesh,
                                  const struct sw_rules *rules)
{
    const int64_t ways = sw_axes_size(mesh, rules->axes[SW_L_BATCH]);
    return ways > 0 ? run->global_batch_size / ways : 0;
}

/* Powers of two that divide, largest last, and all sequences at once. */
static int32_t micro_batches(const struct sw_run_config *run, int64_t per_rank,
                             int64_t out[MAX_MICRO_BATCHES])
{
    int32_t count = 0;
    if (run->micro_batch_size > 0) {
        out[count++] = run->micro_batch_size;
        return count;
    }
    int64_t size = 1;
    for (; per_rank % size == 0 && count < MAX_MICRO_BATCHES - 1; size *= 2)
        out[count++] = size;
    if (count > 0 && out[count - 1] != per_rank)
        out[count++] = per_rank;
    return count;
}

static int32_t list_options(const struct sw_run_config *run, int64_t per_rank,
                            struct option out[MAX_OPTIONS])
{
    int64_t sizes[MAX_MICRO_BATCHES];
    const int32_t n = micro_batches(run, per_rank, sizes);
    int32_t count = 0;
    for (int32_t level = SW_RECOMPUTE_NONE; level <= SW_RECOMPUTE_FULL; level++)
        for (int32_t i = n - 1; i >= 0; i--)
            if (run->recompute == SW_RECOMPUTE_AUTO || run->recompute == (enum sw_recompute)level)
                out[count++] = (struct option){(enum sw_recompute)level, sizes[i], 0, 0};
    return count;
}

static bool same_options(const struct sw_candidate *c, const struct option *o)
{
    return c->decision.recompute == o->recompute &&
           c->decision.micro_batch_size == o->micro_batch_size;
}

/* Compiles one option of best's mesh and keeps it when it fits and is faster. */
static int attempt(const struct sw_run_config *run, double model_flops, struct cache *cache,
                   const struct option *o, struct sw_candidate *best, bool *fits,
                   struct sw_error *err)
{
    struct sw_candidate c;
    struct sw_decision decision = best->decision;
    decision.recompute = o->recompute;
    decision.micro_batch_size = o->micro_batch_size;
    if (evaluate(run, &decision, model_flops, cache, &c, NULL, err) != 0)
        return -1;
    *fits = c.reason == SW_FITS;
    if (*fits && (best->reason != SW_FITS || c.cost.step_seconds < best->cost.step_seconds))
        *best = c;
    return 0;
}

/* The options in the order of guessed time until one fits. */
static int search_guided(const struct sw_run_config *run, double model_flops, struct cache *cache,
                         const struct sw_candidate *smallest, struct option *options, int32_t count,
                         struct sw_candidate *best, struct sw_error *err)
{
    int32_t attempts = 0;
    qsort(options, (size_t)count, sizeof *options, compare_options);
    for (int32_t i = 0; i < count && attempts < MAX_ATTEMPTS; i++) {
        bool fits = false;
        if (same_options(smallest, &options[i]))
            return 0;
        if (options[i].bytes > try_up_to * (double)best->memory.limit)
            continue;
        attempts++;
        if (attempt(run, model_flops, cache, &options[i], best, &fits, err) != 0)
            return -1;
        if (fits)
            return 0;
    }
    return 0;
}

/* For every recompute level the largest micro-batch that fits. `options` go level by level, largest
 * first. */
static int search_thoroughly(const struct sw_run_config *run, double model_flops,
                             struct cache *cache, const struct option *options, int32_t count,
                             struct sw_candidate *best, struct sw_error *err)
{
    bool fits = false;
    for (int32_t i = 0; i < count; i++) {
        if (i > 0 && options[i].recompute != options[i - 1].recompute)
            fits = false;
        if (fits || options[i].bytes > try_thoroughly_up_to * (double)best->memory.limit)
            continue;
        if (attempt(run, model_flops, cache, &options[i], best, &fits, err) != 0)
            return -1;
    }
    best->thorough = true;
    return 0;
}

/* One mesh with one attention strategy. *out's decision holds the mesh. */
static int search_strategy(const struct work *w, struct cache *cache, enum sw_strategy strategy,
                           struct sw_candidate *out, struct sw_error *err)
{
    const struct sw_run_config *run = w->run;
    struct sw_decision decision = {
        .mesh = out->decision.mesh,
        .micro_batch_size = run->micro_batch_size > 0 ? run->micro_batch_size : 1,
        .recompute = run->recompute == SW_RECOMPUTE_AUTO ? SW_RECOMPUTE_FULL : run->recompute,
        .strategy = strategy,
        .layout = run->layout};
    struct sw_candidate smallest;
    const struct sw_program *p = NULL;
    if (evaluate(run, &decision, w->model_flops, cache, &smallest, &p, err) != 0)
        return -1;
    *out = smallest;
    if (smallest.reason != SW_FITS)
        return 0;
    struct guess guess = {0};
    if (guess_from(p, &smallest, &guess, err) != 0)
        return -1;
    struct sw_program_options options;
    if (sw_plan_program_options(run, &decision, &options, err) != 0)
        return -1;
    struct option list[MAX_OPTIONS];
    const int32_t count =
        list_options(run, sequences_per_rank(run, &decision.mesh, &options.rules), list);
    for (int32_t i = 0; i < count; i++)
        guess_option(&guess, &list[i]);
    if (w->thorough)
        return search_thoroughly(run, w->model_flops, cache, list, count, out, err);
    return search_guided(run, w->model_flops, cache, &smallest, list, count, out, err);
}

static int search_mesh(const struct work *w, struct cache *cache, struct sw_candidate *out,
                       struct sw_error *err)
{
    static const enum sw_strategy all[] = {SW_STRATEGY_RING, SW_STRATEGY_GATHER,
                                           SW_STRATEGY_ULYSSES};
    const struct sw_mesh mesh = out->decision.mesh;
    if (w->run->strategy != SW_STRATEGY_AUTO)
        return search_strategy(w, cache, w->run->strategy, out, err);
    const size_t count = mesh.size[SW_SP] > 1 ? 3 : 1;
    for (size_t i = 0; i < count; i++) {
        struct sw_candidate c = {.decision.mesh = mesh};
        if (search_strategy(w, cache, all[i], &c, err) != 0)
            return -1;
        if (i == 0 || sw_rank_better(&c, out, SW_PREFER_TIME))
            *out = c;
    }
    return 0;
}

static void record_failure(struct work *w, int32_t index, const struct sw_error *err)
{
    pthread_mutex_lock(&w->lock);
    if (index <
        atomic_load(&w->failed_at)) { /* the same mistake is reported whatever the threads did */
        atomic_store(&w->failed_at, index);
        w->err = *err;
    }
    pthread_mutex_unlock(&w->lock);
}

static void *worker(void *context)
{
    struct work *w = context;
    struct sw_error err = {0};
    struct cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory while searching");
        record_failure(w, 0, &err);
        return NULL;
    }
    for (;;) {
        const int32_t i = atomic_fetch_add(&w->next, 1);
        if (i >= w->count || atomic_load(&w->failed_at) < i)
            break;
        err = (struct sw_error){0};
        if (search_mesh(w, cache, &w->search->mesh[w->indices == NULL ? i : w->indices[i]], &err) !=
            0)
            record_failure(w, i, &err);
    }
    free_cache(cache);
    free(cache);
    return NULL;
}

static int32_t thread_count(int32_t meshes)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (meshes < PARALLEL_FROM || cores <= 1)
        return 1;
    return cores < MAX_THREADS ? (int32_t)cores : MAX_THREADS;
}

/* Searches the listed meshes (NULL: all), each by itself, so that the result does not depend on the
 * threads. */
static int search_all(const struct sw_run_config *run, struct sw_search *search, double model_flops,
                      const int32_t *indices, int32_t count, bool thorough, struct sw_error *err)
{
    struct work w = {.run = run,
                     .search = search,
                     .model_flops = model_flops,
                     .indices = indices,
                     .count = count,
                     .thorough = thorough};
    pthread_t threads[MAX_THREADS];
    int32_t started = 0;
    atomic_init(&w.next, 0);
    atomic_init(&w.failed_at, count);
    pthread_mutex_init(&w.lock, NULL);
    /* fewer threads than asked for only take longer */
    while (started + 1 < thread_count(search->count) && started + 1 < count &&
           pthread_create(&threads[started], NULL, worker, &w) == 0)
        started++;
    worker(&w);
    for (int32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w.lock);
    if (atomic_load(&w.failed_at) < count)
        return sw_fail(err, w.err.status, "%s", w.err.message);
    return 0;
}

struct enumeration {
    struct sw_search *search;
    const struct sw_mesh_request *request;
    int32_t capacity;
};

static int add_mesh(const struct sw_mesh *mesh, void *context)
{
    struct enumeration *e = context;
    struct sw_search *s = e->search;
    if (!sw_mesh_request_admits(e->request, mesh))
        return 0;
    if (s->count == e->capacity) {
        const int32_t capacity = e->capacity == 0 ? 64 : e->capacity * 2;
        struct sw_candidate *grown = realloc(s->mesh, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return -1;
        s->mesh = grown;
        e->capacity = capacity;
    }
    memset(&s->mesh[s->count], 0, sizeof s->mesh[s->count]);
    s->mesh[s->count++].decision.mesh = *mesh;
    return 0;
}

/* The meshes of the request; *wrong_product when its sizes cannot make the cluster. */
static int list_meshes(const struct sw_mesh_request *request, struct sw_search *out,
                       bool *wrong_product, struct sw_error *err)
{
    struct enumeration e = {.search = out, .request = request};
    int status = 0;
    *wrong_product = false;
    if (request->is_auto) {
        status = sw_mesh_enumerate(out->accelerators, add_mesh, &e);
    } else {
        struct sw_mesh mesh;
        struct sw_error why = {0};
        if (sw_mesh_request_resolve(request, out->accelerators, &mesh, &why) != 0) {
            if (why.status != SW_UNMET)
                return sw_fail(err, why.status, "%s", why.message);
            struct sw_mesh_request any = {.is_auto = true};
            e.request = &any;
            memcpy(mesh.size, request->size, sizeof mesh.size);
            memcpy(mesh.order, request->order, sizeof mesh.order);
            *wrong_product = true;
            status = add_mesh(&mesh, &e);
            if (status == 0) {
                out->mesh[0].reason = SW_REJECT_PRODUCT;
                snprintf(out->mesh[0].detail, sizeof out->mesh[0].detail, "%.255s", why.message);
                snprintf(out->mesh[0].help, sizeof out->mesh[0].help,
                         "use mesh_dim: auto, or sizes whose product is %d", out->accelerators);
            }
        } else {
            status = add_mesh(&mesh, &e);
        }
    }
    return status == 0 ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory while listing meshes");
}

/* Candidates that stand at the top of either order and were only searched by guess so far. */
static int32_t find_shallow(const struct sw_search *s, int32_t out[2 * THOROUGH_TOP])
{
    int32_t count = 0;
    for (int32_t i = 0; i < s->feasible && i < THOROUGH_TOP; i++)
        if (!s->mesh[i].thorough)
            out[count++] = i;
    int32_t fast[THOROUGH_TOP], n = 0;
    for (int32_t i = 0; i < s->feasible; i++) {
        int32_t at = n < THOROUGH_TOP ? n++ : THOROUGH_TOP;
        for (; at > 0 && sw_rank_better(&s->mesh[i], &s->mesh[fast[at - 1]], SW_PREFER_TIME); at--)
            if (at < THOROUGH_TOP)
                fast[at] = fast[at - 1];
        if (at < THOROUGH_TOP)
            fast[at] = i;
    }
    for (int32_t i = 0; i < n; i++)
        if (!s->mesh[fast[i]].thorough && fast[i] >= THOROUGH_TOP)
            out[count++] = fast[i];
    return count;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int count_model_flops(const struct sw_run_config *run, double *out, struct sw_error *err)
{
    struct sw_decision one = {.mesh = sw_mesh_make(1, 1, 1, 1),
                              .micro_batch_size = 1,
                              .strategy = SW_STRATEGY_RING,
                              .layout = run->layout};
    struct sw_program_options options;
    if (sw_plan_program_options(run, &one, &options, err) != 0)
        return -1;
    return sw_program_model_flops(&options, out, err);
}

int sw_search_run(const struct sw_run_config *run, struct sw_search *out, struct sw_error *err)
{
    const double start = seconds_now();
    struct sw_mesh_request request;
    struct sw_error why = {0};
    double model_flops = 0;
    bool wrong_product = false;
    memset(out, 0, sizeof *out);
    out->fastest = -1;
    out->accelerators = run->cluster.nodes * run->cluster.accelerators_per_node;
    if (sw_mesh_request_parse(run->mesh_dim, &request, &why) != 0) {
        const struct sw_place *at = &run->mesh_dim_place;
        if (at->file == NULL || at->line == 0)
            return sw_fail(err, why.status, "%s", why.message);
        return sw_fail(err, why.status, "%s:%d:%d: error: %s", at->file, at->line, at->column,
                       why.message);
    }
    if (count_model_flops(run, &model_flops, err) != 0 ||
        list_meshes(&request, out, &wrong_product, err) != 0)
        goto fail;
    if (!wrong_product) {
        const bool small = out->count <= SMALL_SEARCH;
        if (search_all(run, out, model_flops, NULL, out->count, small, err) != 0)
            goto fail;
    }
    sw_rank(out, run->prefer);
    for (int32_t round = 0; round < THOROUGH_ROUNDS; round++) {
        int32_t shallow[2 * THOROUGH_TOP];
        const int32_t count = find_shallow(out, shallow);
        if (count == 0)
            break;
        if (search_all(run, out, model_flops, shallow, count, true, err) != 0)
            goto fail;
        sw_rank(out, run->prefer);
    }
    out->seconds = seconds_now() - start;
    return 0;
fail:
    sw_search_free(out);
    return -1;
}

void sw_search_free(struct sw_search *search)
{
    if (search == NULL)
        return;
    free(search->mesh);
    memset(search, 0, sizeof *search);
}
