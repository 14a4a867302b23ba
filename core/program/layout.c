/* One offset in the arena for every buffer. Time is the position of an op in the program; a buffer
 * that a loop carries from one iteration or region to another is alive for the whole loop. What
 * lasts from step to step comes first; the rest is packed, largest first, into the lowest gap that
 * no overlapping lifetime uses.
 *
 * Lifetimes follow from the ops alone, so that they are found once and kept with the program: a
 * search lays the same ops out for hundreds of meshes. */
#include "core/program/builder.h"

#include <stdlib.h>
#include <string.h>

struct lifetime {
    int32_t first, last; /* op positions, inclusive; first > last: never used */
    int32_t region;      /* the only region that touches it, -2: several, -1: none */
    int32_t loops;       /* loop regions that touch it */
    int32_t last_loop;   /* the last of them, -1: none */
    bool local; /* so far only touched by refs to the iteration's own layer, written before read */
    bool started;
};

/* Sort keys carry an index in their lowest bits. */
enum { INDEX_BITS = 20, INDEX_MASK = (1 << INDEX_BITS) - 1 };

struct block {
    int64_t bytes, offset;
    int32_t first, last;
    int32_t value; /* -1: workspace of `op` */
    int32_t op;
    int32_t region; /* the only one it is alive in, -1: several */
};

struct placed {
    int64_t offset, end;
    int32_t first, last;
};

/* By offset. */
struct placed_list {
    struct placed *at; /* [block_count] */
    int32_t count;
};

/* Kept with the program. */
struct sw_lifetimes {
    struct lifetime *life; /* [value_count], settled */
    int32_t *slots;        /* [value_count] */
    int32_t *wait;         /* [op_count]: position of the wait that ends a collective, or its own */
    struct block *blocks;  /* [block_count]: by first use; without a size for now: op's workspace */
    int32_t block_count;
    int32_t *kept; /* [kept_count]: values that last from step to step, as they lie in the arena */
    int32_t kept_count;
    /* scratch */
    uint64_t *keys;             /* [block_count] */
    struct placed_list *placed; /* [region_count + 1]: of blocks alive in that region; of all */
    int32_t region_count;
    int32_t *region_first, *region_last; /* [region_count]: op positions */
    int64_t *change;                     /* [op_count + 1] */
};

struct layout {
    struct sw_program *p;
    struct lifetime *life;
    int32_t *wait;
};

static int64_t align(int64_t bytes)
{
    return (bytes + SW_ARENA_ALIGNMENT - 1) / SW_ARENA_ALIGNMENT * SW_ARENA_ALIGNMENT;
}

static int32_t storage(const struct sw_program *p, int32_t value)
{
    return p->values[value].alias >= 0 ? p->values[value].alias : value;
}

static bool persistent(const struct sw_value *value)
{
    return value->role != SW_ROLE_ACTIVATION;
}

static int local_shapes(struct sw_program *p, struct sw_error *err)
{
    for (int32_t v = 0; v < p->value_count; v++) {
        struct sw_value *value = &p->values[v];
        for (uint8_t d = 0; d < value->ndim; d++) {
            value->local[d] = value->size[d];
            if (value->sharding.spec.dim[d].count == 0)
                continue;
            const int64_t split = sw_axes_size(&p->mesh, value->sharding.spec.dim[d]);
            if (value->size[d] % (split * value->unit[d]) != 0) {
                char axes[32];
                return sw_fail(err, SW_UNMET,
                               "dimension %d of '%s' (%lld) is not divisible by %s %lld", d,
                               value->name, (long long)(value->size[d] / value->unit[d]),
                               sw_axes_format(value->sharding.spec.dim[d], axes, sizeof axes),
                               (long long)split);
            }
            value->local[d] = value->size[d] / split;
        }
        value->slot_bytes = sw_value_local_elems(value) * (int64_t)sw_dtype_bytes(value->dtype);
    }
    return 0;
}

