/* What is known of meshes that are not worth searching: that a step takes at least so long, and
 * that some options fit. A search that shows a few rows looks closely at no others. */
#include "planner/search/internal.h"

#include <math.h>

/* What a variant takes at least; *seconds is INFINITY where there is no program. */
static int find_floor(struct sw_searcher *s, const struct sw_mesh *mesh,
                      const struct sw_variant *variant, const struct sw_cost_ideal *ideal,
                      double *seconds, struct sw_error *err)
{
    const struct sw_run_config *run = s->run;
    const int64_t shards = (int64_t)mesh->size[SW_DP] * mesh->size[SW_FSDP];
    struct sw_decision all = sw_searcher_smallest(s, mesh, variant);
    struct sw_sized sized;
    struct sw_cost cost;
    *seconds = INFINITY;
    if (run->micro_batch_size == 0)
        all.train.micro_batch_size = (run->global_batch_size + shards - 1) / shards;
    if (run->recompute_auto)
        all.train.recompute = sw_recompute_none();
    if (sw_searcher_size(s, &all, &sized, err) != 0)
        return -1;
    if (sized.program == NULL)
        return 0;
    if (sw_cost_price_ideal(sized.program, &run->cluster, ideal, &sized.counted->known, &cost,
                            err) != 0)
        return -1;
    *seconds = cost.step_seconds * (1 - SW_FLOOR_MARGIN);
    return 0;
}

int sw_search_group_floors(struct sw_searcher *s, const struct sw_preference *p, int32_t shards,
                           double seconds[SW_MAX_VARIANTS], struct sw_error *err)
{
    const struct sw_cost_ideal ideal = {.batch_alone = true};
    const struct sw_mesh mesh = sw_mesh_make(shards, 1, p->tp, p->sp);
    for (int32_t i = 0; i < p->count; i++) {
        if (find_floor(s, &mesh, &p->variant[i], &ideal, &seconds[i], err) != 0)
            return -1;
        if (isinf(seconds[i]))
            seconds[i] = 0; /* other meshes may be admitted */
    }
    return 0;
}

int sw_search_mesh_floor(struct sw_searcher *s, const struct sw_preference *p,
                         const struct sw_mesh *mesh, const double group[SW_MAX_VARIANTS],
                         double limit, double *seconds, struct sw_error *err)
{
    const struct sw_cost_ideal ideal = {.batch_alone = false};
    const struct sw_mesh made =
        sw_mesh_make(mesh->size[SW_DP], mesh->size[SW_FSDP], mesh->size[SW_TP], mesh->size[SW_SP]);
    *seconds = INFINITY;
    for (int32_t i = 0; i < p->count; i++) {
        double floor = group[i];
        if (floor <= limit && find_floor(s, &made, &p->variant[i], &ideal, &floor, err) != 0)
            return -1;
        *seconds = floor < *seconds ? floor : *seconds;
    }
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
