/* What one rank sends in a step: the one walk over a program's communication, and sums over it by
 * kind and group. A walk owns nothing; a list owns its rows. */
#ifndef SW_COST_TRAFFIC_H
#define SW_COST_TRAFFIC_H

#include "core/ir/op.h"
#include "core/ir/walk.h"

/* What one call of an op sends: it follows from the program's sizes, whatever the axis order. */
struct sw_traffic_sent {
    double bytes;                      /* sw_op_communication_bytes */
    double messages[SW_CARRIER_COUNT]; /* to each member beyond the first, by who carries them
                                          (messages.h) */
};

/* One op at hand after the other: collectives over more than one rank, rings inside attention,
 * exchanges. */
struct sw_traffic_walk {
    const struct sw_program *program;
    const struct sw_op *op;
    struct sw_axes axes; /* effective ones */
    double calls;        /* in a step */
    struct sw_traffic_sent sent;
    /* May be set to [op_count] of the caller's, of a program whose sizes are known: what was worked
     * out for them before, at the first op of those alike; bytes < 0: not yet. The walk fills it.
     * NULL: none */
    struct sw_traffic_sent *known;
    struct sw_walk at;  /* the walk's own */
    int32_t last_again; /* as well: of the region */
};
struct sw_traffic_walk sw_traffic_begin(const struct sw_program *program);
bool sw_traffic_next(struct sw_traffic_walk *walk); /* false: there is no other */
/* For who walks the ops anyway: makes that op of the region the one at hand. false: it sends
 * nothing. */
bool sw_traffic_at(struct sw_traffic_walk *walk, const struct sw_region *region,
                   const struct sw_op *op);

/* What the op at hand moves, and when. */
enum sw_traffic_part {
    SW_TRAFFIC_ANY,            /* not told apart */
    SW_TRAFFIC_BATCH,          /* activations */
    SW_TRAFFIC_AGAIN,          /* those, in recomputation */
    SW_TRAFFIC_WEIGHT_FORWARD, /* weights, in each micro-step or beside one */
    SW_TRAFFIC_WEIGHT_BACKWARD,
    SW_TRAFFIC_ONCE, /* in the last micro-step or the update */
    SW_TRAFFIC_RING
};
enum sw_traffic_part sw_traffic_part(struct sw_traffic_walk *walk);

/* Communication of one kind over one group and of one part. */
struct sw_traffic {
    enum sw_op_kind kind;
    enum sw_traffic_part part;
    struct sw_axes axes;
    int32_t op;                        /* the first of them, in the program */
    double calls, bytes;               /* of a step; of all calls */
    double messages[SW_CARRIER_COUNT]; /* of all calls, beyond the first of each */
    double seconds;                    /* the caller's, 0 at first */
};
struct sw_traffics {
    struct sw_traffic *entry; /* [count], in the order of the walk */
    int32_t count, capacity;
};
/* Adds the op at hand to its row, a new one if need be. The row moves with the next addition. NULL:
 * no memory (SW_ENVIRONMENT). */
struct sw_traffic *sw_traffics_add(struct sw_traffics *list, const struct sw_traffic_walk *walk,
                                   enum sw_traffic_part part, struct sw_error *err);
void sw_traffics_free(struct sw_traffics *list); /* an empty one too */

/* Whether a value is as large as the micro-batch. */
bool sw_traffic_of_batch(const struct sw_value *value);
/* Whether any operand of an op is. */
bool sw_traffic_op_of_batch(const struct sw_program *program, const struct sw_op *op);

#endif
