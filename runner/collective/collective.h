/* Collectives between the ranks of a job, asynchronous and in order. Implementations: mpi.c (a
 * communication thread), nccl.c (GPUs), staged.c (device memory over another one), single.c (one
 * rank), threads.c (ranks are threads of one process: tests).
 *
 * Calls execute in the order of their starts, which is the same on every rank. Sizes count
 * elements. */
#ifndef SW_COLLECTIVE_H
#define SW_COLLECTIVE_H

#include "core/ir/program.h"

struct sw_collective_call {
    enum sw_collective kind; /* not SW_SLICE */
    struct sw_axes axes;     /* the group, major to minor; member index: sw_axes_index */
    enum sw_dtype dtype;
    int32_t count; /* operands; > 1 only for all_reduce */
    const void *in[SW_COLLECTIVE_MAX_OPERANDS];
    void *out[SW_COLLECTIVE_MAX_OPERANDS];     /* all_reduce: may equal in */
    int64_t elems[SW_COLLECTIVE_MAX_OPERANDS]; /* local elements of each operand */
    /* local input shape as [outer, n, inner] around dim; all_gather: n -> n*group, reduce_scatter:
     * n -> n/group. all_to_all: input [outer, n, middle, m, inner] gathers dimension `dim` and
     * splits `dim_to`; dim_first: true if dim precedes dim_to. n and m: sizes of the earlier and
     * the later dimension. */
    int64_t outer, n, middle, m, inner;
    bool dim_first;
    bool waited_next; /* true if the caller waits next: another thread would gain nothing */
    void *workspace;  /* sw_op_info(...)->workspace bytes */
};

struct sw_comm;
struct sw_comm_vtable {
    int (*start)(struct sw_comm *comm, const struct sw_collective_call *call, uint64_t *ticket,
                 struct sw_error *err);
    /* Returns when the call of that ticket and all earlier ones are done. */
    int (*wait)(struct sw_comm *comm, uint64_t ticket, struct sw_error *err);
    /* Sends to the group's next member and receives from its previous one; ordered with the other
     * calls. */
    int (*shift)(struct sw_comm *comm, struct sw_axes axes, const void *send, void *receive,
                 size_t bytes, uint64_t *ticket, struct sw_error *err);
    /* Sends to one rank of the mesh and receives from another, any length; ordered with the other
     * calls. 0 bytes: no message, rank ignored. The peers make matching calls of equal bytes, in
     * the same order for each pair of ranks. A rank may only send to itself while receiving from
     * itself. */
    int (*transfer)(struct sw_comm *comm, int32_t to, const void *send, size_t send_bytes,
                    int32_t from, void *receive, size_t receive_bytes, uint64_t *ticket,
                    struct sw_error *err);
    int (*barrier)(struct sw_comm *comm, struct sw_error *err);
    void (*destroy)(struct sw_comm *comm);
    /* Both or neither may be NULL. Zeroed arena memory that suits the calls, instead of the
     * device's own; NULL if there is none. */
    void *(*allocate)(struct sw_comm *comm, size_t bytes);
    void (*release)(struct sw_comm *comm, void *memory);
    /* May be NULL. Collective, also for ranks that failed before, since attaching needs all: -1 if
     * a rank is not ready, which err names as culprit (unless this rank's own error is set). */
    int (*agree)(struct sw_comm *comm, bool ready, struct sw_error *err);
    /* May be NULL. Registers the memory of later calls, before the first of them; NULL, 0:
     * unregisters it. */
    int (*attach)(struct sw_comm *comm, void *arena, size_t bytes, struct sw_error *err);
    /* NULL unless `queued`. The host waits until the device has done everything queued, watching
     * the other ranks: their error or stall ends the wait. */
    int (*settle)(struct sw_comm *comm, struct sw_error *err);
    /* NULL unless `queued`. `settle` for everything queued before the previous `follow`, so that
     * the host stays one call ahead before it waits for the device. */
    int (*follow)(struct sw_comm *comm, struct sw_error *err);
};
struct sw_comm {
    const struct sw_comm_vtable *vtable;
    int32_t rank, size;
    struct sw_mesh mesh;
    bool queued; /* true if calls are queued on the device like ops: start and wait return at once
                  * and may be recorded */
};

#endif
