/* Smallest changes for a run that fits on no mesh: other nodes, another sequence_length, another
 * global_batch_size, each alone. Nothing is guessed: bounds only skip what cannot fit, and every
 * reported change was searched. */
#include "planner/search/purpose.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* limit of tried numbers of nodes: a search of so many takes a second */
    MOST_ACCELERATORS = 8192,
    SHORTEST = 16,   /* tokens: no run trains on fewer */
    LONGER_TIMES = 2 /* largest factor of a sequence */
};
/* Tolerance of bounds, for alignment. */
static const double ALIGNMENT = 0.95;
/* Relative lengthening that counts as a smaller change than other nodes: no token is dropped. */
static const double SLIGHT = 0.01;

/* ---- Does a run fit? ---- */

/* dp 1 needs least of all meshes with the same tp and sp, except for padding: others are tried if
 * it nearly fits. */
enum { MOST_PAIRS = 256 };
struct pair {
    int32_t tp, sp;
};
struct probe {
    struct sw_searcher s;
    bool first; /* first of two passes: dp 1 */
    struct pair pair[MOST_PAIRS];
    int32_t pair_count; /* pairs for which dp 1 may nearly fit; MOST_PAIRS: all count as such */
    bool fits;
    int status;
    struct sw_error *err;
};

static struct sw_searcher searcher_for(const struct sw_searcher *like,
                                       const struct sw_run_config *run)
{
    struct sw_searcher s = *like;
    s.run = run;
    s.sharding = sw_plan_sharding(run);
    s.latest_program = NULL; /* belongs to another run */
    s.asked = s.keep_order = s.spends_headroom = false;
    return s;
}

/* Lower bound of bytes of the mesh with its smallest options; -1: not admitted. */
static int least_bytes(struct sw_searcher *s, const struct sw_mesh *mesh, int64_t *out,
                       struct sw_error *err)
{
    struct sw_preference p;
    sw_search_list_variants(s, mesh, &p);
    *out = -1;
    for (int32_t i = 0; i < p.count; i++) {
        const struct sw_decision smallest = sw_searcher_smallest(s, mesh, &p.variant[i]);
        struct sw_sized sized;
        if (sw_searcher_size(s, &smallest, &sized, err) != 0)
            return -1;
        if (sized.program != NULL && (*out < 0 || sized.least_bytes < *out))
            *out = sized.least_bytes;
    }
    return 0;
}

/* True if a mesh of dp 1, or one with the same tp and sp and fewer ways of the rest, may fit. Each
 * of fsdp and sp has a part of the hidden size, padded if it does not divide: fewer ways can save
 * only that. */
static int may_fit(struct sw_searcher *s, const struct sw_mesh *mesh, bool *out,
                   struct sw_error *err)
{
    const struct sw_run_config *run = s->run;
    const int64_t hidden = run->model.shape.hidden_size,
                  parts = (int64_t)mesh->size[SW_FSDP] * mesh->size[SW_SP] *
                          (run->rule_count > 0 ? mesh->size[SW_TP] : 1),
                  padded = (hidden + parts - 1) / parts * parts;
    int64_t least;
    if (least_bytes(s, mesh, &least, err) != 0)
        return -1;
    *out = least >= 0 && (double)least * ALIGNMENT * (double)hidden / (double)padded <=
                             (double)run->cluster.accelerator.memory_bytes;
    return 0;
}

/* Sets *fits if some smallest options of the mesh fit; else the mesh's search decides. */
static int smallest_fit(struct sw_searcher *s, const struct sw_mesh *mesh, bool *fits,
                        struct sw_error *err)
{
    struct sw_preference p;
    sw_search_list_variants(s, mesh, &p);
    for (int32_t i = 0; i < p.count && !*fits; i++) {
        const struct sw_decision smallest = sw_searcher_smallest(s, mesh, &p.variant[i]);
        struct sw_candidate c;
        struct sw_sized sized;
        if (sw_searcher_size(s, &smallest, &sized, err) != 0)
            return -1;
        if (sized.program == NULL || sized.least_bytes > sw_searcher_limit(s))
            continue;
        if (sw_searcher_measure(s, &sized, &c, err) != 0)
            return -1;
        *fits = c.reason == SW_FITS;
    }
    return 0;
}

