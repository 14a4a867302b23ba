/* The plans of a run, one for each number of nodes that it may get. */
#ifndef SW_EMIT_PLANS_H
#define SW_EMIT_PLANS_H

#include "core/cost/checkpoint.h"
#include "core/plan/plan.h"
#include "planner/search/place.h"

enum { SW_EMIT_PLANS = 64 };

/* The plan for one number of nodes. */
struct sw_emit_plan {
    int32_t nodes;
    struct sw_candidate candidate;
    struct sw_placement_run placed; /* the run with its mesh */
    struct sw_checkpoint_cost checkpoint;
    double trained_step_s; /* seconds of a step with its share of saves and evaluations */
    char *text;            /* text of the plan file */
    size_t bytes;
    uint64_t digest;
};

/* A stage of a run, or all of one without stages, with its plans. */
struct sw_emit_stage {
    struct sw_run_config run;
    struct sw_emit_plan plan[SW_EMIT_PLANS];
    int32_t count;             /* number of plans, the one for the most nodes last */
    char aside[PATH_MAX + 80]; /* folder that replaces the run's */
};

/* Searches, chooses and writes the plans for run->nodes_least .. nodes_most nodes to memory, in
 * that order; directory: of the plan files. Returns an exit code; prints mistakes. Free the texts
 * with sw_emit_plans_free, also after an error. */
int sw_emit_plans(const struct sw_run_config *run, const char *directory,
                  struct sw_emit_plan plan[SW_EMIT_PLANS], int32_t *count);
void sw_emit_plans_free(struct sw_emit_plan *plan, int32_t count);

/* Fills in plan->checkpoint, on which the lead time below depends, for plan->candidate, whose mesh
 * is the run's. */
int sw_emit_price_save(const struct sw_run_config *run, struct sw_emit_plan *plan,
                       struct sw_error *err);
/* Lead time, in whole seconds before its time limit, at which a job is asked to save and end: the
 * current step, the pause of a save and its writing must fit, each up to twice as long as
 * predicted, and a file system may take a while to answer. The most of all plans. */
int64_t sw_emit_signal_lead_s(const struct sw_emit_plan *plan, int32_t count);
/* The same for one decision of the run, in *out; -1: unknown. */
int sw_emit_signal_lead_of(const struct sw_run_config *run, const struct sw_decision *decision,
                           int64_t *out);

#endif
