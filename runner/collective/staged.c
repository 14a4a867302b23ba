/* Runs another communicator's collectives for memory it cannot access: copies a call's input from
 * the device to a host mirror of the arena, and its output back at the wait. The mirror has the
 * arena's layout, so non-overlap carries over. For several ranks on one GPU, where NCCL refuses,
 * and machines without NCCL; slow, and correct with any device. */
#include "runner/collective/staged.h"

#include "core/base/number.h"

#include <stdlib.h>
#include <string.h>

enum { PENDING = 64 };

/* Output of a started call. */
struct pending {
    uint64_t ticket;
    int32_t count;
    void *device[SW_COLLECTIVE_MAX_OPERANDS];
    const void *host[SW_COLLECTIVE_MAX_OPERANDS];
    size_t bytes[SW_COLLECTIVE_MAX_OPERANDS];
};

struct staged {
    struct sw_comm comm;
    struct sw_comm *inner;
    struct sw_device *device;
    char *arena, *mirror;
    size_t bytes;
    struct pending pending[PENDING]; /* oldest at `first` */
    int32_t first, count;
};

/* Mirror of an arena address; host addresses stay. */
static void *mirror_of(const struct staged *s, const void *address)
{
    const uintptr_t at = (uintptr_t)address, base = (uintptr_t)s->arena;
    if (s->arena == NULL || at < base || at >= base + s->bytes)
        return (void *)at;
    return s->mirror + (at - base);
}

/* Finishes the oldest call: copies its output to the device. */
static int finish_oldest(struct staged *s, struct sw_error *err)
{
    const struct pending *p = &s->pending[s->first];
    s->first = (s->first + 1) % PENDING;
    s->count--;
    if (s->inner->vtable->wait(s->inner, p->ticket, err) != 0)
        return -1;
    for (int32_t i = 0; i < p->count; i++)
        if (p->host[i] != p->device[i] &&
            s->device->vtable->copy_in(s->device, p->device[i], p->host[i], p->bytes[i]) != 0)
            return sw_fail(err, SW_ENVIRONMENT, "rank %d: cannot copy to the device",
                           (int)s->comm.rank);
    return 0;
}

/* True if an unfinished call writes to these bytes of the arena. */
static bool is_written(const struct staged *s, const void *address, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    for (int32_t k = 0; k < s->count; k++) {
        const struct pending *p = &s->pending[(s->first + k) % PENDING];
        for (int32_t i = 0; i < p->count; i++) {
            const uintptr_t at = (uintptr_t)p->device[i];
            if (begin < at + p->bytes[i] && at < end)
                return true;
        }
    }
    return false;
}

/* Copies a call's input to the mirror, except what an unfinished call writes: the mirror is newer
 * there. */
static int fetch(struct staged *s, const void *address, size_t bytes, struct sw_error *err)
{
    void *host = mirror_of(s, address);
    if (host == address)
        return 0;
    while (is_written(s, address, bytes))
        if (finish_oldest(s, err) != 0)
            return -1;
    if (s->device->vtable->copy_out(s->device, host, address, bytes) != 0)
        return sw_fail(err, SW_ENVIRONMENT, "rank %d: cannot copy from the device",
                       (int)s->comm.rank);
    return 0;
}

static struct pending *begin(struct staged *s, struct sw_error *err)
{
    if (s->count == PENDING && finish_oldest(s, err) != 0)
        return NULL;
    struct pending *p = &s->pending[(s->first + s->count) % PENDING];
    p->count = 0;
    return p;
}

static void add_result(struct staged *s, struct pending *p, void *address, size_t bytes)
{
    p->device[p->count] = address;
    p->host[p->count] = mirror_of(s, address);
    p->bytes[p->count++] = bytes;
}

static size_t result_bytes(const struct staged *s, const struct sw_collective_call *call, int32_t i)
{
    const size_t bytes = (size_t)call->elems[i] * sw_dtype_bytes(call->dtype);
    const size_t group = (size_t)sw_axes_size(&s->comm.mesh, call->axes);
    if (call->kind == SW_ALL_GATHER)
        return bytes * group;
    return call->kind == SW_REDUCE_SCATTER ? bytes / group : bytes;
}

