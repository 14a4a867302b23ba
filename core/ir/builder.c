#include "core/ir/builder.h"

#include "core/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Operands of ops, in blocks that never move. */
struct block {
    struct block *next;
    uint32_t used, capacity;
    struct sw_ref refs[];
};
struct sw_pool {
    struct block *newest;
};

/* Enough for most programs: growing copies the whole array. */
enum { FIRST_VALUES = 256, FIRST_OPS = 256, FIRST_REGIONS = 16, POOL_REFS = 1024 };
/* Bytes kept of a name at the end of a longer one. */
enum { LIKE_NAME_BYTES = 28 };

static struct sw_program *new_program(int32_t values)
{
    struct sw_program *program = calloc(1, sizeof *program);
    if (program == NULL)
        return NULL;
    program->pool = calloc(1, sizeof *program->pool);
    program->values = malloc((size_t)values * sizeof *program->values);
    program->ops = malloc(FIRST_OPS * sizeof *program->ops);
    program->regions = malloc(FIRST_REGIONS * sizeof *program->regions);
    program->value_capacity = values;
    program->op_capacity = FIRST_OPS;
    program->region_capacity = FIRST_REGIONS;
    if (program->pool == NULL || program->values == NULL || program->ops == NULL ||
        program->regions == NULL) {
        sw_program_free(program);
        return NULL;
    }
    /* target of additions that fail */
    memset(&program->values[0], 0, sizeof program->values[0]);
    memset(&program->ops[0], 0, sizeof program->ops[0]);
    memset(&program->regions[0], 0, sizeof program->regions[0]);
    return program;
}

struct sw_program *sw_program_new(void)
{
    return new_program(FIRST_VALUES);
}

void sw_program_free(struct sw_program *program)
{
    if (program == NULL)
        return;
    for (struct block *b = program->pool != NULL ? program->pool->newest : NULL, *next; b != NULL;
         b = next) {
        next = b->next;
        free(b);
    }
    free(program->pool);
    free(program->values);
    free(program->ops);
    free(program->regions);
    sw_lifetimes_free(program->lifetimes);
    free(program);
}

struct sw_program *sw_program_next_stage(const struct sw_program *from)
{
    struct sw_program *next = new_program(from->value_count * 2 + 64);
    if (next == NULL)
        return NULL;
    const struct sw_program made = *next;
    memcpy(made.values, from->values, (size_t)from->value_count * sizeof *made.values);
    *next = *from;
    next->values = made.values;
    next->value_capacity = made.value_capacity;
    next->ops = made.ops;
    next->regions = made.regions;
    next->pool = made.pool;
    next->lifetimes = NULL;
    next->op_count = next->region_count = 0;
    next->op_capacity = made.op_capacity;
    next->region_capacity = made.region_capacity;
    return next;
}

/* Room for one more element, or NULL. */
static void *grow(void *array, int32_t count, int32_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return array;
    int32_t wanted = *capacity * 2;
    void *grown = realloc(array, (size_t)wanted * element_bytes);
    if (grown != NULL)
        *capacity = wanted;
    return grown;
}

/* Room for `count` refs in one piece, or NULL. */
static struct sw_ref *reserve(struct sw_program *p, uint32_t count)
{
    struct block *b = p->pool->newest;
    if (b == NULL || b->capacity - b->used < count) {
        const uint32_t capacity = count > POOL_REFS / 4 ? count * 4 : POOL_REFS;
        b = malloc(sizeof *b + capacity * sizeof b->refs[0]);
        if (b == NULL)
            return NULL;
        *b = (struct block){.next = p->pool->newest, .capacity = capacity};
        p->pool->newest = b;
    }
    b->used += count;
    return &b->refs[b->used - count];
}

