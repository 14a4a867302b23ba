/* Training a plan: the loop over steps, its progress, and the held-out loss at the end. */
#ifndef SW_TRAIN_H
#define SW_TRAIN_H

#include "core/plan/plan.h"
#include "runner/launch.h"

struct sw_train_options {
    const char *plan_path; /* for messages; not NULL */
    int64_t steps;         /* stop after this many; 0: the plan's total_steps */
};

/* Exit code after SIGINT or SIGTERM: the step or the held-out batch at hand was finished. Further
 * signals change nothing: launchers send the same one more than once. */
enum { SW_INTERRUPTED = 130 };

/* Collective over the ranks of the launch. Prints its own errors, once per job. Returns the exit
 * code. */
int sw_train(const struct sw_launch *launch, const struct sw_plan *plan,
             const struct sw_train_options *options);

#endif
