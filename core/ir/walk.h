/* The order in which a rank issues a program; no other code knows it. Executor, price, trace,
 * traffic and lifetimes walk it.
 *
 * A run of a program is a sequence of passes: one for each micro-step, over the regions of forward
 * and backward, then one over those of the update, if any. A region runs its iterations, an
 * iteration its ops in the program's order. Ops marked `ahead` are issued one iteration early, the
 * first of them in an iteration -1 without other ops. Ops marked `first_micro_step` or
 * `last_micro_step` are issued in that micro-step only. Ops of a layer outside the region are
 * skipped (sw_region).
 *
 *     struct sw_walk w = sw_walk_begin(program);
 *     while (sw_walk_pass(&w))
 *         while (sw_walk_region(&w))
 *             while (sw_walk_iteration(&w))
 *                 while (sw_walk_op(&w))
 *                     issue(w.op, w.layer);
 *
 * Each call moves to the next item of its kind inside the current item one level up; lower levels
 * may be left out. A walk owns nothing. */
#ifndef SW_WALK_H
#define SW_WALK_H

#include "core/ir/program.h"

/* Passes of one kind issue the same ops. A single micro-step is the last one; the first of several
 * is a kind of its own if the program gathers weights once a step. */
enum sw_pass {
    SW_PASS_FIRST_MICRO_STEP,
    SW_PASS_MICRO_STEP,
    SW_PASS_LAST_MICRO_STEP,
    SW_PASS_UPDATE,
    SW_PASS_COUNT
};

/* Time of issue, one bit each; an iteration skips ops with any bit of its `skip`. */
enum sw_when {
    SW_WHEN_IN_TIME = 1, /* for the current iteration */
    SW_WHEN_AHEAD = 2,   /* for the next one */
    SW_WHEN_LAST_MICRO_STEP = 4,
    SW_WHEN_FIRST_MICRO_STEP = 8
};

struct sw_walk {
    const struct sw_program *program;
    enum sw_pass pass;
    int32_t micro_step; /* accumulation_steps in the update */
    int32_t region;     /* index in the program */
    int32_t iteration;  /* -1: only ops that are issued ahead */
    uint8_t skip;       /* enum sw_when */
    int32_t op;         /* index in the program */
    int32_t end;        /* end of the region's ops */
    int32_t layer;      /* layer that the op works on */
};

static inline struct sw_walk sw_walk_begin(const struct sw_program *program)
{
    return (struct sw_walk){.program = program, .micro_step = -1, .region = -1, .op = -1};
}
/* false: no further one. */
bool sw_walk_pass(struct sw_walk *walk);
bool sw_walk_region(struct sw_walk *walk);
bool sw_walk_iteration(struct sw_walk *walk);
bool sw_walk_op(struct sw_walk *walk);
/* True if the current iteration skips no layer, neither its own nor those it issues ahead. */
bool sw_walk_is_whole(const struct sw_walk *walk);
/* Iterations of the current region that issue alike: the first, and their number. */
void sw_walk_whole(const struct sw_walk *walk, int32_t *first, int32_t *count);

/* Visits every op of the program once, with its region, for properties that do not depend on how
 * often an op is issued. Starts from a new walk; not to be mixed with the other calls. */
static inline bool sw_walk_each(struct sw_walk *walk)
{
    for (walk->op++; walk->op >= walk->end;) {
        if (++walk->region >= walk->program->region_count)
            return false;
        const struct sw_region *region = &walk->program->regions[walk->region];
        walk->op = region->first_op;
        walk->end = region->first_op + region->op_count;
    }
    return true;
}

/* enum sw_when bit of an op. */
static inline uint8_t sw_walk_when(const struct sw_op *op)
{
    return (uint8_t)((op->ahead ? SW_WHEN_AHEAD : SW_WHEN_IN_TIME) |
                     (op->last_micro_step ? SW_WHEN_LAST_MICRO_STEP : 0) |
                     (op->first_micro_step ? SW_WHEN_FIRST_MICRO_STEP : 0));
}

/* Number of times that a run of the program issues an op of that region. */
static inline double sw_walk_count(const struct sw_program *program, const struct sw_region *region,
                                   const struct sw_op *op)
{
    const bool once =
        region->phase == SW_PHASE_UPDATE || op->last_micro_step || op->first_micro_step;
    return (double)sw_region_times(region, op->position) * (once ? 1 : program->accumulation_steps);
}

#endif
