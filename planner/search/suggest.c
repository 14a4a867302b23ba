/* Why a mesh is rejected, and the smallest change that would admit it. A suggestion is a promise:
 * with it the mesh, or the one that it names, is admitted. Each is either another mesh that the
 * search found to fit, the nearest in steps along the axes, or settings that were tried here. */
#include "core/base/number.h"
#include "planner/search/internal.h"

#include "planner/format.h"

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

/* The mesh's verdict under that run. */
static int judge(const struct sw_searcher *like, const struct sw_run_config *run,
                 const struct sw_mesh *mesh, struct sw_candidate *out, struct sw_error *err)
{
    struct sw_preference preference;
    struct sw_searcher s = *like;
    s.run = run;
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

/* Another accelerator: whole gigabytes. */
static void enlarge_memory(struct trial *t, const struct sw_candidate *c)
{
    const int64_t gb = 1000000000;
    char text[SW_FORMAT_BYTES];
    t->run.cluster.accelerator.memory_bytes = sw_align(c->memory.total, gb);
    snprintf(text, sizeof text, "%" PRId64 " GB", t->run.cluster.accelerator.memory_bytes / gb);
    note(&t->changes, "cluster.accelerator.memory", text);
}

static int fix_memory(const struct sw_searcher *like, struct trial *t, const struct sw_candidate *c,
                      const struct sw_mesh *mesh, struct sw_error *err)
{
    const int64_t state = c->memory.parameters + c->memory.gradients + c->memory.optimizer;
    bool fits = false;
    if (!t->run.recompute_auto && !sw_recompute_equal(c->decision.recompute, sw_recompute_full())) {
        t->run.recompute_auto = true;
        t->run.recompute = sw_recompute_none();
        note(&t->changes, "recompute", "auto");
        return 0;
    }
    if (t->run.micro_batch_size > 1) {
        t->run.micro_batch_size = 0;
        note(&t->changes, "micro_batch_size", "auto");
        return 0;
    }
    if (state + c->memory.reserved < c->memory.limit &&
        try_sequence(like, t, mesh, &fits, err) != 0)
        return -1;
    if (!fits)
        enlarge_memory(t, c);
    return 0;
}

/* One more setting, for the reason at hand. Sets *stuck where none helps. */
static int fix(const struct sw_searcher *like, struct trial *t, const struct sw_candidate *c,
               const struct sw_mesh *mesh, bool *stuck, struct sw_error *err)
{
    const int64_t ways = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    const int64_t micro = t->run.micro_batch_size > 0 ? t->run.micro_batch_size : 1;
    const int64_t shards = 2 * (int64_t)mesh->size[SW_SP] * mesh->size[SW_TP];
    *stuck = t->changes.count == SW_MAX_CHANGES;
    switch (*stuck ? SW_FITS : c->reason) {
    case SW_REJECT_BATCH:
        if (t->run.global_batch_size % ways == 0 && micro > 1) {
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
        return fix_memory(like, t, c, mesh, err);
    default:
        *stuck = true;
        return 0;
    }
}

/* Settings until the mesh fits. */
static int fix_all(const struct sw_searcher *like, const struct sw_mesh *mesh, struct trial *t,
                   bool *fits, struct sw_error *err)
{
    for (bool stuck = false;;) {
        struct sw_candidate c;
        if (judge(like, &t->run, mesh, &c, err) != 0)
            return -1;
        *fits = c.reason == SW_FITS;
        if (*fits || stuck)
            return 0;
        if (fix(like, t, &c, mesh, &stuck, err) != 0)
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
        if (best < 0 || d < least - 1e-9) {
            best = i;
            least = d;
        }
    }
    return best;
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
    const struct sw_variant variant = {to->decision.strategy, to->decision.layout,
                                       to->decision.residual_seq_tp};
    const struct sw_decision smallest = sw_searcher_smallest(like, &to->decision.mesh, &variant);
    struct sw_searcher s = *like;
    struct sw_sized sized;
    struct sw_candidate least;
    if (sw_searcher_size(&s, &smallest, &sized, err) != 0 ||
        sw_searcher_price(&s, &sized, false, &least, err) != 0)
        return -1;
    snprintf(c->help, sizeof c->help, "use mesh_dim %s: %s frees %s, %s needed", mesh, steps,
             sw_format_bytes((double)(c->memory.total - least.memory.total), frees),
             sw_format_bytes((double)(c->memory.total - c->memory.limit), needed));
    return 0;
}

/* ---- Verdicts ---- */

static void explain_memory(struct sw_candidate *c)
{
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
             c->decision.micro_batch_size, sw_recompute_word(c->decision.recompute));
}

static int suggest(const struct sw_searcher *like, const struct sw_search *all, bool settings_first,
                   struct sw_candidate *c, struct sw_error *err)
{
    const struct sw_mesh mesh = c->decision.mesh;
    struct trial t = {.run = *like->run};
    bool fits = false;
    const int32_t near = nearest(all, &mesh, true);
    if (near >= 0 && !settings_first)
        return move(like, &all->mesh[near], c, err);
    if (c->reason != SW_REJECT_PRODUCT && fix_all(like, &mesh, &t, &fits, err) != 0)
        return -1;
    /* a setting that the user chose is less than another mesh; another sequence is more */
    if (near >= 0 && !(fits && t.changes.count == 1))
        return move(like, &all->mesh[near], c, err);
    const int32_t other = fits ? -1 : nearest(all, &mesh, false);
    if (other >= 0) {
        char text[48];
        t = (struct trial){.run = *like->run};
        note(&t.changes, "mesh_dim",
             sw_mesh_format(&all->mesh[other].decision.mesh, text, sizeof text));
        if (fix_all(like, &all->mesh[other].decision.mesh, &t, &fits, err) != 0)
            return -1;
    }
    if (!fits)
        return 0;
    c->suggestion = t.changes;
    if (c->reason != SW_REJECT_PRODUCT)
        describe(&t.changes, c->help, sizeof c->help);
    return 0;
}

int sw_search_explain_with(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                           int32_t count, struct sw_error *err)
{
    int status = -1;
    struct sw_mesh_request request;
    struct sw_search others = {0};
    struct sw_run_config any = *s->run;
    if (sw_mesh_request_parse(s->run->mesh_dim, &request, err) != 0)
        return -1;
    any.mesh_dim = "auto";
    if (!request.is_auto && count > 0 && sw_search_meshes(&any, &others, NULL, err) != 0)
        goto out;
    for (int32_t i = first; i < search->count && i < first + count; i++) {
        struct sw_candidate *c = &search->mesh[i];
        if (c->reason == SW_FITS || c->explained)
            continue;
        if (c->reason == SW_REJECT_MEMORY)
            explain_memory(c);
        if (suggest(s, request.is_auto ? search : &others, !request.is_auto, c, err) != 0)
            goto out;
        c->explained = true;
    }
    status = 0;
out:
    sw_search_free(&others);
    return status;
}

int sw_search_explain(const struct sw_run_config *run, struct sw_search *search, int32_t first,
                      int32_t count, struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_searcher s;
    if (sw_mesh_request_parse(run->mesh_dim, &request, err) != 0)
        return -1;
    sw_searcher_init(&s, run, &request);
    s.cache = sw_program_cache_new();
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    const int status = sw_search_explain_with(&s, search, first, count, err);
    sw_program_cache_free(s.cache);
    return status;
}
