/* Why a mesh is rejected, and the smallest change that would admit it. A suggestion is a promise:
 * with it the mesh, or the one that it names, is admitted. Each is either another mesh that the
 * search found to fit, the nearest in steps along the axes, or settings that were tried here. Where
 * no mesh fits, in this order: settings that the run fixed, a larger batch, a shorter sequence,
 * another number of nodes; another accelerator only when none of them helps. */
#include "core/base/number.h"
#include "planner/search/purpose.h"

#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run with changes, and what they were. */
struct trial {
    struct sw_run_config run;
    struct sw_suggestion changes;
};

static void note(struct sw_suggestion *s, const char *change, const char *to)
{
    if (s->count == SW_MAX_CHANGES)
        return;
    snprintf(s->change[s->count].setting, sizeof s->change[0].setting, "%s", change);
    snprintf(s->change[s->count++].to, sizeof s->change[0].to, "%s", to);
}

static void note_integer(struct sw_suggestion *s, const char *change, int64_t to)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, to);
    note(s, change, text);
}

static void describe(const struct sw_suggestion *s, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < s->count && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s: %s", i == 0 ? "use " : " and ",
                                 s->change[i].setting, s->change[i].to);
}

/* The mesh's verdict under that run, which a mesh that is asked for must reach with headroom, too:
 * a suggestion should not end in a warning. */
static int judge(const struct sw_searcher *like, const struct sw_run_config *run,
                 const struct sw_mesh *mesh, struct sw_candidate *out, struct sw_error *err)
{
    struct sw_preference preference;
    struct sw_searcher s = *like;
    s.run = run;
    s.latest_program = NULL; /* of another run */
    s.asked = false;
    memset(out, 0, sizeof *out);
    out->decision.mesh = *mesh;
    if (sw_search_prefer(&s, mesh, &preference, err) != 0)
        return -1;
    return sw_search_mesh(&s, &preference, out, err);
}

/* ---- Settings ---- */

/* With the smallest sequence that is `pieces` times shorter than now and still divides. */
static bool shorten(struct trial *t, const struct sw_mesh *mesh)
{
    const int64_t multiple = 2 * (int64_t)mesh->size[SW_SP] * mesh->size[SW_TP];
    const int64_t half = t->run.sequence_length / 2 / multiple * multiple;
    if (half < multiple || half < 128)
        return false;
    t->run.sequence_length = half;
    return true;
}

/* Activations shrink with the sequence; the largest half, quarter, ... that fits. */
static int try_sequence(const struct sw_searcher *like, struct trial *t, const struct sw_mesh *mesh,
                        bool *fits, struct sw_error *err)
{
    struct trial shorter = *t;
    struct sw_candidate c;
    *fits = false;
    while (!*fits && shorten(&shorter, mesh)) {
        if (judge(like, &shorter.run, mesh, &c, err) != 0)
            return -1;
        *fits = c.reason == SW_FITS;
    }
    if (*fits) {
        *t = shorter;
        note_integer(&t->changes, "sequence_length", t->run.sequence_length);
    }
    return 0;
}

/* Another accelerator, when nothing else helps: whole gigabytes. */
static void enlarge_memory(struct trial *t, const struct sw_candidate *c)
{
    const int64_t gb = 1000000000;
    char text[SW_FORMAT_BYTES];
    int64_t *memory = &t->run.cluster.accelerator.memory_bytes;
    *memory = sw_align((int64_t)((double)c->memory.total / (1 - t->run.memory_headroom)), gb);
    while (*memory - sw_headroom_bytes(&t->run) < c->memory.total)
        *memory += gb;
    snprintf(text, sizeof text, "%" PRId64 " GB", t->run.cluster.accelerator.memory_bytes / gb);
    note(&t->changes, "cluster.accelerator.memory", text);
}

/* What the mesh leaves free, in tenths of a percent. */
static void lower_headroom(struct trial *t, const struct sw_candidate *c)
{
    const struct sw_memory *m = &c->memory;
    const double tenths = floor((double)(m->limit - m->total) / (double)m->limit * 1000);
    char text[SW_FORMAT_BYTES];
    snprintf(text, sizeof text, "%.10g %%", tenths / 10);
    t->run.memory_headroom = tenths / 1000;
    note(&t->changes, "memory_headroom", text);
}

