/* Shared by reshard.c (plans known to be cheapest), reshard_search.c (all other cases) and
 * reshard_step.c (the effect of one step). */
#ifndef SW_RESHARD_INTERNAL_H
#define SW_RESHARD_INTERNAL_H

#include "core/sharding/reshard.h"

/* Checked input: shardings are normalized and divide, partial axes are consistent. */
struct sw_reshard_problem {
    const struct sw_mesh *mesh;
    const int64_t *global;
    const int64_t *unit; /* may be NULL */
    struct sw_sharding from, to;
};

/* The sharding after a step of this kind. step->after is not read. */
struct sw_sharding sw_reshard_apply(const struct sw_sharding *before,
                                    const struct sw_reshard_step *step);

/* Elements that a rank receives in this step, as a fraction of the global array times the square of
 * the number of ranks: a whole number, so that equal costs compare equal (up to 2^24 ranks). */
double sw_reshard_step_cost(const struct sw_mesh *mesh, const struct sw_sharding *before,
                            const struct sw_reshard_step *step);

/* Uniform-cost search over all shardings that the moves reach; a plan always exists. -1: our own
 * mistake, more states than were counted or none left. */
int sw_reshard_search(const struct sw_reshard_problem *problem,
                      struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS]);

#endif
