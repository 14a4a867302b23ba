#include "runner/rank/execute_internal.h"

#include <string.h>

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
                           .rows_alike = sw_program_traits(x->now->program->kind)->rows_alike};
    struct sw_ring ring = {
        .context = &x->transfers, .start = ring_start, .wait = ring_wait, .size = 1};
    if (sw_op_is_ring(op)) {
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

/* ---- What lies behind the state ---- */

static int poison(struct sw_executor *x, struct sw_error *err)
{
    const size_t first = (size_t)x->set->state.bytes;
    for (size_t at = first; x->poison != NULL && at < x->arena_bytes; at += POISON_BYTES) {
        const size_t left = x->arena_bytes - at;
        if (x->device->vtable->copy_in(x->device, x->arena + at, x->poison,
                                       left < POISON_BYTES ? left : POISON_BYTES) != 0)
            return sw_fail(err, SW_ENVIRONMENT, "cannot poison the arena");
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

/* All ops of the pass at hand. */
static int issue_pass(struct sw_executor *x, struct sw_walk *w, const struct sw_step *step,
                      struct sw_error *err)
{
    while (sw_walk_region(w))
        while (sw_walk_iteration(w))
            while (sw_walk_op(w))
                if (run_op(x, w->op, w->layer, step, err) != 0)
                    return sw_fail_context(err, "%s, %s", w->program->regions[w->region].name,
                                           sw_op_info(w->program->ops[w->op].kind)->name);
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

static int run_pass(struct sw_executor *x, struct sw_walk *w, const struct sw_step *step,
                    struct sw_error *err)
{
    const struct sw_device_vtable *device = x->device->vtable;
    struct sw_recording **recording = &x->now->recording[w->pass];
    if (device->set_step != NULL && device->set_step(x->device, step, err) != 0)
        return -1;
    if (!x->now->records || !x->now->warm)
        return issue_pass(x, w, step, err);
    if (*recording == NULL) {
        if (device->record_begin(x->device, err) != 0)
            return -1;
        if (issue_pass(x, w, step, err) != 0 || wait_for_all(x, err) != 0) {
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
    if (poison(x, err) != 0)
        return -1;
    if (write_positions(x) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy positions to the device");
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_pass(&w);) {
        step->micro_step = w.micro_step;
        if ((w.pass != SW_PASS_UPDATE && write_batch(x, step, inputs, err) != 0) ||
            run_pass(x, &w, step, err) != 0)
            return -1;
    }
    if (wait_for_all(x, err) != 0 ||
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
    if (value < 0 || (feed->data != NULL && feed->bytes != whole_bytes(v)))
        return sw_fail(err, SW_ENVIRONMENT, "the program takes no '%s' of %zu bytes", feed->name,
                       feed->bytes);
    if (feed->data == NULL)
        return 0;
    sw_device_put(&p->mesh, &v->sharding.spec, v->size, v->padded, sw_dtype_bytes(v->dtype),
                  x->comm->rank, feed->data, x->part);
    if (x->device->vtable->copy_in(x->device, x->arena + v->offset, x->part,
                                   (size_t)v->slot_bytes) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy '%s' to the device", feed->name);
    return 0;
}

static bool is_fed(const char *name, const struct sw_feed *feeds, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (strcmp(feeds[i].name, name) == 0)
            return true;
    return false;
}

/* What was fed to an earlier call is not there any more. */
static int feed_all(struct sw_executor *x, const struct sw_feed *feeds, int32_t count,
                    struct sw_error *err)
{
    const struct sw_ports *inputs = &x->now->program->inputs;
    for (int32_t i = 0; i < inputs->count; i++)
        if (!is_fed(inputs->at[i].name, feeds, count))
            return sw_fail(err, SW_ENVIRONMENT, "the program is not fed its '%s'",
                           inputs->at[i].name);
    for (int32_t i = 0; i < count; i++)
        if (feed(x, &feeds[i], err) != 0)
            return -1;
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
    if (x->now->program == NULL || sw_program_traits(program)->state != SW_STATE_SERVING)
        return sw_fail(err, SW_ENVIRONMENT, "there is no program '%s' to call",
                       sw_program_kind_name(program));
    if (poison(x, err) != 0 || feed_all(x, feeds, feed_count, err) != 0)
        return -1;
    for (struct sw_walk w = sw_walk_begin(x->now->program); sw_walk_pass(&w);)
        if (run_pass(x, &w, &step, err) != 0)
            return -1;
    if (wait_for_all(x, err) != 0 ||
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