/* Runs the search on one mesh. */
static int probe_mesh(struct probe *p, const struct sw_mesh *mesh)
{
    struct sw_preferences preferences = {.count = 0};
    struct sw_candidate c = {.decision.mesh = *mesh};
    int64_t least;
    if (least_bytes(&p->s, mesh, &least, p->err) != 0)
        return -1;
    if (least < 0 || least > p->s.run->cluster.accelerator.memory_bytes)
        return 0;
    if (smallest_fit(&p->s, mesh, &p->fits, p->err) != 0)
        return -1;
    if (p->fits)
        return 0;
    if (sw_search_mesh(&p->s, &preferences, &c, p->err) != 0)
        return -1;
    p->fits = c.reason == SW_FITS;
    return 0;
}

static bool is_near(const struct probe *p, const struct sw_mesh *mesh)
{
    bool near = p->pair_count == MOST_PAIRS;
    for (int32_t i = 0; i < p->pair_count && !near; i++)
        near = p->pair[i].tp == mesh->size[SW_TP] && p->pair[i].sp == mesh->size[SW_SP];
    return near;
}

static int visit(const struct sw_mesh *mesh, void *context)
{
    struct probe *p = context;
    bool may = true;
    if ((mesh->size[SW_DP] == 1) != p->first)
        return 0;
    if (p->first)
        p->status = may_fit(&p->s, mesh, &may, p->err);
    else
        may = is_near(p, mesh);
    if (p->first && may && p->pair_count < MOST_PAIRS)
        p->pair[p->pair_count++] = (struct pair){mesh->size[SW_TP], mesh->size[SW_SP]};
    if (p->status == 0 && may)
        p->status = probe_mesh(p, mesh);
    return p->status != 0 || p->fits;
}

/* True if the run fits on any mesh of its cluster with headroom. */
static int fits_anywhere(const struct sw_searcher *like, const struct sw_run_config *run,
                         bool *fits, struct sw_error *err)
{
    const int32_t accelerators = run->cluster.nodes * run->cluster.accelerators_per_node;
    struct probe p;
    p.s = searcher_for(like, run);
    p.pair_count = p.status = 0;
    p.fits = false;
    p.err = err;
    for (int32_t pass = 0; pass < 2 && !p.fits && p.status == 0; pass++) {
        p.first = pass == 0;
        (void)sw_mesh_enumerate(accelerators, visit, &p);
    }
    *fits = p.fits;
    return p.status;
}

/* ---- Changes ---- */

/* Searches the run of a trial; keeps the change if it fits. A mesh named by the run stays if it
 * fits. */
static int prove(const struct sw_searcher *like, const struct sw_trial *trial, struct sw_rescue *r,
                 bool *fits, struct sw_error *err)
{
    struct sw_way_out *way = &r->way[r->count];
    struct sw_trial t = *trial;
    struct sw_mesh_request request;
    char mesh[48];
    *fits = false;
    for (int32_t pass = 0; pass < 2; pass++) {
        struct sw_error why = {0};
        t.run.mesh_dim = pass == 0 ? like->run->mesh_dim : "auto";
        if (pass == 0 &&
            (sw_mesh_request_parse(t.run.mesh_dim, &request, err) != 0 || request.is_auto))
            continue;
        memset(&way->found, 0, sizeof way->found);
        if (sw_search_meshes(&t.run, like->row->training, 1, &way->found, NULL, &why) != 0) {
            if (why.status == SW_ENVIRONMENT)
                return sw_fail_as(err, &why);
            continue; /* otherwise it fits nowhere */
        }
        if (way->found.feasible > 0 &&
            sw_candidate_verdict(&way->found.mesh[0]) == SW_VERDICT_FITS) {
            if (pass == 1 && !request.is_auto)
                sw_trial_note(&t, "mesh_dim",
                              sw_mesh_format(&way->found.mesh[0].decision.mesh, mesh, sizeof mesh));
            way->changes = t.changes;
            r->count++;
            *fits = true;
            return 0;
        }
        sw_search_free(&way->found);
    }
    return 0;
}

