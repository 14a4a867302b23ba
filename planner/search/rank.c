/* Order of meshes. By default (prefer: fsdp) the largest fsdp among meshes nearly as fast as the
 * fastest (within prefer_within): fsdp divides the state, and its communication overlaps best, but
 * a group too large for its links costs more than it gains. A mesh in which tp leaves the fastest
 * link domain must be faster by more than prefer_within than all that keep tp inside, and so must
 * an order of a mesh's axes (mesh.c): experts keep tp inside, and no measurement backs a smaller
 * gain. The bare rule (fsdp-strict, LWM's): the largest fsdp; then tp inside the fastest link
 * domain, if such a mesh exists for that fsdp; then the least tp x sp, whose communication does not
 * overlap; then time. By time alone no bound is needed: links decide. sw_rank_why prints the rule.
 * Meshes are compared by their fastest options; mesh.c chooses the options that a mesh gets. */
#include "planner/search/purpose.h"

#include "core/cost/links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int sw_rank_meshes(const struct sw_mesh *a, const struct sw_mesh *b)
{
    static const enum sw_axis axes[] = {SW_FSDP, SW_DP, SW_SP, SW_TP};
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        if (a->size[axes[i]] != b->size[axes[i]])
            return a->size[axes[i]] > b->size[axes[i]] ? -1 : 1;
    return memcmp(a->order, b->order, sizeof a->order);
}

int sw_rank_time(const struct sw_candidate *a, const struct sw_candidate *b)
{
    if (a->fastest_seconds != b->fastest_seconds)
        return a->fastest_seconds < b->fastest_seconds ? -1 : 1;
    return sw_rank_meshes(&a->decision.mesh, &b->decision.mesh);
}

static int compare_strict(const struct sw_candidate *a, const struct sw_candidate *b)
{
    const struct sw_mesh *x = &a->decision.mesh, *y = &b->decision.mesh;
    if (x->size[SW_FSDP] != y->size[SW_FSDP])
        return x->size[SW_FSDP] > y->size[SW_FSDP] ? -1 : 1;
    if (a->tp_leaves_domain != b->tp_leaves_domain)
        return a->tp_leaves_domain ? 1 : -1;
    const int64_t inner_x = (int64_t)x->size[SW_TP] * x->size[SW_SP];
    const int64_t inner_y = (int64_t)y->size[SW_TP] * y->size[SW_SP];
    return inner_x != inner_y ? compare_i64(inner_x, inner_y) : sw_rank_time(a, b);
}

static void why_to_train(const struct sw_run_config *run, char *buffer, size_t bytes)
{
    const struct sw_cluster_config *cluster = &run->cluster;
    const int32_t accelerators = cluster->nodes * cluster->accelerators_per_node;
    const int32_t fastest = sw_links_fastest(cluster);
    const char *headroom = run->memory_headroom > 0 ? " with headroom" : "";
    if (accelerators == 1 || fastest < 0) {
        snprintf(buffer, bytes, "the only mesh of one accelerator");
        return;
    }
    const struct sw_link_config *link = &cluster->link[fastest];
    const int32_t domain = link->spans < accelerators ? link->spans : accelerators;
    if (sw_run_config_prefers_time(run)) {
        snprintf(buffer, bytes, "the fastest of the meshes that fit%s (prefer: %s)", headroom,
                 sw_prefer_words[run->prefer]);
    } else if (run->prefer == SW_PREFER_FSDP) {
        const double within = 100 * run->prefer_within;
        int32_t used = snprintf(buffer, bytes,
                                "the largest fsdp of the meshes that fit%s and are at most %.3g %% "
                                "slower than the fastest",
                                headroom, within);
        if (domain < accelerators)
            used += snprintf(buffer + used, bytes - (size_t)used,
                             "; tp leaves the fastest link domain (%d of %.64s) only for more than "
                             "%.3g %%",
                             (int)domain, link->name, within);
        snprintf(buffer + used, bytes - (size_t)used, "; ties by time (prefer: fsdp)");
    } else {
        snprintf(
            buffer, bytes,
            "the largest fsdp that fits%s, then tp within the fastest link domain (%s%d of %.64s), "
            "then the least tp x sp, then time (prefer: fsdp-strict)",
            headroom, domain == accelerators ? "all " : "", (int)domain, link->name);
    }
}

static void why_to_serve(const struct sw_run_config *run, char *buffer, size_t bytes)
{
    const bool goals = run->serve_token_latency > 0 || run->serve_first_token_latency > 0;
    snprintf(buffer, bytes,
             "of those that fit%s%s: the least time per token, then the least time to the first "
             "one, then the most tokens/s per accelerator, then the least memory, then the "
             "largest fsdp, dp and sp",
             run->memory_headroom > 0 ? " with headroom" : "",
             goals ? " and keep the latency goals" : "");
}

bool sw_search_mesh_is_named(const struct sw_run_config *run)
{
    struct sw_mesh_request request;
    return sw_mesh_request_parse(run->mesh_dim, &request, NULL) == 0 && !request.is_auto;
}

