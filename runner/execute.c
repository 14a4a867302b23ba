#include "runner/execute.h"

#include "runner/collective/call.h"

#include <stdlib.h>
#include <string.h>

enum { RING_TRANSFERS = 8 };

/* What a step consists of. The last micro-step is also the only one, often. */
enum phase { MICRO_STEP, LAST_MICRO_STEP, UPDATE, PHASES };

/* An operand with everything but the address, which depends on the layer. */
struct operand {
    struct sw_tensor tensor;
    int64_t offset, slot_bytes;
    int32_t slots, value;
    uint8_t mode;
    int32_t shift; /* its instance in layer 0, or in any */
};

struct prepared {
    struct operand *in, *out;             /* [n_in], [n_out] of the op */
    struct sw_collective_call collective; /* all but the addresses */
};

/* What is known of one program of the set. A device that can record runs the first step op by op
 * (libraries choose their kernels then), later ones as recordings. */
struct running {
    const struct sw_program *program; /* NULL: the set has none of this kind */
    struct prepared *prepared;        /* [op_count] */
    struct operand *operands;         /* of all ops */
    uint64_t *ticket; /* [value_count]: of the newest collective that writes it; 0: none yet */
    bool records, warm;
    struct sw_recording *recording[PHASES];
};

/* The transfers of the ring attention at hand, oldest first. */
struct transfers {
    struct sw_comm *comm;
    struct sw_axes axes;
    uint64_t ticket[RING_TRANSFERS];
    int32_t first, count;
};

struct sw_executor {
    const struct sw_program_set *set;
    struct running programs[SW_PROGRAM_KINDS];
    struct running *now;    /* the program at hand */
    struct running *placed; /* the one whose positions are in the arena */
    struct sw_device *device;
    struct sw_comm *comm;
    char *arena;
    size_t arena_bytes;        /* as allocated */
    struct sw_tensor *tensors; /* of the op at hand: its operands, then its results */
    struct transfers transfers;
    uint64_t waited; /* the newest ticket that was waited for */
    /* this rank's part of a micro-batch */
    int64_t first_row, rows, first_position, columns;
    int32_t *natural[2]; /* tokens, labels [rows, sequence_length] */
    int32_t *stored;     /* [rows, columns] in storage order */
    void *part;          /* this rank's part of any input of serving */
};

/* ---- Addresses ---- */

static int32_t instance_of(const struct operand *o, int32_t layer)
{
    switch (o->mode) {
    case SW_INDEX_LAYER:
        return layer + o->shift;
    case SW_INDEX_FIXED:
        return o->shift;
    default:
        return 0;
    }
}

static void *address(const struct sw_executor *x, const struct operand *o, int32_t layer)
{
    return x->arena + o->offset + (instance_of(o, layer) % o->slots) * o->slot_bytes;
}

static struct operand prepare_operand(const struct sw_executor *x, struct sw_ref ref)
{
    const struct sw_program *p = x->now->program;
    const struct sw_value *value = &p->values[ref.value];
    struct operand o = {.offset = value->offset,
                        .slot_bytes = value->slot_bytes,
                        .slots = value->slots,
                        .value = ref.value,
                        .mode = ref.mode,
                        .shift = sw_ref_instance(p, ref, 0)};
    struct sw_tensor *t = &o.tensor;
    t->dtype = value->dtype;
    t->ndim = value->ndim;
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
    call->workspace = x->arena + op->workspace_offset;
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
    }
}

/* ---- The ring, over the collectives' order ---- */

static int ring_start(void *context, const void *send, void *receive, size_t bytes,
                      struct sw_error *err)
{
    struct transfers *t = context;
    if (t->count == RING_TRANSFERS)
        return sw_fail(err, SW_ENVIRONMENT, "more than %d ring transfers at once", RING_TRANSFERS);
    uint64_t *ticket = &t->ticket[(t->first + t->count++) % RING_TRANSFERS];
    return t->comm->vtable->shift(t->comm, t->axes, send, receive, bytes, ticket, err);
}

static int ring_wait(void *context, struct sw_error *err)
{
    struct transfers *t = context;
    if (t->count == 0)
        return sw_fail(err, SW_ENVIRONMENT, "a wait without a ring transfer");
    const uint64_t ticket = t->ticket[t->first];
    t->first = (t->first + 1) % RING_TRANSFERS;
    t->count--;
    return t->comm->vtable->wait(t->comm, ticket, err);
}

