/* The search over meshes: lists them and distributes them over threads. Each mesh is searched
 * alone, so results depend neither on threads nor on other meshes. */
#include "core/programs/compile.h"
#include "planner/search/purpose.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_THREADS = 16,
    PARALLEL_FROM = 64 /* meshes; fewer do not need threads */
};

/* ---- Threads ---- */

/* Threads share no programs. */
struct pool {
    struct sw_searcher searcher[MAX_THREADS];
    int32_t threads;
};

/* Work in pieces that the threads take in turn. */
struct work {
    int (*piece)(struct sw_searcher *s, void *context, int32_t index, struct sw_error *err);
    void *context;
    int32_t count;
    atomic_int next, failed_at; /* failed_at: smallest index that failed; count: none */
    pthread_mutex_t lock;       /* guards err */
    struct sw_error err;
};
struct task {
    struct work *work;
    struct sw_searcher *searcher;
};

/* Records the failure of the smallest index, so that the report does not depend on threads. */
static void record_failure(struct work *w, int32_t index, const struct sw_error *err)
{
    pthread_mutex_lock(&w->lock);
    if (index < atomic_load(&w->failed_at)) {
        atomic_store(&w->failed_at, index);
        w->err = *err;
    }
    pthread_mutex_unlock(&w->lock);
}

static void *take_pieces(void *context)
{
    const struct task *task = context;
    struct work *w = task->work;
    for (;;) {
        const int32_t i = atomic_fetch_add(&w->next, 1);
        if (i >= w->count || atomic_load(&w->failed_at) < i)
            return NULL;
        struct sw_error err = {0};
        if (w->piece(task->searcher, w->context, i, &err) != 0)
            record_failure(w, i, &err);
    }
}

/* Runs w->count pieces of work. */
static int share_out(struct pool *pool, struct work *w, struct sw_error *err)
{
    pthread_t threads[MAX_THREADS];
    struct task tasks[MAX_THREADS];
    int32_t started = 1;
    atomic_init(&w->next, 0);
    atomic_init(&w->failed_at, w->count);
    pthread_mutex_init(&w->lock, NULL);
    for (int32_t i = 0; i < pool->threads; i++)
        tasks[i] = (struct task){w, &pool->searcher[i]};
    while (started < pool->threads && started < w->count &&
           pthread_create(&threads[started], NULL, take_pieces, &tasks[started]) == 0)
        started++;
    take_pieces(&tasks[0]);
    for (int32_t i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&w->lock);
    return atomic_load(&w->failed_at) < w->count ? sw_fail_as(err, &w->err) : 0;
}

static int32_t thread_count(int32_t meshes)
{
    cpu_set_t allowed; /* limited by taskset or a container */
    const int32_t cores =
        sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    if (meshes < PARALLEL_FROM || cores <= 1)
        return 1;
    return cores < MAX_THREADS ? cores : MAX_THREADS;
}

/* ---- All meshes ---- */

/* Meshes with the same tp and sp share a preference and are visited together, those of similar
 * structure one after another, so that few programs suffice. */
struct group {
    int32_t first, count; /* range of the order */
};
struct schedule {
    struct sw_search *search;
    int32_t *order;       /* [count]: meshes */
    struct group *groups; /* [group_count] */
    int32_t group_count;
};

struct sorted {
    int32_t key[5]; /* 1 if tp and sp split anything, tp, sp, 1 if dp, if fsdp does, index */
};

static int compare_sorted(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    for (int32_t i = 0; i < 5; i++)
        if (x->key[i] != y->key[i])
            return x->key[i] < y->key[i] ? -1 : 1;
    return 0;
}

