/* Training a plan: from a checkpoint, a published model or initial parameters to the last step,
 * with its checkpoints, its progress and the held-out loss at the end. */
#ifndef SW_TRAIN_H
#define SW_TRAIN_H

#include "core/plan/plan.h"
#include "runner/rank/launch.h"
#include "runner/rank/life.h"
#include "runner/checkpoint/resume.h"
#include "runner/rank/watch.h"

struct sw_train_options {
    const char *plan_path; /* for messages; not NULL */
    int64_t steps;         /* stop after this many; 0: the plan's total_steps */
    struct sw_resume_options resume;
    bool quiet;        /* says only what is wrong, and why it ended before its last step */
    bool wants_digest; /* the plan must be the one that was meant: */
    uint64_t digest;
    struct sw_life *life;         /* not NULL */
    struct sw_watch_board *board; /* not NULL; of a watcher, or nobody's */
};

/* Collective over the ranks of the launch. Prints its own errors, once per job. Returns the exit
 * code, which is the verdict in attempt.json once the run got that far. Leaves at once, without
 * returning, when only this rank knows that the run ends. */
int sw_train(struct sw_launch *launch, const struct sw_plan *plan,
             const struct sw_train_options *options);

#endif