/* The same, releasing settings fixed by the run only as needed. */
static int prove_least(const struct sw_searcher *like, const struct sw_trial *fixed,
                       const struct sw_trial *relaxed, struct sw_rescue *r, bool *fits,
                       struct sw_error *err)
{
    *fits = false;
    if (fixed->changes.count < relaxed->changes.count) {
        if (fits_anywhere(like, &fixed->run, fits, err) != 0)
            return -1;
        if (*fits && prove(like, fixed, r, fits, err) != 0)
            return -1;
    }
    return *fits ? 0 : prove(like, relaxed, r, fits, err);
}

/* ---- Nodes ---- */

/* Connects the trial's nodes after a change: the last link's span grows with them; nodes without a
 * link get one with assumed figures. */
static bool join_nodes(struct sw_trial *t)
{
    struct sw_cluster_config *cluster = &t->run.cluster;
    const int32_t all = cluster->nodes * cluster->accelerators_per_node;
    struct sw_link_config *last =
        cluster->link_count > 0 ? &cluster->link[cluster->link_count - 1] : NULL;
    char key[96];
    if (all == 1 || (last != NULL && last->spans >= all))
        return true;
    if (last != NULL && last->spans > cluster->accelerators_per_node) {
        last->spans = all;
        last->spans_all = true;
        if (last->name != NULL && last->name[strcspn(last->name, ".= ")] == '\0')
            snprintf(key, sizeof key, "cluster.links.%.64s.spans", last->name);
        else
            snprintf(key, sizeof key, "cluster.links.%d.spans", (int)cluster->link_count - 1);
        sw_trial_note(t, key, "all");
        return true;
    }
    if (cluster->link_count == SW_MAX_LINKS)
        return false;
    cluster->link[cluster->link_count++] = (struct sw_link_config){
        .name = "assumed", .spans = all, .spans_all = true, .bandwidth = 25e9, .latency_s = 10e-6};
    sw_trial_note(t, cluster->link_count == 1 ? "cluster.links" : "cluster.links.assumed",
                  cluster->link_count == 1
                      ? "[{name: assumed, spans: all, bandwidth: 25 GB/s, latency: 10 us}]"
                      : "{name: assumed, spans: all, bandwidth: 25 GB/s, latency: 10 us}");
    return true;
}

/* Sets the trial's number of nodes; at most the cluster's if the run gives its nodes. */
static bool set_nodes(const struct sw_trial *base, int64_t nodes, struct sw_trial *out)
{
    char text[32];
    *out = *base;
    snprintf(text, sizeof text, "%d", (int)nodes);
    if (base->run.nodes == NULL || nodes > base->run.cluster_nodes)
        sw_trial_note(out, "cluster.nodes", text);
    if (base->run.nodes != NULL)
        sw_trial_note(out, "nodes", text);
    sw_cluster_resize(&out->run.cluster, (int32_t)nodes);
    out->run.nodes = NULL;
    out->run.nodes_least = out->run.nodes_most = (int32_t)nodes;
    return join_nodes(out);
}

/* dp x fsdp below which nothing can fit, for each tp and sp; found when needed. */
struct bounds {
    struct sw_searcher s;
    struct sw_trial trial; /* with the most nodes */
    int32_t *least;        /* [starts[MOST_ACCELERATORS + 1]]: -1 unknown, 0 never fits */
    int32_t *starts;       /* begin of the row of each tp, for sp 1, 2, ... */
};