static void touch(struct layout *l, struct sw_ref ref, int32_t position, int32_t until,
                  int32_t region, bool write, bool ahead)
{
    struct lifetime *life = &l->life[storage(l->p, ref.value)];
    const bool loop = l->p->regions[region].repeat > 1;
    if (!life->started)
        *life = (struct lifetime){position, until, region, 0, -1, write && !ahead, true};
    if (life->region != region)
        life->region = -2;
    if (loop && life->last_loop != region) {
        life->loops++;
        life->last_loop = region;
    }
    if (position < life->first)
        life->first = position;
    if (until > life->last)
        life->last = until;
    if (loop && (ref.mode != SW_INDEX_LAYER || ref.shift != 0 || ahead))
        life->local = false;
}

/* Where the result of each collective is waited for: in its region, or, what a step reduces once,
 * in the update. */
static void find_waits(struct layout *l)
{
    const struct sw_program *p = l->p;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const int32_t end = region->first_op + region->op_count;
        for (int32_t i = region->first_op; i < end; i++) {
            l->wait[i] = i;
            if (!sw_op_is_collective(p->ops[i].kind))
                continue;
            const int32_t until = p->ops[i].last_micro_step ? p->op_count : end;
            for (int32_t j = i + 1; j < until; j++)
                if (p->ops[j].kind == SW_OP_WAIT &&
                    p->ops[j].in[0].value == p->ops[i].out[0].value) {
                    l->wait[i] = j;
                    break;
                }
        }
    }
}

static void find_lifetimes(struct layout *l)
{
    const struct sw_program *p = l->p;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            const struct sw_op *op = &p->ops[i];
            for (uint8_t k = 0; k < op->n_out; k++)
                touch(l, op->out[k], i, l->wait[i], r, true, op->ahead);
            for (uint8_t k = 0; k < op->n_in; k++)
                touch(l, op->in[k], i, l->wait[i], r, false, op->ahead);
        }
    }
}

/* How many instances exist at once, and from when to when, now that all uses are known. */
static int32_t settle(struct layout *l, int32_t v)
{
    const struct sw_program *p = l->p;
    const struct sw_value *value = &p->values[v];
    struct lifetime *life = &l->life[v];
    if (!life->started || persistent(value))
        return value->stack;
    if (life->region >= 0) {
        const struct sw_region *region = &p->regions[life->region];
        if (region->repeat == 1)
            return value->stack;
        if (life->local)
            return 1;
        life->first = region->first_op;
        life->last = region->first_op + region->op_count - 1;
        return 1;
    }
    /* carried between regions: alive throughout every loop it enters */
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const int32_t end = region->first_op + region->op_count - 1;
        if (region->repeat > 1 && life->first >= region->first_op && life->first <= end)
            life->first = region->first_op;
        if (region->repeat > 1 && life->last >= region->first_op && life->last <= end)
            life->last = end;
    }
    /* a chain from iteration to iteration needs the last instance and the next */
    return value->stack == p->layers + 1 && life->loops == 1 && value->stack > 2 ? 2 : value->stack;
}

/* Shell sort: a few hundred numbers, where qsort's calls would cost more than the rest of the
 * layout. */
static void sort_keys(uint64_t *keys, int32_t count)
{
    static const int32_t gaps[] = {701, 301, 132, 57, 23, 10, 4, 1}; /* Ciura 2001 */
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (int32_t i = gaps[g]; i < count; i++) {
            const uint64_t key = keys[i];
            int32_t at = i;
            for (; at >= gaps[g] && keys[at - gaps[g]] > key; at -= gaps[g])
                keys[at] = keys[at - gaps[g]];
            keys[at] = key;
        }
}

static void insert(struct placed_list *list, const struct placed *new)
{
    int32_t at = 0, end = list->count++;
    while (at < end) { /* behind those of the same offset */
        const int32_t middle = (at + end) / 2;
        if (list->at[middle].offset > new->offset)
            end = middle;
        else
            at = middle + 1;
    }
    memmove(&list->at[at + 1], &list->at[at], (size_t)(list->count - 1 - at) * sizeof *list->at);
    list->at[at] = *new;
}