/* ---- Ops ---- */

static int start_collective(struct sw_executor *x, int32_t index, int32_t layer,
                            struct sw_error *err)
{
    const struct sw_op *op = &x->now->program->ops[index];
    const struct prepared *prepared = &x->now->prepared[index];
    struct sw_collective_call call = prepared->collective;
    uint64_t ticket;
    for (uint16_t i = 0; i < op->n_in; i++) {
        call.in[i] = address(x, &prepared->in[i], layer);
        call.out[i] = address(x, &prepared->out[i], layer);
    }
    if (x->comm->vtable->start(x->comm, &call, &ticket, err) != 0)
        return -1;
    for (uint16_t i = 0; i < op->n_out; i++)
        x->now->ticket[op->out[i].value] = ticket;
    return 0;
}

/* Calls are in order: with the one that is waited for those before it are done, and its other
 * results. They may not be waited for again: that may be in a recording, where nothing from before
 * it may be waited for. */
static int wait_for(struct sw_executor *x, int32_t value, struct sw_error *err)
{
    const uint64_t ticket = x->now->ticket[value];
    if (ticket <= x->waited)
        return 0;
    x->waited = ticket;
    return x->comm->vtable->wait(x->comm, ticket, err);
}

static int compute(struct sw_executor *x, int32_t index, int32_t layer, const struct sw_step *step,
                   struct sw_error *err)
{
    const struct sw_op *op = &x->now->program->ops[index];
    const struct prepared *prepared = &x->now->prepared[index];
    struct sw_tensor *tensor = x->tensors;
    for (uint16_t i = 0; i < op->n_in; i++, tensor++) {
        *tensor = prepared->in[i].tensor;
        tensor->data = address(x, &prepared->in[i], layer);
    }
    for (uint16_t i = 0; i < op->n_out; i++, tensor++) {
        *tensor = prepared->out[i].tensor;
        tensor->data = address(x, &prepared->out[i], layer);
    }
    struct sw_call call = {.op = op,
                           .in = x->tensors,
                           .out = x->tensors + op->n_in,
                           .workspace = x->arena + op->workspace_offset,
                           .step = step,
                           .rows_alike = x->now != &x->programs[SW_PROGRAM_TRAIN]};
    struct sw_ring ring = {
        .context = &x->transfers, .start = ring_start, .wait = ring_wait, .size = 1};
    if (sw_op_is_ring(op->kind)) {
        ring.size = sw_axes_size(&x->now->program->mesh, op->axes);
        ring.index = sw_axes_index(&x->now->program->mesh, op->axes, x->comm->rank);
        x->transfers = (struct transfers){.comm = x->comm, .axes = op->axes};
        call.ring = &ring;
    }
    return x->device->vtable->run[op->kind](x->device, &call, err);
}

static int run_op(struct sw_executor *x, int32_t index, int32_t layer, const struct sw_step *step,
                  struct sw_error *err)
{
    const struct sw_op *op = &x->now->program->ops[index];
    if (sw_op_is_wait(op->kind))
        return wait_for(x, op->in[0].value, err);
    if (sw_op_is_collective(op->kind))
        return start_collective(x, index, layer, err);
    return compute(x, index, layer, step, err);
}

/* Iteration -1 runs only what is prefetched for the first; ops marked ahead always run one
 * iteration early. */
static int run_region(struct sw_executor *x, const struct sw_region *region, enum phase phase,
                      const struct sw_step *step, struct sw_error *err)
{
    const struct sw_op *ops = x->now->program->ops;
    for (int32_t i = -1; i < region->repeat; i++)
        for (int32_t o = region->first_op; o < region->first_op + region->op_count; o++) {
            const bool ahead = ops[o].ahead;
            const int32_t iteration = i + (ahead ? 1 : 0);
            if ((i < 0 && !ahead) || iteration >= region->repeat ||
                (ops[o].last_micro_step && phase == MICRO_STEP))
                continue;
            if (run_op(x, o, sw_region_layer(region, iteration), step, err) != 0)
                return sw_fail_context(err, "%s, %s", region->name, sw_op_info(ops[o].kind)->name);
        }
    return 0;
}

/* ---- Inputs ---- */

/* Of the program at hand; one without it (-1) needs none. */
static int write_input(struct sw_executor *x, const char *name, const int32_t *data)
{
    const struct sw_program *p = x->now->program;
    const int32_t value = sw_program_input(p, name);
    if (value < 0)
        return 0;
    const struct sw_value *v = &p->values[value];
    return x->device->vtable->copy_in(x->device, x->arena + v->offset, data,
                                      (size_t)sw_value_local_elems(v) * sizeof *data);
}

