/* The process that watches over the one that trains. Only a parent learns which signal ended a
 * process, whatever started it (mpirun, srun, a shell), so `runner train` is two: the watcher,
 * which the launcher knows, and its child, the rank. The watcher passes signals on, says in one
 * line who died of what, makes that durable in attempt.json, and leaves with the verdict.
 *
 * Ended with SIGKILL itself, the watcher takes its child along and nobody says anything. */
#ifndef SW_WATCH_H
#define SW_WATCH_H

#include "core/run/attempt.h"

/* What the rank tells its watcher; memory of both. */
struct sw_watch_board {
    bool running;      /* all below but `settled` holds */
    bool settled;      /* attempt.verdict is durable, or another rank's affair */
    char folder[4096]; /* the run's */
    int32_t rank, size;
    char host[256];
    int64_t step_done;
    struct sw_attempt attempt;
};

/* To be called before anything else: forks. Returns in the child with the board, and with NULL
 * where there is no watcher to be had (no memory, no more processes). */
struct sw_watch_board *sw_watch_begin(void);
/* Last, by the rank: a watcher that is stopped goes on, for it has to leave before its launcher
 * can. NULL: there is none. */
void sw_watch_end(const struct sw_watch_board *board);

#endif
