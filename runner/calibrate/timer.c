#include "runner/calibrate/timer.h"

#include "core/base/clock.h"

double sw_timer_clock(void)
{
    double least = 1;
    for (int32_t i = 0; i < 100; i++) {
        const double begin = sw_clock_busy(), took = sw_clock_busy() - begin;
        least = took < least ? took : least;
    }
    return least;
}

static struct sw_device *inner_of(struct sw_device *device)
{
    return ((struct sw_timer *)device)->inner;
}

static void *timed_allocate(struct sw_device *device, size_t bytes)
{
    return inner_of(device)->vtable->allocate(inner_of(device), bytes);
}

static void timed_release(struct sw_device *device, void *memory)
{
    inner_of(device)->vtable->release(inner_of(device), memory);
}

static int timed_copy_in(struct sw_device *device, void *to, const void *host, size_t bytes)
{
    return inner_of(device)->vtable->copy_in(inner_of(device), to, host, bytes);
}

static int timed_copy_out(struct sw_device *device, void *host, const void *from, size_t bytes)
{
    return inner_of(device)->vtable->copy_out(inner_of(device), host, from, bytes);
}

static int timed_synchronize(struct sw_device *device, struct sw_error *err)
{
    return inner_of(device)->vtable->synchronize(inner_of(device), err);
}

static int timed_run(struct sw_device *device, const struct sw_call *call, struct sw_error *err)
{
    struct sw_timer *timer = (struct sw_timer *)device;
    struct sw_device *inner = timer->inner;
    const double begin = sw_clock_busy();
    const int status = inner->vtable->run[call->op->kind](inner, call, err);
    if (inner->vtable->synchronize(inner, err) != 0)
        return -1;
    const double took = sw_clock_busy() - begin - timer->clock;
    timer->busy[call->op - timer->program->ops] += took > 0 ? took : 0;
    return status;
}

void sw_timer_init(struct sw_timer *timer, struct sw_device *inner,
                   const struct sw_program *program, double *busy)
{
    *timer = (struct sw_timer){
        .inner = inner, .program = program, .clock = sw_timer_clock(), .busy = busy};
    timer->table = (struct sw_device_vtable){.name = inner->vtable->name,
                                             .in_host_memory = inner->vtable->in_host_memory,
                                             .allocate = timed_allocate,
                                             .release = timed_release,
                                             .copy_in = timed_copy_in,
                                             .copy_out = timed_copy_out,
                                             .tiles = inner->vtable->tiles,
                                             .synchronize = timed_synchronize};
    for (int32_t kind = 0; kind < SW_OP_COUNT; kind++)
        timer->table.run[kind] = inner->vtable->run[kind] == NULL ? NULL : timed_run;
    timer->base.vtable = &timer->table;
}
