/* One offset in the arena for every buffer. Values that last from step to step come first; the
 * others are packed, largest first, into the lowest gap that no overlapping lifetime uses.
 * Lifetimes: see layout_structure.c. */
#include "core/base/number.h"
#include "core/passes/layout_internal.h"

#include <string.h>

static int64_t align(int64_t bytes)
{
    return sw_align(bytes, SW_ARENA_ALIGNMENT);
}

/* ---- Sizes ---- */

/* A dimension's size, its padded size, and its number of parts. */
struct extent {
    int64_t size, padded;
    int32_t split;
};

static struct extent extent_of(const struct sw_program *p, const struct sw_sizes *sizes,
                               const struct sw_value *value, uint8_t d)
{
    const struct sw_axes *axes = &value->sharding.spec.dim[d];
    struct extent e = {value->size[d], value->padded[d], 1};
    if (sizes != NULL && value->symbol[d] != SW_SIZE_FIXED)
        e.size = sizes->of[value->symbol[d]];
    if (value->largest && d > 0)
        e.padded = e.size; /* blocks of whole ones: passes/admits.c */
    else if (sizes != NULL)
        e.padded = sw_value_pads(value, d) ? sizes->of[SW_SIZE_EMBED] : e.size;
    for (uint8_t i = 0; i < axes->count; i++)
        e.split *= p->mesh.size[axes->axis[i]];
    return e;
}

/* Computes a shape if its parts changed. 1: changed, 0: unchanged, -1: err. */
static int find_shard(const struct sw_program *p, const struct sw_sizes *sizes, struct shape *shape,
                      struct sw_error *err)
{
    const struct sw_value *like = &p->values[shape->like];
    bool changed = !shape->known;
    for (uint8_t d = 0; d < like->ndim; d++) {
        const struct extent e = extent_of(p, sizes, like, d);
        if (shape->known && shape->size[d] == e.size && shape->padded[d] == e.padded &&
            shape->split[d] == e.split)
            continue;
        if (e.split > 1 && e.padded % (e.split * like->unit[d]) != 0) {
            char names[32];
            return sw_fail(err, SW_UNMET, "dimension %d of '%s' (%lld) is not divisible by %s %lld",
                           d, like->name, (long long)(e.padded / like->unit[d]),
                           sw_axes_format(like->sharding.spec.dim[d], names, sizeof names),
                           (long long)e.split);
        }
        shape->size[d] = e.size;
        shape->padded[d] = e.padded;
        shape->split[d] = e.split;
        shape->local[d] = e.padded / e.split;
        changed = true;
    }
    for (uint8_t d = like->ndim; !shape->known && d < SW_MAX_DIMS; d++) {
        shape->size[d] = like->size[d];
        shape->padded[d] = shape->local[d] = like->padded[d];
    }
    shape->known = true;
    if (!changed)
        return 0;
    shape->slot_bytes = (int64_t)sw_dtype_bytes(like->dtype);
    for (uint8_t d = 0; d < like->ndim; d++)
        shape->slot_bytes *= shape->local[d];
    return 1;
}

static bool is_whole_tiles(const struct sw_program *p, const struct sw_value *value)
{
    return value->local[0] * sw_value_group(p, value, 0) % SW_TILE_LINES == 0 &&
           value->local[1] * sw_value_group(p, value, 1) % SW_TILE_COLUMNS == 0 &&
           value->padded[0] == value->size[0] && value->padded[1] == value->size[1];
}

/* Sets every value's shape. From one mesh of a search to the next most shapes stay. */
static int set_shapes(struct sw_program *p, const struct sw_sizes *sizes, struct sw_error *err)
{
    const struct sw_lifetimes *l = p->lifetimes;
    for (int32_t i = 0; i < l->shape_count; i++) {
        struct shape *shape = &l->shapes[i];
        const int changed = find_shard(p, sizes, shape, err);
        if (changed < 0)
            return -1;
        for (int32_t k = 0; changed && k < shape->count; k++) {
            struct sw_value *value = &p->values[l->by_shape[shape->first + k]];
            memcpy(value->size, shape->size, sizeof value->size);
            memcpy(value->padded, shape->padded, sizeof value->padded);
            memcpy(value->local, shape->local, sizeof value->local);
            value->slot_bytes = shape->slot_bytes;
            if (shape->tiles)
                value->tiled = value->tiles && is_whole_tiles(p, value);
        }
    }
    return 0;
}

/* Sets the bytes of every group's blocks. */
static void measure_groups(const struct sw_program *p)
{
    struct sw_lifetimes *l = p->lifetimes;
    l->workspace_bytes = 0;
    for (int32_t i = 0; i < l->group_count; i++) {
        struct group *group = &l->groups[i];
        if (group->value >= 0) {
            const struct sw_value *value = &p->values[group->value];
            group->needed_bytes = value->slot_bytes * value->slots;
        } else {
            const struct sw_op *op = &p->ops[group->op];
            group->needed_bytes = sw_op_info(op->kind)->workspace(p, op);
            if (group->needed_bytes > l->workspace_bytes)
                l->workspace_bytes = group->needed_bytes;
        }
        group->bytes = align(group->needed_bytes);
    }
}

