/* The collective algorithms, written once over messages between pairs of ranks.
 *
 * Every collective is a direct exchange: each member sends each other member its block. That moves
 * the same bytes as a ring, in one round instead of group-1 (with more ranks than cores a round
 * costs a context switch), and lets a sum be taken over all members at once: in member order,
 * rounded once, so a result depends neither on timing nor on how a tensor is cut into messages, and
 * is the same on all members. A large block takes several rounds of bounded messages: no count
 * overflows an int, the pieces fit their slots of workspace, and what goes to many members stays in
 * cache.
 *
 * Between nodes a block goes once to each node, of a group with m members on each: to the member in
 * the sender's place there, which hands it on inside. So the network carries an m-th of a direct
 * exchange's bytes, as much as a ring that enters each node once (hierarchical collectives: Thakur,
 * Rabenseifner, Gropp 2005). Blocks below SW_BY_NODE_BYTES and all_to_all go directly. Either way a
 * sum is made inside each node first, in member order and rounded to its dtype, then over the
 * nodes, in the order of ranks: a result depends on how many members share a node, not on sizes.
 * Where the groups over some axes do not all have as many on each node, none of them does so.
 *
 * Blocking; asynchrony is queue.c's business. */
#ifndef SW_COLLECTIVE_DIRECT_H
#define SW_COLLECTIVE_DIRECT_H

#include "runner/collective/call.h"
#include "runner/collective/topology.h"

/* Shorter blocks go to each member: rounds inside a node would take longer than they save. */
enum { SW_BY_NODE_BYTES = 8 << 10 };

struct sw_transfer {
    int32_t peer; /* rank */
    size_t bytes; /* > 0 */
    union {
        const void *send;
        void *receive;
    } data;
    /* Of one that is received, where its transport scatters: bytes from `first` on of this block of
     * the array at `receive`. No rows: the bytes lie together. */
    struct sw_block block;
    int64_t first;
};

/* Messages between ranks; implemented by mpi.c and threads.c. Between two ranks they arrive in the
 * order they were sent. Used by one thread at a time. */
struct sw_transport;
struct sw_transport_vtable {
    /* Starts all of them, returns when all are done. Never spins. */
    int (*exchange)(struct sw_transport *transport, const struct sw_transfer *sends,
                    int32_t send_count, const struct sw_transfer *receives, int32_t receive_count,
                    struct sw_error *err);
    /* Whether what comes from this rank may go into rows of so many bytes. */
    bool (*scatters)(const struct sw_transport *transport, int32_t peer, int64_t row_bytes);
    /* This rank takes part no longer: whoever waits for it gets an error, where the transport can
     * tell them. */
    void (*leave)(struct sw_transport *transport);
    void (*destroy)(struct sw_transport *transport); /* failed or not */
};
struct sw_transport {
    const struct sw_transport_vtable *vtable;
    bool network;        /* messages come from other nodes, too */
    const int32_t *node; /* [ranks] the node of each, as the lowest rank on it; NULL: all on one */
};

/* One rank's end. Owns the arrays, borrows the transport. */
struct sw_direct {
    struct sw_transport *transport;
    struct sw_mesh mesh;
    int32_t rank, group_max;
    int64_t message_bytes_max;            /* of a collective; a multiple of SW_SLOT_ALIGNMENT */
    int64_t shift_bytes_max;              /* of a shift or a transfer */
    struct sw_transfer *sends, *receives; /* [group_max] each */
    struct sw_transfer *parts;            /* [group_max] what comes from each place */
    struct sw_topology topology;
    const void **sources; /* [group_max] */
};

/* 8 ranks on 2 cores gathered 8 x 16 MiB in about half the time with messages of 0.5 to 2 MiB than
 * with whole blocks, and slower again with smaller ones. A shift has one partner: nothing to keep
 * in cache. */
enum { SW_MESSAGE_BYTES_MAX = 2 << 20, SW_SHIFT_BYTES_MAX = 1 << 30 };

/* Errors (SW_ENVIRONMENT): out of memory. Free with sw_direct_free either way. */
int sw_direct_init(struct sw_direct *direct, struct sw_transport *transport,
                   const struct sw_mesh *mesh, int32_t rank, int32_t group_max,
                   struct sw_error *err);
void sw_direct_free(struct sw_direct *direct);

int sw_direct_collective(struct sw_direct *direct, const struct sw_collective_call *call,
                         struct sw_error *err);
/* As sw_comm_vtable's; in pieces, like a shift. */
int sw_direct_transfer(struct sw_direct *direct, int32_t to, const void *send, size_t send_bytes,
                       int32_t from, void *receive, size_t receive_bytes, struct sw_error *err);
/* Whether the ranks are of the mesh, and what is sent to itself is received. Errors: SW_BAD_INPUT.
 */
int sw_direct_transfer_check(const struct sw_mesh *mesh, int32_t rank, int32_t to,
                             size_t send_bytes, int32_t from, size_t receive_bytes,
                             struct sw_error *err);
/* "transfer to rank 1, from rank 2" into buffer; returns buffer. */
char *sw_direct_transfer_format(int32_t to, size_t send_bytes, int32_t from, size_t receive_bytes,
                                char *buffer, size_t buffer_bytes);
int sw_direct_shift(struct sw_direct *direct, struct sw_axes axes, const void *send, void *receive,
                    size_t bytes, struct sw_error *err);
/* All ranks of the mesh, in log2(ranks) rounds. */
int sw_direct_barrier(struct sw_direct *direct, struct sw_error *err);

#endif
