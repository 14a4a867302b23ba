#include "runner/calibrate/gpu_links.h"

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/cost/links.h"
#include "core/ir/workspace_collective.h"
#include "runner/calibrate/gpu.h"
#include "runner/collective/call.h"

#include <math.h>
#include <stdlib.h>

enum {
    BATCHES = 5,
    MAX_REPEATS = 200,
    FIRST_BYTES = 16 << 10, /* then SW_LINK_GROWTH times more each: up to 512 MB */
    ENOUGH = 4,             /* sizes measured on any link, however slow */
    LATENCY_BYTES = 64,
    HOP_BYTES = 8 << 20
};

/* ---- As core/cost/links.c counts ---- */

double sw_gpu_link_steps(const struct sw_gpu_level *level, enum sw_collective kind)
{
    return sw_links_steps(level->direct, kind, level->members == 0, level->parts, level->parts - 1);
}

double sw_gpu_link_share(const struct sw_gpu_level *level, enum sw_collective kind)
{
    const int32_t ranks = level->parts * level->members;
    return sw_links_crossing(level->direct, kind, ranks, ranks, level->members, level->members,
                             level->parts, 1);
}

bool sw_gpu_link_rails(const struct sw_gpu_level *level, double ports)
{
    return level->members <= 1 || ports < sqrt(level->members);
}

/* ---- Memory that calls use ---- */

/* Lays out one call's operands from `memory`; NULL: only counts the bytes. */
static int64_t lay_out(struct sw_collective_call *call, enum sw_collective kind,
                       struct sw_axes axes, int32_t group, int64_t bytes, char *memory)
{
    const int64_t elems = sw_link_elems(kind, group, bytes), align = SW_ARENA_ALIGNMENT;
    const int64_t grown = kind == SW_ALL_GATHER ? elems * group : elems;
    const int64_t out_at = (elems * (int64_t)sizeof(float) / align + 1) * align;
    const int64_t work_at = out_at + (grown * (int64_t)sizeof(float) / align + 1) * align;
    *call = (struct sw_collective_call){.axes = axes, .dtype = SW_F32};
    sw_collective_call_shape(call, kind, 1, &elems, 0, 0);
    if (memory != NULL) {
        call->in[0] = memory;
        call->out[0] = kind == SW_ALL_REDUCE ? memory : memory + out_at; /* in place */
        call->workspace = memory + work_at;
    }
    const struct sw_collective_slots slots = sw_call_slots(call, group);
    return work_at + (slots.slots * slots.slot_bytes / align + 1) * align;
}

static int64_t memory_for(const struct sw_comm *comm, const struct sw_axes *axes, int32_t count,
                          int64_t bytes)
{
    struct sw_collective_call call;
    int64_t most = 2 * HOP_BYTES;
    for (int32_t g = 0; g < count; g++)
        for (int32_t k = 0; k < SW_LINK_KINDS; k++) {
            const int64_t needs = lay_out(&call, sw_link_kinds[k], axes[g],
                                          sw_axes_size(&comm->mesh, axes[g]), bytes, NULL);
            most = needs > most ? needs : most;
        }
    return most;
}

/* ---- Timing ---- */

struct probe {
    struct sw_device *device;
    struct sw_comm *comm;
    const struct sw_collective_call *call; /* NULL: a shift of HOP_BYTES */
    struct sw_axes axes;
    char *memory;
};

static int run(const struct probe *p, int32_t repeats, struct sw_error *err)
{
    const struct sw_comm_vtable *comm = p->comm->vtable;
    for (int32_t i = 0; i < repeats; i++) {
        uint64_t ticket;
        const int started = p->call != NULL
                                ? comm->start(p->comm, p->call, &ticket, err)
                                : comm->shift(p->comm, p->axes, p->memory, p->memory + HOP_BYTES,
                                              HOP_BYTES, &ticket, err);
        if (started != 0 || comm->wait(p->comm, ticket, err) != 0)
            return -1;
    }
    /* queued calls end when the device is done */
    if (comm->settle != NULL && comm->settle(p->comm, err) != 0)
        return -1;
    return p->device->vtable->synchronize(p->device, err);
}

