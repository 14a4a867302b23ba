/* The order in which a rank issues a program: the only place that knows it. Executor, price, trace,
 * traffic and lifetimes read it from here.
 *
 * A run of a program is a sequence of passes: one for each micro-step, over the regions of forward
 * and backward, then one over those of the update where there are any. A region runs its
 * iterations, an iteration its ops in the program's order. Ops marked `ahead` are issued one
 * iteration early, those of the first in an iteration -1 that has nothing else. Ops marked
 * `first_micro_step` or `last_micro_step` are issued in that micro-step only. What is of a layer
 * that the region does not run is left out (sw_region).
 *
 *     struct sw_walk w = sw_walk_begin(program);
 *     while (sw_walk_pass(&w))
 *         while (sw_walk_region(&w))
 *             while (sw_walk_iteration(&w))
 *                 while (sw_walk_op(&w))
 *                     issue(w.op, w.layer);
 *
 * Each call moves on to the next of its kind inside what is at hand one level up; levels below may
 * be left out. A walk owns nothing. */
#ifndef SW_WALK_H
#define SW_WALK_H

#include "core/ir/program.h"

/* Passes of one kind issue the same ops. The last micro-step is often the only one; the first of
 * several is one of its own where the program gathers weights once a step. */
enum sw_pass {
    SW_PASS_FIRST_MICRO_STEP,
    SW_PASS_MICRO_STEP,
    SW_PASS_LAST_MICRO_STEP,
    SW_PASS_UPDATE,
    SW_PASS_COUNT
};

/* When in a region an op is issued, bit by bit; an iteration skips the ops that have any bit of its
 * `skip`. */
enum sw_when {
    SW_WHEN_IN_TIME = 1, /* for the iteration at hand */
    SW_WHEN_AHEAD = 2,   /* for the next one */
    SW_WHEN_LAST_MICRO_STEP = 4,
    SW_WHEN_FIRST_MICRO_STEP = 8
};

struct sw_walk {
    const struct sw_program *program;
    enum sw_pass pass;
    int32_t micro_step; /* accumulation_steps in the update */
    int32_t region;     /* of the program */
    int32_t iteration;  /* -1: only what is issued ahead */
    uint8_t skip;       /* enum sw_when */
    int32_t op;         /* of the program */
    int32_t end;        /* of the region's ops */
    int32_t layer;      /* that the op works on */
};

static inline struct sw_walk sw_walk_begin(const struct sw_program *program)
{
    return (struct sw_walk){.program = program, .micro_step = -1, .region = -1, .op = -1};
}
/* false: there is no other. */
bool sw_walk_pass(struct sw_walk *walk);
bool sw_walk_region(struct sw_walk *walk);
bool sw_walk_iteration(struct sw_walk *walk);
bool sw_walk_op(struct sw_walk *walk);
/* True if the iteration at hand leaves out no layer, of its own or of those that it is ahead of. */
bool sw_walk_is_whole(const struct sw_walk *walk);
/* The iterations of the region at hand that issue alike: the first of them, and how many. */
void sw_walk_whole(const struct sw_walk *walk, int32_t *first, int32_t *count);

/* Every op of the program once, with its region: for what follows from the ops, however often they
 * are issued. On a walk that is at its beginning; not to be mixed with the others. */
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

/* enum sw_when of an op. */
static inline uint8_t sw_walk_when(const struct sw_op *op)
{
    return (uint8_t)((op->ahead ? SW_WHEN_AHEAD : SW_WHEN_IN_TIME) |
                     (op->last_micro_step ? SW_WHEN_LAST_MICRO_STEP : 0) |
                     (op->first_micro_step ? SW_WHEN_FIRST_MICRO_STEP : 0));
}

/* How many times a run of the program issues an op of that region. */
static inline double sw_walk_count(const struct sw_program *program, const struct sw_region *region,
                                   const struct sw_op *op)
{
    const bool once =
        region->phase == SW_PHASE_UPDATE || op->last_micro_step || op->first_micro_step;
    return (double)sw_region_times(region, op->position) * (once ? 1 : program->accumulation_steps);
}

#endif
