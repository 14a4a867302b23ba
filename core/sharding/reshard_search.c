/* Uniform-cost search for reshards that are not a plain chain of gains and losses.
 *
 * A state has for each axis its dimension and position, partial, or none. With four axes and four
 * dimensions there are at most 2424 states. Moves are the five collectives with two restrictions
 * that keep every sensible plan: a slice only makes a dimension a prefix of its target (nothing is
 * sliced just to be gathered later), and reduce_scatter appends its axes in the target's order.
 * Reducing, gathering and slicing everything is always among the plans, so one is found. */
#include "core/sharding/reshard_internal.h"

#include <string.h>

enum {
    MAX_NODES = 2424, /* sum over k axes in dimensions: C(4,k) k! C(k+3,3) 2^(4-k) */
    TABLE_SIZE = 4096,
    POSITION_PARTIAL = 4,
    POSITION_NONE = 5
};

struct node {
    struct sw_sharding sharding;
    struct sw_reshard_step step; /* step that led here; its `after` is left empty: it is
                                    `sharding` */
    double cost;                 /* elements received so far */
    double through; /* sum of the inputs of the collectives so far: the last tie-break */
    uint32_t code;
    int16_t parent; /* -1 at the start */
    int16_t heap;   /* position in the heap; -1 when settled */
    uint8_t depth;
};

struct search {
    const struct sw_reshard_problem *problem;
    sw_axis_set reduced;                 /* axes that may be reduced */
    uint8_t wanted_order[SW_AXIS_COUNT]; /* all axes by (dimension, position) in `to`, the others
                                            last */
    int nodes, heap_size;
    bool full; /* true if a state had no room: the plan may not be the cheapest */
    int16_t heap[MAX_NODES];
    uint16_t table[TABLE_SIZE]; /* open addressing: node index + 1, 0 empty */
    struct node node[MAX_NODES];
};

static uint32_t encode(const struct sw_sharding *sharding)
{
    uint32_t position[SW_AXIS_COUNT];
    for (int a = 0; a < SW_AXIS_COUNT; a++)
        position[a] = (sharding->partial >> a & 1u ? POSITION_PARTIAL : POSITION_NONE) * 4;
    for (uint32_t d = 0; d < sharding->spec.ndim; d++) {
        for (uint32_t i = 0; i < sharding->spec.dim[d].count; i++)
            position[sharding->spec.dim[d].axis[i]] = d * 4 + i;
    }
    return position[0] | position[1] << 5 | position[2] << 10 | position[3] << 15;
}

static bool is_before(const struct node *a, const struct node *b)
{
    if (a->cost != b->cost)
        return a->cost < b->cost;
    if (a->depth != b->depth)
        return a->depth < b->depth;
    if (a->through != b->through)
        return a->through < b->through;
    return a->code < b->code;
}

static void heap_set(struct search *s, int at, int16_t index)
{
    s->heap[at] = index;
    s->node[index].heap = (int16_t)at;
}

