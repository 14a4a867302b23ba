/* Reasons of rejections, and the smallest change that would admit each mesh. A suggestion is a
 * promise: with it the mesh, or the one that it names, is admitted. Each is either another mesh
 * that fits in the search, the nearest in steps along the axes, or settings that were tried here.
 * If no mesh fits, in this order: settings that the run fixed, other nodes, another length, another
 * batch (rescue.c); another accelerator only if none of them helps. */
#include "core/base/number.h"
#include "planner/search/purpose.h"

#include "planner/command/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The mesh's verdict under that run; a requested mesh must also keep the headroom, so that no
 * suggestion leads to a warning. */
static int judge(const struct sw_searcher *like, const struct sw_run_config *run,
                 const struct sw_mesh *mesh, struct sw_candidate *out, struct sw_error *err)
{
    struct sw_preferences preferences = {.count = 0};
    struct sw_searcher s = *like;
    s.run = run;
    s.latest_program = NULL; /* belongs to another run */
    s.asked = false;
    memset(out, 0, sizeof *out);
    out->decision.mesh = *mesh;
    return sw_search_mesh(&s, &preferences, out, err);
}

/* ---- Settings ---- */

/* Enlarges the accelerator's memory, in whole gigabytes, if nothing else helps. */
static void enlarge_memory(struct sw_trial *t, const struct sw_candidate *c)
{
    const int64_t gb = 1000000000;
    char text[SW_FORMAT_BYTES];
    int64_t *memory = &t->run.cluster.accelerator.memory_bytes;
    *memory = sw_align((int64_t)((double)c->memory.total / (1 - t->run.memory_headroom)), gb);
    while (*memory - sw_headroom_bytes(&t->run) < c->memory.total)
        *memory += gb;
    snprintf(text, sizeof text, "%" PRId64 " GB", t->run.cluster.accelerator.memory_bytes / gb);
    sw_trial_note(t, "cluster.accelerator.memory", text);
}

/* Lowers the headroom to the memory that the mesh leaves free, in tenths of a percent. */
static void lower_headroom(struct sw_trial *t, const struct sw_candidate *c)
{
    const struct sw_memory *m = &c->memory;
    const double tenths = floor((double)(m->limit - m->total) / (double)m->limit * 1000);
    char text[SW_FORMAT_BYTES];
    snprintf(text, sizeof text, "%.10g %%", tenths / 10);
    t->run.memory_headroom = tenths / 1000;
    sw_trial_note(t, "memory_headroom", text);
}

/* Settings that may be changed: those that the run fixed and its headroom; batch and length, too;
 * or also the accelerator. */
enum fixes { FREE_FIX, SMALL_FIX, ANY_FIX };

/* Changes one more setting, for the current reason. Sets *stuck if none helps. */
static void fix(const struct sw_searcher *like, struct sw_trial *t, const struct sw_candidate *c,
                const struct sw_mesh *mesh, enum fixes fixes, bool *stuck)
{
    const int64_t ways = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    const int64_t micro = t->run.micro_batch_size > 0 ? t->run.micro_batch_size : 1;
    const int64_t shards = 2 * (int64_t)mesh->size[SW_SP] * mesh->size[SW_TP];
    *stuck = t->changes.count == SW_MAX_CHANGES;
    switch (*stuck ? SW_FITS : c->reason) {
    case SW_REJECT_BATCH:
        if (t->run.global_batch_size >= ways && micro > 1) {
            t->run.micro_batch_size = 0;
            sw_trial_note(t, "micro_batch_size", "auto");
            return;
        }
        *stuck = fixes == FREE_FIX;
        if (*stuck)
            return;
        t->run.global_batch_size = sw_align(t->run.global_batch_size, ways * micro);
        sw_trial_note_integer(t, "global_batch_size", t->run.global_batch_size);
        return;
    case SW_REJECT_SEQUENCE:
        *stuck = fixes == FREE_FIX;
        if (*stuck)
            return;
        t->run.sequence_length = sw_align(t->run.sequence_length, shards);
        sw_trial_note_integer(t, "sequence_length", t->run.sequence_length);
        return;
    case SW_REJECT_MEMORY:
        if (sw_trial_relax(like, t))
            return;
        if (sw_memory_verdict(&c->memory) == SW_VERDICT_NO_HEADROOM) {
            lower_headroom(t, c);
            return;
        }
        *stuck = fixes != ANY_FIX;
        if (!*stuck)
            enlarge_memory(t, c);
        return;
    default:
        *stuck = true;
        return;
    }
}

