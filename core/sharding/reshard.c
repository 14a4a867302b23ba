#include "core/sharding/reshard.h"
#include "core/sharding/reshard_internal.h"

static struct sw_axes sub_axes(struct sw_axes list, int first, int count)
{
    struct sw_axes part = {.count = (uint8_t)count};
    for (int i = 0; i < count; i++)
        part.axis[i] = list.axis[first + i];
    return part;
}

/* Changes of one dimension if only the end of its axes changes. */
struct change {
    struct sw_axes slice;   /* gained, of axes that every rank holds whole */
    struct sw_axes scatter; /* gained after those, of partial axes */
    struct sw_axes gather;  /* lost */
};

/* -1 if the dimension must both lose and gain axes, or slice after it scattered: such orders are
 * left to the search. */
static int find_change(struct sw_axes from, struct sw_axes to, sw_axis_set reduced,
                       struct change *change)
{
    int common = 0;
    while (common < from.count && common < to.count && from.axis[common] == to.axis[common])
        common++;
    if (common < from.count && common < to.count)
        return -1;
    int scatter = common; /* first gained axis that is partial */
    while (scatter < to.count && !(reduced >> to.axis[scatter] & 1u))
        scatter++;
    for (int i = scatter; i < to.count; i++) {
        if (!(reduced >> to.axis[i] & 1u))
            return -1;
    }
    change->gather = sub_axes(from, common, from.count - common);
    change->slice = sub_axes(to, common, scatter - common);
    change->scatter = sub_axes(to, scatter, to.count - scatter);
    return 0;
}

static void add_step(struct sw_sharding *now, struct sw_reshard_step *steps, int *count,
                     enum sw_collective kind, struct sw_axes axes, int dim)
{
    struct sw_reshard_step *step = &steps[(*count)++];
    *step = (struct sw_reshard_step){.kind = kind, .axes = axes, .dim = (uint8_t)dim};
    step->after = sw_reshard_apply(now, step);
    *now = step->after;
}

/* Adds a reduce_scatter (largest group first) or all_gather (smallest first: later gathers of a
 * dimension carry more) for every dimension that has one. */
static void add_grouped(const struct sw_mesh *mesh, enum sw_collective kind,
                        const struct change change[SW_MAX_DIMS], struct sw_sharding *now,
                        struct sw_reshard_step *steps, int *count)
{
    unsigned done = 0;
    for (;;) {
        int best = -1;
        int32_t best_size = 0;
        for (int d = 0; d < now->spec.ndim; d++) {
            struct sw_axes axes = kind == SW_ALL_GATHER ? change[d].gather : change[d].scatter;
            int32_t size = sw_axes_size(mesh, axes);
            bool better = kind == SW_ALL_GATHER ? size < best_size : size > best_size;
            if (axes.count > 0 && !(done >> d & 1u) && (best < 0 || better)) {
                best = d;
                best_size = size;
            }
        }
        if (best < 0)
            return;
        done |= 1u << best;
        add_step(now, steps, count, kind,
                 kind == SW_ALL_GATHER ? change[best].gather : change[best].scatter, best);
    }
}

/* For dimensions that only gain or only lose axes at their ends, and axes that stay in their
 * dimension. No plan is cheaper than: slice, reduce_scatter, all_reduce the rest, gather; each
 * works on as little as it can. Returns the number of steps, or -1 if this is not such a case. */
static int plan_monotone(const struct sw_reshard_problem *problem, struct sw_reshard_step *steps)
{
    struct change change[SW_MAX_DIMS];
    sw_axis_set reduced = problem->from.partial & (sw_axis_set)~problem->to.partial;
    unsigned lost = 0, gained = 0, scattered = 0;
    int ndim = problem->from.spec.ndim;
    for (int d = 0; d < ndim; d++) {
        if (find_change(problem->from.spec.dim[d], problem->to.spec.dim[d], reduced, &change[d]) !=
            0)
            return -1;
        lost |= sw_axes_set(change[d].gather);
        scattered |= sw_axes_set(change[d].scatter);
        gained |= sw_axes_set(change[d].slice);
    }
    if (lost & gained)
        return -1;
    struct sw_sharding now = problem->from;
    int count = 0;
    for (int d = 0; d < ndim && gained != 0; d++) {
        if (change[d].slice.count > 0)
            add_step(&now, steps, &count, SW_SLICE, change[d].slice, d);
    }
    if (scattered != 0)
        add_grouped(problem->mesh, SW_REDUCE_SCATTER, change, &now, steps, &count);
    sw_axis_set left = reduced & (sw_axis_set)~scattered;
    if (left != 0)
        add_step(&now, steps, &count, SW_ALL_REDUCE, sw_axes_from_set(left), 0);
    if (lost != 0)
        add_grouped(problem->mesh, SW_ALL_GATHER, change, &now, steps, &count);
    return count;
}

