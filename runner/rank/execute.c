#include "runner/rank/execute_internal.h"

#include "core/ir/workspace.h"

#include <string.h>

/* ---- Addresses ---- */

static int32_t instance_of(const struct operand *o, int32_t layer)
{
    switch (o->mode) {
    case SW_INDEX_LAYER:
        return (layer + o->shift) / o->period;
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

static int ring_start(void *context, int32_t to, int32_t from, const void *send, void *receive,
                      size_t bytes, struct sw_error *err)
{
    struct transfers *t = context;
    if (t->count == RING_TRANSFERS)
        return sw_fail(err, SW_ENVIRONMENT, "more than %d ring transfers at once", RING_TRANSFERS);
    uint64_t *ticket = &t->ticket[(t->first + t->count++) % RING_TRANSFERS];
    const struct sw_mesh *mesh = &t->comm->mesh;
    if (t->inner < t->size)
        return t->comm->vtable->transfer(
            t->comm, sw_axes_member(mesh, t->axes, t->comm->rank, to), send, bytes,
            sw_axes_member(mesh, t->axes, t->comm->rank, from), receive, bytes, ticket, err);
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

/* Waits for a value's call. Calls are in order, so earlier calls and its other results are done
 * too. They must not be waited for again: within a recording, nothing from before it may be. */
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
                           .workspace = x->arena + x->now->shift_bytes + op->workspace_offset,
                           .step = step,
                           .batch_invariant =
                               sw_program_traits(x->now->program->kind)->batch_invariant,
                           .always_skinny = sw_program_is_always_skinny(x->now->program),
                           .planned_slots = x->now->program->planned_slots,
                           .rope_divisors = x->now->program->rope_divisors};
    struct sw_ring ring = {
        .context = &x->transfers, .start = ring_start, .wait = ring_wait, .size = 1, .inner = 1};
    if (sw_op_is_ring(op)) {
        ring.size = sw_axes_size(&x->now->program->mesh, op->axes);
        ring.index = sw_axes_index(&x->now->program->mesh, op->axes, x->comm->rank);
        ring.inner = sw_attention_inner_ring(op, ring.size);
        x->transfers = (struct transfers){.comm = x->comm,
                                          .axes = op->axes,
                                          .size = ring.size,
                                          .inner = op->as.attention.halo ? 1 : ring.inner};
        call.ring = &ring;
    }
    return x->device->vtable->run[op->kind](x->device, &call, err);
}

static int run_round(struct sw_executor *x, int32_t round, struct sw_error *err)
{
    return x->rounds != NULL
               ? x->rounds->round(x->rounds->context, round, err)
               : sw_fail(err, SW_ENVIRONMENT, "the program needs a callback that takes its output");
}

static int run_op(struct sw_executor *x, int32_t index, int32_t layer, const struct sw_step *step,
                  struct sw_error *err)
{
    const struct sw_op *op = &x->now->program->ops[index];
    if (sw_op_is_exchange(op->kind))
        return run_round(x, layer, err);
    if (sw_op_is_wait(op->kind))
        return wait_for(x, op->in[0].value, err);
    if (sw_op_is_collective(op->kind))
        return start_collective(x, index, layer, err);
    return compute(x, index, layer, step, err);
}

/* ---- What lies behind the state ---- */

static int poison(struct sw_executor *x, struct sw_error *err)
{
    const size_t first = (size_t)(x->set->state.bytes + x->now->shift_bytes);
    for (size_t at = first; x->poison != NULL && at < x->arena_bytes; at += POISON_BYTES) {
        const size_t left = x->arena_bytes - at;
        if (x->device->vtable->copy_in(x->device, x->arena + at, x->poison,
                                       left < POISON_BYTES ? left : POISON_BYTES) != 0)
            return sw_fail(err, SW_ENVIRONMENT, "cannot poison the arena");
    }
    return 0;
}

/* ---- Inputs and outputs ---- */

static size_t whole_bytes(const struct sw_value *v)
{
    size_t bytes = sw_dtype_bytes(v->dtype);
    for (uint8_t d = 0; d < v->ndim; d++)
        bytes *= (size_t)v->size[d];
    return bytes;
}

static bool is_fed(const char *name, const struct sw_feed *feeds, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (strcmp(feeds[i].name, name) == 0)
            return true;
    return false;
}

/* Checks that every input is fed: earlier runs' inputs are gone. */
static int check_feeds(const struct sw_program *p, const struct sw_feed *feeds, int32_t count,
                       struct sw_error *err)
{
    for (int32_t i = 0; i < p->inputs.count; i++)
        if (!is_fed(p->inputs.at[i].name, feeds, count))
            return sw_fail(err, SW_ENVIRONMENT, "the program is not fed its '%s'",
                           p->inputs.at[i].name);
    for (int32_t i = 0; i < count; i++) {
        const int32_t value = sw_program_input(p, feeds[i].name);
        if (value < 0 ||
            (feeds[i].data != NULL && feeds[i].bytes != whole_bytes(&p->values[value])))
            return sw_fail(err, SW_ENVIRONMENT, "the program takes no '%s' of %zu bytes",
                           feeds[i].name, feeds[i].bytes);
    }
    return 0;
}

/* Takes this rank's columns of whole rows in natural order, in its storage order. */
static void take_columns(struct sw_executor *x, const struct sw_value *v, int64_t first,
                         const char *rows, int64_t count)
{
    const struct sw_program *p = x->now->program;
    const int64_t width = v->size[v->ndim - 1], columns = v->local[v->ndim - 1];
    const int64_t element = (int64_t)sw_dtype_bytes(v->dtype);
    const bool ordered = v->axis[v->ndim - 1] == SW_L_SEQ;
    const int64_t chunk =
        ordered ? sw_sequence_chunk(p->sequence_layout, width, p->sequence_shards) : width;
    for (int64_t row = 0; row < count; row++)
        for (int64_t c = 0, run; c < columns; c += run) {
            int64_t at = first + c;
            run = chunk - at % chunk < columns - c ? chunk - at % chunk : columns - c;
            if (ordered)
                at = sw_sequence_position(p->sequence_layout, width, p->sequence_shards, at);
            memcpy(x->part + (row * columns + c) * element, rows + (row * width + at) * element,
                   (size_t)(run * element));
        }
}

static int write_input(struct sw_executor *x, const struct sw_walk *w, const struct sw_step *step,
                       const struct sw_feed *feed, struct sw_error *err)
{
    const struct sw_program *p = w->program;
    const struct sw_value *v = &p->values[sw_program_input(p, feed->name)];
    const bool single = v->ndim == 1;
    const int64_t held = single ? 1 : v->local[0];
    int64_t offset[SW_MAX_DIMS], all = single ? 1 : v->size[0];
    sw_shard_offset(&p->mesh, &v->sharding.spec, v->padded, x->comm->rank, offset);
    /* sequences of the batch: the last micro-step may have more rows than are left */
    if (v->axis[0] == SW_L_BATCH && w->pass == SW_PASS_LAST_MICRO_STEP)
        all -= p->padding_sequences;
    struct sw_ask ask = {.name = feed->name,
                         .step = step,
                         .first_row = single ? 0 : offset[0],
                         .row_elems = v->size[v->ndim - 1]};
    ask.rows = sw_shard_owned(all, ask.first_row, held);
    const size_t row_bytes = (size_t)ask.row_elems * sw_dtype_bytes(v->dtype);
    const char *rows = x->rows;
    char *to = x->arena + x->now->shift_bytes + v->offset;
    if (feed->data != NULL)
        rows = (const char *)feed->data + (size_t)ask.first_row * row_bytes;
    else if (ask.rows > 0 && feed->read(feed->context, &ask, x->rows, err) != 0)
        return -1;
    if (feed->used > 0 && feed->used < row_bytes) {
        for (int64_t r = 0; r < ask.rows; r++)
            if (x->device->vtable->copy_in(x->device, to + (size_t)r * row_bytes,
                                           rows + (size_t)r * row_bytes, feed->used) != 0)
                return sw_fail(err, SW_ENVIRONMENT, "cannot copy '%s' to the device", feed->name);
        return 0;
    }
    memset(x->part, feed->padding, (size_t)v->slot_bytes);
    take_columns(x, v, offset[v->ndim - 1], rows, ask.rows);
    if (x->device->vtable->copy_in(x->device, to, x->part, (size_t)v->slot_bytes) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot copy '%s' to the device", feed->name);
    return 0;
}

/* Writes the inputs of a micro-step. Copies to the device wait for its earlier work, a micro-step
 * behind the host: that wait also watches the other ranks. */
static int write_inputs(struct sw_executor *x, const struct sw_walk *w, const struct sw_step *step,
                        const struct sw_feed *feeds, int32_t count, struct sw_error *err)
{
    const struct sw_comm_vtable *comm = x->comm->vtable;
    if (w->pass != SW_PASS_UPDATE && comm->follow != NULL && comm->follow(x->comm, err) != 0)
        return -1;
    for (int32_t i = 0; i < count && w->pass != SW_PASS_UPDATE; i++)
        if ((feeds[i].read != NULL || (feeds[i].data != NULL && w->micro_step == 0)) &&
            write_input(x, w, step, &feeds[i], err) != 0)
            return -1;
    return 0;
}

static int fetch(struct sw_executor *x, const struct sw_fetch *fetch, struct sw_error *err)
{
    const struct sw_program *p = x->now->program;
    const int32_t value = sw_program_output(p, fetch->name);
    const struct sw_value *v = &p->values[value < 0 ? 0 : value];
    double wide = 0;
    float narrow = 0;
    void *number = v->dtype == SW_F64 ? (void *)&wide : (void *)&narrow;
    void *to = fetch->number != NULL ? number : fetch->data;
    const size_t bytes = fetch->number != NULL ? sw_dtype_bytes(v->dtype) : fetch->bytes;
    if (value < 0 || bytes != whole_bytes(v) || v->slot_bytes != (int64_t)bytes)
        return sw_fail(err, SW_ENVIRONMENT, "the program gives no '%s' of %zu bytes", fetch->name,
                       bytes);
    if (x->device->vtable->copy_out(x->device, to, x->arena + x->now->shift_bytes + v->offset,
                                    bytes) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot read '%s' from the device", fetch->name);
    if (fetch->number != NULL)
        *fetch->number = v->dtype == SW_F64 ? wide : (double)narrow;
    return 0;
}

/* ---- Running ---- */

/* Ends a recording with all calls it started, since no other can wait for them; likewise a step. */
static int wait_for_all(struct sw_executor *x, struct sw_error *err)
{
    for (int32_t v = 0; v < x->now->program->value_count; v++)
        if (wait_for(x, v, err) != 0)
            return -1;
    return 0;
}

/* Pauses the current run between ops; it then continues as if no other program had run. */
static int pause_run(struct sw_executor *x, struct sw_error *err)
{
    struct running *now = x->now;
    const struct sw_fetch *rounds = x->rounds;
    const struct pausing pausing = x->pausing;
    if (pausing.pause == NULL)
        return 0;
    const int status = pausing.pause(pausing.context, err);
    x->now = now;
    x->rounds = rounds;
    x->pausing = pausing;
    return status;
}

/* Issues all ops of the current pass. */
static int issue_pass(struct sw_executor *x, struct sw_walk *w, const struct sw_step *step,
                      struct sw_error *err)
{
    while (sw_walk_region(w))
        while (sw_walk_iteration(w))
            while (sw_walk_op(w)) {
                if (run_op(x, w->op, w->layer, step, err) != 0)
                    return sw_fail_context(err, "%s, %s", w->program->regions[w->region].name,
                                           sw_op_info(w->program->ops[w->op].kind)->name);
                if (pause_run(x, err) != 0)
                    return -1;
            }
    return 0;
}

void sw_executor_pause(struct sw_executor *x, sw_pause pause, void *context)
{
    x->asked = (struct pausing){pause, context};
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

int sw_executor_run(struct sw_executor *x, enum sw_program_kind program, const struct sw_step *step,
                    const struct sw_feed *feeds, int32_t feed_count, const struct sw_fetch *fetches,
                    int32_t fetch_count, struct sw_error *err)
{
    return sw_executor_run_size(x, program, 0, step, feeds, feed_count, fetches, fetch_count, err);
}

int sw_executor_run_size(struct sw_executor *x, enum sw_program_kind program, int32_t size,
                         const struct sw_step *step, const struct sw_feed *feeds,
                         int32_t feed_count, const struct sw_fetch *fetches, int32_t fetch_count,
                         struct sw_error *err)
{
    struct sw_step now = step != NULL ? *step : (struct sw_step){.step = 1, .loss_scale = 1};
    x->now = &x->programs[program][size];
    const struct sw_program *p = x->now->program;
    if (p == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "there is no program '%s'",
                       sw_program_kind_name(program));
    if (check_feeds(p, feeds, feed_count, err) != 0 || poison(x, err) != 0)
        return -1;
    x->rounds = NULL;
    x->pausing = x->asked;
    x->asked = (struct pausing){0};
    for (int32_t i = 0; i < fetch_count; i++)
        x->rounds = fetches[i].round != NULL ? &fetches[i] : x->rounds;
    for (struct sw_walk w = sw_walk_begin(p); sw_walk_pass(&w);) {
        now.micro_step = w.micro_step;
        if (write_inputs(x, &w, &now, feeds, feed_count, err) != 0 ||
            run_pass(x, &w, &now, err) != 0)
            return -1;
    }
    if (wait_for_all(x, err) != 0 ||
        (x->comm->vtable->settle != NULL && x->comm->vtable->settle(x->comm, err) != 0) ||
        x->device->vtable->synchronize(x->device, err) != 0)
        return -1;
    x->now->warm = true;
    for (int32_t i = 0; i < fetch_count; i++)
        if (fetches[i].round == NULL && fetch(x, &fetches[i], err) != 0)
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
    const bool moved = program->kind == SW_PROGRAM_DECODE && v->offset >= x->set->state.bytes;
    return x->arena + (moved ? x->set->decode_shift_bytes : 0) + v->offset +
           (instance % v->slots) * v->slot_bytes;
}

void *sw_executor_workspace(struct sw_executor *x)
{
    const struct sw_program *p = x->programs[SW_PROGRAM_SAVE][0].program;
    return p != NULL ? x->arena + p->ops[0].workspace_offset : NULL;
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
