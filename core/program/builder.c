#include "core/program/builder.h"

#include <stdlib.h>
#include <string.h>

struct sw_program *sw_program_new(void)
{
    struct sw_program *program = calloc(1, sizeof *program);
    if (program == NULL)
        return NULL;
    program->tokens = program->labels = program->positions = -1;
    program->loss = program->grad_norm = program->logits = -1;
    return program;
}

void sw_program_free(struct sw_program *program)
{
    if (program == NULL)
        return;
    free(program->values);
    free(program->ops);
    free(program->regions);
    sw_lifetimes_free(program->lifetimes);
    free(program);
}

struct sw_program *sw_program_next_stage(const struct sw_program *from)
{
    struct sw_program *next = sw_program_new();
    if (next == NULL)
        return NULL;
    *next = *from;
    next->ops = NULL;
    next->regions = NULL;
    next->lifetimes = NULL;
    next->op_count = next->op_capacity = next->region_count = next->region_capacity = 0;
    next->value_capacity = from->value_count * 2 + 64;
    next->values = malloc((size_t)next->value_capacity * sizeof *next->values);
    if (next->values == NULL) {
        free(next);
        return NULL;
    }
    memcpy(next->values, from->values, (size_t)from->value_count * sizeof *next->values);
    return next;
}

/* Enough for most programs: growing copies all there is. */
enum { FIRST_VALUES = 256, FIRST_OPS = 256, FIRST_REGIONS = 16 };

/* Room for one more element, or NULL. */
static void *grow(void *array, int32_t count, int32_t first, int32_t *capacity,
                  size_t element_bytes)
{
    if (count < *capacity)
        return array;
    int32_t wanted = *capacity ? *capacity * 2 : first;
    void *grown = realloc(array, (size_t)wanted * element_bytes);
    if (grown != NULL)
        *capacity = wanted;
    return grown;
}

/* printf costs more than all else that making a value takes. */
void sw_builder_name(char out[SW_NAME_BYTES], const char *first, size_t first_max,
                     const char *second, size_t second_max)
{
    char name[SW_NAME_BYTES] = {0}; /* first may be out */
    size_t n = 0;
    for (size_t i = 0; i < first_max && first[i] != '\0'; i++)
        name[n++] = first[i];
    for (size_t i = 0; i < second_max && second[i] != '\0'; i++)
        name[n++] = second[i];
    memcpy(out, name, sizeof name);
}

int32_t sw_builder_value(struct sw_builder *b, const char *name, enum sw_role role,
                         enum sw_dtype dtype, uint8_t ndim, const struct sw_dim *dims,
                         int32_t stack)
{
    struct sw_program *p = b->program;
    struct sw_value *grown =
        grow(p->values, p->value_count, FIRST_VALUES, &p->value_capacity, sizeof *p->values);
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
    value->declared.spec.ndim = ndim;
    for (uint8_t d = 0; d < SW_MAX_DIMS; d++) {
        value->size[d] = value->unit[d] = 1;
        if (d >= ndim)
            continue;
        value->axis[d] = (uint8_t)dims[d].axis;
        value->size[d] = dims[d].size;
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
    struct sw_value *grown =
        grow(p->values, p->value_count, FIRST_VALUES, &p->value_capacity, sizeof *p->values);
    if (grown == NULL) {
        b->failed = true;
        return 0;
    }
    p->values = grown;
    const struct sw_value *original = &p->values[like];
    struct sw_value *value = &p->values[p->value_count];
    *value = *original;
    sw_builder_name(value->name, prefix, 10, original->name, 28);
    value->role = SW_ROLE_ACTIVATION;
    value->dtype = dtype;
    value->stack = stack;
    value->base = p->value_count;
    value->alias = -1;
    return p->value_count++;
}

void sw_builder_region(struct sw_builder *b, const char *name, enum sw_phase phase, int32_t repeat,
                       bool reverse)
{
    struct sw_program *p = b->program;
    struct sw_region *grown =
        grow(p->regions, p->region_count, FIRST_REGIONS, &p->region_capacity, sizeof *p->regions);
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
    region->reverse = reverse;
    region->first_op = p->op_count;
    b->region = p->region_count++;
}

/* The op that the open region's next one goes into, or NULL. */
static struct sw_op *add_op(struct sw_builder *b)
{
    struct sw_program *p = b->program;
    struct sw_op *grown = grow(p->ops, p->op_count, FIRST_OPS, &p->op_capacity, sizeof *p->ops);
    if (grown == NULL) {
        b->failed = true;
        return NULL;
    }
    p->ops = grown;
    p->regions[b->region].op_count++;
    return &p->ops[p->op_count++];
}

int32_t sw_builder_copy_op(struct sw_builder *b, const struct sw_op *op)
{
    struct sw_op *added = add_op(b);
    if (added == NULL)
        return 0;
    *added = *op;
    return b->program->op_count - 1;
}

int32_t sw_builder_op(struct sw_builder *b, enum sw_op_kind kind, enum sw_op_stage stage)
{
    struct sw_op *added = add_op(b);
    if (added == NULL)
        return 0;
    memset(added, 0, sizeof *added);
    added->kind = (uint8_t)kind;
    added->stage = (uint8_t)stage;
    return b->program->op_count - 1;
}

void sw_builder_in(struct sw_builder *b, int32_t op, struct sw_ref ref)
{
    struct sw_op *o = &b->program->ops[op];
    if (!b->failed && o->n_in < SW_OP_MAX_IN)
        o->in[o->n_in++] = ref;
}

void sw_builder_out(struct sw_builder *b, int32_t op, struct sw_ref ref)
{
    struct sw_op *o = &b->program->ops[op];
    if (!b->failed && o->n_out < SW_OP_MAX_OUT)
        o->out[o->n_out++] = ref;
}

struct sw_ref sw_builder_ref(const struct sw_builder *b, int32_t value)
{
    bool stacked = b->program->values[value].stack > 1;
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