int sw_refs_append(struct sw_program *p, struct sw_ref **refs, uint16_t *count, struct sw_ref ref)
{
    struct block *b = p->pool->newest;
    if (*count == UINT16_MAX)
        return -1;
    if (*count > 0 && b != NULL && *refs + *count == &b->refs[b->used] && b->used < b->capacity) {
        b->used++; /* the newest list grows where it is */
    } else {
        struct sw_ref *moved = reserve(p, (uint32_t)*count + 1);
        if (moved == NULL)
            return -1;
        if (*count > 0)
            memcpy(moved, *refs, *count * sizeof *moved);
        *refs = moved;
    }
    (*refs)[(*count)++] = ref;
    return 0;
}

/* Copies bytes, since printf takes longer than everything else that makes a value. */
void sw_builder_name(char out[SW_NAME_BYTES], const char *first, size_t first_max,
                     const char *second, size_t second_max)
{
    char name[SW_NAME_BYTES] = {0}; /* first may be out */
    const size_t n = strnlen(first, first_max);
    memcpy(name, first, n);
    memcpy(name + n, second, strnlen(second, second_max));
    memcpy(out, name, sizeof name);
}

/* Number of values with one name, so far. */
struct named {
    int32_t first; /* keeps the name unnumbered */
    int32_t count; /* 0: a free place */
};

/* Finds a name's entry. `table` has 2^bits free entries, more than there are values. */
/* Hashes the whole array: bytes behind the end are zero (sw_builder_name). */
static uint64_t hash_name(const char name[SW_NAME_BYTES])
{
    uint64_t hash = SW_HASH_START, word;
    for (size_t i = 0; i < SW_NAME_BYTES; i += sizeof word) {
        memcpy(&word, name + i, sizeof word);
        hash = sw_hash_mix(hash ^ word);
    }
    return hash;
}

static void number_names(struct sw_program *p, struct named *table, uint32_t bits)
{
    for (int32_t v = 0; v < p->value_count; v++) {
        uint32_t at = (uint32_t)(hash_name(p->values[v].name) >> (64 - bits));
        while (table[at].count > 0 &&
               memcmp(p->values[table[at].first].name, p->values[v].name, SW_NAME_BYTES) != 0)
            at = (at + 1) & ((1u << bits) - 1);
        if (table[at].count == 0)
            table[at].first = v;
        const int32_t same = ++table[at].count;
        if (same > 1) {
            char number[12];
            size_t digits = sizeof number - 1;
            number[digits] = '\0';
            for (int32_t left = same; left > 0; left /= 10)
                number[--digits] = (char)('0' + left % 10);
            number[--digits] = '#';
            sw_builder_name(p->values[v].name, p->values[v].name, 27, number + digits, 11);
        }
    }
}

int sw_builder_number_names(struct sw_program *p)
{
    uint32_t bits = 1;
    while ((int32_t)1 << bits <= p->value_count)
        bits++;
    struct named *table = calloc((size_t)1 << bits, sizeof *table);
    if (table == NULL)
        return -1;
    number_names(p, table, bits);
    free(table);
    return 0;
}

void sw_builder_instances(const struct sw_region *region, int32_t position, struct sw_value *value)
{
    value->stack = sw_region_times(region, position);
    value->first_layer = region->layers > 0 ? sw_region_first(region, position) : 0;
    value->period = region->period;
    value->part = region->part;
}

