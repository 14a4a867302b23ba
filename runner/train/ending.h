/* How a run ends: with a verdict that is durable in attempt.json before anyone leaves, said in one
 * line by one rank, and with the verdict as exit code. Keeps the watcher's board up to date. */
#ifndef SW_ENDING_H
#define SW_ENDING_H

#include "runner/rank/launch.h"
#include "runner/rank/life.h"
#include "runner/rank/watch.h"

enum { SW_ENDING_HOST_BYTES = 256 };

struct sw_ending {
    const struct sw_launch *launch;
    struct sw_life *life;
    struct sw_watch_board *board;
    char (*hosts)[SW_ENDING_HOST_BYTES]; /* [size]; NULL before it began */
};

/* Collective. Begins the next attempt in the run's folder, which is there, behind first_step: rank
 * 0 writes it down; signals are no longer the end at once. Says what is wrong with the files, and
 * goes on. board->attempt.attempt is the number from then on. */
void sw_ending_begin(struct sw_ending *ending, const char *folder, int64_t first_step);
/* Collective. The run ends with this verdict (not of an error), for that cause. A REQUEUE whose
 * last durable step (board->attempt.step) is the one it began behind becomes NO_PROGRESS. Returns
 * the exit code. */
int sw_ending_leave(struct sw_ending *ending, enum sw_verdict verdict, const char *cause);
/* Collective, for an error that some or all ranks have (err NULL: not this one): the lowest of them
 * says it. Returns the exit code. */
int sw_ending_fail(struct sw_ending *ending, const struct sw_error *err);
/* This rank alone knows: ends the job. What says which rank is to blame (err->culprit) names its
 * host, too. */
void sw_ending_abort(struct sw_ending *ending, struct sw_error *err) __attribute__((noreturn));

void sw_ending_free(struct sw_ending *ending);

#endif
