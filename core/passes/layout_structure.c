/* The part of layout that depends on ops alone: lifetimes of buffers, values of one shape, and ops
 * of equal cost on every mesh. Time is the position of an op in the program; a buffer that a loop
 * carries from one iteration or region to another is alive for the whole loop. */
#include "core/passes/layout_internal.h"
#include "core/ir/walk.h"
#include "core/ir/workspace.h"

#include <stdlib.h>
#include <string.h>

struct lifetime {
    int32_t first, last;     /* op positions, inclusive; first > last: never used */
    int32_t region;          /* only region that touches it; -2: several, -1: none */
    bool upwards, downwards; /* true if a loop over rising, over falling, layers touches it */
    bool local; /* true as long as only refs to the iteration's own layer touch it, written
                   before read */
    bool started;
    bool ahead; /* true if written one iteration early: for the first, before all ops of its
                   region */
};

/* State of the analysis. */
struct layout {
    struct sw_program *p;
    struct lifetime *life; /* [value_count] */
    int32_t *wait;         /* [op_count]: position of the wait that ends a collective, or its own */
    int32_t *next_wait;    /* [value_count]: scratch */
    struct block *found;   /* [value_count + op_count] */
};

static int32_t storage(const struct sw_program *p, int32_t value)
{
    return p->values[value].alias >= 0 ? p->values[value].alias : value;
}

static bool persistent(const struct sw_value *value)
{
    return value->role != SW_ROLE_ACTIVATION;
}

/* ---- Lifetimes ---- */

/* Time at which a value is touched. */
struct touched {
    int32_t position, until, region;
    bool upwards, downwards, ahead;
};

/* Notes a use. Calls come in the order of positions. */
static void touch(struct layout *l, struct sw_ref ref, const struct touched *t, bool write)
{
    struct lifetime *life = &l->life[storage(l->p, ref.value)];
    if (!life->started)
        *life = (struct lifetime){.first = t->position,
                                  .last = t->until,
                                  .region = t->region,
                                  .local = write && !t->ahead,
                                  .started = true};
    life->ahead |= t->ahead;
    life->region = life->region == t->region ? t->region : -2;
    life->downwards |= t->downwards;
    life->upwards |= t->upwards;
    life->last = t->until > life->last ? t->until : life->last;
    if ((t->upwards || t->downwards) && (ref.mode != SW_INDEX_LAYER || ref.shift != 0 || t->ahead))
        life->local = false;
}

/* Finds the wait of each collective's result: in its region, or, if a step reduces it once, in the
 * update. Goes backwards, so the wait met last is the next one. */
static void find_waits(struct layout *l)
{
    const struct sw_program *p = l->p;
    for (int32_t v = 0; v < p->value_count; v++)
        l->next_wait[v] = p->op_count;
    for (int32_t r = p->region_count - 1; r >= 0; r--) {
        const int32_t first = p->regions[r].first_op, end = first + p->regions[r].op_count;
        for (int32_t i = end - 1; i >= first; i--) {
            const struct sw_op *op = &p->ops[i];
            l->wait[i] = i;
            if (sw_op_is_wait(op->kind)) {
                l->next_wait[op->in[0].value] = i;
            } else if (sw_op_is_collective(op->kind) && op->n_out > 0) {
                const int32_t next = l->next_wait[op->out[0].value];
                if (next < (op->last_micro_step ? p->op_count : end))
                    l->wait[i] = next;
            }
        }
    }
}

static void find_lifetimes(struct layout *l)
{
    const struct sw_program *p = l->p;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        const struct sw_op *op = &p->ops[w.op];
        const struct sw_region *region = &p->regions[w.region];
        const struct touched t = {.position = w.op,
                                  .until = l->wait[w.op],
                                  .region = w.region,
                                  .upwards = sw_region_loops(region) && !region->reverse,
                                  .downwards = sw_region_loops(region) && region->reverse,
                                  .ahead = op->ahead};
        for (uint16_t k = 0; k < op->n_out; k++)
            touch(l, op->out[k], &t, true);
        for (uint16_t k = 0; k < op->n_in; k++)
            touch(l, op->in[k], &t, false);
    }
}