/* The lowest gap among the blocks of the list whose lifetimes overlap. The innermost loop of a
 * search over meshes. */
static int64_t find_gap(const struct placed_list *list, const struct block *block, int64_t base)
{
    const int32_t first = block->first, last = block->last;
    int64_t offset = base, until = base + block->bytes;
    for (const struct placed *p = list->at; p < list->at + list->count && p->offset < until; p++) {
        if (p->first > last || p->last < first || p->end <= offset)
            continue;
        offset = p->end;
        until = offset + block->bytes;
    }
    return offset;
}

/* First fit, largest first. Returns the end. Most blocks are alive in one region only and have
 * nothing to do with those of the others. */
static int64_t place(struct sw_lifetimes *l, int64_t base)
{
    int64_t end = base;
    int32_t sized = 0;
    for (int32_t i = 0; i < l->block_count; i++)
        if (l->blocks[i].bytes > 0)
            l->keys[sized++] =
                (~(uint64_t)(l->blocks[i].bytes / SW_ARENA_ALIGNMENT) << INDEX_BITS) | (uint64_t)i;
    sort_keys(l->keys, sized);
    for (int32_t r = 0; r <= l->region_count; r++)
        l->placed[r].count = 0;
    for (int32_t i = 0; i < sized; i++) {
        struct block *block = &l->blocks[l->keys[i] & INDEX_MASK];
        const int32_t list = block->region < 0 ? l->region_count : block->region;
        block->offset = find_gap(&l->placed[list], block, base);
        const struct placed new = {block->offset, block->offset + block->bytes, block->first,
                                   block->last};
        insert(&l->placed[l->region_count], &new);
        for (int32_t r = 0; r < l->region_count; r++)
            if (block->region == r || (block->region < 0 && block->first <= l->region_last[r] &&
                                       block->last >= l->region_first[r]))
                insert(&l->placed[r], &new);
        if (new.end > end)
            end = new.end;
    }
    return end;
}

/* Returns the end. */
static int64_t place_persistent(struct sw_program *p)
{
    const struct sw_lifetimes *l = p->lifetimes;
    int64_t at = 0;
    for (int32_t i = 0; i < l->kept_count; i++) {
        struct sw_value *value = &p->values[l->kept[i]];
        value->offset = at;
        at += align(value->slot_bytes * value->slots);
    }
    return at;
}

static void sum_bytes(struct sw_program *p, int64_t transient_bytes)
{
    p->parameter_bytes = p->gradient_bytes = p->optimizer_bytes = p->workspace_bytes = 0;
    for (int32_t i = 0; i < p->lifetimes->kept_count; i++) {
        const struct sw_value *value = &p->values[p->lifetimes->kept[i]];
        const int64_t bytes = align(value->slot_bytes * value->slots);
        if (value->role == SW_ROLE_PARAMETER)
            p->parameter_bytes += bytes;
        else if (value->role == SW_ROLE_GRADIENT)
            p->gradient_bytes += bytes;
        else if (value->role == SW_ROLE_OPTIMIZER)
            p->optimizer_bytes += bytes;
    }
    for (int32_t i = 0; i < p->op_count; i++)
        if (p->ops[i].workspace_bytes > p->workspace_bytes)
            p->workspace_bytes = p->ops[i].workspace_bytes;
    if (p->workspace_bytes > transient_bytes)
        p->workspace_bytes = transient_bytes;
    p->activation_bytes = p->arena_bytes - p->parameter_bytes - p->gradient_bytes -
                          p->optimizer_bytes - p->workspace_bytes;
}

/* ---- What depends on the ops alone ---- */

