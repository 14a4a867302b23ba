/* Status of runs: the contents of their folders (submission.json, attempt.json, metrics.jsonl, the
 * newest checkpoint) combined with the scheduler's answers about their jobs. The controller is
 * asked once for all runs; if it cannot be asked, the folders alone count. Prints nothing. */
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
    SW_RUN_SUBMITTING, /* its command was started, but a job may or may not exist */
    SW_RUN_PENDING,    /* its job waits */
    SW_RUN_STARTING,   /* its job has nodes, but does no steps yet */
    SW_RUN_RUNNING,    /* steps are done */
    SW_RUN_ENDING,     /* its job is releasing its nodes */
    SW_RUN_SUSPENDED,
    SW_RUN_DONE,    /* all steps are done */
    SW_RUN_STOPPED, /* it was asked to end; it can continue */
    SW_RUN_FAILED,
    SW_RUN_LOST,   /* it died without a verdict: killed, or its node was */
    SW_RUN_UNKNOWN /* it may be running: the scheduler does not answer */
};
/* state.c */
const char *sw_run_state_name(enum sw_run_state state); /* "pending" ... */
/* True if the run may still change the folder. */
bool sw_run_state_is_live(enum sw_run_state state);

enum { SW_STATUS_WORDS = 640 };

struct sw_run_status {
    char *folder;                         /* absolute */
    const struct sw_scheduler *scheduler; /* scheduler to ask; it has a queue */
    bool queueless; /* true if its launcher has no queue, and need not answer */
    struct sw_submission submission;
    struct sw_stages stages; /* count 0: no stages */
    int32_t stage;           /* current or last stage; the members below belong to it */
    char inner[PATH_MAX];    /* its folder; without stages the run's */
    struct sw_attempt attempt;
    time_t attempt_at; /* time of its last write; 0: none */
    struct sw_progress progress;
    struct sw_started started; /* job that does not train; type "": it trains, or another job's */
    int32_t tasks_running;     /* its jobs with nodes: several in an array */
    struct sw_queued_job job;  /* id NULL: none, or unknown; points into the answer */
    enum sw_run_state state;
    double ending_since;          /* time since when its files say that it ended while its job is
                                     ending; 0: not so */
    bool did_steps;               /* true if its files showed steps when the scheduler answered */
    bool unreadable;              /* true if submission.json exists and cannot be read */
    bool is_queued;               /* true for a job, false for a run of mpirun */
    bool never_starts;            /* true for a pending job that must be changed */
    bool slower;                  /* true if slower than the prediction's band */
    char job_id[SW_JOB_ID_BYTES]; /* "" */
    int64_t attempt_number, step, steps; /* 0: unknown */
    int64_t told_steps; /* set by a caller that read the run's file; used if nothing else gives
                           it */
    double predicted, low, high;                          /* seconds of a step; 0: unknown */
    double left_seconds;                                  /* -1: unknown */
    int64_t checkpoint_step;                              /* -1: none */
    double checkpoint_age;                                /* seconds; -1 */
    char checkpoint[PATH_MAX];                            /* its folder; "" */
    char words[SW_STATUS_WORDS], advice[SW_STATUS_WORDS]; /* "": none */
    char excluded[1024];                                  /* excluded nodes, joined by ','; "" */
    char note[320];                                       /* about a file that cannot be read; "" */
    const struct sw_hours *efficiency; /* set by a caller, to be shown; NULL: not shown */
};

struct sw_statuses {
    struct sw_run_status *run;
    int32_t count;
    const struct sw_scheduler *scheduler; /* for all runs */
    struct sw_queued_jobs jobs, history;  /* the answers */
    bool asked;                           /* true if the controller answered, or there was
                                             nothing to ask */
    bool every_job;          /* set by a caller that needs all live jobs of its one run */
    struct sw_error trouble; /* reason for no answer; status SW_OK: it did */
};

/* Reads the folders; the names are copied. A folder with unreadable files gets a note. Errors
 * (SW_ENVIRONMENT): memory. Free with sw_statuses_free. */
int sw_statuses_read(const char *const *folders, int32_t count, struct sw_statuses *out,
                     struct sw_error *err);
/* Asks this scheduler, which has a queue, about all runs, instead of the one that their scripts
 * name. */
void sw_statuses_use(struct sw_statuses *statuses, const struct sw_scheduler *scheduler);
/* Reads the folders' files again; answers stay. */
void sw_statuses_refresh(struct sw_statuses *statuses);
/* Asks the scheduler about all runs within so many seconds, and draws conclusions. Trouble with it
 * is no error: it is kept in `trouble`. Errors: memory. */
int sw_statuses_ask(struct sw_statuses *statuses, double limit_seconds, struct sw_error *err);
void sw_statuses_free(struct sw_statuses *statuses);

/* All jobs of one run that are not over, newest last; they point into the answers. Returns their
 * number. */
int32_t sw_status_live_jobs(const struct sw_statuses *statuses, int32_t run,
                            struct sw_queued_job *out, int32_t most);

/* True if a job belongs to this run: by its number, its comment or, while it lives, its script. */
bool sw_status_owns(const struct sw_run_status *status, const struct sw_queued_job *job);

/* True if there is nothing left to wait for: it is not live, or its job has been releasing nodes
 * for a quarter of a minute, which can take minutes if a node does not answer. */
bool sw_status_is_over(const struct sw_run_status *status);

/* Exit code for the run's end; 0: not ended. */
int sw_status_exit_code(const struct sw_run_status *status);

#endif
