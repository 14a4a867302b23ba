/* The watcher of a training process. Only a parent learns which signal ended a process, under any
 * launcher (mpirun, srun, a shell), so `runner train` is two processes: the watcher, known to the
 * launcher, and its child, the rank. The watcher forwards signals, reports in one line who died of
 * what, saves that in attempt.json, and exits with the verdict.
 *
 * SIGKILL on the watcher ends its child too, without a report. */
#ifndef SW_WATCH_H
#define SW_WATCH_H

#include "core/run/attempt.h"

/* The rank's messages to its watcher, in shared memory. */
struct sw_watch_board {
    bool running;      /* true if all below but `settled` is valid */
    bool settled;      /* true if attempt.verdict is saved, or another rank's task */
    char folder[4096]; /* the run's */
    int32_t rank, size;
    char host[256];
    int64_t step_done;
    struct sw_attempt attempt;
};

/* Forks; call it first of all. Returns the board in the child; NULL if no watcher is possible (no
 * memory, no more processes). */
struct sw_watch_board *sw_watch_begin(void);
/* Called last by the rank: wakes a stopped watcher, which must exit before its launcher can. NULL:
 * none. */
void sw_watch_end(const struct sw_watch_board *board);

#endif
