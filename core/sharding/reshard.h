/* reshard: the cheapest list of collectives from one sharding to another
 * (docs/architecture.md, Sharding). */
#ifndef SW_RESHARD_H
#define SW_RESHARD_H

#include "core/base/words.h"
#include "core/sharding/sharding.h"

struct sw_reshard_step {
    enum sw_collective kind;
    struct sw_axes axes; /* the group, major to minor; several axes are one collective */
    uint8_t dim;         /* not for all_reduce */
    uint8_t dim_to;      /* all_to_all only */
    struct sw_sharding after;
};

enum { SW_RESHARD_MAX_STEPS = 16 };

/* The cheapest steps from `from` to `to` for a dense array of that global shape (unit as in
 * sw_local_shape, may be NULL). Cost: elements received per rank; ties by fewer steps. Axes of size
 * 1 are ignored; both shardings are normalized first, and the last step's `after` equals normalized
 * `to`. Reduces before it gathers; reduce_scatters the largest axis first; gathers nothing to slice
 * it afterwards if another way exists; slices nothing to gather it later (a replicated axis does
 * not shorten an all_reduce). `to` may be partial only over axes over which `from` is partial.
 * Returns the number of steps (0: nothing to do) or -1 (SW_UNMET: a size does not divide; to is
 * partial where from is not). */
int sw_reshard(const struct sw_mesh *mesh, const int64_t *global, const int64_t *unit,
               const struct sw_sharding *from, const struct sw_sharding *to,
               struct sw_reshard_step steps[SW_RESHARD_MAX_STEPS], struct sw_error *err);

const char *sw_collective_name(enum sw_collective kind); /* "slice", "all_gather", ... */

#endif
