/* A job as its scheduler shows it, whichever that is. A list owns the answer that its jobs point
 * into. */
#ifndef SW_SCHEDULER_JOB_H
#define SW_SCHEDULER_JOB_H

#include <stdbool.h>
#include <stdint.h>

/* What is no longer than this is a job's id: its number, and all of it with the tasks of an array
 * that the scheduler lists behind. */
enum { SW_MOST_JOB_DIGITS = 20, SW_SHOWN_JOB_BYTES = 128 };

/* Texts are "" where the scheduler does not tell; they point into the answer, and control
 * characters in them have become '?'. */
struct sw_queued_job {
    const char *id;     /* "42"; of an array "42_3", "42_[4-15%8]" */
    int64_t number;     /* its own; a task of an array may have another one than the array */
    const char *state;  /* the scheduler's word: PENDING, RUNNING ... */
    const char *reason; /* of a pending job; of another one often None */
    const char *nodes;  /* "n[1-4]" */
    const char *starts_at, *ended_at, *submitted_at; /* local time, 2026-11-22T11:30:00 */
    int64_t start; /* starts_at in seconds since 1970; 0: not told; of a pending job: expected */
    const char *comment, *command, *folder; /* command: the script's path */
    int64_t node_count;
    double elapsed_seconds; /* -1: not told */
    double limit_seconds;   /* INFINITY: none; -1: not told */
    bool is_live;    /* it waits, runs or is ending; a state that is not known counts as live */
    bool is_running; /* it has nodes */
};

struct sw_queued_jobs {
    struct sw_queued_job *job;
    int32_t count;
    char *text; /* what the jobs point into */
};
void sw_queued_jobs_free(struct sw_queued_jobs *jobs);
/* The job of this id, of an array any of its tasks; NULL: it is not among them. */
const struct sw_queued_job *sw_queued_jobs_find(const struct sw_queued_jobs *jobs, const char *id);

#endif
