#include "runner/rank/execute_internal.h"

#include <stdlib.h>
#include <string.h>

static struct operand prepare_operand(const struct sw_executor *x, struct sw_ref ref)
{
    const struct sw_program *p = x->now->program;
    const struct sw_value *value = &p->values[ref.value];
    const bool moved = value->offset >= x->set->state.bytes;
    struct operand o = {.offset = value->offset + (moved ? x->now->shift_bytes : 0),
                        .slot_bytes = value->slot_bytes,
                        .slots = value->slots,
                        .value = ref.value,
                        .mode = ref.mode,
                        .shift = ref.shift - (ref.mode == SW_INDEX_LAYER ? value->first_layer : 0),
                        .period = value->period};
    struct sw_tensor *t = &o.tensor;
    t->dtype = value->dtype;
    t->ndim = value->ndim;
    t->tiled = value->tiled && sw_device_tiles(x->device, value->dtype);
    t->elems = 1;
    sw_shard_offset(&p->mesh, &value->sharding.spec, value->padded, x->comm->rank, t->start);
    for (uint8_t d = 0; d < value->ndim; d++) {
        t->size[d] = value->local[d];
        if (ref.mode != SW_INDEX_WHOLE)
            t->padding[d] =
                t->size[d] - sw_shard_owned(value->size[d], t->start[d], value->local[d]);
        t->global[d] = value->size[d];
        t->elems *= value->local[d];
    }
    if (ref.mode == SW_INDEX_WHOLE) {
        t->size[0] *= value->stack;
        t->global[0] *= value->stack;
        t->elems *= value->stack;
    }
    return o;
}

/* Gives the instances of a whole stack, each of them split, a dimension of their own. */
static void part_stack(struct sw_tensor *t, int32_t stack)
{
    for (uint8_t d = t->ndim; d > 0; d--) {
        t->size[d] = t->size[d - 1] / (d == 1 ? stack : 1);
        t->global[d] = t->global[d - 1] / (d == 1 ? stack : 1);
        t->start[d] = t->start[d - 1];
        t->padding[d] = t->padding[d - 1];
    }
    t->ndim++;
    t->size[0] = t->global[0] = stack;
    t->start[0] = t->padding[0] = 0;
}

/* True if the op after a collective waits for it. */
static bool waited_next(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_op *next = op + 1;
    return next < p->ops + p->op_count && sw_op_is_wait(next->kind) &&
           next->in[0].value == op->out[op->n_out - 1].value;
}

static void prepare_collective(const struct sw_executor *x, const struct sw_op *op,
                               struct prepared *prepared)
{
    const struct sw_value *value = &x->now->program->values[op->in[0].value];
    struct sw_collective_call *call = &prepared->collective;
    int64_t shape[SW_MAX_DIMS + 1];
    int lead = 0;
    if (op->in[0].mode == SW_INDEX_WHOLE)
        shape[lead++] = value->stack;
    for (uint8_t d = 0; d < value->ndim; d++)
        shape[lead + d] = value->local[d];
    sw_collective_call_shape(call, sw_op_collective(op->kind), value->ndim + lead, shape,
                             op->as.move.dim + lead, op->as.move.dim_to + lead);
    call->axes = op->axes;
    call->dtype = value->dtype;
    call->count = op->n_in;
    for (uint16_t i = 0; i < op->n_in; i++)
        call->elems[i] = prepared->in[i].tensor.elems;
    call->workspace = x->arena + x->now->shift_bytes + op->workspace_offset;
    call->waited_next = waited_next(x->now->program, op);
}

static void prepare(struct sw_executor *x)
{
    struct operand *next = x->now->operands;
    for (int32_t i = 0; i < x->now->program->op_count; i++) {
        const struct sw_op *op = &x->now->program->ops[i];
        struct prepared *prepared = &x->now->prepared[i];
        prepared->in = next;
        prepared->out = next + op->n_in;
        next += op->n_in + op->n_out;
        for (uint16_t k = 0; k < op->n_in; k++)
            prepared->in[k] = prepare_operand(x, op->in[k]);
        for (uint16_t k = 0; k < op->n_out; k++)
            prepared->out[k] = prepare_operand(x, op->out[k]);
        if (sw_op_is_collective(op->kind))
            prepare_collective(x, op, prepared);
        if (op->kind == SW_OP_SLICE && op->in[0].mode == SW_INDEX_WHOLE) {
            part_stack(&prepared->in[0].tensor, x->now->program->values[op->in[0].value].stack);
            part_stack(&prepared->out[0].tensor, x->now->program->values[op->out[0].value].stack);
        }
    }
}