/* Recomputation and the micro-batch, when the run fixed them: whether there was one to let go. */
static bool relax(const struct sw_searcher *like, struct trial *t)
{
    const struct sw_recompute fixed =
        sw_recompute_normal(like->recompute, t->run.model.shape.layers);
    if (!t->run.recompute_auto && !sw_recompute_equal(fixed, sw_recompute_full())) {
        t->run.recompute_auto = true;
        t->run.recompute = (struct sw_recompute_config){0};
        note(&t->changes, "recompute", "auto");
        return true;
    }
    if (t->run.micro_batch_size > 1) {
        t->run.micro_batch_size = 0;
        note(&t->changes, "micro_batch_size", "auto");
        return true;
    }
    return false;
}

static int fix_memory(const struct sw_searcher *like, struct trial *t, const struct sw_candidate *c,
                      const struct sw_mesh *mesh, struct sw_error *err)
{
    const int64_t state = c->memory.parameters + c->memory.gradients + c->memory.optimizer;
    bool fits = false;
    if (state + c->memory.reserved < c->memory.limit - c->memory.headroom &&
        try_sequence(like, t, mesh, &fits, err) != 0)
        return -1;
    if (!fits)
        enlarge_memory(t, c);
    return 0;
}

/* One more setting, for the reason at hand; `last`: also a shorter sequence or another accelerator.
 * Sets *stuck where none helps. */
static int fix(const struct sw_searcher *like, struct trial *t, const struct sw_candidate *c,
               const struct sw_mesh *mesh, bool last, bool *stuck, struct sw_error *err)
{
    const int64_t ways = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    const int64_t micro = t->run.micro_batch_size > 0 ? t->run.micro_batch_size : 1;
    const int64_t shards = 2 * (int64_t)mesh->size[SW_SP] * mesh->size[SW_TP];
    *stuck = t->changes.count == SW_MAX_CHANGES;
    switch (*stuck ? SW_FITS : c->reason) {
    case SW_REJECT_BATCH:
        if (t->run.global_batch_size >= ways && micro > 1) {
            t->run.micro_batch_size = 0;
            note(&t->changes, "micro_batch_size", "auto");
            return 0;
        }
        t->run.global_batch_size = sw_align(t->run.global_batch_size, ways * micro);
        note_integer(&t->changes, "global_batch_size", t->run.global_batch_size);
        return 0;
    case SW_REJECT_SEQUENCE:
        t->run.sequence_length = sw_align(t->run.sequence_length, shards);
        note_integer(&t->changes, "sequence_length", t->run.sequence_length);
        return 0;
    case SW_REJECT_MEMORY:
        if (relax(like, t))
            return 0;
        if (sw_memory_verdict(&c->memory) == SW_VERDICT_NO_HEADROOM) {
            lower_headroom(t, c);
            return 0;
        }
        *stuck = !last;
        return last ? fix_memory(like, t, c, mesh, err) : 0;
    default:
        *stuck = true;
        return 0;
    }
}

/* Settings until the mesh fits. */
static int fix_all(const struct sw_searcher *like, const struct sw_mesh *mesh, bool last,
                   struct trial *t, bool *fits, struct sw_error *err)
{
    for (bool stuck = false;;) {
        struct sw_candidate c;
        if (judge(like, &t->run, mesh, &c, err) != 0)
            return -1;
        *fits = c.reason == SW_FITS;
        if (*fits || stuck)
            return 0;
        if (fix(like, t, &c, mesh, last, &stuck, err) != 0)
            return -1;
        if (stuck)
            return 0;
    }
}

/* ---- Another mesh ---- */

/* Steps along the axes, a doubling of one being one. */
static double distance(const struct sw_mesh *a, const struct sw_mesh *b)
{
    double sum = 0;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++)
        if (a->size[i] > 0 && b->size[i] > 0)
            sum += fabs(log2((double)a->size[i] / b->size[i]));
    return sum;
}

static bool fixable(enum sw_reject reason)
{
    return reason == SW_REJECT_MEMORY || reason == SW_REJECT_BATCH || reason == SW_REJECT_SEQUENCE;
}

/* Of meshes that fit, whether one ranks before another. */
static bool better(const struct sw_search *search, int32_t a, int32_t b)
{
    return a < search->priced && b < search->priced
               ? a < b
               : sw_rank_late(search, &search->mesh[a], &search->mesh[b]) < 0;
}

/* The nearest mesh that fits, or (fitting false) whose rejection a setting can lift; of equals the
 * better one. -1: none. */