/* Number of instances that exist at once, and their lifetime, once all uses are known. */
static int32_t settle(struct layout *l, int32_t v)
{
    const struct sw_program *p = l->p;
    const struct sw_value *value = &p->values[v];
    struct lifetime *life = &l->life[v];
    if (!life->started || persistent(value))
        return value->stack;
    if (life->region >= 0) {
        const struct sw_region *region = &p->regions[life->region];
        if (!sw_region_loops(region)) /* a skipped layer shares its buffer with others */
            return value->stack > 1 ? value->stack : 1;
        if (life->local)
            return 1;
        life->first = region->first_op;
        life->last = region->first_op + region->op_count - 1;
        return 1;
    }
    /* a value carried between regions is alive throughout every loop it enters */
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const int32_t end = region->first_op + region->op_count - 1;
        if ((region->repeat > 1 || life->ahead) && life->first >= region->first_op &&
            life->first <= end)
            life->first = region->first_op;
        if (region->repeat > 1 && life->last >= region->first_op && life->last <= end)
            life->last = end;
    }
    /* a chain from iteration to iteration, and between loops in one direction, needs the last
     * instance and the next */
    return value->carried && life->upwards != life->downwards && value->stack > 2 ? 2
                                                                                  : value->stack;
}

/* ---- Shapes ---- */

/* True if they have the same shards on every mesh, with equal bytes: retargeting changes a size by
 * its symbol only. */
static bool same_shape(const struct sw_value *a, const struct sw_value *b)
{
    return a->ndim == b->ndim && a->dtype == b->dtype &&
           memcmp(a->symbol, b->symbol, sizeof a->symbol) == 0 &&
           memcmp(a->axis, b->axis, sizeof a->axis) == 0 &&
           memcmp(a->size, b->size, sizeof a->size) == 0 &&
           memcmp(a->unit, b->unit, sizeof a->unit) == 0 &&
           sw_spec_equal(&a->sharding.spec, &b->sharding.spec);
}

/* A program has about 50 shapes and groups of blocks. */
enum { BUCKET_BITS = 7 };

static uint32_t bucket_of(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(11400714819323198485) >> (64 - BUCKET_BITS));
}

static uint64_t hash_shape(const struct sw_value *value)
{
    uint64_t hash = value->dtype;
    for (uint8_t d = 0; d < value->ndim; d++)
        hash = hash * 31 + ((uint64_t)value->size[d] ^ (uint64_t)value->axis[d] << 40 ^
                            (uint64_t)sw_axes_set(value->sharding.spec.dim[d]) << 48);
    return hash;
}

static void collect_shapes(const struct sw_program *p, struct sw_lifetimes *l)
{
    int32_t bucket[1 << BUCKET_BITS]; /* the latest shape of a hash */
    memset(bucket, -1, sizeof bucket);
    for (int32_t v = 0; v < p->value_count; v++) {
        int32_t *latest = &bucket[bucket_of(hash_shape(&p->values[v]))], shape = *latest;
        while (shape >= 0 && !same_shape(&p->values[l->shapes[shape].like], &p->values[v]))
            shape = l->shapes[shape].previous;
        if (shape < 0) {
            shape = l->shape_count++;
            l->shapes[shape] = (struct shape){.like = v, .previous = *latest};
            *latest = shape;
        }
        l->shapes[shape].count++;
        l->shapes[shape].tiles |= p->values[v].tiles;
        l->shape_of[v] = shape;
    }
    for (int32_t i = 1; i < l->shape_count; i++)
        l->shapes[i].first = l->shapes[i - 1].first + l->shapes[i - 1].count;
    for (int32_t i = 0; i < l->shape_count; i++)
        l->shapes[i].count = 0;
    for (int32_t v = 0; v < p->value_count; v++) {
        struct shape *shape = &l->shapes[l->shape_of[v]];
        l->by_shape[shape->first + shape->count++] = v;
    }
}

/* ---- Stored values ---- */

static bool is_kept(const struct sw_lifetimes *l, const struct sw_value *value, int32_t v)
{
    return persistent(value) && value->alias < 0 && (l->started[v] || value->role == SW_ROLE_INPUT);
}

/* Collects kept values: the state first, in the order of roles. */
static void collect_kept(const struct sw_program *p, struct sw_lifetimes *l)
{
    int32_t next[SW_ROLE_COUNT + 1] = {0}; /* index of the next value of a role */
    for (int32_t v = 0; v < p->value_count; v++)
        if (is_kept(l, &p->values[v], v)) {
            next[p->values[v].role + 1]++;
            l->kept_count++;
        }
    for (int32_t role = 0; role < SW_ROLE_COUNT; role++)
        next[role + 1] += next[role];
    for (int32_t v = 0; v < p->value_count; v++)
        if (is_kept(l, &p->values[v], v))
            l->kept[next[p->values[v].role]++] = v;
}

