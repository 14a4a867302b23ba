/* What the files of partition share. Nothing outside core/passes/partition.c and claims.c includes
 * this. */
#ifndef SW_PARTITION_INTERNAL_H
#define SW_PARTITION_INTERNAL_H

#include "core/passes/append.h"
#include "core/passes/passes.h"

enum { FIRST_MEMOS = 64, ROUTES = 16, DECISIONS = 4, MOST_DECIDED = 10 };

/* A reshard made in the region at hand: (value instance, target) -> its version. */
struct memo {
    struct sw_ref from, to;
    struct sw_sharding target;
};

/* What the last reshards came to: weights and activations of one shape take the same steps in every
 * region. */
struct route {
    int count; /* 0: a free place */
    struct sw_sharding from, to;
    int64_t padded[SW_MAX_DIMS], unit[SW_MAX_DIMS];
    struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS];
};

/* What the last ops came to: a layer's ops are there again in every part of the layers, and where
 * they are made again. It follows from the kind, the form and the shardings of operands and
 * results.
 */
struct decision {
    const char *factors; /* NULL: a free place */
    uint16_t n_in, n_out;
    struct sw_sharding given[MOST_DECIDED];    /* operands, and what results are declared */
    struct sw_sharding sharding[MOST_DECIDED]; /* as operands are wanted, and what results are */
    struct sw_axes axes;                       /* of a ring */
};

struct sw_partition {
    const struct sw_program *logical;
    struct sw_builder b;
    int32_t *current; /* [logical values]: the version in use */
    int32_t *view_of; /* [logical values]: source of a constraint that enlarges, or -1: made anew in
                         every region */
    int32_t *constrained; /* [constrained_count]: results of constraints, which other values'
                             versions stand for; one for each op at most */
    int32_t constrained_count;
    bool *pinned; /* [logical values]: written by several ops, so always in its declared sharding */
    bool *gradient_placed; /* [logical values]: its sharding is settled by its first contribution */
    struct memo *memo;     /* [memo_capacity] */
    int32_t memo_count, memo_capacity;
    struct sw_dims
        *dims;           /* [dims_capacity]: of the op at hand, its operands and then its results */
    struct sw_ref *into; /* [dims_capacity]: where the op at hand is to write */
    struct sw_sharding *results; /* [dims_capacity]: as they fall out */
    struct sw_sharding *wanted;  /* [dims_capacity]: of the op's operands */
    int32_t dims_capacity;
    struct route *routes;       /* [ROUTES] */
    struct decision *decisions; /* [SW_OP_COUNT, DECISIONS]: the last ones of each kind */
    int32_t oldest_route;
    bool pads; /* some value is longer than its size */
    struct sw_error *err;
};

static inline struct sw_value *sw_partition_value(struct sw_partition *part, int32_t value)
{
    return &part->b.program->values[value];
}

/* claims.c: how the op's operands are wanted, scalars as they are; good until the next call. What
 * its results are is in part->results then, a ring's axes in op->axes. Its operands are complete.
 */
const struct sw_sharding *sw_claims_decide(struct sw_partition *part, const struct sw_op *logical,
                                           struct sw_op *op);

#endif