/* Mean seconds of a call over a batch and over ranks. */
static int run_batch(const struct probe *p, int32_t repeats, double *seconds, struct sw_error *err)
{
    if (p->comm->vtable->barrier(p->comm, err) != 0)
        return -1;
    const double begin = sw_clock_now();
    if (run(p, repeats, err) != 0)
        return -1;
    *seconds = (sw_clock_now() - begin) / repeats;
    if (sw_calibrate_sum(p->comm, seconds, 1, err) != 0)
        return -1;
    *seconds /= p->comm->size;
    return 0;
}

/* Median of batches that take about `slot` seconds together. *spent: their total time, equal on
 * every rank. */
static int time_probe(const struct probe *p, double slot, double *seconds, double *spent,
                      struct sw_error *err)
{
    double batch[BATCHES], once, first;
    /* the first call connects the ranks */
    if (run_batch(p, 1, &first, err) != 0 || run_batch(p, 1, &once, err) != 0)
        return -1;
    const double wanted = slot / BATCHES / (once > 1e-7 ? once : 1e-7);
    const int32_t repeats = wanted < 1 ? 1 : wanted > MAX_REPEATS ? MAX_REPEATS : (int32_t)wanted;
    const int32_t batches = wanted < 1 ? 1 : BATCHES;
    *spent += first + once;
    for (int32_t i = 0; i < batches; i++) {
        if (run_batch(p, repeats, &batch[i], err) != 0)
            return -1;
        *spent += batch[i] * repeats;
    }
    qsort(batch, (size_t)batches, sizeof *batch, sw_compare_doubles);
    *seconds = batch[batches / 2];
    return 0;
}

/* ---- A level ---- */

struct level {
    struct sw_device *device;
    struct sw_comm *comm;
    const struct sw_gpu_level *level;
    struct sw_axes axes[2]; /* groups: one member of each part; all ranks */
    int32_t groups;
    char *memory;
    double slot, spent;
};

/* Latency inside nodes of a collective over all ranks. */
static double inner_latency(const struct sw_gpu_level *level, enum sw_collective kind)
{
    const int32_t ring_steps = level->parts * (level->members - 1);
    return sw_links_steps(level->direct, kind, true, level->members, ring_steps) *
           level->inner_latency_s;
}

/* Means over the kinds of calls that send `bytes` in groups [0, groups). */
static int measure_size(struct level *l, int32_t groups, int64_t bytes,
                        struct sw_link_measured *out, double *latency, struct sw_error *err)
{
    const double calls = (double)groups * SW_LINK_KINDS;
    *out = (struct sw_link_measured){0};
    *latency = 0;
    for (int32_t g = 0; g < groups; g++)
        for (int32_t k = 0; k < SW_LINK_KINDS; k++) {
            const enum sw_collective kind = sw_link_kinds[k];
            const int32_t group = sw_axes_size(&l->comm->mesh, l->axes[g]);
            const double sent =
                (double)sw_link_bytes(kind, group, sw_link_elems(kind, group, bytes));
            const double steps = sw_gpu_link_steps(l->level, kind);
            const double inner = g == 0 ? 0 : inner_latency(l->level, kind);
            struct sw_collective_call call;
            double seconds;
            (void)lay_out(&call, kind, l->axes[g], group, bytes, l->memory);
            const struct probe probe = {.device = l->device, .comm = l->comm, .call = &call};
            if (time_probe(&probe, l->slot, &seconds, &l->spent, err) != 0)
                return -1;
            out->bytes += sent / calls;
            out->crossing += sent * (g == 0 ? 1 : sw_gpu_link_share(l->level, kind)) / calls;
            out->seconds += (seconds > 2 * inner ? seconds - inner : seconds / 2) / calls;
            out->latencies += steps / calls;
            *latency += seconds / steps / calls;
        }
    return 0;
}

/* Sends around a ring of all ranks: only each node's last rank sends out of it. */
static int measure_rails(struct level *l, struct sw_link_rates *out, struct sw_error *err)
{
    double seconds;
    out->rails = true;
    if (l->groups < 2)
        return 0;
    const struct probe probe = {
        .device = l->device, .comm = l->comm, .axes = l->axes[1], .memory = l->memory};
    if (time_probe(&probe, l->slot, &seconds, &l->spent, err) != 0)
        return -1;
    out->rails = sw_gpu_link_rails(l->level, HOP_BYTES / seconds / out->bandwidth);
    return 0;
}

