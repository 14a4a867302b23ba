/* A job for any scheduler: as listed, as requested, and its estimated start. A list owns the answer
 * that its jobs point into. */
#ifndef SW_SCHEDULER_JOB_H
#define SW_SCHEDULER_JOB_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Longest id of a job: its number, and with the tasks of an array that the scheduler lists
 * behind. */
enum { SW_MOST_JOB_DIGITS = 20, SW_SHOWN_JOB_BYTES = 128 };

/* Texts are "" if the scheduler does not give them; they point into the answer, and control
 * characters in them have become '?'. */
struct sw_queued_job {
    const char *id;     /* "42"; of an array "42_3", "42_[4-15%8]" */
    int64_t number;     /* its own number; a task of an array may have another than the array */
    const char *state;  /* in Slurm's words, for any scheduler: PENDING, RUNNING ... */
    const char *reason; /* scheduler's own word, for a pending job; for another one often None */
    const char *nodes;  /* "n[1-4]" */
    const char *starts_at, *ended_at, *submitted_at; /* local time, 2026-11-22T11:30:00 */
    int64_t start; /* starts_at in seconds since 1970; 0: unknown; pending: expected */
    const char *comment, *command, *folder; /* command: the script's path */
    int64_t node_count;
    double elapsed_seconds; /* -1: unknown */
    double limit_seconds;   /* INFINITY: none; -1: unknown */
    bool is_live;    /* true if it waits, runs or is ending; an unknown state counts as live */
    bool is_running; /* true if it has nodes */
};

struct sw_queued_jobs {
    struct sw_queued_job *job;
    int32_t count;
    char *text;      /* memory of the jobs' texts */
    bool no_cluster; /* with an error: true if this machine belongs to no cluster, so there are
                        no jobs */
};
void sw_queued_jobs_free(struct sw_queued_jobs *jobs);
/* The job of this id, for an array any of its tasks; NULL: not in the list. */
const struct sw_queued_job *sw_queued_jobs_find(const struct sw_queued_jobs *jobs, const char *id);

/* A job that could be submitted, in its scheduler's option names. "nodes", "partition", "time",
 * "signal" and "dependency" mean the same for all. A flag's value is "". */
enum { SW_JOB_OPTIONS = 64 };
struct sw_job_request {
    int32_t count;
    struct {
        char *name, *value;
    } option[SW_JOB_OPTIONS];
};
/* Copies; a NULL value is not added. Errors (SW_ENVIRONMENT): memory. */
int sw_job_request_add(struct sw_job_request *request, const char *name, const char *value,
                       struct sw_error *err);
/* The last one of that name; NULL: none. */
const char *sw_job_request_get(const struct sw_job_request *request, const char *name);
/* Copies with one option changed (name NULL: none); value NULL: removed. */
int sw_job_request_vary(const struct sw_job_request *from, const char *name, const char *value,
                        struct sw_job_request *out, struct sw_error *err);
void sw_job_request_free(struct sw_job_request *request);

enum { SW_JOB_REFUSAL_BYTES = 900 }; /* a site may explain in several lines */
struct sw_job_start {
    bool starts;         /* false: the scheduler refuses it, see refusal */
    bool waits;          /* true if it cannot start now, but the queue takes it: see refusal */
    int64_t at;          /* estimated start; seconds since 1970 */
    char partition[128]; /* partition of that start */
    char *nodes;         /* "gpu[0-3]" */
    char refusal[SW_JOB_REFUSAL_BYTES];
};
void sw_job_starts_free(struct sw_job_start *starts, int32_t count);

/* Outcome for a job that asks for more than its account has left. */
enum sw_budget_end {
    SW_BUDGET_ENOUGH,
    SW_BUDGET_WAITS,  /* the job waits until more is left */
    SW_BUDGET_KILLED, /* the job starts, and is killed when nothing is left */
    SW_BUDGET_REFUSED /* the queue does not take the job */
};
const char *sw_budget_end_name(enum sw_budget_end end); /* "enough" "waits" "killed" "refused" */

/* A limit shared by the jobs of an account or of the site, in minutes of a resource, or in
 * licenses. */
struct sw_budget {
    char holder[96];   /* "account research", "qos long"; for licenses "the site" */
    char limit[24];    /* the scheduler's word: "GrpTRESMins", "GrpWall", "Licenses" */
    char resource[96]; /* "gres/gpu", "wall"; for licenses "scratch" */
    bool is_license;
    double most, used, held; /* held: by running jobs for their remaining time, or by
                                reservations of licenses; used, held -1: unknown */
    double asked;            /* requested by this job, with its whole time limit; INFINITY: no
                                limit */
    enum sw_budget_end end;
    char message[512]; /* a line for people */
};
struct sw_budgets {
    struct sw_budget *of;
    int32_t count;
};
/* One more, zeroed; NULL: no memory (err filled). */
struct sw_budget *sw_budgets_add(struct sw_budgets *budgets, struct sw_error *err);
void sw_budgets_free(struct sw_budgets *budgets);
/* Rest after used and held, at least 0; NAN: unknown. */
double sw_budget_left(const struct sw_budget *budget);

/* Answer of the scheduler about a job before submission. Free its budgets with sw_budgets_free. */
struct sw_admission {
    char waits[SW_JOB_REFUSAL_BYTES]; /* cause of waiting, if the scheduler cannot give a
                                         start; "": none */
    int32_t left; /* nodes that it could use without those it waits for; 0: unknown */
    char cluster[128];
    int64_t asked, estimate; /* time of asking, and estimated start */
    struct sw_budgets budgets;
};

struct sw_quantiles {
    int32_t count;            /* number of observations */
    double low, median, high; /* 10th, 50th and 90th percentile */
};

#endif