/* Attribute of the op that the device does not support; NULL: none. */
static const char *not_taken(const struct sw_device *device, const struct sw_op *op)
{
    char name[32];
    for (const struct sw_attribute *a = sw_op_info(op->kind)->attributes;
         a != NULL && a->type != SW_ATTRIBUTE_END; a++) {
        snprintf(name, sizeof name, " %s ", a->name);
        const bool told = a->type == SW_ATTRIBUTE_REAL ? sw_attribute_real(op, a) != 0
                                                       : sw_attribute_int(op, a) != 0;
        if (a->asks && told &&
            (device->vtable->takes == NULL || strstr(device->vtable->takes, name) == NULL))
            return a->name;
    }
    return NULL;
}

/* Checks that the device runs every op of the program, and allocates its state. */
static int prepare_program(struct sw_executor *x, const struct sw_program *p, struct sw_error *err)
{
    size_t operands = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const enum sw_op_kind kind = p->ops[i].kind;
        operands += (size_t)p->ops[i].n_in + p->ops[i].n_out;
        if (!sw_op_is_wait(kind) && !sw_op_is_collective(kind) && !sw_op_is_exchange(kind) &&
            x->device->vtable->run[kind] == NULL)
            return sw_fail(
                err, SW_ENVIRONMENT, "device %s cannot run the program '%s': it has no %s",
                x->device->vtable->name, sw_program_kind_name(p->kind), sw_op_info(kind)->name);
        const char *lacks = not_taken(x->device, &p->ops[i]);
        if (lacks != NULL)
            return sw_fail(err, SW_ENVIRONMENT,
                           "device %s cannot run the program '%s': its %s has no '%s'",
                           x->device->vtable->name, sw_program_kind_name(p->kind),
                           sw_op_info(kind)->name, lacks);
    }
    x->now->program = p;
    x->now->shift_bytes = p->kind == SW_PROGRAM_DECODE ? x->set->decode_shift_bytes : 0;
    x->now->prepared = calloc((size_t)p->op_count + 1, sizeof *x->now->prepared);
    x->now->operands = calloc(operands + 1, sizeof *x->now->operands);
    x->now->ticket = calloc((size_t)p->value_count + 1, sizeof *x->now->ticket);
    if (x->now->prepared == NULL || x->now->operands == NULL || x->now->ticket == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    return 0;
}

/* Allocates host buffers for the set's largest program. */
static int allocate_host(struct sw_executor *x, struct sw_error *err)
{
    size_t most_operands = 1, rows = 1, part = 1;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        const struct sw_program *p = x->set->program[k];
        for (int32_t i = 0; p != NULL && i < p->op_count; i++)
            if ((size_t)p->ops[i].n_in + p->ops[i].n_out > most_operands)
                most_operands = (size_t)p->ops[i].n_in + p->ops[i].n_out;
        for (int32_t i = 0; p != NULL && i < p->inputs.count; i++) {
            const struct sw_value *v = &p->values[p->inputs.at[i].value];
            const int64_t held = (v->ndim == 1 ? 1 : v->local[0]) * v->size[v->ndim - 1];
            const size_t bytes = (size_t)held * sw_dtype_bytes(v->dtype);
            rows = bytes > rows ? bytes : rows;
            part = (size_t)v->slot_bytes > part ? (size_t)v->slot_bytes : part;
        }
    }
    x->tensors = calloc(most_operands, sizeof *x->tensors);
    x->rows = malloc(rows);
    x->part = malloc(part);
    if (x->tensors == NULL || x->rows == NULL || x->part == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    return 0;
}

