/* Where runs are: what their folders tell (submission.json, attempt.json, metrics.jsonl, the newest
 * checkpoint) and what the scheduler tells of their jobs, put together. However many runs there
 * are, the controller is asked once; where it cannot be asked, the folders alone speak. Prints
 * nothing. */
#ifndef SW_JOB_STATUS_H
#define SW_JOB_STATUS_H

#include "core/run/attempt.h"
#include "core/run/hours.h"
#include "core/run/progress.h"
#include "core/run/stages.h"
#include "core/run/submission.h"
#include "planner/scheduler/scheduler.h"
#include "planner/job/started.h"

#include <time.h>

enum sw_run_state {
    SW_RUN_NONE,       /* nothing was started in this folder */
    SW_RUN_SUBMITTING, /* its command was started, and whether it made a job is not known */
    SW_RUN_PENDING,    /* its job waits */
    SW_RUN_STARTING,   /* its job has nodes, and does no steps yet */
    SW_RUN_RUNNING,    /* steps are done */
    SW_RUN_ENDING,     /* its job is releasing its nodes */
    SW_RUN_SUSPENDED,
    SW_RUN_DONE,    /* all steps are done */
    SW_RUN_STOPPED, /* it was told to end; it can go on */
    SW_RUN_FAILED,
    SW_RUN_LOST,   /* it is gone and could not say why: killed, or its node was */
    SW_RUN_UNKNOWN /* it may run or not: the scheduler does not answer */
};
/* state.c */
const char *sw_run_state_name(enum sw_run_state state); /* "pending" ... */
/* Whether something of it may still change the folder. */
bool sw_run_state_is_live(enum sw_run_state state);

enum { SW_STATUS_WORDS = 640 };

struct sw_run_status {
    char *folder;                         /* absolute */
    const struct sw_scheduler *scheduler; /* that is asked of its jobs; it has a queue */
    bool queueless; /* its launcher has no queue, so that it need not answer */
    struct sw_submission submission;
    struct sw_stages stages; /* count 0: the run has none */
    int32_t stage;           /* that it is in, or the last one; from here on as of that */
    char inner[PATH_MAX];    /* its folder; of a run without stages the run's */
    struct sw_attempt attempt;
    time_t attempt_at; /* when it was written; 0: there is none */
    struct sw_progress progress;
    struct sw_started
        started;           /* of a job that does not train; type "": it does, or it is another's */
    int32_t tasks_running; /* jobs of it that have nodes: several of an array */
    struct sw_queued_job job; /* id NULL: none, or not known; points into the answer */
    enum sw_run_state state;
    double ending_since; /* its files say that it ended, the scheduler that its job is ending; 0 */
    bool did_steps;      /* by its files, when the scheduler answered */
    bool unreadable;     /* submission.json is there and cannot be read */
    bool is_queued;      /* it is a job, not a run of mpirun */
    bool never_starts;   /* a pending job that must be changed */
    bool slower;         /* than the prediction's band */
    char job_id[SW_JOB_ID_BYTES];        /* "" */
    int64_t attempt_number, step, steps; /* 0: not known */
    int64_t told_steps; /* set by a caller that read the run's file: where nothing else tells */
    double predicted, low, high;                          /* of a step; 0: not told */
    double left_seconds;                                  /* -1: not known */
    int64_t checkpoint_step;                              /* -1: there is none */
    double checkpoint_age;                                /* seconds; -1 */
    char checkpoint[PATH_MAX];                            /* its folder; "" */
    char words[SW_STATUS_WORDS], advice[SW_STATUS_WORDS]; /* "" where there is nothing to say */
    char excluded[1024];               /* nodes that it does without, joined by ','; "" */
    char note[320];                    /* about a file that cannot be read; "" */
    const struct sw_hours *efficiency; /* set by a caller, to be shown; NULL: it is not */
};

struct sw_statuses {
    struct sw_run_status *run;
    int32_t count;
    const struct sw_scheduler *scheduler; /* of all of them */
    struct sw_queued_jobs jobs, history;  /* the answers */
    bool asked;                           /* the controller, or: there was nothing to ask it */
    bool every_job;          /* set by a caller that needs all live jobs of its one run */
    struct sw_error trouble; /* why it did not answer; status SW_OK: it did */
};

/* Reads the folders; the names are copied. A folder whose files cannot be read has a note. Errors
 * (SW_ENVIRONMENT): memory. Free with sw_statuses_free. */
int sw_statuses_read(const char *const *folders, int32_t count, struct sw_statuses *out,
                     struct sw_error *err);
/* Asks this one, which has a queue, of all of them, instead of that whose scripts they name. */
void sw_statuses_use(struct sw_statuses *statuses, const struct sw_scheduler *scheduler);
/* Reads the folders' files again; what was answered stays. */
void sw_statuses_refresh(struct sw_statuses *statuses);
/* Asks the scheduler about all of them within so many seconds, and puts together what there is to
 * say. Trouble with it is no error: it is kept in `trouble`. Errors: memory. */
int sw_statuses_ask(struct sw_statuses *statuses, double limit_seconds, struct sw_error *err);
void sw_statuses_free(struct sw_statuses *statuses);

/* All jobs of one run that are not over, the newest last; they point into the answers. Returns how
 * many. */
int32_t sw_status_live_jobs(const struct sw_statuses *statuses, int32_t run,
                            struct sw_queued_job *out, int32_t most);

/* Whether a job is this run's: by its number, its comment, or, while it lives, its script. */
bool sw_status_owns(const struct sw_run_status *status, const struct sw_queued_job *job);

/* Whether there is nothing to wait for any more: it is not live, or its job is releasing its nodes
 * for a quarter of a minute, which may take minutes where a node does not answer. */
bool sw_status_is_over(const struct sw_run_status *status);

/* How the run ended as an exit code; 0 while it has not. */
int sw_status_exit_code(const struct sw_run_status *status);

#endif