static int32_t nearest(const struct sw_search *search, const struct sw_mesh *mesh, bool fitting)
{
    const int32_t from = fitting ? 0 : search->feasible,
                  to = fitting ? search->feasible : search->count;
    int32_t best = -1;
    double least = 0;
    for (int32_t i = from; i < to; i++) {
        const double d = distance(&search->mesh[i].decision.mesh, mesh);
        if (!fitting && !fixable(search->mesh[i].reason))
            continue;
        if (best < 0 || d < least - 1e-9 ||
            (fitting && d < least + 1e-9 && better(search, i, best))) {
            best = i;
            least = d;
        }
    }
    return best;
}

/* The same of those that fit, once those that are as near, and may be as good, have their prices.
 */
static int nearest_fitting(const struct sw_searcher *s, struct sw_search *search,
                           const struct sw_mesh *mesh, int32_t *out, struct sw_error *err)
{
    *out = nearest(search, mesh, true);
    const double least = *out < 0 ? 0 : distance(&search->mesh[*out].decision.mesh, mesh);
    for (int32_t i = search->priced; i < search->feasible; i++) {
        const double limit = sw_rank_limit(search, &search->mesh[*out], &search->mesh[i]);
        if (limit == 0 || distance(&search->mesh[i].decision.mesh, mesh) >= least + 1e-9)
            continue;
        if (sw_search_exactly(s, limit, &search->mesh[i], err) != 0)
            return -1;
        *out = nearest(search, mesh, true);
    }
    return 0;
}

/* "tp 4 -> 8, fsdp 64 -> 32" */
static void describe_move(const struct sw_mesh *from, const struct sw_mesh *to, char *out,
                          size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int32_t pass = 0; pass < 2; pass++) /* first what grows */
        for (int32_t a = SW_AXIS_COUNT - 1; a >= 0 && used < bytes; a--)
            if (pass == 0 ? to->size[a] > from->size[a] : to->size[a] < from->size[a])
                used += (size_t)snprintf(out + used, bytes - used, "%s%s %d -> %d",
                                         used == 0 ? "" : ", ", sw_axis_name(a), from->size[a],
                                         to->size[a]);
}

static int move(const struct sw_searcher *like, const struct sw_candidate *to,
                struct sw_candidate *c, struct sw_error *err)
{
    char mesh[48], steps[96], frees[SW_FORMAT_BYTES], needed[SW_FORMAT_BYTES];
    describe_move(&c->decision.mesh, &to->decision.mesh, steps, sizeof steps);
    sw_mesh_format(&to->decision.mesh, mesh, sizeof mesh);
    note(&c->suggestion, "mesh_dim", mesh);
    if (c->reason == SW_REJECT_PRODUCT)
        return 0; /* its help says which sizes would do */
    if (c->reason != SW_REJECT_MEMORY) {
        snprintf(c->help, sizeof c->help, "use mesh_dim %s: %s", mesh, steps);
        return 0;
    }
    /* like with like: the smallest options there and here */
    const struct sw_variant variant = {to->decision.train.strategy, to->decision.train.layout,
                                       to->decision.train.residual_seq_tp};
    const struct sw_decision smallest = sw_searcher_smallest(like, &to->decision.mesh, &variant);
    struct sw_searcher s = *like;
    struct sw_sized sized;
    struct sw_candidate least;
    if (sw_searcher_size(&s, &smallest, &sized, err) != 0 ||
        sw_searcher_price(&s, &sized, false, &least, err) != 0)
        return -1;
    snprintf(c->help, sizeof c->help, "use mesh_dim %s: %s frees %s, %s needed", mesh, steps,
             sw_format_bytes((double)(c->memory.total - least.memory.total), frees),
             sw_format_bytes((double)(c->memory.total - (c->memory.limit - c->memory.headroom)),
                             needed));
    return 0;
}

/* ---- What makes the run fit on some mesh, where it fits on none ---- */

/* Searched once for all the meshes that it lacks. A search takes longer the more accelerators there
 * are; beyond the last of these they look at fewer only. */
enum {
    MAX_RESCUED_ACCELERATORS = 8192,
    MAX_NODE_DOUBLINGS = 4,
    NODES_IN_TURN = 16, /* numbers of nodes that are tried one after the other */
    NEIGHBOURS = 4
};
static const double STATE_WITHOUT_PADDING = 0.98;

struct rescue {
    bool tried;
    struct sw_suggestion changes; /* of all settings but mesh_dim */
    struct sw_search found;       /* the meshes then; feasible 0: nothing helps */
};

