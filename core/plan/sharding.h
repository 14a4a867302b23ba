/* The shardings that a search chooses among (docs/architecture.md, Sharding), and
 * the field's words for what a decision splits over which axes. */
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

/* Shardings that are worth a search on that mesh: of `zero: auto` those of the table, zero 3 first
 * and each program once, else the run's own. Those that the run's rules forbid are left out, and
 * those that another mesh of as many ranks has as well. Returns how many, at least 1; -1: err
 * (SW_BAD_INPUT: the run's rules, at their place). */
enum { SW_SHARDINGS = 6 };
int32_t sw_plan_shardings(const struct sw_run_config *run, const struct sw_mesh *mesh,
                          struct sw_sharding_decision out[SW_SHARDINGS], struct sw_error *err);

struct sw_told_sharding {
    const char *name; /* "FSDP", "HSDP", "ZeRO-2", "ZeRO-1", "DDP" */
    char text[80];    /* the same with what its name leaves open: "HSDP, moments over fsdp,dp" */
    struct sw_axes embed, gradients, moments; /* the rows of the rules */
    bool reshards;                            /* not what is gathered stays for backward */
};
/* Returns out. Rules of the run that are wrong are told by whoever compiles: such a decision is
 * told with the default's. */
const struct sw_told_sharding *sw_plan_tell_sharding(const struct sw_run_config *run,
                                                     const struct sw_decision *decision,
                                                     struct sw_told_sharding *out);

#endif