/* Finds workspaces and buffers, in the order of ops. */
static int32_t find_blocks(const struct layout *l)
{
    const struct sw_program *p = l->p;
    int32_t count = 0;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_each(&w);) {
        if (!sw_workspace_wanted(p, &p->ops[w.op]))
            continue;
        const struct sw_region *region = &p->regions[w.region];
        const int32_t end = w.end - 1, wait = l->wait[w.op];
        const bool ahead = p->ops[w.op].ahead; /* in flight from one iteration to the next */
        const bool beside = ahead || (region->repeat > 1 && wait > end); /* all ops */
        l->found[count++] = (struct block){.first = beside ? region->first_op : w.op,
                                           .last = ahead ? end : wait,
                                           .value = -1,
                                           .op = w.op};
    }
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->alias < 0 && !persistent(value) && l->life[v].started)
            l->found[count++] = (struct block){
                .first = l->life[v].first, .last = l->life[v].last, .value = v, .op = -1};
    }
    return count;
}

/* Sorts blocks by first use, and finds the regions of each. */
static void sort_blocks(const struct layout *f, struct sw_lifetimes *l)
{
    const struct sw_program *p = f->p;
    int64_t *cursor = l->change; /* index of the next block that begins with an op */
    for (int32_t i = 0; i < l->block_count; i++)
        cursor[f->found[i].first + 1]++;
    for (int32_t i = 0; i < p->op_count; i++)
        cursor[i + 1] += cursor[i];
    for (int32_t i = 0; i < l->block_count; i++)
        l->blocks[cursor[f->found[i].first]++] = f->found[i];
    int32_t from = 0;
    for (int32_t i = 0; i < l->block_count; i++) {
        struct block *block = &l->blocks[i];
        while (block->first >= p->regions[from].first_op + p->regions[from].op_count)
            from++;
        block->from = block->to = from;
        while (block->last >= p->regions[block->to].first_op + p->regions[block->to].op_count)
            block->to++;
    }
}

/* ---- Equal costs ---- */

/* True if the refs are tensors of equal shape on every mesh. */
static bool same_operands(const struct sw_program *p, const struct sw_lifetimes *l,
                          const struct sw_ref *a, const struct sw_ref *b, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++)
        if (l->shape_of[a[i].value] != l->shape_of[b[i].value] || a[i].mode != b[i].mode ||
            (a[i].mode == SW_INDEX_WHOLE &&
             p->values[a[i].value].stack != p->values[b[i].value].stack))
            return false;
    return true;
}

static bool same_attributes(const struct sw_op *a, const struct sw_op *b)
{
    for (const struct sw_attribute *field = sw_op_info(a->kind)->attributes;
         field != NULL && field->type != SW_ATTRIBUTE_END; field++)
        if (field->costs && sw_attribute_int(a, field) != sw_attribute_int(b, field))
            return false;
    return true;
}

static bool same_cost(const struct sw_program *p, const struct sw_lifetimes *l,
                      const struct sw_op *a, const struct sw_op *b)
{
    return a->kind == b->kind && a->n_in == b->n_in && a->n_out == b->n_out &&
           sw_axes_equal(a->axes, b->axes) && same_operands(p, l, a->in, b->in, a->n_in) &&
           same_operands(p, l, a->out, b->out, a->n_out) && same_attributes(a, b);
}

/* Equal for ops of equal cost. */
static uint64_t hash_cost(const struct sw_lifetimes *l, const struct sw_op *op)
{
    const uint64_t in = op->n_in > 0 ? (uint64_t)l->shape_of[op->in[0].value] : 0;
    const uint64_t out = op->n_out > 0 ? (uint64_t)l->shape_of[op->out[0].value] : 0;
    return (uint64_t)op->kind | in << 8 | out << 24 | (uint64_t)op->n_in << 40;
}

/* Compares each op with the first ops of its hash; `previous` (scratch, [op_count]) chains these,
 * the latest first. */