static int64_t stored_position(const struct sw_executor *x, int64_t i)
{
    const struct sw_program *p = x->now->program;
    return sw_sequence_position(p->sequence_layout, p->sequence_length, p->sequence_shards,
                                x->first_position + i);
}

/* The storage order of this rank's part of the sequence. */
static int write_positions(struct sw_executor *x)
{
    for (int64_t i = 0; i < x->columns; i++)
        x->stored[i] = (int32_t)stored_position(x, i);
    return write_input(x, "positions", x->stored);
}

static int write_batch(struct sw_executor *x, const struct sw_step *step,
                       const struct sw_batches *inputs, struct sw_error *err)
{
    static const char *const names[2] = {"tokens", "labels"};
    const struct sw_program *p = x->now->program;
    const int64_t length = p->sequence_length;
    /* sequences of the batch: the last micro-step may have more places than it has of them left */
    const bool last = step->micro_step == p->accumulation_steps - 1;
    const int64_t count = p->micro_batch - (last ? p->padding_sequences : 0);
    const int64_t rows = sw_shard_owned(count, x->first_row, x->rows);
    if (rows > 0 && inputs->read(inputs->context, step->step, step->micro_step, x->first_row, rows,
                                 x->natural[0], x->natural[1], err) != 0)
        return -1;
    for (int64_t i = rows * length; i < x->rows * length; i++) {
        x->natural[0][i] = 0;
        x->natural[1][i] = -1;
    }
    for (int32_t k = 0; k < 2; k++) {
        for (int64_t row = 0; row < x->rows; row++)
            for (int64_t i = 0; i < x->columns; i++)
                x->stored[row * x->columns + i] =
                    x->natural[k][row * length + stored_position(x, i)];
        if (write_input(x, names[k], x->stored) != 0)
            return sw_fail(err, SW_ENVIRONMENT, "cannot copy a batch to the device");
    }
    return 0;
}

/* ---- The executor ---- */