/* Places values that last longer than a micro-step: first the state, each tensor where the state
 * has it; then values that last as long as a run of the program. */
static int assign_persistent_offsets(struct sw_program *p, const struct sw_state *state,
                                     struct sw_error *err)
{
    struct sw_lifetimes *l = p->lifetimes;
    int64_t of_role[SW_ROLE_COUNT] = {0};
    l->state_bytes = state != NULL ? state->bytes : 0;
    for (int32_t i = 0; i < l->kept_count; i++) {
        struct sw_value *value = &p->values[l->kept[i]];
        const int64_t bytes = align(value->slot_bytes * value->slots);
        if (state != NULL && sw_role_is_state(value->role)) {
            value->offset = sw_state_offset(state, value, err);
            if (value->offset < 0)
                return -1;
            continue;
        }
        value->offset = l->state_bytes;
        l->state_bytes += bytes;
        of_role[value->role] += bytes;
    }
    p->parameter_bytes = state != NULL ? state->parameter_bytes : of_role[SW_ROLE_PARAMETER];
    p->optimizer_bytes = state != NULL ? state->bytes - state->parameter_bytes - state->cache_bytes
                                       : of_role[SW_ROLE_OPTIMIZER];
    p->cache_bytes = state != NULL ? state->cache_bytes : of_role[SW_ROLE_CACHE];
    p->gradient_bytes = of_role[SW_ROLE_GRADIENT];
    p->weight_bytes = of_role[SW_ROLE_WEIGHTS];
    return 0;
}

/* Sets the arena's size, with that many bytes for transient values. */
static void set_arena(struct sw_program *p, int64_t transient_bytes)
{
    const int64_t largest = p->lifetimes->workspace_bytes;
    p->arena_bytes = p->lifetimes->state_bytes + transient_bytes;
    p->workspace_bytes = largest < transient_bytes ? largest : transient_bytes;
    p->activation_bytes = p->arena_bytes - p->parameter_bytes - p->weight_bytes -
                          p->gradient_bytes - p->optimizer_bytes - p->cache_bytes -
                          p->workspace_bytes;
}

/* Largest sum of bytes of blocks that are alive at once. */
static int64_t most_alive(const struct sw_program *p)
{
    const struct sw_lifetimes *l = p->lifetimes;
    int64_t live = 0, most = 0;
    memset(l->change, 0, ((size_t)p->op_count + 2) * sizeof *l->change);
    for (int32_t i = 0; i < l->block_count; i++) {
        const struct alive *alive = &l->alive[i];
        l->change[alive->first] += l->groups[alive->group].bytes;
        l->change[alive->end] -= l->groups[alive->group].bytes;
    }
    for (int32_t i = 0; i <= p->op_count; i++) {
        live += l->change[i];
        most = live > most ? live : most;
    }
    return most;
}

int sw_layout_measure(struct sw_program *p, const struct sw_sizes *sizes,
                      const struct sw_state *state, struct sw_error *err)
{
    if ((p->lifetimes == NULL && sw_layout_find_structure(p, err) != 0) ||
        set_shapes(p, sizes, err) != 0)
        return -1;
    measure_groups(p);
    if (assign_persistent_offsets(p, state, err) != 0)
        return -1;
    set_arena(p, most_alive(p));
    p->stage = SW_SCHEDULED;
    return 0;
}

/* ---- Placing ---- */

/* Sorts into the order of placement: largest first, of equals the one used first. Groups keep the
 * last mesh's order, which differs little: insertion sort. */
static void sort_by_size(struct sw_lifetimes *l)
{
    struct group *groups = l->groups;
    int32_t next = 0, same = 0; /* `same`: the first group of the current size */
    for (int32_t i = 0; i < l->group_count; i++) {
        const int32_t group = l->by_size[i];
        int32_t at = i;
        for (; at > 0 && groups[l->by_size[at - 1]].bytes < groups[group].bytes; at--)
            l->by_size[at] = l->by_size[at - 1];
        l->by_size[at] = group;
    }
    for (int32_t i = 0; i < l->group_count; i++) {
        const int32_t group = l->by_size[i];
        if (i == 0 || groups[group].bytes != groups[same].bytes) {
            same = group;
            groups[same].cursor = next;
        }
        groups[group].same = same;
        next += groups[group].count;
    }
    for (int32_t i = 0; i < l->block_count; i++) {
        struct group *group = &groups[l->alive[i].group];
        l->blocks[i].bytes = group->bytes;
        l->order[groups[group->same].cursor++] = i;
    }
}

/* The lowest gap, from `offset` on, among the list's blocks with overlapping lifetimes. The
 * innermost loop of a search over meshes. */