/* Parameters first, then what belongs to them. */
static void collect_kept(const struct sw_program *p, struct sw_lifetimes *l)
{
    static const enum sw_role order[] = {SW_ROLE_PARAMETER, SW_ROLE_GRADIENT, SW_ROLE_OPTIMIZER,
                                         SW_ROLE_INPUT, SW_ROLE_ACCUMULATOR};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        for (int32_t v = 0; v < p->value_count; v++)
            if (p->values[v].role == order[i] && p->values[v].alias < 0 &&
                (l->life[v].started || order[i] == SW_ROLE_INPUT))
                l->kept[l->kept_count++] = v;
}

static int32_t only_region(const struct sw_lifetimes *l, const struct block *block)
{
    for (int32_t r = 0; r < l->region_count; r++)
        if (block->first >= l->region_first[r] && block->last <= l->region_last[r])
            return r;
    return -1;
}

static void collect_blocks(const struct sw_program *p, struct sw_lifetimes *l)
{
    struct block *found = l->blocks + p->value_count + p->op_count;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            if (sw_op_info(p->ops[i].kind)->workspace == NULL)
                continue;
            struct block block = {0, 0, i, l->wait[i], -1, i, -1};
            if (p->ops[i].ahead) { /* in flight from one iteration to the next */
                block.first = region->first_op;
                block.last = region->first_op + region->op_count - 1;
            } else if (region->repeat > 1 && l->wait[i] >= region->first_op + region->op_count) {
                block.first = region->first_op; /* the next iteration's ops are beside it */
            }
            found[l->block_count++] = block;
        }
    }
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->alias < 0 && !persistent(value) && l->life[v].started)
            found[l->block_count++] =
                (struct block){0, 0, l->life[v].first, l->life[v].last, v, -1, -1};
    }
    for (int32_t i = 0; i < l->block_count; i++)
        l->keys[i] = (uint64_t)found[i].first << INDEX_BITS | (uint64_t)i;
    sort_keys(l->keys, l->block_count);
    for (int32_t i = 0; i < l->block_count; i++) {
        l->blocks[i] = found[l->keys[i] & INDEX_MASK];
        l->blocks[i].region = only_region(l, &l->blocks[i]);
    }
}

void sw_lifetimes_free(struct sw_lifetimes *l)
{
    if (l == NULL)
        return;
    free(l->life);
    free(l->slots);
    free(l->wait);
    free(l->blocks);
    free(l->keys);
    for (int32_t r = 0; l->placed != NULL && r <= l->region_count; r++)
        free(l->placed[r].at);
    free(l->placed);
    free(l->region_first);
    free(l->kept);
    free(l->change);
    free(l);
}