const char *sw_rank_why(const struct sw_run_config *run, enum sw_purpose purpose, char *buffer,
                        size_t bytes)
{
    if (sw_search_mesh_is_named(run))
        snprintf(buffer, bytes, "the only mesh that mesh_dim allows");
    else
        (purpose == SW_FOR_SERVE ? why_to_serve : why_to_train)(run, buffer, bytes);
    return buffer;
}

static int compare_rejected(const struct sw_candidate *a, const struct sw_candidate *b)
{
    const bool memory_a = a->reason == SW_REJECT_MEMORY, memory_b = b->reason == SW_REJECT_MEMORY;
    const bool rules_a = a->reason == SW_REJECT_RULES, rules_b = b->reason == SW_REJECT_RULES;
    if (memory_a != memory_b)
        return memory_a ? -1 : 1;
    if (memory_a && a->memory.total != b->memory.total)
        return compare_i64(a->memory.total, b->memory.total);
    if (rules_a != rules_b)
        return rules_a ? -1 : 1;
    return sw_rank_meshes(&a->decision.mesh, &b->decision.mesh);
}

static int by_strict(const void *a, const void *b)
{
    return compare_strict(a, b);
}

/* Sorts meshes that may be chosen first, by the largest fsdp; then the rest, by time. */
static int by_fsdp(const void *a, const void *b)
{
    const struct sw_candidate *x = a, *y = b;
    if (x->may_be_chosen != y->may_be_chosen)
        return x->may_be_chosen ? -1 : 1;
    if (!x->may_be_chosen)
        return sw_rank_time(x, y);
    const int32_t fsdp_x = x->decision.mesh.size[SW_FSDP], fsdp_y = y->decision.mesh.size[SW_FSDP];
    if (fsdp_x != fsdp_y)
        return fsdp_x > fsdp_y ? -1 : 1;
    return sw_rank_time(x, y);
}

int sw_rank_fit(const struct sw_candidate *x, const struct sw_candidate *y)
{
    if ((x->reason == SW_FITS) != (y->reason == SW_FITS))
        return x->reason == SW_FITS ? -1 : 1;
    return x->reason == SW_FITS ? 0 : compare_rejected(x, y);
}

static int by_fit(const void *a, const void *b)
{
    const struct sw_candidate *x = a, *y = b;
    const int order = sw_rank_fit(x, y);
    return order != 0 ? order : sw_rank_time(x, y);
}

void sw_rank_sort(struct sw_search *search, int (*compare)(const void *, const void *))
{
    struct sw_candidate *mesh = search->mesh;
    if (search->count > 0)
        qsort(mesh, (size_t)search->count, sizeof *mesh, compare);
    search->feasible = 0;
    while (search->feasible < search->count && mesh[search->feasible].reason == SW_FITS)
        search->feasible++;
    search->keeping = search->feasible;
    search->fastest = search->feasible > 0 ? 0 : -1;
}

double sw_rank_fastest(const struct sw_search *search, struct sw_mesh *mesh)
{
    double least = INFINITY;
    for (int32_t i = 0; i < search->feasible; i++) {
        const struct sw_candidate *c = &search->mesh[i];
        const bool passed = c->passed_over.seconds > 0;
        const double seconds = passed ? c->passed_over.seconds : c->fastest_seconds;
        if (seconds >= least)
            continue;
        least = seconds;
        *mesh = passed ? c->passed_over.mesh : c->decision.mesh;
    }
    return least;
}

/* Marks the meshes at most prefer_within slower than the fastest in any order; one in which tp
 * leaves the fastest link domain only if it is faster by more than prefer_within than all others.
 * One always exists: an order that was passed over left its mesh that close. */
static void mark_near(struct sw_search *search, double within)
{
    struct sw_mesh fastest;
    const double limit = sw_rank_fastest(search, &fastest) * (1 + within);
    double inside = INFINITY;
    for (int32_t i = 0; i < search->feasible; i++) {
        const struct sw_candidate *c = &search->mesh[i];
        if (!c->tp_leaves_domain && c->fastest_seconds < inside)
            inside = c->fastest_seconds;
    }
    for (int32_t i = 0; i < search->feasible; i++) {
        struct sw_candidate *c = &search->mesh[i];
        c->may_be_chosen = c->fastest_seconds <= limit &&
                           (!c->tp_leaves_domain || c->fastest_seconds * (1 + within) < inside);
    }
}

void sw_rank_to_train(struct sw_search *search, const struct sw_run_config *run)
{
    struct sw_candidate *mesh = search->mesh;
    sw_rank_sort(search, by_fit); /* the fastest comes first */
    if (search->feasible == 0)
        return;
    const struct sw_mesh fastest = mesh[0].decision.mesh;
    if (run->prefer == SW_PREFER_FSDP) {
        mark_near(search, run->prefer_within);
        qsort(mesh, (size_t)search->feasible, sizeof *mesh, by_fsdp);
    } else if (run->prefer == SW_PREFER_FSDP_STRICT) {
        qsort(mesh, (size_t)search->feasible, sizeof *mesh, by_strict);
    }
    while (memcmp(&mesh[search->fastest].decision.mesh, &fastest, sizeof fastest) != 0)
        search->fastest++;
}
