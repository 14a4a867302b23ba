/* Communicator of one rank: every group has one member, so calls are immediate copies. */
#include "runner/collective/comm.h"
#include "runner/collective/direct.h"

#include <stdlib.h>

struct single {
    struct sw_comm comm;
    struct sw_direct direct; /* never sends */
    uint64_t started;
};

static int single_start(struct sw_comm *comm, const struct sw_collective_call *call,
                        uint64_t *ticket, struct sw_error *err)
{
    struct single *single = (struct single *)comm;
    if (sw_direct_collective(&single->direct, call, err) != 0) {
        const char *name =
            call->kind <= SW_ALL_TO_ALL ? sw_collective_name(call->kind) : "collective";
        return sw_fail_context(err, "rank 0: %s", name);
    }
    *ticket = ++single->started;
    return 0;
}

static int single_wait(struct sw_comm *comm, uint64_t ticket, struct sw_error *err)
{
    const struct single *single = (const struct single *)comm;
    if (ticket > single->started)
        return sw_fail(err, SW_BAD_INPUT, "rank 0: ticket %llu was never given out",
                       (unsigned long long)ticket);
    return 0;
}

static int single_shift(struct sw_comm *comm, struct sw_axes axes, const void *send, void *receive,
                        size_t bytes, uint64_t *ticket, struct sw_error *err)
{
    struct single *single = (struct single *)comm;
    if (sw_direct_shift(&single->direct, axes, send, receive, bytes, err) != 0)
        return sw_fail_context(err, "rank 0: shift");
    *ticket = ++single->started;
    return 0;
}

static int single_transfer(struct sw_comm *comm, int32_t to, const void *send, size_t send_bytes,
                           int32_t from, void *receive, size_t receive_bytes, uint64_t *ticket,
                           struct sw_error *err)
{
    struct single *single = (struct single *)comm;
    if (sw_direct_transfer(&single->direct, to, send, send_bytes, from, receive, receive_bytes,
                           err) != 0)
        return sw_fail_context(err, "rank 0: transfer");
    *ticket = ++single->started;
    return 0;
}

static int single_barrier(struct sw_comm *comm, struct sw_error *err)
{
    (void)comm;
    (void)err;
    return 0;
}

static void single_destroy(struct sw_comm *comm)
{
    if (comm != NULL)
        sw_direct_free(&((struct single *)comm)->direct);
    free(comm);
}

static const struct sw_comm_vtable single_vtable = {.start = single_start,
                                                    .wait = single_wait,
                                                    .shift = single_shift,
                                                    .transfer = single_transfer,
                                                    .barrier = single_barrier,
                                                    .destroy = single_destroy};

int sw_comm_single_create(struct sw_comm **out, struct sw_error *err)
{
    const struct sw_mesh mesh = sw_mesh_make(1, 1, 1, 1);
    struct single *single = calloc(1, sizeof *single);
    if (single == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "rank 0: out of memory for a communicator");
    single->comm = (struct sw_comm){.vtable = &single_vtable, .rank = 0, .size = 1, .mesh = mesh};
    if (sw_direct_init(&single->direct, NULL, &mesh, 0, 1, err) != 0) {
        single_destroy(&single->comm);
        return -1;
    }
    *out = &single->comm;
    return 0;
}
