/* Hops of attention's ring: the owner of the keys that a rank attends with in each hop, and what
 * the rank sends meanwhile. Executors, prices and traffic all ask sw_ring_hop; no other code counts
 * hops.
 *
 * k and v of a hop leave before the rank attends with them, dk and dv afterwards. One ring has as
 * many hops as members, in a single round. With inner rings (workspace.h) a round has one hop for
 * each member of an inner ring: its first block leaves for the next ring in as many pieces, one
 * with each hop, while the blocks of the ring's members pass by. Pieces keep calls short: calls run
 * in the order of their starts, and a whole block on a slow link would hold up the hops behind it.
 * After the last hop of inner rings dk and dv go on to the ring that owns their block.
 *
 * A window that reaches no further than the chunk before needs no ring: each rank sends the last
 * positions of its chunks straight to the rank of the chunk behind: the next rank, and for zigzag's
 * chunks beyond the middle the previous one. Hop 0 uses the rank's own keys, the others those that
 * arrived; dk and dv return the way k and v came. Positions that arrive where no chunk before
 * exists are seen by no query (sw_ring_halo_position).
 *
 * Pure functions of sizes; nothing is owned. */
#ifndef SW_RING_H
#define SW_RING_H

#include "core/ir/workspace.h"

/* Ring of an attention(_grad) op. */
struct sw_ring_blocks {
    int32_t ranks, rings; /* ranks of all rings; number of inner rings (1: one ring) */
    int32_t halos;        /* chunks whose last positions are sent; 0: all keys travel around */
    double beside; /* size of such ends as a share of the keys that a rank attends with; else 0 */
    int64_t travel_bytes, sum_bytes; /* k and v of a rank; dk and dv as sent (attention: 0) */
    /* Bytes read and written to convert a block: k and v from bf16 in each hop; dk and dv to bf16
     * before they leave, and once when they are home. 0: sent in the compute precision. */
    int64_t widen_bytes, narrow_bytes;
};
void sw_ring_blocks_of(const struct sw_program *program, const struct sw_op *op,
                       struct sw_ring_blocks *out);

/* Bytes [first, first + bytes) of a block go to member `to` of the ring while the same bytes of
 * another block come from `from`. bytes 0: nothing is sent. */
struct sw_ring_message {
    int32_t to, from;
    int64_t first, bytes;
};
/* Destination of a message: the next member of the inner ring, or the same member of the next
 * ring. */
enum sw_hop_way { SW_HOP_WITHIN, SW_HOP_ACROSS, SW_HOP_WAYS };
struct sw_ring_hop {
    int32_t round, at; /* index of the round; of the hop in it */
    int32_t owner;     /* rank whose k and v, or the end of one of its chunks, are at hand */
    bool attends;      /* true if the rank attends with all keys of the owner */
    struct sw_ring_message keys[SW_HOP_WAYS], sums[SW_HOP_WAYS]; /* k and v; dk and dv */
    int32_t alike; /* hops from this one on, included, that differ in owner, place and first byte
                      alone */
};
/* Number of hops. */
int32_t sw_ring_hops(const struct sw_ring_blocks *ring);
/* Hop `hop` of a rank, 0 <= rank < ranks. hop == sw_ring_hops: after the last; no keys are at
 * hand. */
struct sw_ring_hop sw_ring_hop(const struct sw_ring_blocks *ring, int32_t rank, int32_t hop);

/* Sums over the hops of the busiest rank. */
struct sw_ring_sum {
    int32_t attends, sends; /* hops in which it attends; in which it sends */
    int64_t bytes;          /* bytes that it sends */
};
struct sw_ring_sum sw_ring_sum(const struct sw_ring_blocks *ring);

/* First position of the `halo` keys that a rank has at hand in hop 1 + i, of a sequence in chunks
 * of `chunk`. INT64_MAX: these come from no chunk before one of the rank's. */
int64_t sw_ring_halo_position(int32_t ranks, int32_t rank, int32_t i, int64_t halo, int64_t chunk);

#endif