static void find_equal_ops(const struct sw_program *p, struct sw_lifetimes *l, int32_t *previous)
{
    int32_t bucket[1 << BUCKET_BITS];
    memset(bucket, -1, sizeof bucket);
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        int32_t *latest = &bucket[bucket_of(hash_cost(l, op))], like = *latest;
        while (like >= 0 && !same_cost(p, l, &p->ops[like], op))
            like = previous[like];
        l->first_equal[i] = like >= 0 ? like : i;
        if (like < 0) {
            previous[i] = *latest;
            *latest = i;
        }
    }
}

/* Key that is equal for blocks of one group and differs otherwise: values of one shape with as many
 * slots, workspaces of equal ops. A part's number of layers may change, so its stacks are keyed by
 * part and position. */
static int64_t group_key(const struct sw_program *p, const struct sw_lifetimes *l,
                         const struct block *block)
{
    if (block->value < 0)
        return -1 - l->first_equal[block->op];
    const struct sw_value *value = &p->values[block->value];
    const bool part = value->part != SW_LAYERS_WHOLE && value->slots > 1;
    const int32_t position = value->first_layer % value->period;
    const int64_t slots = part ? INT64_C(1) << 31 | position << 8 | value->part : value->slots;
    return (int64_t)l->shape_of[block->value] << 32 | slots;
}

static void collect_groups(const struct sw_program *p, struct sw_lifetimes *l)
{
    int32_t bucket[1 << BUCKET_BITS]; /* the latest group of a hash */
    memset(bucket, -1, sizeof bucket);
    for (int32_t i = 0; i < l->block_count; i++) {
        const int64_t key = group_key(p, l, &l->blocks[i]);
        int32_t *latest = &bucket[bucket_of((uint64_t)key)], group = *latest;
        while (group >= 0 && l->groups[group].key != key)
            group = l->groups[group].previous;
        if (group < 0) {
            group = l->group_count++;
            l->by_size[group] = group;
            l->groups[group] = (struct group){.key = key,
                                              .value = l->blocks[i].value,
                                              .op = l->blocks[i].op,
                                              .previous = *latest};
            *latest = group;
        }
        l->groups[group].count++;
        l->blocks[i].group = group;
        l->alive[i] = (struct alive){l->blocks[i].first, l->blocks[i].last + 1, group};
    }
}

static void collect_symbolic(const struct sw_program *p, struct sw_lifetimes *l)
{
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_attribute *a = sw_op_info(p->ops[i].kind)->attributes;
        while (a != NULL && a->type != SW_ATTRIBUTE_END && a->symbol == SW_SIZE_FIXED)
            a++;
        if (a != NULL && a->type != SW_ATTRIBUTE_END)
            l->symbolic[l->symbolic_count++] = i;
    }
}

/* ---- The whole structure ---- */

/* Makes room for the blocks alive in each region. */
static int make_room(const struct sw_program *p, struct sw_lifetimes *l)
{
    const size_t regions = (size_t)p->region_count;
    size_t total = regions;
    for (int32_t i = 0; i < l->block_count; i++) {
        total += (size_t)(l->blocks[i].to - l->blocks[i].from + 1);
        for (int32_t r = l->blocks[i].from; r <= l->blocks[i].to; r++)
            l->occupied[r].count++;
    }
    l->occupied_storage = malloc((total + 1) * sizeof *l->occupied_storage);
    if (l->occupied_storage == NULL)
        return -1;
    struct occupied *next = l->occupied_storage;
    for (size_t r = 0; r < regions; r++) {
        l->occupied[r].at = next;
        next += l->occupied[r].count + 1;
    }
    return 0;
}

void sw_lifetimes_free(struct sw_lifetimes *l)
{
    if (l == NULL)
        return;
    free(l->blocks);
    free(l->alive);
    free(l->kept);
    free(l->shapes);
    free(l->shape_of);
    free(l->by_shape);
    free(l->first_equal);
    free(l->symbolic);
    free(l->started);
    free(l->groups);
    free(l->order);
    free(l->by_size);
    free(l->occupied);
    free(l->occupied_storage);
    free(l->change);
    free(l);
}

/* Shrinks arrays that were allocated for the largest case: a search keeps many programs. */
static void trim(struct sw_lifetimes *l)
{
    struct shape *shapes = realloc(l->shapes, ((size_t)l->shape_count + 1) * sizeof *shapes);
    struct group *groups = realloc(l->groups, ((size_t)l->group_count + 1) * sizeof *groups);
    int32_t *symbolic = realloc(l->symbolic, ((size_t)l->symbolic_count + 1) * sizeof *symbolic);
    l->symbolic = symbolic != NULL ? symbolic : l->symbolic;
    l->shapes = shapes != NULL ? shapes : l->shapes;
    l->groups = groups != NULL ? groups : l->groups;
}

