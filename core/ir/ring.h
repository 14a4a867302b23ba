/* Hops of attention's ring: whose keys a rank attends with, one hop after another, and what it
 * sends beside each. Executors, prices and traffic all ask sw_ring_hop; nobody counts hops.
 *
 * k and v of a hop leave before the rank attends with them, dk and dv once it has. One ring has as
 * many hops as members, in a single round. Of inner rings (workspace.h) a round has a hop for each
 * member of one: its first block leaves for the next ring in as many pieces, one with each hop,
 * while all blocks of the ring's members pass by. Pieces keep calls short: they run in the order of
 * their starts, and a whole block over a slow link would hold up the hops behind it. Behind the
 * last hop of inner rings dk and dv go on to the ring where their block is at home.
 *
 * A window that reaches no further than the chunk before needs no ring: each rank sends the last
 * positions of its chunks straight to the rank that has the chunk behind, the next one, and of the
 * chunks that zigzag has beyond the middle the one before. Hop 0 is of the rank's own keys, the
 * others of what came; dk and dv go back as k and v came. Where no rank has the chunk before, what
 * comes is seen by nobody (sw_ring_halo_position).
 *
 * Pure functions of sizes; nothing is owned. */
#ifndef SW_RING_H
#define SW_RING_H

#include "core/ir/workspace.h"

/* An attention(_grad) op's ring. */
struct sw_ring_blocks {
    int32_t ranks, rings; /* all of them; inner rings, 1: it is one */
    int32_t halos;        /* chunks of which the end travels; 0: all keys do, around */
    double beside;        /* of what a rank attends with, the share that such ends are; else 0 */
    int64_t travel_bytes, sum_bytes; /* a rank's k and v; dk and dv (attention: 0), as sent */
    /* What converting a block moves, read and written: with each hop k and v that came as bf16, and
     * dk and dv before they leave as such and once when they are home; 0: they are as computed. */
    int64_t widen_bytes, narrow_bytes;
};
void sw_ring_blocks_of(const struct sw_program *program, const struct sw_op *op,
                       struct sw_ring_blocks *out);

/* Bytes [first, first + bytes) of a block go to member `to` of the ring while the same ones of
 * another block come from `from`. bytes 0: nothing is sent. */
struct sw_ring_message {
    int32_t to, from;
    int64_t first, bytes;
};
/* A rank's message to the next member of its inner ring, and to the same place in the next one. */
enum sw_hop_way { SW_HOP_WITHIN, SW_HOP_ACROSS, SW_HOP_WAYS };
struct sw_ring_hop {
    int32_t round, at; /* of the rounds; in it */
    int32_t owner;     /* whose k and v are at hand, or the end of one of whose chunks */
    bool attends;      /* the rank attends with them: all of the owner's part */
    struct sw_ring_message keys[SW_HOP_WAYS], sums[SW_HOP_WAYS]; /* k and v; dk and dv */
    int32_t alike; /* hops from this one on, itself too, that differ in owner, place and first bytes
                      alone */
};
/* Returns the number of hops. */
int32_t sw_ring_hops(const struct sw_ring_blocks *ring);
/* Hop `hop` of a rank, 0 <= rank < ranks. hop == sw_ring_hops: behind the last, nothing is at hand.
 */
struct sw_ring_hop sw_ring_hop(const struct sw_ring_blocks *ring, int32_t rank, int32_t hop);

/* All hops of the rank that has most of them. */
struct sw_ring_sum {
    int32_t attends, sends; /* hops in which it attends; in which it sends */
    int64_t bytes;          /* that it sends */
};
struct sw_ring_sum sw_ring_sum(const struct sw_ring_blocks *ring);

/* First position of what hop 1 + i of a rank has at hand: `halo` positions, of a sequence in chunks
 * of `chunk`. INT64_MAX: it comes from no chunk before one of the rank's. */
int64_t sw_ring_halo_position(int32_t ranks, int32_t rank, int32_t i, int64_t halo, int64_t chunk);

#endif
