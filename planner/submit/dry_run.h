/* `plan submit --dry-run` and `--soonest`: ask the controller before anything is submitted. */
#ifndef SW_SUBMIT_DRY_RUN_H
#define SW_SUBMIT_DRY_RUN_H

#include "core/plan/plan.h"
#include "planner/command/command.h"

/* Prints when and where the run could start, and when its result would be ready. Submits nothing
 * and leaves no files. The run_file's paths are absolute. Returns an exit code; SW_UNMET if nothing
 * can start. */
int sw_dry_run(const struct sw_options *options, struct sw_run_file *run_file);

/* The same for a plan with the requests of the script beside it. Returns an exit code. */
int sw_dry_run_plan(const struct sw_options *options, const struct sw_plan *plan,
                    const char *script);

/* Largest number of nodes, up to `most`, on which the run would start now: the same command with
 * --set nodes=N would be accepted. Tries a few numbers, silently. 0: none found. */
int32_t sw_dry_run_fewer(const struct sw_options *options, int32_t most);

/* Options that --soonest submits: `out` gets the nodes, the partition and the preference of the
 * choice with the earliest result; texts holds its values. Prints the choice on stderr. Returns an
 * exit code. */
struct sw_soonest {
    char nodes[48], partition[192];
};
int sw_soonest_choose(const struct sw_options *options, struct sw_run_file *run_file,
                      struct sw_options *out, struct sw_soonest *texts);

#endif