static int open_bounds(const struct sw_searcher *like, const struct sw_trial *base,
                       struct bounds *b, struct sw_error *err)
{
    int32_t count = 0;
    b->trial = *base;
    b->s = searcher_for(like, &b->trial.run);
    b->least = NULL;
    b->starts = calloc(MOST_ACCELERATORS + 1, sizeof *b->starts);
    for (int32_t tp = 1; b->starts != NULL && tp <= MOST_ACCELERATORS; tp++) {
        b->starts[tp] = count;
        count += MOST_ACCELERATORS / tp;
    }
    if (b->starts != NULL)
        b->least = malloc((size_t)count * sizeof *b->least);
    if (b->least == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    for (int32_t i = 0; i < count; i++)
        b->least[i] = -1;
    return 0;
}

static void close_bounds(struct bounds *b)
{
    free(b->least);
    free(b->starts);
}

/* *out: least dp x fsdp for this tp and sp, 0: none suffices. */
static int bound_of(struct bounds *b, int32_t tp, int32_t sp, int32_t *out, struct sw_error *err)
{
    int32_t *known = &b->least[b->starts[tp] + sp - 1];
    int64_t most = MOST_ACCELERATORS / tp / sp;
    bool may;
    struct sw_mesh mesh = sw_mesh_make(1, 1, tp, sp);
    if (*known < 0) {
        if (b->trial.run.rule_count == 0 && most > b->trial.run.global_batch_size)
            most = b->trial.run.global_batch_size;
        mesh.size[SW_FSDP] = (int32_t)most;
        if (may_fit(&b->s, &mesh, &may, err) != 0)
            return -1;
        int32_t low = 0, high = (int32_t)most;
        while (may && high - low > 1) {
            const int32_t middle = low + (high - low) / 2;
            bool fits;
            mesh.size[SW_FSDP] = middle;
            if (may_fit(&b->s, &mesh, &fits, err) != 0)
                return -1;
            *(fits ? &high : &low) = middle;
        }
        *known = may ? high : 0;
    }
    *out = *known;
    return 0;
}

/* True if a mesh of that many accelerators may fit, by bounds. */
static int is_promising(struct bounds *b, int32_t accelerators, bool *out, struct sw_error *err)
{
    const int64_t batch = b->trial.run.global_batch_size;
    *out = false;
    for (int32_t tp = 1; tp <= accelerators; tp++) {
        if (accelerators % tp != 0)
            continue;
        for (int32_t sp = 1; sp <= accelerators / tp; sp++) {
            const int32_t ways = accelerators / tp / sp;
            int32_t least;
            if (accelerators / tp % sp != 0 || (b->trial.run.rule_count == 0 && ways > batch))
                continue;
            if (bound_of(b, tp, sp, &least, err) != 0)
                return -1;
            *out = least > 0 && ways >= least;
            if (*out)
                return 0;
        }
    }
    return 0;
}

static int try_nodes(const struct sw_searcher *like, const struct sw_trial *fixed,
                     const struct sw_trial *relaxed, struct bounds *b, int64_t nodes,
                     struct sw_rescue *r, bool *fits, struct sw_error *err)
{
    struct sw_trial of_fixed, of_relaxed;
    bool promising;
    *fits = false;
    if (is_promising(b, (int32_t)nodes * fixed->run.cluster.accelerators_per_node, &promising,
                     err) != 0)
        return -1;
    if (!promising || !set_nodes(relaxed, nodes, &of_relaxed) ||
        !set_nodes(fixed, nodes, &of_fixed))
        return 0;
    if (fits_anywhere(like, &of_relaxed.run, fits, err) != 0)
        return -1;
    return *fits ? prove_least(like, &of_fixed, &of_relaxed, r, fits, err) : 0;
}

/* The largest smaller number of nodes that fits, since it costs less; else the smallest larger
 * one. */
static int rescue_by_nodes(const struct sw_searcher *like, const struct sw_trial *fixed,
                           const struct sw_trial *relaxed, struct sw_rescue *r,
                           struct sw_error *err)
{
    const int64_t now = fixed->run.cluster.nodes,
                  most = MOST_ACCELERATORS / fixed->run.cluster.accelerators_per_node;
    struct bounds b;
    bool fits = false;
    int status = open_bounds(like, relaxed, &b, err);
    for (int64_t n = now <= most ? now - 1 : most; status == 0 && !fits && n >= 1; n--)
        status = try_nodes(like, fixed, relaxed, &b, n, r, &fits, err);
    for (int64_t n = now + 1; status == 0 && !fits && n <= most; n++)
        status = try_nodes(like, fixed, relaxed, &b, n, r, &fits, err);
    close_bounds(&b);
    return status;
}

/* ---- Length ---- */

enum { MOST_DIVISORS = 512 };
struct divisors {
    int32_t count;
    int64_t of[MOST_DIVISORS]; /* descending */
};

static void add_divisor(struct divisors *d, int64_t divisor)
{
    int32_t i = 0;
    while (i < d->count && d->of[i] > divisor)
        i++;
    if ((i < d->count && d->of[i] == divisor) || d->count == MOST_DIVISORS)
        return;
    memmove(&d->of[i + 1], &d->of[i], (size_t)(d->count - i) * sizeof d->of[0]);
    d->of[i] = divisor;
    d->count++;
}

/* Adds the divisors of the length that a mesh may require. */
static int add_divisors(const struct sw_mesh *mesh, void *context)
{
    const int64_t sp = mesh->size[SW_SP], tp = mesh->size[SW_TP];
    add_divisor(context, sp);
    add_divisor(context, sp * tp);
    add_divisor(context, 2 * sp);
    add_divisor(context, 2 * sp * tp);
    return 0;
}

static int fits_with_length(const struct sw_searcher *like, const struct sw_trial *base,
                            int64_t length, bool *fits, struct sw_error *err)
{
    struct sw_run_config run = base->run;
    run.sequence_length = length;
    return fits_anywhere(like, &run, fits, err);
}

/* The longest multiple of `divisor` below the run's length that fits and is longer than *best;
 * memory grows with the length. */
static int shorten(const struct sw_searcher *like, const struct sw_trial *base, int64_t divisor,
                   int64_t *best, struct sw_error *err)
{
    const int64_t least = *best >= SHORTEST ? *best : SHORTEST - 1;
    int64_t low = least / divisor + 1, high = (base->run.sequence_length - 1) / divisor + 1;
    bool fits;
    if (low >= high)
        return 0;
    /* try the nearest alone: with less recomputation it need not need less */
    if (fits_with_length(like, base, (high - 1) * divisor, &fits, err) != 0)
        return -1;
    if (fits)
        low = high - 1;
    else if (fits_with_length(like, base, low * divisor, &fits, err) != 0)
        return -1;
    if (!fits)
        return 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fits_with_length(like, base, middle * divisor, &fits, err) != 0)
            return -1;
        *(fits ? &low : &high) = middle;
    }
    *best = low * divisor;
    return 0;
}

