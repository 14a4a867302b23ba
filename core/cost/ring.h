/* What ring attention takes: one ring, or one made of inner rings (core/ir/workspace.h), one
 * node's ranks each, with hops inside a node and beside each a piece of a block that goes to the
 * next. Owns nothing. */
#ifndef SW_COST_RING_H
#define SW_COST_RING_H

#include "core/cost/links.h"
#include "core/ir/ring.h"

struct sw_cost;

struct sw_ring_time {
    double seconds;  /* of an op whose ranks compute `compute` seconds */
    double messages; /* of all that a rank sends, one after the other */
};

/* A rank computes on one block while messages of that step travel; those of dk and dv travel beside
 * the next step, and after the last go home. span: of the whole ring; inside: each inner ring lies
 * in one fastest link domain (sw_links_inner_ring); blocks: of inner rings. Pure. */
void sw_ring_time(const struct sw_cluster_config *cluster, const struct sw_span *span, bool inside,
                  const struct sw_ring_blocks *blocks, double compute, struct sw_ring_time *out);
/* Of an op of the program whose ring is made of such. */
void sw_ring_time_of(const struct sw_cluster_config *cluster, const struct sw_program *program,
                     const struct sw_op *op, double compute, struct sw_ring_time *out);

/* An op's ring in seconds, with the communication stream at rest; sw_ring_delay has the rest. */
struct sw_ring_timing {
    double seconds;    /* of the op */
    double inside;     /* of those, waits for messages */
    double block, hop; /* of computing on a block; of a message. hop 0: there is one rank */
    bool home;         /* the last message has nothing to compute beside it */
};
/* Of an op whose ranks compute `compute` seconds and send `bytes` each; span: of its ring. Pure. */
void sw_ring_time_op(const struct sw_cluster_config *cluster, const struct sw_program *program,
                     const struct sw_op *op, const struct sw_span *span, double compute,
                     double bytes, struct sw_ring_timing *out);

/* The ring's messages are calls of the communication stream like any other: the first goes behind
 * what is under way, which it may find `backlog` seconds long. Seconds that this adds. */
static inline double sw_ring_delay(double block, double hop, double backlog)
{
    const double alone = hop > block ? hop : block, late = backlog + hop;
    return late > alone ? late - alone : 0;
}

/* What the hops of a forward op's ring over its outermost link need to be hidden: fills in
 * ring_link and the tokens of *out, nothing where the ring stays on the innermost link. */
void sw_ring_check(const struct sw_cluster_config *cluster, const struct sw_program *program,
                   const struct sw_op *op, const struct sw_span *span, struct sw_cost *out);

#endif
