/* One offset in the arena for every buffer. Time is the position of an op in the program; a buffer
 * that a loop carries from one iteration or region to another is alive for the whole loop. What
 * lasts from step to step comes first; the rest is packed, largest first, into the lowest gap that
 * no overlapping lifetime uses. */
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

struct block {
    int64_t bytes, offset;
    int32_t first, last;
    int32_t value; /* -1: workspace of `op` */
    int32_t op;
};

struct placed {
    int64_t offset, end;
    int32_t first, last;
};

struct layout {
    struct sw_program *p;
    struct lifetime *life; /* [value_count] */
    int32_t *wait;         /* [op_count]: position of the wait that ends a collective, or its own */
    struct block *blocks;  /* [block_count] */
    struct placed *placed; /* [block_count]: by offset */
    int32_t block_count;
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
        value->slots = value->stack;
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

/* Where the result of each collective is waited for. */
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
            for (int32_t j = i + 1; j < end; j++)
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
static void settle(struct layout *l, int32_t v)
{
    const struct sw_program *p = l->p;
    struct sw_value *value = &l->p->values[v];
    struct lifetime *life = &l->life[v];
    if (life->region >= 0) {
        const struct sw_region *region = &p->regions[life->region];
        if (region->repeat == 1)
            return;
        value->slots = 1;
        if (life->local)
            return;
        life->first = region->first_op;
        life->last = region->first_op + region->op_count - 1;
        return;
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
    if (value->stack == p->layers + 1 && life->loops == 1 && value->slots > 2)
        value->slots = 2;
}

static int compare_blocks(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->value != y->value ? (x->value < y->value ? -1 : 1)
                                : (x->op > y->op) - (x->op < y->op);
}

/* First fit among the blocks placed before whose lifetimes overlap. Returns the end. This is the
 * innermost loop of a search over meshes: `placed` is kept dense and by offset. */
static int64_t place(struct layout *l, int64_t base)
{
    int64_t end = base;
    int32_t count = 0;
    for (int32_t i = 0; i < l->block_count; i++) {
        struct block *block = &l->blocks[i];
        int64_t offset = base, until = base + block->bytes;
        for (int32_t j = 0; j < count && l->placed[j].offset < until; j++) {
            const struct placed *other = &l->placed[j];
            if (other->first > block->last || other->last < block->first || other->end <= offset)
                continue;
            offset = other->end;
            until = offset + block->bytes;
        }
        block->offset = offset;
        int32_t at = count++;
        for (; at > 0 && l->placed[at - 1].offset > offset; at--)
            l->placed[at] = l->placed[at - 1];
        l->placed[at] = (struct placed){offset, until, block->first, block->last};
        if (until > end)
            end = until;
    }
    return end;
}

static void place_persistent(struct layout *l, int64_t *at)
{
    static const enum sw_role order[] = {SW_ROLE_PARAMETER, SW_ROLE_GRADIENT, SW_ROLE_OPTIMIZER,
                                         SW_ROLE_INPUT, SW_ROLE_ACCUMULATOR};
    struct sw_program *p = l->p;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        for (int32_t v = 0; v < p->value_count; v++) {
            struct sw_value *value = &p->values[v];
            if (value->role != order[i] || value->alias >= 0)
                continue;
            if (!l->life[v].started && value->role != SW_ROLE_INPUT)
                continue;
            value->offset = *at;
            *at += align(value->slot_bytes * value->slots);
        }
}

static void sum_bytes(struct layout *l, int64_t transient_bytes)
{
    struct sw_program *p = l->p;
    p->parameter_bytes = p->gradient_bytes = p->optimizer_bytes = p->workspace_bytes = 0;
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        const int64_t bytes = align(value->slot_bytes * value->slots);
        if (value->alias >= 0 || !l->life[v].started)
            continue;
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

static void collect_blocks(struct layout *l)
{
    struct sw_program *p = l->p;
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->alias < 0 && !persistent(value) && l->life[v].started)
            l->blocks[l->block_count++] = (struct block){align(value->slot_bytes * value->slots),
                                                         0,
                                                         l->life[v].first,
                                                         l->life[v].last,
                                                         v,
                                                         -1};
    }
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        for (int32_t i = region->first_op; i < region->first_op + region->op_count; i++) {
            struct sw_op *op = &p->ops[i];
            const struct sw_op_info *info = sw_op_info(op->kind);
            op->workspace_bytes = info->workspace == NULL ? 0 : info->workspace(p, op);
            if (op->workspace_bytes == 0)
                continue;
            struct block block = {align(op->workspace_bytes), 0, i, l->wait[i], -1, i};
            if (op->ahead) { /* in flight from one iteration to the next */
                block.first = region->first_op;
                block.last = region->first_op + region->op_count - 1;
            }
            l->blocks[l->block_count++] = block;
        }
    }
}

int sw_layout(struct sw_program *program, struct sw_error *err)
{
    int status = -1;
    struct layout l = {.p = program};
    if (local_shapes(program, err) != 0)
        return -1;
    const size_t values = (size_t)program->value_count, ops = (size_t)program->op_count;
    l.life = calloc(values, sizeof *l.life);
    l.wait = calloc(ops + 1, sizeof *l.wait);
    l.blocks = calloc(values + ops, sizeof *l.blocks);
    l.placed = calloc(values + ops, sizeof *l.placed);
    if (l.life == NULL || l.wait == NULL || l.blocks == NULL || l.placed == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while laying out the program");
        goto out;
    }
    find_waits(&l);
    find_lifetimes(&l);
    for (int32_t v = 0; v < program->value_count; v++)
        if (l.life[v].started && !persistent(&program->values[v]))
            settle(&l, v);
    int64_t base = 0;
    place_persistent(&l, &base);
    collect_blocks(&l);
    qsort(l.blocks, (size_t)l.block_count, sizeof *l.blocks, compare_blocks);
    program->arena_bytes = place(&l, base);
    for (int32_t i = 0; i < l.block_count; i++) {
        if (l.blocks[i].value >= 0)
            program->values[l.blocks[i].value].offset = l.blocks[i].offset;
        else
            program->ops[l.blocks[i].op].workspace_offset = l.blocks[i].offset;
    }
    for (int32_t v = 0; v < program->value_count; v++) {
        struct sw_value *value = &program->values[v];
        if (value->alias >= 0) {
            value->offset = program->values[value->alias].offset;
            value->slots = program->values[value->alias].slots;
        }
    }
    sum_bytes(&l, program->arena_bytes - base);
    program->stage = SW_LAID_OUT;
    status = 0;
out:
    free(l.life);
    free(l.wait);
    free(l.blocks);
    free(l.placed);
    return status;
}