/* Every mesh under that run. */
static int try_meshes(const struct trial *t, struct rescue *r, struct sw_error *err)
{
    struct sw_error why = {0};
    sw_search_free(&r->found);
    memset(&r->found, 0, sizeof r->found);
    r->changes = t->changes;
    if (sw_search_meshes(&t->run, SW_FOR_TRAIN, SW_EVERY_ROW, &r->found, NULL, &why) == 0)
        return 0;
    memset(&r->found, 0, sizeof r->found);
    return why.status == SW_ENVIRONMENT ? sw_fail_as(err, &why) : 0; /* else it fits nowhere */
}

/* The smallest doubling of the batch that lets fsdp split the state further. */
static int rescue_by_batch(const struct trial *base, struct rescue *r, struct sw_error *err)
{
    const int64_t accelerators = r->found.accelerators;
    for (int64_t batch = 2 * base->run.global_batch_size;
         r->found.feasible == 0 && batch < 2 * accelerators; batch *= 2) {
        struct trial t = *base;
        t.run.global_batch_size = batch;
        note_integer(&t.changes, "global_batch_size", batch);
        if (try_meshes(&t, r, err) != 0)
            return -1;
    }
    return 0;
}

/* The largest half, quarter, ... of the sequence. */
static int rescue_by_sequence(const struct trial *base, struct rescue *r, struct sw_error *err)
{
    for (int64_t length = base->run.sequence_length / 2 / 2 * 2;
         r->found.feasible == 0 && length >= 128; length = length / 2 / 2 * 2) {
        struct trial t = *base;
        t.run.sequence_length = length;
        note_integer(&t.changes, "sequence_length", length);
        if (try_meshes(&t, r, err) != 0)
            return -1;
    }
    return 0;
}

/* Whether the cluster's links, as they are written, also join so many nodes. */
static bool resize(struct sw_cluster_config *cluster, int64_t nodes)
{
    const int64_t all = nodes * cluster->accelerators_per_node;
    if (nodes < 1 || nodes > 1 << 20 || all > MAX_RESCUED_ACCELERATORS)
        return false;
    sw_cluster_resize(cluster, (int32_t)nodes);
    return cluster->link_count > 0 && cluster->link[cluster->link_count - 1].spans >= all;
}

static int try_nodes(const struct trial *base, int64_t nodes, struct rescue *r,
                     struct sw_error *err)
{
    struct trial t = *base;
    sw_search_free(&r->found);
    if (!resize(&t.run.cluster, nodes))
        return 0;
    note_integer(&t.changes, base->run.nodes != NULL ? "nodes" : "cluster.nodes", nodes);
    return try_meshes(&t, r, err);
}

/* With fewer nodes the state alone, split over every accelerator, is more than they hold. Padding
 * makes some meshes' state a little larger than that of others. */
static int64_t least_nodes(const struct trial *base, const struct sw_search *all)
{
    const struct sw_cluster_config *cluster = &base->run.cluster;
    double state = 0;
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_candidate *c = &all->mesh[i];
        const double ways = (double)sw_mesh_rank_count(&c->decision.mesh) /
                            c->decision.mesh.size[SW_DP] * STATE_WITHOUT_PADDING;
        const double its =
            ways * (double)(c->memory.parameters + c->memory.gradients + c->memory.optimizer);
        if (its > 0 && (state == 0 || its < state))
            state = its;
    }
    const double room = (double)(cluster->accelerator.memory_bytes - sw_headroom_bytes(&base->run) -
                                 cluster->accelerator.reserved_memory_bytes);
    const double nodes = state / (room * cluster->accelerators_per_node);
    return room > 0 && nodes > 1 && nodes < 1 << 20 ? (int64_t)ceil(nodes) : 1;
}

/* The smallest number above `least` that fits. What fits need not fit more nodes, which may divide
 * worse, so each of the first is tried; from there on steps that double find one that does, and
 * halving, with a look at what lies just below, the smallest. */
