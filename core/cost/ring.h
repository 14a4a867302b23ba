/* What ring attention takes that is made of inner rings (core/program/workspace.h), one node's
 * ranks each: hops inside a node, and beside each a piece of a block that goes to the next. Owns
 * nothing.
 */
#ifndef SW_COST_RING_H
#define SW_COST_RING_H

#include "core/cost/links.h"
#include "core/program/workspace.h"

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

#endif