/* One dimension hands its minor-most axes to another and nothing else changes: 1 step, or -1. */
static int plan_exchange(const struct sw_reshard_problem *problem, struct sw_reshard_step *steps)
{
    if (problem->from.partial != problem->to.partial)
        return -1;
    int giver = -1, taker = -1;
    for (int d = 0; d < problem->from.spec.ndim; d++) {
        int moved = problem->to.spec.dim[d].count - problem->from.spec.dim[d].count;
        if (moved < 0 && giver < 0)
            giver = d;
        else if (moved > 0 && taker < 0)
            taker = d;
    }
    if (giver < 0 || taker < 0)
        return -1;
    struct sw_axes from = problem->from.spec.dim[giver];
    int kept = problem->to.spec.dim[giver].count;
    struct sw_reshard_step step = {.kind = SW_ALL_TO_ALL,
                                   .axes = sub_axes(from, kept, from.count - kept),
                                   .dim = (uint8_t)giver,
                                   .dim_to = (uint8_t)taker};
    step.after = sw_reshard_apply(&problem->from, &step);
    if (!sw_sharding_equal(&step.after, &problem->to))
        return -1;
    steps[0] = step;
    return 1;
}

/* An axis may appear once; returns -1 if it appears twice. */
static int check_axes(const struct sw_sharding *sharding, const char *which, struct sw_error *err)
{
    unsigned seen = sharding->partial;
    for (int d = 0; d < sharding->spec.ndim; d++) {
        for (int i = 0; i < sharding->spec.dim[d].count; i++) {
            unsigned bit = 1u << sharding->spec.dim[d].axis[i];
            if (seen & bit)
                return sw_fail(err, SW_UNMET, "%s sharding uses axis %s twice", which,
                               sw_axis_name((enum sw_axis)sharding->spec.dim[d].axis[i]));
            seen |= bit;
        }
    }
    return 0;
}

int sw_reshard(const struct sw_mesh *mesh, const int64_t *global, const int64_t *unit,
               const struct sw_sharding *from, const struct sw_sharding *to,
               struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS], struct sw_error *err)
{
    struct sw_reshard_problem problem = {.mesh = mesh,
                                         .global = global,
                                         .unit = unit,
                                         .from = sw_sharding_normalize(mesh, *from),
                                         .to = sw_sharding_normalize(mesh, *to)};
    if (from->spec.ndim != to->spec.ndim)
        return sw_fail(err, SW_UNMET, "cannot reshard %d dimensions to %d", from->spec.ndim,
                       to->spec.ndim);
    if (check_axes(&problem.from, "the given", err) != 0 ||
        check_axes(&problem.to, "the wanted", err) != 0)
        return -1;
    sw_axis_set unsourced = problem.to.partial & (sw_axis_set)~problem.from.partial;
    if (unsourced != 0) {
        char names[32];
        return sw_fail(err, SW_UNMET, "the value is not partial over %s, so it cannot become so",
                       sw_axes_format(sw_axes_from_set(unsourced), names, sizeof names));
    }
    int64_t local[SW_MAX_DIMS];
    if (sw_local_shape(mesh, &problem.from.spec, global, unit, local, err) != 0 ||
        sw_local_shape(mesh, &problem.to.spec, global, unit, local, err) != 0)
        return -1;
    if (sw_sharding_equal(&problem.from, &problem.to))
        return 0;
    int count = plan_monotone(&problem, steps);
    if (count < 0)
        count = plan_exchange(&problem, steps);
    if (count < 0)
        count = sw_reshard_search(&problem, steps);
    return count >= 0 ? count : sw_fail(err, SW_ENVIRONMENT, "no reshard sequence found");
}
