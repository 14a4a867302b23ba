/* Trains a plan: from a checkpoint, a published model or initial parameters to the last step, with
 * checkpoints, progress and the held-out loss. */
#ifndef SW_TRAIN_H
#define SW_TRAIN_H

#include "core/base/arguments.h"
#include "runner/rank/life.h"
#include "runner/rank/rank.h"
#include "runner/checkpoint/resume.h"
#include "runner/rank/watch.h"

struct sw_train_options {
    const char *plan_path; /* not NULL */
    int64_t steps;         /* most steps to run; 0: up to total_steps */
    struct sw_resume_options resume;
    bool quiet; /* true to print only errors, and the reason of an early end */
    struct sw_meant meant;
    struct sw_life *life;         /* not NULL */
    struct sw_watch_board *board; /* not NULL; a watcher's, or unshared */
};

/* Collective. options: struct sw_train_options. Prints errors once per job. Returns the exit code,
 * equal to the verdict in attempt.json if the run got that far. Exits without returning if only
 * this rank knows that the run ends. */
int sw_train(struct sw_rank *rank, const void *options);

#endif