static int allocate_poison(struct sw_executor *x, struct sw_error *err)
{
    x->poison = malloc(POISON_BYTES);
    if (x->poison == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    memset(x->poison, SW_POISON, POISON_BYTES);
    return 0;
}

static int allocate_arena(struct sw_executor *x, struct sw_error *err)
{
    const long long planned = (long long)x->set->arena_bytes;
    x->arena_bytes = (size_t)x->set->arena_bytes;
    x->arena = x->comm->vtable->allocate != NULL
                   ? x->comm->vtable->allocate(x->comm, x->arena_bytes)
                   : x->device->vtable->allocate(x->device, x->arena_bytes);
    if (x->arena == NULL && x->device->vtable->free_bytes != NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "the arena of %lld planned bytes does not fit: %lld are free on the device; "
                       "use a mesh that needs less memory",
                       planned, (long long)x->device->vtable->free_bytes(x->device));
    if (x->arena == NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "cannot allocate the arena of %lld bytes; use a mesh that needs less memory",
                       planned);
    return 0;
}

/* True if the device records: recordings hold addresses, and the host's work between calls is not
 * in them. */
static bool can_record(const struct sw_executor *x)
{
    const struct sw_program *p = x->now->program;
    if (x->device->vtable->record_begin == NULL)
        return false;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        const bool talks = sw_op_is_collective(op->kind) ||
                           (sw_op_is_ring(op) && sw_axes_size(&p->mesh, op->axes) > 1);
        if (sw_op_is_exchange(op->kind) || (talks && !x->comm->queued))
            return false;
    }
    return true;
}

/* Does everything that can fail on one rank alone. */
static int build(struct sw_executor *x, const struct sw_executor_options *options,
                 struct sw_error *err)
{
    if (allocate_host(x, err) != 0 || allocate_arena(x, err) != 0 ||
        (options != NULL && options->poisons && allocate_poison(x, err) != 0))
        return -1;
    for (int32_t i = 0; i < SW_PROGRAM_KINDS * SW_SERVING_SIZES; i++) {
        const int32_t k = i / SW_SERVING_SIZES, size = i % SW_SERVING_SIZES;
        const struct sw_program *p = sw_program_set_size(x->set, (enum sw_program_kind)k, size);
        x->now = &x->programs[k][size];
        if (p == NULL)
            continue;
        if (prepare_program(x, p, err) != 0)
            return -1;
        prepare(x);
        x->now->records = can_record(x);
    }
    return 0;
}

/* Attaching the arena needs all ranks: one that cannot must not leave the others waiting. */
static int attach(struct sw_comm *comm, struct sw_executor *x, bool built, struct sw_error *err)
{
    if (comm->vtable->agree != NULL && comm->vtable->agree(comm, built, err) != 0)
        return -1;
    if (!built)
        return -1;
    x->attached = comm->vtable->attach != NULL;
    return x->attached ? comm->vtable->attach(comm, x->arena, x->arena_bytes, err) : 0;
}

int sw_executor_create(const struct sw_program_set *set, struct sw_device *device,
                       struct sw_comm *comm, const struct sw_executor_options *options,
                       struct sw_executor **out, struct sw_error *err)
{
    for (int32_t i = 0; i < SW_PROGRAM_KINDS * SW_SERVING_SIZES; i++) {
        const struct sw_program *p = sw_program_set_size(
            set, (enum sw_program_kind)(i / SW_SERVING_SIZES), i % SW_SERVING_SIZES);
        if (p != NULL && p->stage != SW_LAID_OUT)
            return sw_fail(err, SW_ENVIRONMENT, "the program has no layout");
        if (p != NULL && comm->size != sw_mesh_rank_count(&p->mesh))
            return sw_fail(err, SW_BAD_INPUT, "the mesh has %d ranks but %d were started",
                           sw_mesh_rank_count(&p->mesh), comm->size);
    }
    struct sw_executor *x = calloc(1, sizeof *x);
    if (x != NULL)
        *x = (struct sw_executor){.set = set, .device = device, .comm = comm};
    else
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    const bool built = x != NULL && build(x, options, err) == 0;
    if (attach(comm, x, built, err) != 0) {
        sw_executor_free(x);
        return -1;
    }
    *out = x;
    return 0;
}

void sw_executor_free(struct sw_executor *x)
{
    if (x == NULL)
        return;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS * SW_SERVING_SIZES; k++) {
        struct running *r = &x->programs[k / SW_SERVING_SIZES][k % SW_SERVING_SIZES];
        for (int32_t i = 0; i < SW_PASS_COUNT; i++)
            if (r->recording[i] != NULL)
                x->device->vtable->recording_free(x->device, r->recording[i]);
        free(r->prepared);
        free(r->operands);
        free(r->ticket);
    }
    if (x->attached)
        (void)x->comm->vtable->attach(x->comm, NULL, 0, NULL);
    if (x->arena != NULL && x->comm->vtable->release != NULL)
        x->comm->vtable->release(x->comm, x->arena);
    else if (x->arena != NULL)
        x->device->vtable->release(x->device, x->arena);
    free(x->tensors);
    free(x->rows);
    free(x->part);
    free(x->poison);
    free(x);
}