static int64_t find_gap(struct occupied_list *list, const struct block *block, int64_t offset)
{
    const int32_t first = block->first, last = block->last;
    const int64_t bytes = block->bytes;
    const struct occupied *p = list->at;
    if (offset < list->floor)
        offset = list->floor;
    for (; p->offset < offset + bytes; p++) { /* no branches: overlaps are unpredictable */
        const bool overlaps = (p->first <= last) & (p->last >= first) & (p->end > offset);
        offset = overlaps ? p->end : offset;
    }
    list->stop = (int32_t)(p - list->at);
    return offset;
}

/* Inserts into the gap that was found last. */
static void insert(struct occupied_list *list, const struct occupied *new)
{
    int32_t at = list->stop;
    while (at > 0 && list->at[at - 1].offset > new->offset)
        at--;
    memmove(&list->at[at + 1], &list->at[at], (size_t)(++list->count - at) * sizeof *list->at);
    list->at[at] = *new;
}

static void take(struct occupied_list *list, const struct sw_region *region,
                 const struct occupied *new)
{
    if (new->offset == list->floor &&new->first <= region->first_op &&new->last >=
                           region->first_op + region->op_count - 1)
        list->floor = new->end;
    else
        insert(list, new);
}

/* A gap common to all regions in which the block is alive: mostly one region. */
static int64_t find_common_gap(const struct sw_lifetimes *l, const struct block *block,
                               int64_t base)
{
    int64_t offset = find_gap(&l->occupied[block->from], block, base);
    for (int64_t before = base - 1; block->to > block->from && offset != before;) {
        before = offset;
        for (int32_t r = block->from; r <= block->to; r++)
            offset = find_gap(&l->occupied[r], block, offset);
    }
    return offset;
}

/* Places blocks first fit, largest first. Returns the end. */
static int64_t assign_block_offsets(struct sw_program *p)
{
    struct sw_lifetimes *l = p->lifetimes;
    int64_t end = l->state_bytes;
    sort_by_size(l);
    for (int32_t r = 0; r < p->region_count; r++) {
        l->occupied[r].count = 0;
        l->occupied[r].floor = l->state_bytes;
        l->occupied[r].at[0] = (struct occupied){.offset = INT64_MAX};
    }
    for (int32_t i = 0; i < l->block_count; i++) {
        struct block *block = &l->blocks[l->order[i]];
        if (block->bytes == 0)
            break; /* the rest is empty, too */
        block->offset = find_common_gap(l, block, l->state_bytes);
        const struct occupied new = {block->offset, block->offset + block->bytes, block->first,
                                     block->last};
        for (int32_t r = block->from; r <= block->to; r++)
            take(&l->occupied[r], &p->regions[r], &new);
        if (new.end > end)
            end = new.end;
    }
    return end;
}

void sw_layout_assign_offsets(struct sw_program *p)
{
    const struct sw_lifetimes *l = p->lifetimes;
    set_arena(p, assign_block_offsets(p) - l->state_bytes);
    for (int32_t i = 0; i < l->block_count; i++) {
        const struct block *block = &l->blocks[i];
        if (block->value >= 0) {
            p->values[block->value].offset = block->offset;
        } else {
            p->ops[block->op].workspace_bytes = l->groups[block->group].needed_bytes;
            p->ops[block->op].workspace_offset = block->bytes > 0 ? block->offset : 0;
        }
    }
    for (int32_t v = 0; v < p->value_count; v++)
        if (p->values[v].alias >= 0)
            p->values[v].offset = p->values[p->values[v].alias].offset;
    p->stage = SW_LAID_OUT;
}

int sw_layout(struct sw_program *program, const struct sw_state *state, struct sw_error *err)
{
    if (sw_layout_measure(program, NULL, state, err) != 0)
        return -1;
    sw_layout_assign_offsets(program);
    return 0;
}

int64_t sw_program_most_bytes(const struct sw_program *p)
{
    const struct sw_lifetimes *l = p->lifetimes;
    int64_t sum = l->state_bytes; /* a block lies at most behind all blocks placed before */
    for (int32_t i = 0; i < l->group_count; i++)
        sum += l->groups[i].bytes * l->groups[i].count;
    return sum;
}

/* ---- For readers ---- */

int32_t sw_program_block_count(const struct sw_program *program)
{
    return program->lifetimes != NULL ? program->lifetimes->block_count : 0;
}

struct sw_arena_block sw_program_block(const struct sw_program *program, int32_t i)
{
    const struct block *b = &program->lifetimes->blocks[i];
    return (struct sw_arena_block){b->offset, b->bytes, b->first, b->last, b->value, b->op};
}

const int32_t *sw_layout_symbolic_ops(const struct sw_program *program, int32_t *count)
{
    if (program->lifetimes == NULL)
        return NULL;
    *count = program->lifetimes->symbolic_count;
    return program->lifetimes->symbolic;
}

int32_t sw_program_first_equal_op(const struct sw_program *program, int32_t i)
{
    return program->lifetimes->first_equal[i];
}

bool sw_program_is_stored(const struct sw_program *program, int32_t value)
{
    const struct sw_value *v = &program->values[value];
    return v->alias < 0 && (v->role == SW_ROLE_INPUT ||
                            (program->lifetimes != NULL && program->lifetimes->started[value]));
}
