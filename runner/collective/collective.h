/* Collectives between the ranks of a job, asynchronous and in order. Implementations: mpi.c (a
 * communication thread), single.c (one rank, nothing to do), threads.c (ranks are threads of one
 * process: tests).
 *
 * Calls are executed in the order they were started, on every rank in the same order. All sizes
 * count elements. */
#ifndef SW_COLLECTIVE_H
#define SW_COLLECTIVE_H

#include "core/ir/program.h"

struct sw_collective_call {
    enum sw_collective kind; /* not SW_SLICE */
    struct sw_axes axes;     /* the group, major to minor; member index = sw_axes_index */
    enum sw_dtype dtype;
    int32_t count; /* operands; > 1 only for all_reduce */
    const void *in[SW_COLLECTIVE_MAX_OPERANDS];
    void *out[SW_COLLECTIVE_MAX_OPERANDS];     /* all_reduce: may equal in */
    int64_t elems[SW_COLLECTIVE_MAX_OPERANDS]; /* local elements of each operand */
    /* local input shape as [outer, n, inner] around dim; all_gather: n -> n*group, reduce_scatter:
     * n -> n/group. all_to_all: input [outer, n, middle, m, inner]; the dimension `dim` is
     * gathered, `dim_to` split; dim_first: whether dim comes before dim_to. n and m are the sizes
     * of the earlier and the later dimension. */
    int64_t outer, n, middle, m, inner;
    bool dim_first;
    bool waited_next; /* the caller waits for it before it does anything else: nothing is won by
                         beginning it at once on another thread */
    void *workspace;  /* sw_op_info(...)->workspace bytes */
};

struct sw_comm;
struct sw_comm_vtable {
    int (*start)(struct sw_comm *comm, const struct sw_collective_call *call, uint64_t *ticket,
                 struct sw_error *err);
    /* Returns when the call with that ticket (and so every earlier one) is done. */
    int (*wait)(struct sw_comm *comm, uint64_t ticket, struct sw_error *err);
    /* Sends to the next member of the group, receives from the previous; ordered with the rest. */
    int (*shift)(struct sw_comm *comm, struct sw_axes axes, const void *send, void *receive,
                 size_t bytes, uint64_t *ticket, struct sw_error *err);
    /* A message to one rank of the mesh and one from another, of any length; ordered with the rest.
     * 0 bytes: none, and that rank is not looked at. The other side makes the call that goes with
     * it: each pair of ranks in the same order, and with as many bytes. To itself: only together
     * with from itself. */
    int (*transfer)(struct sw_comm *comm, int32_t to, const void *send, size_t send_bytes,
                    int32_t from, void *receive, size_t receive_bytes, uint64_t *ticket,
                    struct sw_error *err);
    int (*barrier)(struct sw_comm *comm, struct sw_error *err);
    void (*destroy)(struct sw_comm *comm);
    /* Both or neither may be NULL. Memory for an arena that the calls reach best, instead of the
     * device's own: fresh, zeroed; NULL when there is none. */
    void *(*allocate)(struct sw_comm *comm, size_t bytes);
    void (*release)(struct sw_comm *comm, void *memory);
    /* May be NULL. Collective, of whoever has an arena to attach and of whoever failed before that,
     * for attaching takes all: -1 when a rank is not ready, which err (filled unless it holds this
     * rank's own error) blames as its culprit. */
    int (*agree)(struct sw_comm *comm, bool ready, struct sw_error *err);
    /* May be NULL. The memory that calls will name, before the first of them; NULL, 0: no longer.
     */
    int (*attach)(struct sw_comm *comm, void *arena, size_t bytes, struct sw_error *err);
    /* NULL unless `queued`. The host waits until all that was queued on the device is done, as far
     * as it looks after the other ranks: an error or a stall of theirs ends the wait. */
    int (*settle)(struct sw_comm *comm, struct sw_error *err);
    /* NULL unless `queued`. As settle, of what was queued before the call before this one: for a
     * host that is about to wait for the device by itself, as far ahead as it is. */
    int (*follow)(struct sw_comm *comm, struct sw_error *err);
};
struct sw_comm {
    const struct sw_comm_vtable *vtable;
    int32_t rank, size;
    struct sw_mesh mesh;
    bool queued; /* calls are queued on the device like its ops: start and wait return at once, and
                    may be recorded */
};

#endif
