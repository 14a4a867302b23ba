/* What is known of meshes that are not worth searching: that a step takes at least so long, and
 * that some options fit. A search that shows a few rows looks closely at no others. */
#include "planner/search/internal.h"

#include <math.h>
#include <string.h>

/* Orders of axes that are looked at one by one; four axes have more. */
enum { FEW_ORDERS = 6 };

static double floor_of(const struct sw_cost *cost)
{
    return cost->step_seconds * (1 - SW_FLOOR_MARGIN);
}

/* The program of an ideal step: NULL where none is admitted. */
static int make_ideal(struct sw_searcher *s, const struct sw_mesh *mesh,
                      const struct sw_variant *variant, struct sw_sized *out, struct sw_error *err)
{
    const struct sw_run_config *run = s->run;
    const int64_t shards = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    struct sw_decision all = sw_searcher_smallest(s, mesh, variant);
    if (run->micro_batch_size == 0)
        all.train.micro_batch_size = (run->global_batch_size + shards - 1) / shards;
    if (run->recompute_auto)
        all.train.recompute = sw_recompute_none();
    return sw_searcher_size(s, &all, out, err);
}

static int price_ideal(const struct sw_searcher *s, const struct sw_sized *sized, bool batch_alone,
                       double *floor, struct sw_error *err)
{
    const struct sw_cost_ideal ideal = {.batch_alone = batch_alone};
    struct sw_cost cost;
    if (sw_cost_price_ideal(sized->program, &s->run->cluster, &ideal, &sized->counted->known, &cost,
                            err) != 0)
        return -1;
    *floor = floor_of(&cost);
    return 0;
}

/* Whether what a mesh admits may follow from how dp and fsdp share their product. */
static bool is_split_by_rules(const struct sw_run_config *run)
{
    for (int32_t i = 0; i < run->rule_count; i++)
        for (int32_t k = 0; k < run->rule[i].count && k < SW_AXIS_COUNT; k++)
            if (strcmp(run->rule[i].axis[k], sw_axis_name(SW_DP)) == 0 ||
                strcmp(run->rule[i].axis[k], sw_axis_name(SW_FSDP)) == 0)
                return true;
    return false;
}

int sw_search_group_floors(struct sw_searcher *s, const struct sw_preference *p, int32_t shards,
                           double seconds[SW_MAX_VARIANTS], struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(shards, 1, p->tp, p->sp);
    for (int32_t i = 0; i < p->count; i++) {
        struct sw_sized sized;
        seconds[i] = 0;
        if (make_ideal(s, &mesh, &p->variant[i], &sized, err) != 0 ||
            (sized.program != NULL && price_ideal(s, &sized, true, &seconds[i], err) != 0))
            return -1;
        if (sized.program == NULL && !is_split_by_rules(s->run))
            seconds[i] = INFINITY; /* nor is any other of these meshes admitted */
    }
    return 0;
}

/* Whether an ideal step stays within the limit: on the best links of all orders, and on those of
 * one of them. */
static int is_within(struct sw_searcher *s, const struct sw_mesh *mesh,
                     const struct sw_variant *variant, double limit, bool *within,
                     struct sw_error *err)
{
    struct sw_sized sized;
    struct sw_mesh order;
    double floor;
    *within = false;
    if (make_ideal(s, mesh, variant, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    if (price_ideal(s, &sized, false, &floor, err) != 0)
        return -1;
    if (floor > limit)
        return 0;
    *within = sw_search_permute(mesh, FEW_ORDERS, &order);
    for (int32_t k = 0; !*within && sw_search_permute(mesh, k, &order); k++) {
        struct sw_cost cost;
        sized.program->mesh = order;
        if (sw_cost_price_known(sized.program, &s->run->cluster, NULL, &sized.counted->known, &cost,
                                err) != 0)
            return -1;
        *within = floor_of(&cost) <= limit;
    }
    return 0;
}

int sw_search_may_take(struct sw_searcher *s, const struct sw_preference *p,
                       const struct sw_mesh *mesh, const double group[SW_MAX_VARIANTS],
                       double limit, bool *out, struct sw_error *err)
{
    const struct sw_mesh made =
        sw_mesh_make(mesh->size[SW_DP], mesh->size[SW_FSDP], mesh->size[SW_TP], mesh->size[SW_SP]);
    *out = false;
    for (int32_t i = 0; i < p->count && !*out; i++)
        if (group[i] <= limit && is_within(s, &made, &p->variant[i], limit, out, err) != 0)
            return -1;
    return 0;
}

int sw_search_fits(struct sw_searcher *s, const struct sw_preference *p, struct sw_candidate *out,
                   struct sw_error *err)
{
    struct sw_mesh mesh = out->decision.mesh;
    if (!s->keep_order)
        mesh =
            sw_mesh_make(mesh.size[SW_DP], mesh.size[SW_FSDP], mesh.size[SW_TP], mesh.size[SW_SP]);
    for (int32_t i = 0; i < p->count; i++) {
        const struct sw_decision smallest = sw_searcher_smallest(s, &mesh, &p->variant[i]);
        struct sw_candidate c;
        struct sw_sized sized;
        if (sw_searcher_size(s, &smallest, &sized, err) != 0)
            return -1;
        if (sized.program == NULL || sized.least_bytes > sw_searcher_limit(s))
            continue;
        if (sw_searcher_measure(s, &sized, &c, err) != 0)
            return -1;
        if (c.reason != SW_FITS)
            continue;
        c.cost.step_seconds = INFINITY;
        *out = c;
        return 0;
    }
    return sw_search_mesh(s, p, out, err);
}

int sw_search_exactly(const struct sw_searcher *like, struct sw_candidate *c, struct sw_error *err)
{
    struct sw_searcher s = *like;
    struct sw_preference preference;
    if (!isinf(c->cost.step_seconds))
        return 0;
    return sw_search_prefer(&s, &c->decision.mesh, &preference, err) == 0 &&
                   sw_search_mesh(&s, &preference, c, err) == 0
               ? 0
               : -1;
}
