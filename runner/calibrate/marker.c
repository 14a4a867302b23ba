#include "runner/calibrate/marker.h"

#include <stdlib.h>

static struct sw_device *inner_of(struct sw_device *device)
{
    return ((struct sw_marker *)device)->inner;
}

static void *marked_allocate(struct sw_device *device, size_t bytes)
{
    return inner_of(device)->vtable->allocate(inner_of(device), bytes);
}

static void marked_release(struct sw_device *device, void *memory)
{
    inner_of(device)->vtable->release(inner_of(device), memory);
}

static int marked_copy_in(struct sw_device *device, void *to, const void *host, size_t bytes)
{
    return inner_of(device)->vtable->copy_in(inner_of(device), to, host, bytes);
}

static int marked_copy_out(struct sw_device *device, void *host, const void *from, size_t bytes)
{
    return inner_of(device)->vtable->copy_out(inner_of(device), host, from, bytes);
}

static int marked_synchronize(struct sw_device *device, struct sw_error *err)
{
    return inner_of(device)->vtable->synchronize(inner_of(device), err);
}

static int marked_set_step(struct sw_device *device, const struct sw_step *step,
                           struct sw_error *err)
{
    struct sw_device *inner = inner_of(device);
    return inner->vtable->set_step == NULL ? 0 : inner->vtable->set_step(inner, step, err);
}

static int64_t marked_free_bytes(struct sw_device *device)
{
    struct sw_device *inner = inner_of(device);
    return inner->vtable->free_bytes == NULL ? -1 : inner->vtable->free_bytes(inner);
}

static int put_mark(struct sw_marker *m, int32_t what, struct sw_error *err)
{
    if (m->count == m->capacity)
        return sw_fail(err, SW_ENVIRONMENT, "a step has more ops than its program");
    m->what[m->count] = what;
    return m->inner->vtable->mark(m->inner, m->count++, err);
}

static int marked_record_begin(struct sw_device *device, struct sw_error *err)
{
    struct sw_marker *m = (struct sw_marker *)device;
    if (m->inner->vtable->record_begin(m->inner, err) != 0)
        return -1;
    m->recording = true;
    return put_mark(m, SW_MARK_BEGINS, err);
}

static int marked_record_end(struct sw_device *device, struct sw_recording **out,
                             struct sw_error *err)
{
    struct sw_marker *m = (struct sw_marker *)device;
    const int marked = out == NULL ? 0 : put_mark(m, SW_MARK_ENDS, err);
    m->recording = false;
    if (marked == 0)
        return m->inner->vtable->record_end(m->inner, out, err);
    (void)m->inner->vtable->record_end(m->inner, NULL, NULL);
    return -1;
}

static int marked_replay(struct sw_device *device, struct sw_recording *recording,
                         struct sw_error *err)
{
    return inner_of(device)->vtable->replay(inner_of(device), recording, err);
}

static void marked_recording_free(struct sw_device *device, struct sw_recording *recording)
{
    inner_of(device)->vtable->recording_free(inner_of(device), recording);
}

static int marked_run(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct sw_marker *m = (struct sw_marker *)device;
    if (m->inner->vtable->run[call->op->kind](m->inner, call, err) != 0)
        return -1;
    const int32_t op = (int32_t)(call->op - m->program->ops);
    return m->recording && m->every ? put_mark(m, op, err) : 0;
}

/* Number of marks for one step's recordings. With several micro-steps the last has its own
 * recordings. */
static int32_t most_marks(const struct sw_program *p)
{
    int32_t marks = 0;
    for (int32_t r = 0; r < p->region_count; r++) {
        const bool once = p->accumulation_steps == 1 || p->regions[r].phase == SW_PHASE_UPDATE;
        marks += (once ? 1 : 2) * (p->regions[r].op_count * p->regions[r].repeat + 2);
    }
    return marks;
}

int sw_marker_init(struct sw_marker *m, struct sw_device *inner, const struct sw_program *program,
                   bool every, struct sw_error *err)
{
    *m = (struct sw_marker){
        .inner = inner, .program = program, .every = every, .capacity = most_marks(program)};
    m->what = calloc((size_t)m->capacity, sizeof *m->what);
    if (m->what == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for timings");
    m->table = (struct sw_device_vtable){.name = inner->vtable->name,
                                         .allocate = marked_allocate,
                                         .release = marked_release,
                                         .copy_in = marked_copy_in,
                                         .copy_out = marked_copy_out,
                                         .synchronize = marked_synchronize,
                                         .set_step = marked_set_step,
                                         .free_bytes = marked_free_bytes,
                                         .record_begin = marked_record_begin,
                                         .record_end = marked_record_end,
                                         .replay = marked_replay,
                                         .recording_free = marked_recording_free};
    for (int32_t kind = 0; kind < SW_OP_COUNT; kind++)
        m->table.run[kind] = inner->vtable->run[kind] == NULL ? NULL : marked_run;
    m->base.vtable = &m->table;
    /* creates all marks, which a recording cannot do */
    return inner->vtable->mark(inner, m->capacity - 1, err);
}

void sw_marker_free(struct sw_marker *m)
{
    free(m->what);
    m->what = NULL;
}