/* Changes settings until the mesh fits. */
static int fix_all(const struct sw_searcher *like, const struct sw_mesh *mesh, enum fixes fixes,
                   struct sw_trial *t, bool *fits, struct sw_error *err)
{
    for (bool stuck = false;;) {
        struct sw_candidate c;
        if (judge(like, &t->run, mesh, &c, err) != 0)
            return -1;
        *fits = c.reason == SW_FITS;
        if (*fits || stuck)
            return 0;
        fix(like, t, &c, mesh, fixes, &stuck);
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

/* The nearest mesh that fits or, with fitting false, whose rejection a setting can lift; of equals
 * the better one. -1: none. */
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
        if (best < 0 || d < least - 1e-9 || (fitting && d < least + 1e-9 && i < best)) {
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
    for (int32_t pass = 0; pass < 2; pass++) /* first the growing axes */
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
    sw_suggestion_note(&c->suggestion, "mesh_dim", mesh);
    if (c->reason == SW_REJECT_PRODUCT)
        return 0; /* its help lists sizes that divide */
    if (c->reason != SW_REJECT_MEMORY) {
        snprintf(c->help, sizeof c->help, "use mesh_dim %s: %s", mesh, steps);
        return 0;
    }
    /* compare equal settings: the smallest options on both */
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

/* Takes the first change, with the nearest mesh that then fits. */
static void take_rescue(const struct sw_rescue *r, struct sw_candidate *c)
{
    char text[48];
    const struct sw_search *found = &r->way[0].found;
    const struct sw_mesh *to = &found->mesh[nearest(found, &c->decision.mesh, true)].decision.mesh;
    c->suggestion = r->way[0].changes;
    for (int32_t i = 0; i < c->suggestion.count; i++)
        if (strcmp(c->suggestion.change[i].setting, "mesh_dim") == 0)
            c->suggestion.count = i;
    if (memcmp(to->size, c->decision.mesh.size, sizeof to->size) != 0)
        sw_suggestion_note(&c->suggestion, "mesh_dim", sw_mesh_format(to, text, sizeof text));
    sw_suggestion_describe(&c->suggestion, c->help, sizeof c->help);
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

/* Suggests naming a mesh without headroom, which only a user may choose. */
static void allow_by_name(const struct sw_mesh *to, char *help, size_t bytes)
{
    char mesh[64];
    const size_t used = strlen(help);
    snprintf(help + used, bytes - used, ", or mesh_dim: %s, which may use it up",
             sw_mesh_format(to, mesh, sizeof mesh));
}

/* Takes changed settings with which the mesh fits. */
static void take_settings(const struct sw_trial *t, struct sw_candidate *c)
{
    c->suggestion = t->changes;
    sw_suggestion_describe(&t->changes, c->help, sizeof c->help);
    if (strcmp(t->changes.change[0].setting, "memory_headroom") == 0)
        allow_by_name(&c->decision.mesh, c->help, sizeof c->help);
}

/* If no mesh fits and no change is known: suggests another accelerator, for this mesh or the
 * nearest that a setting can admit. */
static int suggest_memory(const struct sw_searcher *like, const struct sw_search *all,
                          struct sw_candidate *c, struct sw_error *err)
{
    const struct sw_mesh mesh = c->decision.mesh;
    struct sw_trial t = {.run = *like->run};
    bool fits = false;
    if (c->reason != SW_REJECT_PRODUCT && fix_all(like, &mesh, ANY_FIX, &t, &fits, err) != 0)
        return -1;
    const int32_t other = fits ? -1 : nearest(all, &mesh, false);
    if (other >= 0) {
        char text[48];
        t = (struct sw_trial){.run = *like->run};
        sw_suggestion_note(&t.changes, "mesh_dim",
                           sw_mesh_format(&all->mesh[other].decision.mesh, text, sizeof text));
        if (fix_all(like, &all->mesh[other].decision.mesh, ANY_FIX, &t, &fits, err) != 0)
            return -1;
    }
    if (fits)
        take_settings(&t, c);
    return 0;
}

static int suggest_where_none_fits(const struct sw_searcher *like, const struct sw_search *all,
                                   struct sw_rescue *rescue, struct sw_candidate *c,
                                   struct sw_error *err)
{
    const struct sw_mesh mesh = c->decision.mesh;
    struct sw_trial t = {.run = *like->run};
    bool fits = false;
    if (like->row->purpose != SW_FOR_TRAIN)
        return 0;
    if (c->reason != SW_REJECT_PRODUCT && fix_all(like, &mesh, FREE_FIX, &t, &fits, err) != 0)
        return -1;
    if (fits) {
        take_settings(&t, c);
        return 0;
    }
    if (sw_rescue_find(like, rescue, err) != 0)
        return -1;
    if (rescue->count == 0)
        return suggest_memory(like, all, c, err);
    take_rescue(rescue, c);
    return 0;
}

static int suggest(const struct sw_searcher *like, const struct sw_search *all, bool settings_first,
                   struct sw_rescue *rescue, struct sw_candidate *c, struct sw_error *err)
{
    const struct sw_mesh mesh = c->decision.mesh;
    struct sw_trial t = {.run = *like->run};
    bool fits = false;
    const int32_t near = nearest(all, &mesh, true);
    if (near < 0)
        return suggest_where_none_fits(like, all, rescue, c, err);
    if (!settings_first)
        return move(like, &all->mesh[near], c, err);
    if (c->reason != SW_REJECT_PRODUCT && fix_all(like, &mesh, SMALL_FIX, &t, &fits, err) != 0)
        return -1;
    /* changing one setting of the user is better than another mesh; changing several is not */
    if (!fits || t.changes.count != 1)
        return move(like, &all->mesh[near], c, err);
    take_settings(&t, c);
    return 0;
}

static void add_help(struct sw_search *search, const struct sw_suggestion *changes,
                     const struct sw_mesh *mesh, double step_seconds)
{
    struct sw_help *help = &search->help[search->help_count];
    if (search->help_count == SW_MAX_HELPS || changes->count == 0)
        return;
    *help = (struct sw_help){.changes = *changes, .mesh = *mesh, .step_seconds = step_seconds};
    sw_suggestion_describe(changes, help->text, sizeof help->text);
    if (strcmp(changes->change[0].setting, "memory_headroom") == 0)
        allow_by_name(mesh, help->text, sizeof help->text);
    search->help_count++;
}

/* Suggests another accelerator, for the mesh that needs least. */
static int help_by_memory(const struct sw_searcher *like, const struct sw_search *all,
                          struct sw_search *search, struct sw_error *err)
{
    const struct sw_candidate *least = NULL;
    struct sw_trial t = {.run = *like->run};
    char text[48];
    bool fits = false;
    for (int32_t i = 0; i < all->count; i++) {
        const struct sw_candidate *c = &all->mesh[i];
        if (c->reason == SW_REJECT_MEMORY &&
            (least == NULL || c->memory.total < least->memory.total))
            least = c;
    }
    if (least == NULL) {
        add_help(search, &search->mesh[0].suggestion, &search->mesh[0].decision.mesh, 0);
        return 0;
    }
    if (all != search) /* the run names another mesh */
        sw_trial_note(&t, "mesh_dim", sw_mesh_format(&least->decision.mesh, text, sizeof text));
    if (fix_all(like, &least->decision.mesh, ANY_FIX, &t, &fits, err) != 0)
        return -1;
    if (fits)
        add_help(search, &t.changes, &least->decision.mesh, 0);
    return 0;
}

/* Lists changes for a run that fits nowhere: less headroom for the closest mesh, if that suffices;
 * then those of rescue.c; if none, another accelerator. */
static int list_helps(const struct sw_searcher *like, const struct sw_search *all,
                      struct sw_rescue *rescue, struct sw_search *search, struct sw_error *err)
{
    const struct sw_candidate *closest = &search->mesh[0];
    if (sw_rescue_find(like, rescue, err) != 0)
        return -1;
    if (closest->suggestion.count > 0 &&
        strcmp(closest->suggestion.change[0].setting, "memory_headroom") == 0)
        add_help(search, &closest->suggestion, &closest->decision.mesh, 0);
    for (int32_t i = 0; i < rescue->count; i++)
        add_help(search, &rescue->way[i].changes, &rescue->way[i].found.mesh[0].decision.mesh,
                 rescue->way[i].found.mesh[0].cost.step_seconds);
    return search->help_count == 0 ? help_by_memory(like, all, search, err) : 0;
}

int sw_search_explain_with(const struct sw_searcher *s, struct sw_search *search, int32_t first,
                           int32_t count, struct sw_error *err)
{
    int status = -1;
    struct sw_mesh_request request;
    struct sw_search others = {0};
    struct sw_rescue rescue = {.tried = false};
    struct sw_run_config any = *s->run;
    if (sw_mesh_request_parse(s->run->mesh_dim, &request, err) != 0)
        return -1;
    struct sw_search *all = request.is_auto ? search : &others;
    any.mesh_dim = "auto";
    if (!request.is_auto && count > 0 &&
        sw_search_meshes(&any, s->row->training, SW_EVERY_ROW, &others, NULL, err) != 0)
        goto out;
    for (int32_t i = first; i < search->count && i < first + count; i++) {
        struct sw_candidate *c = &search->mesh[i];
        if (c->reason == SW_FITS || c->explained)
            continue;
        if (c->reason == SW_REJECT_MEMORY)
            explain_memory(c);
        if (suggest(s, all, !request.is_auto, &rescue, c, err) != 0)
            goto out;
        c->explained = true;
    }
    if (search->count > 0 && count > 0 && all->feasible == 0 && search->feasible == 0 &&
        search->help_count == 0 && search->mesh[0].explained && s->row->purpose == SW_FOR_TRAIN &&
        list_helps(s, all, &rescue, search, err) != 0)
        goto out;
    status = 0;
out:
    sw_search_free(&others);
    sw_rescue_free(&rescue);
    return status;
}

int sw_search_explain(const struct sw_run_config *run, struct sw_search *search, int32_t first,
                      int32_t count, struct sw_error *err)
{
    struct sw_mesh_request request;
    struct sw_searcher s;
    if (sw_mesh_request_parse(run->mesh_dim, &request, err) != 0)
        return -1;
    if (sw_searcher_init(&s, run, search->row, &request, err) != 0)
        return -1;
    s.cache = sw_program_cache_new(search->count);
    if (s.cache == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while searching");
    const int status = search->row->explain(&s, search, first, count, err);
    sw_program_cache_free(s.cache);
    return status;
}
