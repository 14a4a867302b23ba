/* End of a run: the verdict is saved in attempt.json before any rank exits, printed in one line by
 * one rank, and is the exit code. Keeps the watcher's board up to date. */
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
    char (*hosts)[SW_ENDING_HOST_BYTES]; /* [size]; NULL before sw_ending_begin */
};

/* Collective. Begins the next attempt, after first_step, in the run's existing folder: rank 0
 * records it; signals no longer end the process at once. Reports file errors and continues. From
 * then on board->attempt.attempt is its number. */
void sw_ending_begin(struct sw_ending *ending, const char *folder, int64_t first_step);
/* Collective. Ends the run with this verdict (not an error's) for that cause. A REQUEUE without a
 * newly saved step (board->attempt.step) becomes NO_PROGRESS. Returns the exit code. */
int sw_ending_leave(struct sw_ending *ending, enum sw_verdict verdict, const char *cause);
/* Collective, for an error on some or all ranks (err NULL: not on this one): the lowest prints it.
 * Returns the exit code. */
int sw_ending_fail(struct sw_ending *ending, const struct sw_error *err);
/* Ends the job for an error that only this rank knows. If it blames a rank (err->culprit), also
 * names that rank's host. */
void sw_ending_abort(struct sw_ending *ending, struct sw_error *err) __attribute__((noreturn));

void sw_ending_free(struct sw_ending *ending);

#endif
