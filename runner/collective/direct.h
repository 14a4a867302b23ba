/* The collective algorithms, written once over messages between pairs of ranks.
 *
 * Every collective is a direct exchange: each member sends each other member its block. That moves
 * the same bytes as a ring in one round instead of group-1 (with more ranks than cores each round
 * costs a context switch). All members' parts arrive together and are summed in member order,
 * rounded once: a result depends neither on timing nor on message sizes, and is the same on all
 * members. Large blocks take several rounds of bounded messages: no count overflows an int, pieces
 * fit the workspace slots, and data for many members stays in cache.
 *
 * Between nodes, a block goes once to each node, in a group with m members on each: to the member
 * at the sender's position there, which passes it on within the node. The network carries an m-th
 * of a direct exchange's bytes, like a ring that enters each node once (hierarchical collectives:
 * Thakur, Rabenseifner, Gropp 2005). Blocks below SW_BY_NODE_BYTES, and all_to_all, go directly.
 * Either way a sum is first made within each node, in member order and rounded to its dtype, then
 * over nodes in rank order: a result depends on the members per node, not on sizes. If the groups
 * over some axes differ in members per node, no group over these axes goes by node.
 *
 * Blocking; queue.c makes calls asynchronous. */
#ifndef SW_COLLECTIVE_DIRECT_H
#define SW_COLLECTIVE_DIRECT_H

#include "runner/collective/call.h"
#include "runner/collective/topology.h"

/* Shorter blocks go to each member: rounds within a node would cost more than they save. */
enum { SW_BY_NODE_BYTES = 8 << 10 };

struct sw_transfer {
    int32_t peer; /* rank */
    size_t bytes; /* > 0 */
    union {
        const void *send;
        void *receive;
    } data;
    /* Received, if the transport scatters: bytes from `first` of this block of the array at
     * `receive`. No rows: contiguous. */
    struct sw_block block;
    int64_t first;
};

/* Messages between ranks; implemented by mpi.c and threads.c. Ordered between two ranks. Used by
 * one thread at a time. */
struct sw_transport;
struct sw_transport_vtable {
    /* Starts all messages and returns when all are done. Never spins. */
    int (*exchange)(struct sw_transport *transport, const struct sw_transfer *sends,
                    int32_t send_count, const struct sw_transfer *receives, int32_t receive_count,
                    struct sw_error *err);
    /* True if bytes from this rank may be scattered into rows of row_bytes. */
    bool (*scatters)(const struct sw_transport *transport, int32_t peer, int64_t row_bytes);
    /* Leaves: ranks that wait for this one get an error, if the transport can tell them. */
    void (*leave)(struct sw_transport *transport);
    void (*destroy)(struct sw_transport *transport); /* after success or failure */
};
struct sw_transport {
    const struct sw_transport_vtable *vtable;
    bool network;        /* true if some messages come from other nodes */
    const int32_t *node; /* [ranks] each one's node, as its lowest rank; NULL: all on one node */
};

/* One rank's end. Owns the arrays, borrows the transport. */
struct sw_direct {
    struct sw_transport *transport;
    struct sw_mesh mesh;
    int32_t rank, group_max;
    int64_t message_bytes_max;            /* largest collective message, in whole slot alignments */
    int64_t shift_bytes_max;              /* largest of a shift or transfer */
    struct sw_transfer *sends, *receives; /* [group_max] each */
    struct sw_transfer *parts;            /* [group_max] the receive from each position */
    struct sw_topology topology;
    const void **sources; /* [group_max] */
};

/* 8 ranks on 2 cores gathered 8 x 16 MiB in half the time with messages of 0.5 to 2 MiB, compared
 * to whole blocks; smaller messages were slower again. A shift has one partner and nothing to keep
 * in cache. */
enum { SW_MESSAGE_BYTES_MAX = 2 << 20, SW_SHIFT_BYTES_MAX = 1 << 30 };

/* Errors (SW_ENVIRONMENT): out of memory. Call sw_direct_free in any case. */
int sw_direct_init(struct sw_direct *direct, struct sw_transport *transport,
                   const struct sw_mesh *mesh, int32_t rank, int32_t group_max,
                   struct sw_error *err);
void sw_direct_free(struct sw_direct *direct);

int sw_direct_collective(struct sw_direct *direct, const struct sw_collective_call *call,
                         struct sw_error *err);
/* sw_comm_vtable's transfer, in pieces like a shift. */
int sw_direct_transfer(struct sw_direct *direct, int32_t to, const void *send, size_t send_bytes,
                       int32_t from, void *receive, size_t receive_bytes, struct sw_error *err);
/* Checks that both ranks are in the mesh and that sends to itself are received. Errors:
 * SW_BAD_INPUT. */
int sw_direct_transfer_check(const struct sw_mesh *mesh, int32_t rank, int32_t to,
                             size_t send_bytes, int32_t from, size_t receive_bytes,
                             struct sw_error *err);
/* Formats "transfer to rank 1, from rank 2" into buffer; returns buffer. */
char *sw_direct_transfer_format(int32_t to, size_t send_bytes, int32_t from, size_t receive_bytes,
                                char *buffer, size_t buffer_bytes);
int sw_direct_shift(struct sw_direct *direct, struct sw_axes axes, const void *send, void *receive,
                    size_t bytes, struct sw_error *err);
/* Barrier of all ranks of the mesh, in log2(ranks) rounds. */
int sw_direct_barrier(struct sw_direct *direct, struct sw_error *err);

#endif
