/* `plan submit --dry-run` and `--soonest`: the controller is asked before anything is submitted. */
#ifndef SW_SUBMIT_DRY_RUN_H
#define SW_SUBMIT_DRY_RUN_H

#include "core/plan/plan.h"
#include "planner/command/command.h"

/* Prints when and where the run could start, and when its result would be there. Submits and leaves
 * nothing. The run_file's paths are absolute. Returns an exit code; SW_UNMET when nothing can
 * start.
 */
int sw_dry_run(const struct sw_options *options, struct sw_run_file *run_file);

/* The same of a plan as its script asks for it, which stands beside it: when and where that one
 * could start. Returns an exit code. */
int sw_dry_run_plan(const struct sw_options *options, const struct sw_plan *plan,
                    const char *script);

/* Most nodes, of `most` at most, on which the run would start now: those with which the same
 * command and --set nodes=N is taken. Looks at a few numbers; says nothing. 0: none is found. */
int32_t sw_dry_run_fewer(const struct sw_options *options, int32_t most);

/* What --soonest submits: `out` are the options with the nodes, the partition and the preference of
 * the choice whose result is there first; texts is where its values stand. Says on stderr what was
 * chosen. Returns an exit code. */
struct sw_soonest {
    char nodes[48], partition[192];
};
int sw_soonest_choose(const struct sw_options *options, struct sw_run_file *run_file,
                      struct sw_options *out, struct sw_soonest *texts);

#endif
