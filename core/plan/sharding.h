/* The shardings that a search chooses from (docs/architecture.md, Sharding), and their names in the
 * field with the axes that they split. */
#ifndef SW_PLAN_SHARDING_H
#define SW_PLAN_SHARDING_H

#include "core/ir/options.h"
#include "core/plan/plan.h"

static inline bool sw_sharding_decisions_equal(const struct sw_sharding_decision *a,
                                               const struct sw_sharding_decision *b)
{
    return a->zero == b->zero && a->embed_fsdp == b->embed_fsdp &&
           a->moments_over_dp == b->moments_over_dp && a->keep_gathered == b->keep_gathered;
}

/* Shardings worth a search on that mesh: for `zero: auto` those of the table, zero 3 first and each
 * program once, else the run's own. Left out: those that the run's rules forbid, and those of
 * another mesh with as many ranks. Returns their number, at least 1; -1: err (SW_BAD_INPUT: the
 * run's rules, at their position). */
enum { SW_SHARDINGS = 6 };
int32_t sw_plan_shardings(const struct sw_run_config *run, const struct sw_mesh *mesh,
                          struct sw_sharding_decision out[SW_SHARDINGS], struct sw_error *err);

struct sw_told_sharding {
    const char *name;                         /* "FSDP", "HSDP", "ZeRO-2", "ZeRO-1", "DDP" */
    char text[80];                            /* name with details: "HSDP, moments over fsdp,dp" */
    struct sw_axes embed, gradients, moments; /* axes of the rows of rules */
    bool reshards;                            /* false if gathered weights stay for backward */
};
/* Returns out. Mistakes in the run's rules are reported when compiling; here the defaults are
 * used. */
const struct sw_told_sharding *sw_plan_tell_sharding(const struct sw_run_config *run,
                                                     const struct sw_decision *decision,
                                                     struct sw_told_sharding *out);

#endif