static int measure_level(struct level *l, double seconds, int64_t largest,
                         struct sw_link_rates *out, struct sw_error *err)
{
    struct sw_link_measured measured[SW_LINK_SIZES], smallest;
    int32_t sizes = 0;
    double ignored;
    *out = (struct sw_link_rates){.rings = !l->level->direct};
    if (measure_size(l, 1, LATENCY_BYTES, &smallest, &out->latency_s, err) != 0)
        return -1;
    for (int64_t bytes = FIRST_BYTES; sizes < SW_LINK_SIZES && bytes <= largest;
         bytes *= SW_LINK_GROWTH, sizes++) {
        /* at least three calls of each kind, SW_LINK_GROWTH times longer than the previous */
        if (sizes >= ENOUGH && l->spent + 3.0 * SW_LINK_GROWTH * SW_LINK_KINDS * l->groups *
                                              measured[sizes - 1].seconds >
                                   seconds)
            break;
        if (measure_size(l, l->groups, bytes, &measured[sizes], &ignored, err) != 0)
            return -1;
    }
    sw_link_points(out, measured, sizes);
    return measure_rails(l, out, err);
}

/* Largest size for which every rank has memory. */
static int find_largest(const struct level *l, int64_t *largest, struct sw_error *err)
{
    const struct sw_device_vtable *device = l->device->vtable;
    const int64_t available = device->free_bytes == NULL ? -1 : device->free_bytes(l->device);
    *largest = FIRST_BYTES;
    for (int32_t i = 1; i < SW_LINK_SIZES; i++) {
        const int64_t next = *largest * SW_LINK_GROWTH;
        double without =
            sw_gpu_fits(memory_for(l->comm, l->axes, l->groups, next), available) ? 0 : 1;
        if (sw_calibrate_sum(l->comm, &without, 1, err) != 0)
            return -1;
        if (without > 0.5)
            return 0;
        *largest = next;
    }
    return 0;
}

int sw_gpu_link(struct sw_device *device, struct sw_comm *comm, const struct sw_gpu_level *level,
                double seconds, struct sw_link_rates *out, struct sw_error *err)
{
    const bool in_node = level->members == 0;
    struct level l = {.device = device,
                      .comm = comm,
                      .level = level,
                      .axes = {{1, {in_node ? SW_TP : SW_DP}}, {2, {SW_DP, SW_TP}}},
                      .groups = level->members > 1 ? 2 : 1};
    int64_t largest;
    l.slot = seconds / ((SW_LINK_SIZES * l.groups + 1) * SW_LINK_KINDS + 1);
    if (find_largest(&l, &largest, err) != 0)
        return -1;
    const size_t bytes = (size_t)memory_for(comm, l.axes, l.groups, largest);
    const bool own = comm->vtable->allocate != NULL;
    l.memory = own ? comm->vtable->allocate(comm, bytes) : device->vtable->allocate(device, bytes);
    if (l.memory == NULL)
        (void)sw_fail(err, SW_ENVIRONMENT, "no %zu bytes of device memory to send", bytes);
    const bool together =
        comm->vtable->agree == NULL || comm->vtable->agree(comm, l.memory != NULL, err) == 0;
    if (!together || l.memory == NULL) {
        if (l.memory != NULL)
            own ? comm->vtable->release(comm, l.memory) : device->vtable->release(device, l.memory);
        return -1;
    }
    int status = 0;
    if (comm->vtable->attach != NULL)
        status = comm->vtable->attach(comm, l.memory, bytes, err);
    if (status == 0)
        status = measure_level(&l, seconds, largest, out, err);
    if (comm->vtable->attach != NULL && comm->vtable->attach(comm, NULL, 0, err) != 0)
        status = -1;
    if (own)
        comm->vtable->release(comm, l.memory);
    else
        device->vtable->release(device, l.memory);
    return status;
}
