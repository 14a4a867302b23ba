/* Shared by core/passes/partition.c and claims.c. Included nowhere else. */
#ifndef SW_PARTITION_INTERNAL_H
#define SW_PARTITION_INTERNAL_H

#include "core/passes/append.h"
#include "core/passes/passes.h"

enum { FIRST_MEMOS = 64, ROUTES = 16, DECISIONS = 4, MOST_DECIDED = 10 };

/* A reshard made in the current region: (value instance, target) -> its version. */
struct memo {
    struct sw_ref from, to;
    struct sw_sharding target;
};

/* Steps of recent reshards: weights and activations of one shape take the same steps in every
 * region. */
struct route {
    int count; /* 0: empty entry */
    struct sw_sharding from, to;
    int64_t padded[SW_MAX_DIMS], unit[SW_MAX_DIMS];
    struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
};

/* Decisions for recent ops: a layer's ops recur in every part of the layers, and where they are
 * recomputed. A decision follows from the kind, the form and the shardings of operands and
 * results. */
struct decision {
    const char *factors; /* NULL: empty entry */
    uint16_t n_in, n_out;
    struct sw_sharding given[MOST_DECIDED];    /* shardings of operands, and declared ones of
                                                  results */
    struct sw_sharding sharding[MOST_DECIDED]; /* wanted shardings of operands, and actual ones
                                                  of results */
    struct sw_axes axes;                       /* axes of a ring */
};

struct sw_partition {
    const struct sw_program *logical;
    struct sw_builder b;
    int32_t *current;     /* [logical values]: current version */
    int32_t *view_of;     /* [logical values]: source of a constraint that gathers, made again in
                             every region; else -1 */
    int32_t *constrained; /* [constrained_count]: results of constraints, which versions of
                             other values stand for; at most one for each op */
    int32_t constrained_count;
    bool *pinned;          /* [logical values]: true if several ops write it, so that it keeps its
                              declared sharding */
    bool *gradient_placed; /* [logical values]: true once its first contribution has set its
                              sharding */
    struct memo *memo;     /* [memo_capacity] */
    int32_t memo_count, memo_capacity;
    struct sw_dims *dims; /* [dims_capacity]: of the current op's operands, then its results */
    struct sw_ref *into;  /* [dims_capacity]: destinations of the current op's results */
    struct sw_sharding *results; /* [dims_capacity]: actual shardings of results */
    struct sw_sharding *wanted;  /* [dims_capacity]: wanted shardings of operands */
    int32_t dims_capacity;
    struct route *routes;       /* [ROUTES] */
    struct decision *decisions; /* [SW_OP_COUNT, DECISIONS]: recent decisions of each kind */
    int32_t oldest_route;
    bool pads; /* true if some value is padded */
    struct sw_error *err;
};

static inline struct sw_value *sw_partition_value(struct sw_partition *part, int32_t value)
{
    return &part->b.program->values[value];
}

/* claims.c: wanted shardings of the op's operands, scalars unchanged; valid until the next call.
 * Sets the results' shardings in part->results, and a ring's axes in op->axes. The op's operands
 * must have no partials. */
const struct sw_sharding *sw_claims_decide(struct sw_partition *part, const struct sw_op *logical,
                                           struct sw_op *op);

#endif