int32_t sw_builder_value(struct sw_builder *b, const char *name, enum sw_role role,
                         enum sw_dtype dtype, uint8_t ndim, const struct sw_dim *dims,
                         int32_t stack)
{
    struct sw_program *p = b->program;
    struct sw_value *grown = grow(p->values, p->value_count, &p->value_capacity, sizeof *p->values);
    if (grown == NULL) {
        b->failed = true;
        return 0;
    }
    p->values = grown;
    struct sw_value *value = &p->values[p->value_count];
    memset(value, 0, sizeof *value);
    sw_builder_name(value->name, name, SW_NAME_BYTES - 1, "", 0);
    value->role = role;
    value->dtype = dtype;
    value->ndim = ndim;
    value->stack = stack;
    value->base = p->value_count;
    value->alias = -1;
    value->ordinal = -1;
    value->period = 1;
    if (b->region >= 0 && p->regions[b->region].layers > 0)
        sw_builder_instances(&p->regions[b->region], b->position, value);
    value->declared.spec.ndim = ndim;
    for (uint8_t d = 0; d < SW_MAX_DIMS; d++) {
        value->size[d] = value->padded[d] = value->unit[d] = 1;
        if (d >= ndim)
            continue;
        value->axis[d] = (uint8_t)dims[d].axis;
        value->symbol[d] = (uint8_t)dims[d].symbol;
        value->size[d] = dims[d].size;
        value->padded[d] = sw_value_pads(value, d) ? p->sizes[SW_SIZE_EMBED] : dims[d].size;
        value->unit[d] = dims[d].unit ? dims[d].unit : 1;
        value->declared.spec.dim[d] = b->options->rules.axes[dims[d].axis];
    }
    value->declared = sw_sharding_normalize(&p->mesh, value->declared);
    value->sharding = value->declared;
    return p->value_count++;
}

int32_t sw_builder_value_like(struct sw_builder *b, int32_t like, const char *prefix,
                              enum sw_dtype dtype, int32_t stack)
{
    struct sw_program *p = b->program;
    struct sw_value *grown = grow(p->values, p->value_count, &p->value_capacity, sizeof *p->values);
    if (grown == NULL) {
        b->failed = true;
        return 0;
    }
    p->values = grown;
    const struct sw_value *original = &p->values[like];
    struct sw_value *value = &p->values[p->value_count];
    *value = *original;
    if (prefix[0] == '\0') /* the most frequent case: the name exists already */
        memset(value->name + LIKE_NAME_BYTES, 0, SW_NAME_BYTES - LIKE_NAME_BYTES);
    else
        sw_builder_name(value->name, prefix, 10, original->name, LIKE_NAME_BYTES);
    value->role = SW_ROLE_ACTIVATION;
    value->dtype = dtype;
    value->carried = false;
    value->parameter = NULL;
    value->scales = value->largest = value->copy = value->tiles = value->tiled = false;
    value->gathered = false;
    value->ordinal = -1;
    value->stack = stack;
    value->base = p->value_count;
    value->alias = -1;
    return p->value_count++;
}

void sw_builder_place_as(struct sw_builder *b, int32_t value, enum sw_parameter_copy copy)
{
    struct sw_value *v = &b->program->values[value];
    for (uint8_t d = 0; d < v->ndim; d++) {
        v->axis[d] = (uint8_t)sw_logical_of((enum sw_logical)v->axis[d], copy);
        v->declared.spec.dim[d] = b->options->rules.axes[v->axis[d]];
    }
    v->declared = sw_sharding_normalize(&b->program->mesh, v->declared);
    v->sharding = v->declared;
}

int32_t sw_builder_value_here(struct sw_builder *b, int32_t like, const char *prefix,
                              enum sw_dtype dtype)
{
    const struct sw_region *region = &b->program->regions[b->region];
    const int32_t value = sw_builder_value_like(b, like, prefix, dtype, 1);
    sw_builder_instances(region, b->position, &b->program->values[value]);
    return value;
}

void sw_builder_region(struct sw_builder *b, const char *name, enum sw_phase phase, int32_t repeat,
                       bool reverse)
{
    struct sw_program *p = b->program;
    struct sw_region *grown =
        grow(p->regions, p->region_count, &p->region_capacity, sizeof *p->regions);
    if (grown == NULL) {
        b->failed = true;
        return;
    }
    p->regions = grown;
    struct sw_region *region = &p->regions[p->region_count];
    memset(region, 0, sizeof *region);
    sw_builder_name(region->name, name, SW_NAME_BYTES - 1, "", 0);
    region->phase = phase;
    region->repeat = repeat;
    region->period = 1;
    region->reverse = reverse;
    region->carry = -1;
    region->first_op = p->op_count;
    b->position = 0;
    b->region = p->region_count++;
}