static int staged_start(struct sw_comm *comm, const struct sw_collective_call *call,
                        uint64_t *ticket, struct sw_error *err)
{
    struct staged *s = (struct staged *)comm;
    struct sw_collective_call host = *call;
    struct pending *p = begin(s, err);
    if (p == NULL)
        return -1;
    for (int32_t i = 0; i < call->count; i++) {
        if (fetch(s, call->in[i], (size_t)call->elems[i] * sw_dtype_bytes(call->dtype), err) != 0)
            return -1;
        host.in[i] = mirror_of(s, call->in[i]);
        host.out[i] = mirror_of(s, call->out[i]);
        add_result(s, p, call->out[i], result_bytes(s, call, i));
    }
    host.workspace = mirror_of(s, call->workspace);
    if (s->inner->vtable->start(s->inner, &host, &p->ticket, err) != 0)
        return -1;
    *ticket = p->ticket;
    s->count++;
    return 0;
}

static int staged_shift(struct sw_comm *comm, struct sw_axes axes, const void *send, void *receive,
                        size_t bytes, uint64_t *ticket, struct sw_error *err)
{
    struct staged *s = (struct staged *)comm;
    struct pending *p = begin(s, err);
    if (p == NULL || fetch(s, send, bytes, err) != 0)
        return -1;
    add_result(s, p, receive, bytes);
    if (s->inner->vtable->shift(s->inner, axes, mirror_of(s, send), mirror_of(s, receive), bytes,
                                &p->ticket, err) != 0)
        return -1;
    *ticket = p->ticket;
    s->count++;
    return 0;
}

static int staged_transfer(struct sw_comm *comm, int32_t to, const void *send, size_t send_bytes,
                           int32_t from, void *receive, size_t receive_bytes, uint64_t *ticket,
                           struct sw_error *err)
{
    struct staged *s = (struct staged *)comm;
    struct pending *p = begin(s, err);
    if (p == NULL || (send_bytes > 0 && fetch(s, send, send_bytes, err) != 0))
        return -1;
    if (receive_bytes > 0)
        add_result(s, p, receive, receive_bytes);
    if (s->inner->vtable->transfer(s->inner, to, mirror_of(s, send), send_bytes, from,
                                   mirror_of(s, receive), receive_bytes, &p->ticket, err) != 0)
        return -1;
    *ticket = p->ticket;
    s->count++;
    return 0;
}

static int staged_wait(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    struct staged *s = (struct staged *)comm;
    while (s->count > 0 && s->pending[s->first].ticket <= ticket)
        if (finish_oldest(s, err) != 0)
            return -1;
    return 0;
}

static int staged_barrier(struct sw_comm *comm, struct sw_error *err)
{
    struct staged *s = (struct staged *)comm;
    return s->inner->vtable->barrier(s->inner, err);
}

static int staged_attach(struct sw_comm *comm, void *arena, size_t bytes, struct sw_error *err)
{
    struct staged *s = (struct staged *)comm;
    while (s->count > 0) /* no writes to a freed mirror */
        if (finish_oldest(s, err) != 0)
            return -1;
    free(s->mirror);
    s->arena = NULL;
    s->mirror = NULL;
    s->bytes = 0;
    if (arena == NULL || bytes == 0)
        return 0;
    const size_t rounded = (size_t)sw_align((int64_t)bytes, SW_ARENA_ALIGNMENT);
    s->mirror = aligned_alloc(SW_ARENA_ALIGNMENT, rounded);
    if (s->mirror == NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "rank %d: no %zu bytes of host memory to stage collectives through",
                       (int)comm->rank, rounded);
    s->arena = arena;
    s->bytes = bytes;
    return 0;
}

static void staged_destroy(struct sw_comm *comm)
{
    struct staged *s = (struct staged *)comm;
    if (s == NULL)
        return;
    s->inner->vtable->destroy(s->inner); /* finishes started calls, in the mirror */
    free(s->mirror);
    free(s);
}

static const struct sw_comm_vtable staged_vtable = {.start = staged_start,
                                                    .wait = staged_wait,
                                                    .shift = staged_shift,
                                                    .transfer = staged_transfer,
                                                    .barrier = staged_barrier,
                                                    .destroy = staged_destroy,
                                                    .attach = staged_attach};

int sw_comm_staged_create(struct sw_comm *inner, struct sw_device *device, struct sw_comm **out,
                          struct sw_error *err)
{
    struct staged *s = calloc(1, sizeof *s);
    if (s == NULL) {
        inner->vtable->destroy(inner);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for a communicator");
    }
    s->comm = *inner;
    s->comm.vtable = &staged_vtable;
    s->comm.queued = false;
    s->inner = inner;
    s->device = device;
    *out = &s->comm;
    return 0;
}