/* The nearest longer length that fits, at most `most`; 0: none. */
static int lengthen(const struct sw_searcher *like, const struct sw_trial *base,
                    const struct divisors *d, int64_t most, int64_t *best, struct sw_error *err)
{
    *best = 0;
    for (int32_t i = 0; i < d->count; i++) {
        const int64_t length = (base->run.sequence_length / d->of[i] + 1) * d->of[i];
        bool fits;
        if (length > most || (*best > 0 && length >= *best))
            continue;
        if (fits_with_length(like, base, length, &fits, err) != 0)
            return -1;
        if (fits)
            *best = length;
    }
    return 0;
}

static struct sw_trial with_integer(const struct sw_trial *base, const char *setting, int64_t to)
{
    struct sw_trial t = *base;
    if (strcmp(setting, "sequence_length") == 0)
        t.run.sequence_length = to;
    else
        t.run.global_batch_size = to;
    sw_trial_note_integer(&t, setting, to);
    return t;
}

/* Proves a changed length or batch. */
static int prove_integer(const struct sw_searcher *like, const struct sw_trial *fixed,
                         const struct sw_trial *relaxed, const char *setting, int64_t to,
                         struct sw_rescue *r, struct sw_error *err)
{
    const struct sw_trial of_fixed = with_integer(fixed, setting, to),
                          of_relaxed = with_integer(relaxed, setting, to);
    bool fits;
    return prove_least(like, &of_fixed, &of_relaxed, r, &fits, err);
}

/* Moves the last change to the front. */
static void move_to_front(struct sw_rescue *r)
{
    const struct sw_way_out last = r->way[r->count - 1];
    memmove(&r->way[1], &r->way[0], (size_t)(r->count - 1) * sizeof r->way[0]);
    r->way[0] = last;
}

