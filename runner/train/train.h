/* Training a plan: from a checkpoint, a published model or initial parameters to the last step,
 * with its checkpoints, its progress and the held-out loss at the end. */
#ifndef SW_TRAIN_H
#define SW_TRAIN_H

#include "core/base/arguments.h"
#include "runner/rank/life.h"
#include "runner/rank/rank.h"
#include "runner/checkpoint/resume.h"
#include "runner/rank/watch.h"

struct sw_train_options {
    const char *plan_path; /* not NULL */
    int64_t steps;         /* stop after this many; 0: the plan's total_steps */
    struct sw_resume_options resume;
    bool quiet; /* says only what is wrong, and why it ended before its last step */
    struct sw_meant meant;
    struct sw_life *life;         /* not NULL */
    struct sw_watch_board *board; /* not NULL; of a watcher, or nobody's */
};

/* Collective. options: struct sw_train_options. Prints its own errors, once per job. Returns the
 * exit code, which is the verdict in attempt.json once the run got that far. Leaves at once,
 * without returning, when only this rank knows that the run ends. */
int sw_train(struct sw_rank *rank, const void *options);

#endif