static void heap_up(struct search *s, int at)
{
    int16_t index = s->heap[at];
    while (at > 0 && is_before(&s->node[index], &s->node[s->heap[(at - 1) / 2]])) {
        heap_set(s, at, s->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(s, at, index);
}

static int16_t heap_pop(struct search *s)
{
    int16_t top = s->heap[0];
    int16_t last = s->heap[--s->heap_size];
    int at = 0;
    for (int child = 1; child < s->heap_size; child = 2 * at + 1) {
        if (child + 1 < s->heap_size &&
            is_before(&s->node[s->heap[child + 1]], &s->node[s->heap[child]]))
            child++;
        if (!is_before(&s->node[s->heap[child]], &s->node[last]))
            break;
        heap_set(s, at, s->heap[child]);
        at = child;
    }
    if (s->heap_size > 0)
        heap_set(s, at, last);
    s->node[top].heap = -1;
    return top;
}

/* The table's entry for that state: its node index + 1, or the empty entry for it. */
static uint16_t *find_entry(struct search *s, uint32_t code)
{
    uint32_t at = code * 2654435769u >> 20;
    while (s->table[at] != 0 && s->node[s->table[at] - 1].code != code)
        at = (at + 1) % TABLE_SIZE;
    return &s->table[at];
}

static bool divides(const struct sw_reshard_problem *p, const struct sw_partition_spec *spec, int d)
{
    int64_t unit = p->unit != NULL ? p->unit[d] : 1;
    return p->global[d] % (unit * sw_axes_size(p->mesh, spec->dim[d])) == 0;
}

/* Input of a collective in the unit of the cost. */
static double local_elems(const struct sw_mesh *mesh, const struct sw_partition_spec *spec)
{
    double elems = (double)sw_mesh_rank_count(mesh) * sw_mesh_rank_count(mesh);
    for (int d = 0; d < spec->ndim; d++)
        elems /= sw_axes_size(mesh, spec->dim[d]);
    return elems;
}

/* Reaches a state from node `parent` by this step, if possible and cheaper than before. */
static void try_step(struct search *s, int16_t parent, const struct sw_reshard_step *step)
{
    const struct node *before = &s->node[parent];
    if (before->depth == SW_RESHARD_MAX_STEPS)
        return;
    struct node next = {.sharding = sw_reshard_apply(&before->sharding, step),
                        .step = *step,
                        .parent = parent,
                        .depth = (uint8_t)(before->depth + 1)};
    if (!divides(s->problem, &next.sharding.spec, step->dim) ||
        !divides(s->problem, &next.sharding.spec, step->dim_to))
        return;
    next.cost = before->cost + sw_reshard_step_cost(s->problem->mesh, &before->sharding, step);
    next.through = before->through;
    if (step->kind != SW_SLICE)
        next.through += local_elems(s->problem->mesh, &before->sharding.spec);
    next.code = encode(&next.sharding);
    uint16_t *entry = find_entry(s, next.code);
    if (*entry == 0) {
        if (s->nodes == MAX_NODES) { /* a move that is not counted above */
            s->full = true;
            return;
        }
        int16_t index = (int16_t)s->nodes++;
        *entry = (uint16_t)(index + 1);
        s->node[index] = next;
        s->heap[s->heap_size] = index;
        heap_up(s, s->heap_size++);
        return;
    }
    struct node *known = &s->node[*entry - 1];
    if (known->heap < 0 || !is_before(&next, known))
        return;
    next.heap = known->heap;
    *known = next;
    heap_up(s, next.heap);
}

static struct sw_axes suffix(struct sw_axes list, int count)
{
    struct sw_axes part = {.count = (uint8_t)count};
    for (int i = 0; i < count; i++)
        part.axis[i] = list.axis[list.count - count + i];
    return part;
}

static void try_slices(struct search *s, int16_t index, int d)
{
    const struct sw_sharding *now = &s->node[index].sharding;
    struct sw_axes have = now->spec.dim[d];
    struct sw_axes want = s->problem->to.spec.dim[d];
    unsigned busy = now->partial | sw_spec_axes(&now->spec);
    for (int i = 0; i < have.count; i++) {
        if (i >= want.count || have.axis[i] != want.axis[i])
            return;
    }
    struct sw_reshard_step step = {.kind = SW_SLICE, .dim = (uint8_t)d, .dim_to = (uint8_t)d};
    for (int i = have.count; i < want.count && !(busy >> want.axis[i] & 1u); i++) {
        step.axes.axis[step.axes.count++] = want.axis[i];
        try_step(s, index, &step);
    }
}

/* all_gather and all_to_all of every group of minor-most axes of d. */
static void try_moves(struct search *s, int16_t index, int d)
{
    struct sw_axes have = s->node[index].sharding.spec.dim[d];
    int ndim = s->node[index].sharding.spec.ndim;
    for (int count = 1; count <= have.count; count++) {
        struct sw_reshard_step step = {.kind = SW_ALL_GATHER,
                                       .axes = suffix(have, count),
                                       .dim = (uint8_t)d,
                                       .dim_to = (uint8_t)d};
        try_step(s, index, &step);
        step.kind = SW_ALL_TO_ALL;
        for (int to = 0; to < ndim; to++) {
            step.dim_to = (uint8_t)to;
            if (to != d)
                try_step(s, index, &step);
        }
    }
}

static void try_reductions(struct search *s, int16_t index)
{
    unsigned open = s->node[index].sharding.partial & s->reduced;
    int ndim = s->node[index].sharding.spec.ndim;
    for (unsigned set = open; set != 0; set = (set - 1) & open) {
        struct sw_reshard_step step = {.kind = SW_ALL_REDUCE,
                                       .axes = sw_axes_from_set((sw_axis_set)set)};
        if (ndim > 0)
            try_step(s, index, &step);
        struct sw_axes ordered = {0};
        for (int i = 0; i < SW_AXIS_COUNT; i++) {
            if (set >> s->wanted_order[i] & 1u)
                ordered.axis[ordered.count++] = s->wanted_order[i];
        }
        step.kind = SW_REDUCE_SCATTER;
        step.axes = ordered;
        for (int d = 0; d < ndim; d++) {
            step.dim = step.dim_to = (uint8_t)d;
            try_step(s, index, &step);
        }
    }
}

static void set_wanted_order(struct search *s)
{
    const struct sw_partition_spec *to = &s->problem->to.spec;
    unsigned seen = 0;
    int count = 0;
    for (int d = 0; d < to->ndim; d++) {
        for (int i = 0; i < to->dim[d].count; i++) {
            s->wanted_order[count++] = to->dim[d].axis[i];
            seen |= 1u << to->dim[d].axis[i];
        }
    }
    for (uint8_t axis = 0; axis < SW_AXIS_COUNT; axis++) {
        if (!(seen >> axis & 1u))
            s->wanted_order[count++] = axis;
    }
}

/* Writes the steps from the start to this node, in order. */
static int write_plan(const struct search *s, int16_t index,
                      struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS])
{
    int count = s->node[index].depth;
    for (int i = count - 1; i >= 0; i--) {
        steps[i] = s->node[index].step;
        steps[i].after = s->node[index].sharding;
        if (steps[i].kind != SW_ALL_TO_ALL)
            steps[i].dim_to = 0;
        index = s->node[index].parent;
    }
    return count;
}

int sw_reshard_search(const struct sw_reshard_problem *problem,
                      struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS])
{
    struct search s; /* about 250 KB; only used parts are written */
    s.problem = problem;
    s.reduced = problem->from.partial & (sw_axis_set)~problem->to.partial;
    s.nodes = s.heap_size = 1;
    s.full = false;
    memset(s.table, 0, sizeof s.table);
    set_wanted_order(&s);
    s.node[0] =
        (struct node){.sharding = problem->from, .code = encode(&problem->from), .parent = -1};
    s.heap[0] = 0;
    *find_entry(&s, s.node[0].code) = 1;
    uint32_t goal = encode(&problem->to);
    while (s.heap_size > 0) {
        int16_t index = heap_pop(&s);
        if (s.full)
            return -1;
        if (s.node[index].code == goal)
            return write_plan(&s, index, steps);
        for (int d = 0; d < problem->from.spec.ndim; d++) {
            try_slices(&s, index, d);
            try_moves(&s, index, d);
        }
        try_reductions(&s, index);
    }
    return -1;
}