/* Whether the device runs every op of the program, and room for what is known of each. */
static int prepare_program(struct sw_executor *x, const struct sw_program *p, struct sw_error *err)
{
    size_t operands = 0;
    for (int32_t i = 0; i < p->op_count; i++) {
        const enum sw_op_kind kind = p->ops[i].kind;
        operands += (size_t)p->ops[i].n_in + p->ops[i].n_out;
        if (!sw_op_is_wait(kind) && !sw_op_is_collective(kind) && !sw_op_info(kind)->driven &&
            x->device->vtable->run[kind] == NULL)
            return sw_fail(err, SW_ENVIRONMENT,
                           "device %s cannot run the program '%s': it has no %s",
                           x->device->vtable->name,
                           sw_program_kind_name((enum sw_program_kind)(x->now - x->programs)),
                           sw_op_info(kind)->name);
    }
    x->now->program = p;
    x->now->prepared = calloc((size_t)p->op_count + 1, sizeof *x->now->prepared);
    x->now->operands = calloc(operands + 1, sizeof *x->now->operands);
    x->now->ticket = calloc((size_t)p->value_count + 1, sizeof *x->now->ticket);
    if (x->now->prepared == NULL || x->now->operands == NULL || x->now->ticket == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    return 0;
}

/* Bytes of a rank's part of it, of the programs of serving. */
static size_t largest_input(const struct sw_program_set *set)
{
    size_t largest = 1;
    for (int32_t k = SW_PROGRAM_TRAINING_KINDS; k < SW_PROGRAM_KINDS; k++)
        for (int32_t i = 0; set->program[k] != NULL && i < set->program[k]->inputs.count; i++) {
            const struct sw_program *p = set->program[k];
            const int64_t bytes = p->values[p->inputs.at[i].value].slot_bytes;
            largest = (size_t)bytes > largest ? (size_t)bytes : largest;
        }
    return largest;
}

/* The buffers of the host, for the programs of a set, which all read the same part of a batch. */
static int allocate_host(struct sw_executor *x, struct sw_error *err)
{
    size_t most_operands = 1;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        const struct sw_program *p = x->set->program[k];
        if (p == NULL)
            continue;
        for (int32_t i = 0; i < p->op_count; i++)
            if ((size_t)p->ops[i].n_in + p->ops[i].n_out > most_operands)
                most_operands = (size_t)p->ops[i].n_in + p->ops[i].n_out;
        if (sw_program_input(p, "tokens") < 0 || k >= SW_PROGRAM_TRAINING_KINDS)
            continue;
        const struct sw_value *tokens = &p->values[sw_program_input(p, "tokens")];
        int64_t offset[SW_MAX_DIMS];
        sw_shard_offset(&p->mesh, &tokens->sharding.spec, tokens->padded, x->comm->rank, offset);
        if (x->stored != NULL && (x->first_row != offset[0] || x->rows != tokens->local[0] ||
                                  x->first_position != offset[1] || x->columns != tokens->local[1]))
            return sw_fail(err, SW_ENVIRONMENT, "the programs read different parts of a batch");
        if (x->stored != NULL)
            continue;
        x->first_row = offset[0];
        x->first_position = offset[1];
        x->rows = tokens->local[0];
        x->columns = tokens->local[1];
        const size_t natural = (size_t)(x->rows * p->sequence_length);
        x->natural[0] = malloc(natural * sizeof *x->natural[0]);
        x->natural[1] = malloc(natural * sizeof *x->natural[1]);
        x->stored = malloc(natural * sizeof *x->stored);
        if (x->natural[0] == NULL || x->natural[1] == NULL || x->stored == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    }
    x->tensors = calloc(most_operands, sizeof *x->tensors);
    x->part = malloc(largest_input(x->set));
    if (x->tensors == NULL || x->part == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
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
    if (x->comm->vtable->attach != NULL)
        return x->comm->vtable->attach(x->comm, x->arena, x->arena_bytes, err);
    return 0;
}

/* Recordings hold addresses, and whatever the host does between two calls is not in them. */
static bool can_record(const struct sw_executor *x)
{
    const struct sw_program *p = x->now->program;
    if (x->device->vtable->record_begin == NULL)
        return false;
    if (x->comm->queued)
        return true;
    for (int32_t i = 0; i < p->op_count; i++) {
        const struct sw_op *op = &p->ops[i];
        if (sw_op_is_collective(op->kind) ||
            (sw_op_is_ring(op->kind) && sw_axes_size(&p->mesh, op->axes) > 1))
            return false;
    }
    return true;
}

int sw_executor_create(const struct sw_program_set *set, struct sw_device *device,
                       struct sw_comm *comm, struct sw_executor **out, struct sw_error *err)
{
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        const struct sw_program *p = set->program[k];
        if (p != NULL && p->stage != SW_LAID_OUT)
            return sw_fail(err, SW_ENVIRONMENT, "the program has no layout");
        if (p != NULL && comm->size != sw_mesh_rank_count(&p->mesh))
            return sw_fail(err, SW_BAD_INPUT, "the mesh has %d ranks but %d were started",
                           sw_mesh_rank_count(&p->mesh), comm->size);
    }
    struct sw_executor *x = calloc(1, sizeof *x);
    if (x == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the executor");
    x->set = set;
    x->device = device;
    x->comm = comm;
    if (allocate_host(x, err) != 0 || allocate_arena(x, err) != 0)
        goto fail;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        x->now = &x->programs[k];
        if (set->program[k] == NULL)
            continue;
        if (prepare_program(x, set->program[k], err) != 0)
            goto fail;
        prepare(x);
        x->now->records = can_record(x);
    }
    *out = x;
    return 0;
fail:
    sw_executor_free(x);
    return -1;
}

void sw_executor_free(struct sw_executor *x)
{
    if (x == NULL)
        return;
    for (int32_t k = 0; k < SW_PROGRAM_KINDS; k++) {
        struct running *r = &x->programs[k];
        for (int32_t i = 0; i < PHASES; i++)
            if (r->recording[i] != NULL)
                x->device->vtable->recording_free(x->device, r->recording[i]);
        free(r->prepared);
        free(r->operands);
        free(r->ticket);
    }
    if (x->arena != NULL && x->comm->vtable->attach != NULL)
        (void)x->comm->vtable->attach(x->comm, NULL, 0, NULL);
    if (x->arena != NULL && x->comm->vtable->release != NULL)
        x->comm->vtable->release(x->comm, x->arena);
    else if (x->arena != NULL)
        x->device->vtable->release(x->device, x->arena);
    free(x->tensors);
    free(x->natural[0]);
    free(x->natural[1]);
    free(x->stored);
    free(x->part);
    free(x);
}

/* ---- Running ---- */

static int read_scalar(struct sw_executor *x, int32_t value, double *out)
{
    const struct sw_value *v = &x->now->program->values[value];
    double wide = 0;
    float narrow = 0;
    const bool f64 = v->dtype == SW_F64;
    const int status =
        x->device->vtable->copy_out(x->device, f64 ? (void *)&wide : (void *)&narrow,
                                    x->arena + v->offset, f64 ? sizeof wide : sizeof narrow);
    *out = f64 ? wide : (double)narrow;
    return status;
}

/* All regions of a micro-step, or of the update. */
static int run_regions(struct sw_executor *x, enum phase phase, const struct sw_step *step,
                       struct sw_error *err)
{
    const struct sw_program *p = x->now->program;
    for (int32_t r = 0; r < p->region_count; r++)
        if ((p->regions[r].phase == SW_PHASE_UPDATE) == (phase == UPDATE) &&
            run_region(x, &p->regions[r], phase, step, err) != 0)
            return -1;
    return 0;
}

/* A recording ends with all that it started: no other can wait for it. So does a step. */
static int wait_for_all(struct sw_executor *x, struct sw_error *err)
{
    for (int32_t v = 0; v < x->now->program->value_count; v++)
        if (wait_for(x, v, err) != 0)
            return -1;
    return 0;
}

static int run_phase(struct sw_executor *x, enum phase phase, const struct sw_step *step,
                     struct sw_error *err)
{
    const struct sw_device_vtable *device = x->device->vtable;
    struct sw_recording **recording = &x->now->recording[phase];
    if (device->set_step != NULL && device->set_step(x->device, step, err) != 0)
        return -1;
    if (!x->now->records || !x->now->warm)
        return run_regions(x, phase, step, err);
    if (*recording == NULL) {
        if (device->record_begin(x->device, err) != 0)
            return -1;
        if (run_regions(x, phase, step, err) != 0 || wait_for_all(x, err) != 0) {
            (void)device->record_end(x->device, NULL, NULL);
            return -1;
        }
        if (device->record_end(x->device, recording, err) != 0)
            return -1;
    }
    return device->replay(x->device, *recording, err);
}

/* NULL: the program has no such op. */
static const struct sw_op *find_driven(const struct sw_program *p)
{
    for (int32_t i = 0; i < p->op_count; i++)
        if (sw_op_info(p->ops[i].kind)->driven)
            return &p->ops[i];
    return NULL;
}

int sw_executor_run(struct sw_executor *x, enum sw_program_kind program, struct sw_step *step,
                    const struct sw_batches *inputs, struct sw_output *outputs,
                    int32_t output_count, struct sw_error *err)
{
    x->now = &x->programs[program];
    const struct sw_program *p = x->now->program;
    if (p == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "there is no program '%s'",
                       sw_program_kind_name(program));
    if (find_driven(p) != NULL)
        return sw_fail(err, SW_ENVIRONMENT, "the program '%s' is not run by itself",
                       sw_program_kind_name(program));
    const int64_t counted =
        inputs->counted != NULL ? inputs->counted(inputs->context, step->step) : p->tokens_per_step;
    step->loss_scale = counted > 0 ? 1.0 / (double)counted : 0;
    if (x->placed != x->now && write_positions(x) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy positions to the device");
    x->placed = x->now;
    for (step->micro_step = 0; step->micro_step < p->accumulation_steps; step->micro_step++) {
        const bool last = step->micro_step == p->accumulation_steps - 1;
        if (write_batch(x, step, inputs, err) != 0 ||
            run_phase(x, last ? LAST_MICRO_STEP : MICRO_STEP, step, err) != 0)
            return -1;
    }
    if (run_phase(x, UPDATE, step, err) != 0 || wait_for_all(x, err) != 0 ||
        (x->comm->vtable->settle != NULL && x->comm->vtable->settle(x->comm, err) != 0) ||
        x->device->vtable->synchronize(x->device, err) != 0)
        return -1;
    x->now->warm = true;
    for (int32_t i = 0; i < output_count; i++) {
        const int32_t value = sw_program_output(p, outputs[i].name);
        if (value < 0)
            return sw_fail(err, SW_ENVIRONMENT, "the program '%s' has no output '%s'",
                           sw_program_kind_name(program), outputs[i].name);
        if (read_scalar(x, value, &outputs[i].value) != 0)
            return sw_fail(err, SW_ENVIRONMENT, "cannot read the %s from the device",
                           outputs[i].name);
    }
    return 0;
}

/* ---- Serving ---- */

static size_t whole_bytes(const struct sw_value *v)
{
    size_t bytes = sw_dtype_bytes(v->dtype);
    for (uint8_t d = 0; d < v->ndim; d++)
        bytes *= (size_t)v->size[d];
    return bytes;
}

static int feed(struct sw_executor *x, const struct sw_feed *feed, struct sw_error *err)
{
    const struct sw_program *p = x->now->program;
    const int32_t value = sw_program_input(p, feed->name);
    const struct sw_value *v = &p->values[value < 0 ? 0 : value];
    if (value < 0 || feed->bytes != whole_bytes(v))
        return sw_fail(err, SW_ENVIRONMENT, "the program takes no '%s' of %zu bytes", feed->name,
                       feed->bytes);
    sw_device_put(&p->mesh, &v->sharding.spec, v->size, v->padded, sw_dtype_bytes(v->dtype),
                  x->comm->rank, feed->data, x->part);
    if (x->device->vtable->copy_in(x->device, x->arena + v->offset, x->part,
                                   (size_t)v->slot_bytes) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy '%s' to the device", feed->name);
    return 0;
}

static int fetch(struct sw_executor *x, const struct sw_fetch *fetch, struct sw_error *err)
{
    const struct sw_program *p = x->now->program;
    const int32_t value = sw_program_output(p, fetch->name);
    const struct sw_value *v = &p->values[value < 0 ? 0 : value];
    if (value < 0 || fetch->bytes != whole_bytes(v) || v->slot_bytes != (int64_t)fetch->bytes)
        return sw_fail(err, SW_ENVIRONMENT, "the program gives no '%s' of %zu bytes", fetch->name,
                       fetch->bytes);
    if (x->device->vtable->copy_out(x->device, fetch->data, x->arena + v->offset, fetch->bytes) !=
        0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot read '%s' from the device", fetch->name);
    return 0;
}

int sw_executor_call(struct sw_executor *x, enum sw_program_kind program,
                     const struct sw_feed *feeds, int32_t feed_count,
                     const struct sw_fetch *fetches, int32_t fetch_count, struct sw_error *err)
{
    const struct sw_step step = {.step = 1, .loss_scale = 1};
    x->now = &x->programs[program];
    if (x->now->program == NULL || program < SW_PROGRAM_TRAINING_KINDS)
        return sw_fail(err, SW_ENVIRONMENT, "there is no program '%s' to call",
                       sw_program_kind_name(program));
    for (int32_t i = 0; i < feed_count; i++)
        if (feed(x, &feeds[i], err) != 0)
            return -1;
    if (run_phase(x, LAST_MICRO_STEP, &step, err) != 0 || wait_for_all(x, err) != 0 ||
        (x->comm->vtable->settle != NULL && x->comm->vtable->settle(x->comm, err) != 0) ||
        x->device->vtable->synchronize(x->device, err) != 0)
        return -1;
    x->now->warm = true;
    for (int32_t i = 0; i < fetch_count; i++)
        if (fetch(x, &fetches[i], err) != 0)
            return -1;
    return 0;
}

void *sw_executor_state(struct sw_executor *x, const struct sw_state_row *row, int32_t instance)
{
    return x->arena + row->offset + instance * row->instance_bytes;
}

void *sw_executor_value(struct sw_executor *x, const struct sw_program *program, int32_t value,
                        int32_t instance)
{
    const struct sw_value *v = &program->values[value];
    return x->arena + v->offset + (instance % v->slots) * v->slot_bytes;
}

void *sw_executor_workspace(struct sw_executor *x, enum sw_program_kind program)
{
    const struct sw_program *p = x->programs[program].program;
    const struct sw_op *op = p != NULL ? find_driven(p) : NULL;
    return op != NULL ? x->arena + op->workspace_offset : NULL;
}

int64_t sw_executor_arena_bytes(const struct sw_executor *x)
{
    return (int64_t)x->arena_bytes;
}

const struct sw_program_set *sw_executor_set(const struct sw_executor *x)
{
    return x->set;
}

struct sw_device *sw_executor_device(const struct sw_executor *x)
{
    return x->device;
}

struct sw_comm *sw_executor_comm(const struct sw_executor *x)
{
    return x->comm;
}