static int more_nodes(const struct trial *base, int64_t least, struct rescue *r,
                      struct sw_error *err)
{
    const int64_t often = (int64_t)base->run.cluster.nodes << MAX_NODE_DOUBLINGS;
    const int64_t most = often > 2 * least ? often : 2 * least;
    int64_t low = least - 1, step = 1, high = 0;
    for (int32_t i = 0; high == 0 && low < most; i++, step *= i < NODES_IN_TURN ? 1 : 2) {
        if (try_nodes(base, low + step, r, err) != 0)
            return -1;
        if (r->found.feasible > 0)
            high = low + step;
        else
            low += step;
        if (high == 0 &&
            (low + step) * base->run.cluster.accelerators_per_node > MAX_RESCUED_ACCELERATORS)
            return 0;
    }
    if (high == 0)
        return 0;
    int64_t best = high, tried = high;
    while (high - low > 1) {
        tried = low + (high - low) / 2;
        if (try_nodes(base, tried, r, err) != 0)
            return -1;
        *(r->found.feasible > 0 ? &high : &low) = tried;
    }
    best = high;
    for (int64_t n = best - 1; n >= least && n > best - NEIGHBOURS && step > 1; n--) {
        tried = n;
        if (try_nodes(base, n, r, err) != 0)
            return -1;
        if (r->found.feasible > 0)
            best = n;
    }
    return tried == best ? 0 : try_nodes(base, best, r, err);
}

/* Fewer nodes where some fit, since that costs less: the largest such number not far below, else
 * the largest power of two. Otherwise the smallest number of more nodes. */
static int rescue_by_nodes(const struct trial *base, struct rescue *r, struct sw_error *err)
{
    const int64_t now = base->run.cluster.nodes, per_node = base->run.cluster.accelerators_per_node;
    const int64_t least = least_nodes(base, &r->found);
    int64_t power = 1;
    for (int64_t n = now - 1; n >= least && n >= now - NODES_IN_TURN; n--) {
        if (n * per_node <= MAX_RESCUED_ACCELERATORS && try_nodes(base, n, r, err) != 0)
            return -1;
        if (r->found.feasible > 0)
            return 0;
    }
    while (2 * power < now - NODES_IN_TURN && 2 * power * per_node <= MAX_RESCUED_ACCELERATORS)
        power *= 2;
    for (; power >= least && power < now - NODES_IN_TURN; power /= 2) {
        if (try_nodes(base, power, r, err) != 0)
            return -1;
        if (r->found.feasible > 0 || power == 1)
            break;
    }
    return r->found.feasible > 0 ? 0 : more_nodes(base, least > now ? least : now + 1, r, err);
}

static int find_rescue(const struct sw_searcher *like, struct rescue *r, struct sw_error *err)
{
    struct trial t = {.run = *like->run};
    const int64_t accelerators = (int64_t)t.run.cluster.nodes * t.run.cluster.accelerators_per_node;
    if (r->tried)
        return 0;
    r->tried = true;
    t.run.mesh_dim = "auto";
    while (relax(like, &t)) {
    }
    if (accelerators > MAX_RESCUED_ACCELERATORS) /* as many are a mistake, most likely */
        return rescue_by_nodes(&t, r, err);
    if (try_meshes(&t, r, err) != 0 ||
        (r->found.feasible == 0 && rescue_by_batch(&t, r, err) != 0) ||
        (r->found.feasible == 0 && rescue_by_sequence(&t, r, err) != 0) ||
        (r->found.feasible == 0 && rescue_by_nodes(&t, r, err) != 0))
        return -1;
    return 0;
}

/* The rescue's changes and the nearest mesh that fits with them; the mesh itself needs no naming.
 */
static void take_rescue(const struct rescue *r, struct sw_candidate *c)
{
    char text[48];
    const struct sw_mesh *to =
        &r->found.mesh[nearest(&r->found, &c->decision.mesh, true)].decision.mesh;
    c->suggestion = r->changes;
    if (memcmp(to->size, c->decision.mesh.size, sizeof to->size) != 0)
        note(&c->suggestion, "mesh_dim", sw_mesh_format(to, text, sizeof text));
    describe(&c->suggestion, c->help, sizeof c->help);
}

/* ---- Verdicts ---- */

static void explain_memory(struct sw_candidate *c)
{
    char total[SW_FORMAT_BYTES], limit[SW_FORMAT_BYTES], state[SW_FORMAT_BYTES],
        rest[SW_FORMAT_BYTES];
    const int64_t states = c->memory.parameters + c->memory.gradients + c->memory.optimizer;
    char spare[SW_FORMAT_BYTES], wanted[SW_FORMAT_BYTES], headroom[96] = "";
    if (sw_memory_verdict(&c->memory) == SW_VERDICT_NO_HEADROOM)
        snprintf(headroom, sizeof headroom, "fits without headroom (%.24s free, not %.24s): ",
                 sw_format_bytes((double)(c->memory.limit - c->memory.total), spare),
                 sw_format_bytes((double)c->memory.headroom, wanted));
    snprintf(c->detail, sizeof c->detail,
             "%sneeds %s of %s per accelerator (%s state, %s activations and workspace) even with "
             "micro_batch_size %" PRId64 " and recompute %s",
             headroom, sw_format_bytes((double)c->memory.total, total),
             sw_format_bytes((double)c->memory.limit, limit),
             sw_format_bytes((double)states, state),
             sw_format_bytes((double)(c->memory.arena - states), rest),
             c->decision.train.micro_batch_size, sw_recompute_word(c->decision.train.recompute));
}