static int rescue_by_length(const struct sw_searcher *like, const struct sw_trial *fixed,
                            const struct sw_trial *relaxed, struct sw_rescue *r,
                            struct sw_error *err)
{
    const int64_t now = fixed->run.sequence_length;
    struct divisors d = {.count = 0};
    int64_t shorter = 0, longer = 0;
    (void)sw_mesh_enumerate(fixed->run.cluster.nodes * fixed->run.cluster.accelerators_per_node,
                            add_divisors, &d);
    for (int32_t i = 0; i < d.count; i++)
        if (shorten(like, relaxed, d.of[i], &shorter, err) != 0)
            return -1;
    const int64_t most = shorter > 0 ? now + (now - shorter) : LONGER_TIMES * now;
    if (lengthen(like, relaxed, &d, most, &longer, err) != 0)
        return -1;
    const int64_t to = longer > 0 ? longer : shorter;
    const int32_t before = r->count;
    if (to > 0 && prove_integer(like, fixed, relaxed, "sequence_length", to, r, err) != 0)
        return -1;
    if (r->count > before && to > now && (double)(to - now) <= SLIGHT * (double)now)
        move_to_front(r);
    return 0;
}

/* ---- Batch ---- */

/* Adds the number of ranks that split a batch, of which the batch may have to be a multiple. */
static int add_ways(const struct sw_mesh *mesh, void *context)
{
    add_divisor(context, (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP]);
    return 0;
}

/* The nearest batch that fits: larger, so that fsdp can split the state further, or smaller, so
 * that one micro-step has all of it and no gradients are summed. */
static int rescue_by_batch(const struct sw_searcher *like, const struct sw_trial *fixed,
                           const struct sw_trial *relaxed, struct sw_rescue *r,
                           struct sw_error *err)
{
    const int64_t now = fixed->run.global_batch_size;
    struct divisors d = {.count = 0};
    int64_t best = 0;
    (void)sw_mesh_enumerate(fixed->run.cluster.nodes * fixed->run.cluster.accelerators_per_node,
                            add_ways, &d);
    for (int32_t i = 0; i < d.count; i++) {
        const int64_t batch = d.of[i], by = batch > now ? batch - now : now - batch;
        const int64_t best_by = best > now ? best - now : now - best;
        struct sw_run_config run = relaxed->run;
        bool fits;
        if (batch == now || (best > 0 && by >= best_by))
            continue;
        run.global_batch_size = batch;
        if (fits_anywhere(like, &run, &fits, err) != 0)
            return -1;
        if (fits)
            best = batch;
    }
    return best == 0 ? 0 : prove_integer(like, fixed, relaxed, "global_batch_size", best, r, err);
}

int sw_rescue_find(const struct sw_searcher *like, struct sw_rescue *r, struct sw_error *err)
{
    struct sw_trial fixed = {.run = *like->run}, relaxed;
    const int64_t accelerators =
        (int64_t)fixed.run.cluster.nodes * fixed.run.cluster.accelerators_per_node;
    bool fits = false;
    if (r->tried)
        return 0;
    r->tried = true;
    fixed.run.mesh_dim = "auto";
    relaxed = fixed;
    while (sw_trial_relax(like, &relaxed)) {
        if (fits_anywhere(like, &relaxed.run, &fits, err) != 0)
            return -1;
        if (fits)
            return prove(like, &relaxed, r, &fits, err);
    }
    if (accelerators > MOST_ACCELERATORS) /* a larger number is probably a mistake */
        return rescue_by_nodes(like, &fixed, &relaxed, r, err);
    if (rescue_by_nodes(like, &fixed, &relaxed, r, err) != 0 ||
        rescue_by_length(like, &fixed, &relaxed, r, err) != 0 ||
        rescue_by_batch(like, &fixed, &relaxed, r, err) != 0)
        return -1;
    return 0;
}

void sw_rescue_free(struct sw_rescue *r)
{
    for (int32_t i = 0; i < r->count; i++)
        sw_search_free(&r->way[i].found);
    r->count = 0;
}