static int make_schedule(struct sw_search *search, struct schedule *out, struct sw_error *err)
{
    const size_t n = (size_t)search->count + 1;
    struct sorted *sorted = calloc(n, sizeof *sorted);
    *out = (struct schedule){.search = search,
                             .order = calloc(n, sizeof *out->order),
                             .groups = calloc(n, sizeof *out->groups)};
    if (sorted == NULL || out->order == NULL || out->groups == NULL) {
        free(sorted);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    }
    for (int32_t i = 0; i < search->count; i++) {
        const int32_t *size = search->mesh[i].decision.mesh.size;
        sorted[i] = (struct sorted){{(size[SW_SP] > 1) + 2 * (size[SW_TP] > 1), size[SW_TP],
                                     size[SW_SP], (size[SW_FSDP] > 1) + 2 * (size[SW_DP] > 1), i}};
    }
    qsort(sorted, (size_t)search->count, sizeof *sorted, compare_sorted);
    for (int32_t i = 0; i < search->count; i++) {
        out->order[i] = sorted[i].key[4];
        if (i == 0 || sorted[i].key[1] != sorted[i - 1].key[1] ||
            sorted[i].key[2] != sorted[i - 1].key[2])
            out->groups[out->group_count++].first = i;
        out->groups[out->group_count - 1].count++;
    }
    free(sorted);
    return 0;
}

static int search_group(struct sw_searcher *s, void *context, int32_t index, struct sw_error *err)
{
    const struct schedule *w = context;
    const struct group *group = &w->groups[index];
    const int32_t *order = &w->order[group->first];
    struct sw_preferences preferences = {.count = 0};
    for (int32_t k = 0; k < group->count; k++)
        if (s->row->search_mesh(s, &preferences, &w->search->mesh[order[k]], err) != 0)
            return -1;
    return 0;
}

static int search_all(struct pool *pool, struct sw_search *search, struct sw_error *err)
{
    struct schedule schedule;
    int status = make_schedule(search, &schedule, err);
    if (status == 0) {
        struct work w = {
            .piece = search_group, .context = &schedule, .count = schedule.group_count};
        status = share_out(pool, &w, err);
    }
    free(schedule.order);
    free(schedule.groups);
    return status;
}

/* Rows whose axis order has to be settled, each alone. */
struct settling {
    struct sw_search *search;
    int32_t *row; /* at most [feasible] */
};

static int settle_one(struct sw_searcher *s, void *context, int32_t index, struct sw_error *err)
{
    const struct settling *w = context;
    return sw_search_settle_order(s, &w->search->mesh[w->row[index]], err);
}

/* Lists rows that are shown or may be chosen, and let tp leave its domain. Returns their number. */
static int32_t list_unsettled(const struct sw_searcher *s, const struct sw_search *search,
                              int32_t rows, int32_t *out)
{
    struct sw_mesh fastest;
    const double limit = sw_rank_fastest(search, &fastest) * (1 + s->run->prefer_within);
    int32_t count = 0;
    for (int32_t i = 0; i < search->feasible; i++) {
        const struct sw_candidate *c = &search->mesh[i];
        if ((i < rows || i == search->fastest || c->fastest_seconds <= limit) &&
            !sw_search_is_settled(s, c))
            out[count++] = i;
    }
    return count;
}

/* Settles the axis orders of the first rows, of the fastest and of all that may be chosen: with tp
 * inside, a mesh is slower, and others move before it. */