static int keep(const struct layout *f, struct sw_lifetimes *l)
{
    struct sw_program *p = f->p;
    const size_t values = (size_t)p->value_count, ops = (size_t)p->op_count;
    l->block_count = find_blocks(f);
    const size_t blocks = (size_t)l->block_count;
    l->blocks = malloc((blocks + 1) * sizeof *l->blocks);
    l->alive = malloc((blocks + 1) * sizeof *l->alive);
    l->order = malloc((blocks + 1) * sizeof *l->order);
    l->groups = malloc((blocks + 1) * sizeof *l->groups);
    l->by_size = malloc((blocks + 1) * sizeof *l->by_size);
    l->change = calloc(ops + 2, sizeof *l->change);
    l->kept = malloc((values + 1) * sizeof *l->kept);
    l->shapes = malloc((values + 1) * sizeof *l->shapes);
    l->shape_of = malloc((values + 1) * sizeof *l->shape_of);
    l->by_shape = malloc((values + 1) * sizeof *l->by_shape);
    l->started = malloc((values + 1) * sizeof *l->started);
    l->first_equal = malloc((ops + 1) * sizeof *l->first_equal);
    l->symbolic = malloc((ops + 1) * sizeof *l->symbolic);
    l->occupied = calloc((size_t)p->region_count + 1, sizeof *l->occupied);
    if (l->blocks == NULL || l->alive == NULL || l->order == NULL || l->groups == NULL ||
        l->by_size == NULL || l->change == NULL || l->kept == NULL || l->shapes == NULL ||
        l->shape_of == NULL || l->by_shape == NULL || l->started == NULL ||
        l->first_equal == NULL || l->symbolic == NULL || l->occupied == NULL)
        return -1;
    for (int32_t v = 0; v < p->value_count; v++)
        l->started[v] = f->life[v].started;
    sort_blocks(f, l);
    collect_kept(p, l);
    collect_shapes(p, l);
    find_equal_ops(p, l, f->wait); /* the waits are not needed any more */
    collect_groups(p, l);
    collect_symbolic(p, l);
    trim(l);
    return make_room(p, l);
}

/* Finds weights that may be stored in tiles: if any op but their products reads one, such as a
 * gather, it has no tiles. */
static void find_tiles(struct sw_program *p)
{
    bool any = false; /* like programs of serving */
    for (int32_t v = 0; v < p->value_count; v++)
        any |= p->values[v].tiles;
    for (int32_t i = 0; any && i < p->op_count; i++)
        for (uint16_t j = 0; j < p->ops[i].n_in; j++) {
            const struct sw_ref ref = p->ops[i].in[j];
            if (!sw_op_takes_tiles(p, &p->ops[i], j))
                p->values[ref.value].tiles = false;
        }
}

int sw_layout_find_structure(struct sw_program *p, struct sw_error *err)
{
    const size_t values = (size_t)p->value_count, ops = (size_t)p->op_count;
    struct layout f = {.p = p,
                       .life = calloc(values + 1, sizeof *f.life),
                       .wait = malloc((ops + 1) * sizeof *f.wait),
                       .next_wait = malloc((values + 1) * sizeof *f.next_wait),
                       .found = malloc((values + ops + 1) * sizeof *f.found)};
    struct sw_lifetimes *l = calloc(1, sizeof *l);
    int status = -1;
    if (f.life == NULL || f.wait == NULL || f.next_wait == NULL || f.found == NULL || l == NULL)
        goto out;
    find_waits(&f);
    find_lifetimes(&f);
    for (int32_t v = 0; v < p->value_count; v++)
        p->values[v].slots = settle(&f, v);
    for (int32_t v = 0; v < p->value_count; v++)
        if (p->values[v].alias >= 0)
            p->values[v].slots = p->values[p->values[v].alias].slots;
    find_tiles(p);
    status = keep(&f, l);
out:
    free(f.life);
    free(f.wait);
    free(f.next_wait);
    free(f.found);
    if (status == 0) {
        p->lifetimes = l;
        return 0;
    }
    sw_lifetimes_free(l);
    return sw_fail(err, SW_ENVIRONMENT, "out of memory while laying out the program");
}
