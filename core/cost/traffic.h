/* Bytes that one rank sends in a step: the one walk over a program's communication, and sums by
 * kind and group. A walk owns nothing; a list owns its rows. */
#ifndef SW_COST_TRAFFIC_H
#define SW_COST_TRAFFIC_H

#include "core/ir/op.h"
#include "core/ir/walk.h"

/* Bytes of one call of an op: depend on the program's sizes, not on the axis order. */
struct sw_traffic_sent {
    double bytes;                      /* sw_op_communication_bytes */
    double messages[SW_CARRIER_COUNT]; /* messages to each member beyond the first, by carrier
                                          (messages.h) */
};

/* Visits the ops that communicate, one after another: collectives over more than one rank, rings
 * inside attention, exchanges. */
struct sw_traffic_walk {
    const struct sw_program *program;
    const struct sw_op *op;
    struct sw_axes axes; /* axes of more than one rank */
    double calls;        /* calls in a step */
    struct sw_traffic_sent sent;
    /* May be set to a cache of [op_count] of the caller's, for a program whose sizes are known,
     * filled by the walk at the first of equal ops; bytes < 0: unknown. NULL: none */
    struct sw_traffic_sent *known;
    struct sw_walk at;  /* walk over all ops */
    int32_t last_again; /* last recomputed op of the region */
};
struct sw_traffic_walk sw_traffic_begin(const struct sw_program *program);
bool sw_traffic_next(struct sw_traffic_walk *walk); /* false: no further one */
/* For callers that walk the ops themselves: makes that op of the region the current one. false: it
 * sends nothing. */
bool sw_traffic_at(struct sw_traffic_walk *walk, const struct sw_region *region,
                   const struct sw_op *op);

/* Purpose and time of the current op. */
enum sw_traffic_part {
    SW_TRAFFIC_ANY,            /* unknown */
    SW_TRAFFIC_BATCH,          /* activations */
    SW_TRAFFIC_AGAIN,          /* activations, in recomputation */
    SW_TRAFFIC_WEIGHT_FORWARD, /* weights, in each micro-step or beside one */
    SW_TRAFFIC_WEIGHT_BACKWARD,
    SW_TRAFFIC_ONCE, /* in the last micro-step or the update */
    SW_TRAFFIC_RING
};
enum sw_traffic_part sw_traffic_part(struct sw_traffic_walk *walk);

/* Communication of one kind, over one group and for one part. */
struct sw_traffic {
    enum sw_op_kind kind;
    enum sw_traffic_part part;
    struct sw_axes axes;
    int32_t op;                        /* first op of this row in the program */
    double calls, bytes;               /* in a step; by all calls */
    double messages[SW_CARRIER_COUNT]; /* messages of all calls, beyond the first of each */
    double seconds;                    /* set by the caller, 0 at first */
};
struct sw_traffics {
    struct sw_traffic *entry; /* [count], in the order of the walk */
    int32_t count, capacity;
};
/* Adds the current op to its row, or a new row. The row moves with the next addition. NULL: no
 * memory (SW_ENVIRONMENT). */
struct sw_traffic *sw_traffics_add(struct sw_traffics *list, const struct sw_traffic_walk *walk,
                                   enum sw_traffic_part part, struct sw_error *err);
void sw_traffics_free(struct sw_traffics *list); /* accepts an empty one */

/* True if a value's size follows the micro-batch. */
bool sw_traffic_of_batch(const struct sw_value *value);
/* True if an operand of the op is such a value. */
bool sw_traffic_op_of_batch(const struct sw_program *program, const struct sw_op *op);

#endif
