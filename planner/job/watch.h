/* Intervals at which a waiting command looks at runs: at their files every second, and at the
 * scheduler every 10 s, less often while nothing changes, sooner when the files show an end. squeue
 * makes two calls of the controller (jobs and partitions), so the average is at most one every 5 s,
 * for any number of runs. */
#ifndef SW_JOB_WATCH_H
#define SW_JOB_WATCH_H

#include "planner/job/status.h"

/* Longest wait for an answer: a user gets a result within 5 s. */
#define SW_WATCH_ASK_SECONDS 4.0

struct sw_watch { /* zero at first; times of sw_clock_now */
    double begun, last, next;
    double between; /* seconds */
    int64_t asked;  /* number of times asked */
    uint64_t seen;  /* digest of the last states */
};

/* Call when the scheduler has just been asked by the caller. */
void sw_watch_begin_asked(struct sw_watch *watch);

/* Reads the runs' files, and asks the scheduler if it is time. Errors: memory. */
int sw_watch_look(struct sw_watch *watch, struct sw_statuses *statuses, struct sw_error *err);
/* Pauses for a second. */
void sw_watch_wait(void);

#endif
