/* How often a command that waits looks at runs: at their files every second, and at the scheduler
 * every 10 s, less often while nothing changes, sooner when the files say that one has ended.
 * squeue makes two calls of the controller (jobs and partitions), so that is at most one every 5 s
 * over any time, however many runs there are. */
#ifndef SW_JOB_WATCH_H
#define SW_JOB_WATCH_H

#include "planner/job/status.h"

/* An answer is waited for so long: a user gets one within 5 s, of whatever kind. */
#define SW_WATCH_ASK_SECONDS 4.0

struct sw_watch { /* zero at the beginning; times of sw_clock_now */
    double begun, last, next;
    double between; /* seconds */
    int64_t asked;  /* so often */
    uint64_t seen;  /* of the states that were there */
};

/* The scheduler was asked just now by the caller. */
void sw_watch_begin_asked(struct sw_watch *watch);

/* Reads the runs' files, and asks the scheduler when it is time. Errors: memory. */
int sw_watch_look(struct sw_watch *watch, struct sw_statuses *statuses, struct sw_error *err);
/* A second's pause. */
void sw_watch_wait(void);

#endif