static int find_structure(struct sw_program *p, struct sw_error *err)
{
    const size_t values = (size_t)p->value_count, ops = (size_t)p->op_count;
    struct sw_lifetimes *l = calloc(1, sizeof *l);
    if (l == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while laying out the program");
    l->life = calloc(values + 1, sizeof *l->life);
    l->slots = calloc(values + 1, sizeof *l->slots);
    l->wait = calloc(ops + 1, sizeof *l->wait);
    l->blocks = calloc(2 * (values + ops) + 1, sizeof *l->blocks);
    l->keys = calloc(values + ops + 1, sizeof *l->keys);
    l->change = calloc(ops + 2, sizeof *l->change);
    l->kept = calloc(values + 1, sizeof *l->kept);
    l->region_count = p->region_count;
    l->region_first = calloc(2 * (size_t)p->region_count + 1, sizeof *l->region_first);
    l->placed = calloc((size_t)p->region_count + 1, sizeof *l->placed);
    if (l->life == NULL || l->slots == NULL || l->wait == NULL || l->blocks == NULL ||
        l->keys == NULL || l->change == NULL || l->kept == NULL || l->region_first == NULL ||
        l->placed == NULL)
        goto memory;
    l->region_last = l->region_first + l->region_count;
    for (int32_t r = 0; r < l->region_count; r++) {
        l->region_first[r] = p->regions[r].first_op;
        l->region_last[r] = p->regions[r].first_op + p->regions[r].op_count - 1;
    }
    struct layout layout = {p, l->life, l->wait};
    find_waits(&layout);
    find_lifetimes(&layout);
    for (int32_t v = 0; v < p->value_count; v++)
        l->slots[v] = settle(&layout, v);
    for (int32_t v = 0; v < p->value_count; v++)
        if (p->values[v].alias >= 0)
            l->slots[v] = l->slots[p->values[v].alias];
    collect_blocks(p, l);
    collect_kept(p, l);
    for (int32_t r = 0; r <= l->region_count; r++) {
        l->placed[r].at = calloc((size_t)l->block_count + 1, sizeof *l->placed[r].at);
        if (l->placed[r].at == NULL)
            goto memory;
    }
    p->lifetimes = l;
    return 0;
memory:
    sw_lifetimes_free(l);
    return sw_fail(err, SW_ENVIRONMENT, "out of memory while laying out the program");
}

/* ---- What depends on sizes ---- */

/* Bytes of every block; the op's workspace with them. */
static void measure_blocks(struct sw_program *p)
{
    struct sw_lifetimes *l = p->lifetimes;
    for (int32_t i = 0; i < l->block_count; i++) {
        struct block *block = &l->blocks[i];
        if (block->value >= 0) {
            const struct sw_value *value = &p->values[block->value];
            block->bytes = align(value->slot_bytes * value->slots);
        } else {
            struct sw_op *op = &p->ops[block->op];
            op->workspace_bytes = sw_op_info(op->kind)->workspace(p, op);
            block->bytes = align(op->workspace_bytes);
        }
    }
}

int sw_layout_measure(struct sw_program *p, struct sw_error *err)
{
    if (local_shapes(p, err) != 0 || (p->lifetimes == NULL && find_structure(p, err) != 0))
        return -1;
    for (int32_t v = 0; v < p->value_count; v++)
        p->values[v].slots = p->lifetimes->slots[v];
    measure_blocks(p);
    struct sw_lifetimes *l = p->lifetimes;
    const int64_t state = place_persistent(p);
    memset(l->change, 0, ((size_t)p->op_count + 2) * sizeof *l->change);
    for (int32_t i = 0; i < l->block_count; i++) {
        l->change[l->blocks[i].first] += l->blocks[i].bytes;
        l->change[l->blocks[i].last + 1] -= l->blocks[i].bytes;
    }
    int64_t live = 0, most = 0;
    for (int32_t i = 0; i <= p->op_count; i++) {
        live += l->change[i];
        most = live > most ? live : most;
    }
    p->arena_bytes = state + most;
    sum_bytes(p, most);
    p->stage = SW_SCHEDULED;
    return 0;
}

void sw_layout_place(struct sw_program *p)
{
    struct sw_lifetimes *l = p->lifetimes;
    const int64_t base = place_persistent(p);
    p->arena_bytes = place(l, base);
    for (int32_t i = 0; i < l->block_count; i++) {
        if (l->blocks[i].value >= 0)
            p->values[l->blocks[i].value].offset = l->blocks[i].offset;
        else
            p->ops[l->blocks[i].op].workspace_offset =
                l->blocks[i].bytes > 0 ? l->blocks[i].offset : 0;
    }
    for (int32_t v = 0; v < p->value_count; v++)
        if (p->values[v].alias >= 0)
            p->values[v].offset = p->values[p->values[v].alias].offset;
    sum_bytes(p, p->arena_bytes - base);
    p->stage = SW_LAID_OUT;
}

int sw_layout(struct sw_program *program, struct sw_error *err)
{
    if (sw_layout_measure(program, err) != 0)
        return -1;
    sw_layout_place(program);
    return 0;
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

bool sw_program_is_stored(const struct sw_program *program, int32_t value)
{
    const struct sw_value *v = &program->values[value];
    return v->alias < 0 && (v->role == SW_ROLE_INPUT || (program->lifetimes != NULL &&
                                                         program->lifetimes->life[value].started));
}
