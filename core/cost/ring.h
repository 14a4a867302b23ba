/* Time of ring attention: one ring, or one of inner rings (core/ir/workspace.h), one for each
 * node's ranks, with hops inside a node while a piece of a block goes to the next node. Owns
 * nothing. */
#ifndef SW_COST_RING_H
#define SW_COST_RING_H

#include "core/cost/links.h"
#include "core/ir/ring.h"

struct sw_cost;

struct sw_ring_time {
    double seconds;  /* seconds of an op whose ranks compute `compute` seconds */
    double messages; /* seconds of a rank's messages, one after another */
};

/* Time of a ring in which a rank computes on one block while the messages of that step travel;
 * those of dk and dv travel beside the next step, and go home after the last. span: of the whole
 * ring; inside: each inner ring is in one fastest link domain (sw_links_inner_ring); blocks: of
 * inner rings. Pure. */
void sw_ring_time(const struct sw_cluster_config *cluster, const struct sw_span *span, bool inside,
                  const struct sw_ring_blocks *blocks, double compute, struct sw_ring_time *out);
/* Time of a program's op with inner rings. */
void sw_ring_time_of(const struct sw_cluster_config *cluster, const struct sw_program *program,
                     const struct sw_op *op, double compute, struct sw_ring_time *out);

/* Seconds of an op's ring, with the communication stream idle; see sw_ring_delay. */
struct sw_ring_timing {
    double seconds;    /* seconds of the op */
    double inside;     /* part of these: waits for messages */
    double block, hop; /* seconds of computing on a block; of a message. hop 0: a single rank */
    bool home;         /* true if the last message has nothing to compute beside it */
};
/* Time of an op whose ranks compute `compute` seconds and send `bytes` each; span: of its ring.
 * Pure. */
void sw_ring_time_op(const struct sw_cluster_config *cluster, const struct sw_program *program,
                     const struct sw_op *op, const struct sw_span *span, double compute,
                     double bytes, struct sw_ring_timing *out);

/* Seconds added by the communication stream's backlog: the ring's messages are calls on it like any
 * others, and the first waits for `backlog` seconds. */
static inline double sw_ring_delay(double block, double hop, double backlog)
{
    const double alone = hop > block ? hop : block, late = backlog + hop;
    return late > alone ? late - alone : 0;
}

/* Fills in ring_link and the tokens that a forward op's ring needs to hide its hops on its
 * outermost link; leaves *out unchanged if the ring stays on the innermost link. */
void sw_ring_check(const struct sw_cluster_config *cluster, const struct sw_program *program,
                   const struct sw_op *op, const struct sw_span *span, struct sw_cost *out);

#endif