static int settle_orders(const struct sw_run_config *run, struct pool *pool, int32_t rows,
                         struct sw_search *search, struct sw_error *err)
{
    struct settling settling = {search, NULL};
    struct work w = {.piece = settle_one, .context = &settling};
    int status = 0;
    if (search->purpose != SW_FOR_TRAIN || run->prefer != SW_PREFER_FSDP || search->feasible == 0)
        return 0;
    settling.row = malloc((size_t)search->feasible * sizeof *settling.row);
    if (settling.row == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    while (status == 0 &&
           (w.count = list_unsettled(&pool->searcher[0], search, rows, settling.row)) > 0) {
        status = share_out(pool, &w, err);
        search->row->rank(search, run);
    }
    free(settling.row);
    return status;
}

/* The first rows, and the fastest, whose options are chosen again, each alone. */
struct sparing {
    struct sw_search *search;
    int32_t rows;
};

static int spare_one(struct sw_searcher *s, void *context, int32_t index, struct sw_error *err)
{
    const struct sparing *w = context;
    const int32_t row = index < w->rows ? index : w->search->fastest;
    return sw_search_spare(s, &w->search->mesh[row], err);
}

static int spare_rows(const struct sw_run_config *run, struct pool *pool, int32_t rows,
                      struct sw_search *search, struct sw_error *err)
{
    struct sparing sparing = {search, rows < search->feasible ? rows : search->feasible};
    struct work w = {.piece = spare_one,
                     .context = &sparing,
                     .count = sparing.rows + (search->fastest >= sparing.rows)};
    if (search->purpose != SW_FOR_TRAIN || sw_run_config_prefers_time(run) || search->feasible == 0)
        return 0;
    return share_out(pool, &w, err);
}

/* ---- The list of meshes ---- */

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

/* Lists the meshes of the request; *wrong_product is set if its sizes do not make the cluster. */
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
                return sw_fail_as(err, &why);
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

int sw_search_model_flops(const struct sw_run_config *run, double *out, struct sw_error *err)
{
    struct sw_decision one = {.mesh = sw_mesh_make(1, 1, 1, 1),
                              .train.micro_batch_size = 1,
                              .train.strategy = SW_ATTENTION_RING,
                              .train.layout = run->layout};
    struct sw_program_options options;
    if (sw_plan_program_options(run, &one, &options, err) != 0)
        return -1;
    return sw_program_model_flops(&options, out, err);
}

int sw_searcher_init(struct sw_searcher *s, const struct sw_run_config *run,
                     const struct sw_purpose_row *row, const struct sw_mesh_request *request,
                     struct sw_error *err)
{
    *s = (struct sw_searcher){.run = run,
                              .row = row,
                              .keep_order = request->keep_order,
                              .tp_inside = run->prefer == SW_PREFER_FSDP_STRICT,
                              .asked = !request->is_auto};
    s->sharding = sw_plan_sharding(run);
    /* the run's rules may settle residual_seq */
    for (int32_t i = 0; i < run->rule_count; i++) {
        const struct sw_rule_config *rule = &run->rule[i];
        if (rule->logical == NULL || strcmp(rule->logical, "residual_seq") != 0)
            continue;
        s->residual_fixed = true;
        s->residual_tp = rule->count == 2 && strcmp(rule->axis[0], "sp") == 0 &&
                         strcmp(rule->axis[1], "tp") == 0;
    }
    struct sw_lora lora;
    if (sw_plan_lora(run, &lora, err) != 0 ||
        sw_program_layer_values(&run->model.shape, &lora, &s->layer_values, err) != 0)
        return -1;
    return sw_plan_recompute(&run->recompute, &s->layer_values, &s->recompute, err);
}

static int open_pool(struct pool *pool, const struct sw_searcher *like, int32_t meshes,
                     struct sw_error *err)
{
    const int32_t wanted = thread_count(meshes);
    for (pool->threads = 0; pool->threads < wanted; pool->threads++) {
        struct sw_searcher *s = &pool->searcher[pool->threads];
        *s = *like;
        s->cache = sw_program_cache_new(meshes);
        if (s->cache == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    }
    return 0;
}

static void close_pool(struct pool *pool)
{
    for (int32_t i = 0; i < pool->threads; i++)
        sw_program_cache_free(pool->searcher[i].cache);
}

static int parse_request(const struct sw_run_config *run, struct sw_mesh_request *out,
                         struct sw_error *err)
{
    struct sw_error why = {0};
    if (sw_mesh_request_parse(run->mesh_dim, out, &why) == 0)
        return 0;
    if (run->mesh_dim_place.line > 0)
        sw_fail_place(&why, run->mesh_dim_place);
    return sw_fail_as(err, &why);
}

/* Adds a position, and `what` as context (NULL: none), to a user's mistake without position. */
static int blame(struct sw_place at, const char *what, struct sw_error *err)
{
    if (err == NULL || at.file == NULL || err->file[0] != '\0' ||
        (err->status != SW_UNMET && err->status != SW_BAD_INPUT))
        return -1;
    at.line = at.line > 0 ? at.line : 1;
    at.column = at.column > 0 ? at.column : 1;
    if (what != NULL)
        sw_fail_context(err, "%s", what);
    return sw_fail_place(err, at);
}

/* True if the message contains the row as a word. */
static bool names_row(const char *message, const char *row)
{
    const size_t length = strlen(row);
    for (const char *at = strstr(message, row); at != NULL; at = strstr(at + 1, row))
        if ((at == message || strchr(" [(", at[-1]) != NULL) && strchr(",])", at[length]) != NULL)
            return true;
    return false;
}

int sw_search_blame_rules(const struct sw_run_config *run, struct sw_error *err)
{
    if (run->rule_count == 0)
        return -1;
    int32_t at = 0; /* the first row if none is named */
    for (int32_t i = run->rule_count - 1; err != NULL && i >= 0; i--)
        if (run->rule[i].logical != NULL && names_row(err->message, run->rule[i].logical))
            at = i;
    if (err != NULL && err->status == SW_UNMET)
        err->status = SW_BAD_INPUT;
    return blame(run->rule[at].place,
                 "these rules do not go together, let each axis split a tensor once", err);
}

/* True if the rules suit none of the meshes that model and batch admit: a mistake. Ranked, such
 * meshes stand first then. */
static bool are_all_refused(const struct sw_search *search)
{
    return search->count > 0 && search->mesh[0].reason == SW_REJECT_RULES;
}

/* Needs a pool, which the caller closes whatever the result. */
static int search_meshes(const struct sw_run_config *run, const struct sw_purpose_row *row,
                         int32_t rows, struct pool *pool, struct sw_search *out,
                         struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_searcher like;
    bool wrong_product = false;
    memset(out, 0, sizeof *out);
    out->purpose = row->purpose;
    out->row = row;
    out->fastest = -1;
    out->accelerators = run->cluster.nodes * run->cluster.accelerators_per_node;
    if (parse_request(run, &request, err) != 0)
        return -1;
    if (sw_searcher_init(&like, run, row, &request, err) != 0)
        return -1;
    out->layer_values = like.layer_values;
    if (sw_search_model_flops(run, &like.model_flops, err) != 0) {
        blame(run->sequence_place, NULL, err);
        goto fail;
    }
    if (list_meshes(&request, out, &wrong_product, err) != 0 ||
        open_pool(pool, &like, out->count, err) != 0)
        goto fail;
    if (!wrong_product && search_all(pool, out, err) != 0)
        goto fail;
    row->rank(out, run);
    if (are_all_refused(out)) {
        sw_fail(err, SW_UNMET, "%s", out->mesh[0].detail);
        goto fail;
    }
    if (settle_orders(run, pool, rows, out, err) != 0 || spare_rows(run, pool, rows, out, err) != 0)
        goto fail;
    for (int32_t i = 0; i < out->count; i++)
        (void)sw_plan_tell_sharding(run, &out->mesh[i].decision, &out->mesh[i].sharding);
    return 0;
fail:
    sw_search_free(out);
    return -1;
}

int sw_search_meshes(const struct sw_run_config *run, const struct sw_purpose_row *row,
                     int32_t rows, struct sw_search *out, struct sw_searcher *kept,
                     struct sw_error *err)
{
    struct pool pool = {.threads = 0};
    const int status = search_meshes(run, row, rows, &pool, out, err);
    if (status == 0 && kept != NULL) {
        *kept = pool.searcher[0];
        pool.searcher[0].cache = NULL;
    }
    close_pool(&pool);
    return status == 0 ? 0 : sw_search_blame_rules(run, err);
}

void sw_search_free(struct sw_search *search)
{
    if (search == NULL)
        return;
    free(search->mesh);
    memset(search, 0, sizeof *search);
}