/* The other way to a mesh without headroom: nobody but the user chooses it. */
static void allow_by_name(struct sw_candidate *c)
{
    char mesh[64];
    const size_t used = strlen(c->help);
    snprintf(c->help + used, sizeof c->help - used, ", or mesh_dim: %s, which may use it up",
             sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
}

static int suggest(const struct sw_searcher *like, struct sw_search *all, bool settings_first,
                   struct rescue *rescue, struct sw_candidate *c, struct sw_error *err)
{
    const struct sw_mesh mesh = c->decision.mesh;
    struct trial t = {.run = *like->run};
    bool fits = false;
    int32_t near;
    if (nearest_fitting(like, all, &mesh, &near, err) != 0)
        return -1;
    if (near >= 0 && !settings_first)
        return move(like, &all->mesh[near], c, err);
    if (c->reason != SW_REJECT_PRODUCT && fix_all(like, &mesh, false, &t, &fits, err) != 0)
        return -1;
    /* a setting that the user chose is less than another mesh; several are more, and so is another
     * accelerator */
    const bool small = fits && t.changes.count == 1 &&
                       strcmp(t.changes.change[0].setting, "cluster.accelerator.memory") != 0;
    if (near >= 0 && !small)
        return move(like, &all->mesh[near], c, err);
    if (!fits) {
        if (find_rescue(like, rescue, err) != 0)
            return -1;
        if (rescue->found.feasible > 0) {
            take_rescue(rescue, c);
            return 0;
        }
        t = (struct trial){.run = *like->run};
        if (c->reason != SW_REJECT_PRODUCT && fix_all(like, &mesh, true, &t, &fits, err) != 0)
            return -1;
    }
    const int32_t other = fits ? -1 : nearest(all, &mesh, false);
    if (other >= 0) {
        char text[48];
        t = (struct trial){.run = *like->run};
        note(&t.changes, "mesh_dim",
             sw_mesh_format(&all->mesh[other].decision.mesh, text, sizeof text));
        if (fix_all(like, &all->mesh[other].decision.mesh, true, &t, &fits, err) != 0)
            return -1;
    }
    if (!fits)
        return 0;
    c->suggestion = t.changes;
    describe(&t.changes, c->help, sizeof c->help);
    if (strcmp(t.changes.change[0].setting, "memory_headroom") == 0)
        allow_by_name(c);
    return 0;
}

int sw_search_explain_with(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                           int32_t count, struct sw_error *err)
{
    int status = -1;
    struct sw_mesh_request request;
    struct sw_search others = {0};
    struct rescue rescue = {.tried = false};
    struct sw_run_config any = *s->run;
    if (sw_mesh_request_parse(s->run->mesh_dim, &request, err) != 0)
        return -1;
    any.mesh_dim = "auto";
    if (!request.is_auto && count > 0 &&
        sw_search_meshes(&any, SW_FOR_TRAIN, SW_EVERY_ROW, &others, NULL, err) != 0)
        goto out;
    for (int32_t i = first; i < search->count && i < first + count; i++) {
        struct sw_candidate *c = &search->mesh[i];
        if (c->reason == SW_FITS || c->explained)
            continue;
        if (c->reason == SW_REJECT_MEMORY)
            explain_memory(c);
        if (suggest(s, request.is_auto ? search : &others, !request.is_auto, &rescue, c, err) != 0)
            goto out;
        c->explained = true;
    }
    status = 0;
out:
    sw_search_free(&others);
    sw_search_free(&rescue.found);
    return status;
}

int sw_search_explain(const struct sw_run_config *run, struct sw_search *search, int32_t first,
                      int32_t count, struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_searcher s;
    if (sw_mesh_request_parse(run->mesh_dim, &request, err) != 0)
        return -1;
    if (sw_searcher_init(&s, run, search->purpose, &request, err) != 0)
        return -1;
    s.cache = sw_program_cache_new(search->count);
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    const int status = sw_purpose(s.purpose)->explain(&s, search, first, count, err);
    sw_program_cache_free(s.cache);
    return status;
}