void sw_builder_region_like(struct sw_builder *b, const char *name, enum sw_phase phase,
                            const struct sw_region *like, bool reverse)
{
    const struct sw_region as = *like; /* the array may move */
    sw_builder_region(b, name, phase, as.repeat, reverse);
    struct sw_region *region = &b->program->regions[b->region];
    region->first_layer = as.first_layer;
    region->layers = as.layers;
    region->period = as.period;
    region->part = as.part;
}

void sw_builder_layers(struct sw_builder *b, const char *name, enum sw_layer_part part)
{
    const int32_t layers = b->program->layers, first = sw_first_layers(b->options);
    struct sw_region like = {.part = (uint8_t)part};
    sw_region_span(&like, part == SW_LAYERS_LAST ? first : 0,
                   part == SW_LAYERS_WHOLE   ? layers
                   : part == SW_LAYERS_FIRST ? first
                                             : layers - first,
                   sw_model_period(&b->options->model));
    sw_builder_region_like(b, name, SW_PHASE_FORWARD, &like, false);
}

int32_t sw_builder_add(struct sw_builder *b, const struct sw_op *op)
{
    struct sw_program *p = b->program;
    struct sw_op *grown = grow(p->ops, p->op_count, &p->op_capacity, sizeof *p->ops);
    if (grown == NULL) {
        b->failed = true;
        return 0;
    }
    p->ops = grown;
    p->regions[b->region].op_count++;
    p->ops[p->op_count] = *op;
    p->ops[p->op_count].position = b->position;
    return p->op_count++;
}

void sw_builder_detach(struct sw_builder *b, struct sw_op *op)
{
    struct sw_ref *refs = reserve(b->program, (uint32_t)op->n_in + op->n_out);
    if (refs == NULL) {
        b->failed = true;
        op->n_in = op->n_out = 0;
        return;
    }
    if (op->n_in > 0)
        memcpy(refs, op->in, op->n_in * sizeof *refs);
    if (op->n_out > 0)
        memcpy(refs + op->n_in, op->out, op->n_out * sizeof *refs);
    op->in = refs;
    op->out = refs + op->n_in;
}

int32_t sw_builder_op(struct sw_builder *b, enum sw_op_kind kind, enum sw_op_stage stage)
{
    struct sw_op op;
    memset(&op, 0, sizeof op); /* attributes too, of any kind */
    op.kind = (uint8_t)kind;
    op.stage = (uint8_t)stage;
    return sw_builder_add(b, &op);
}

void sw_builder_in(struct sw_builder *b, int32_t op, struct sw_ref ref)
{
    struct sw_op *o = &b->program->ops[op];
    if (!b->failed && sw_refs_append(b->program, &o->in, &o->n_in, ref) != 0)
        b->failed = true;
}

void sw_builder_out(struct sw_builder *b, int32_t op, struct sw_ref ref)
{
    struct sw_op *o = &b->program->ops[op];
    if (!b->failed && sw_refs_append(b->program, &o->out, &o->n_out, ref) != 0)
        b->failed = true;
}

void sw_builder_port(struct sw_builder *b, struct sw_ports *ports, const char *name, int32_t value)
{
    if (ports->count == SW_MAX_PORTS) {
        b->failed = true;
        return;
    }
    struct sw_port *port = &ports->at[ports->count++];
    memset(port, 0, sizeof *port);
    memcpy(port->name, name, strnlen(name, sizeof port->name - 1));
    port->value = value;
}

struct sw_ref sw_builder_ref(const struct sw_builder *b, int32_t value)
{
    const struct sw_value *of = &b->program->values[value];
    const bool stacked = of->stack > 1 || of->period > 1;
    struct sw_ref ref = {value, SW_INDEX_FIXED, 0};
    if (stacked)
        ref.mode = b->region >= 0 && b->program->regions[b->region].phase == SW_PHASE_UPDATE
                       ? SW_INDEX_WHOLE
                       : SW_INDEX_LAYER;
    return ref;
}

enum sw_dtype sw_accumulate_dtype(enum sw_dtype compute)
{
    return compute == SW_F64 ? SW_F64 : SW_F32;
}
