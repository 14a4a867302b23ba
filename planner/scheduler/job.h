/* A job as its scheduler shows it, as it might be asked for, and when it would start: whichever
 * scheduler that is. A list owns the answer that its jobs point into. */
#ifndef SW_SCHEDULER_JOB_H
#define SW_SCHEDULER_JOB_H

#include "core/base/error.h"

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
    const char *state;  /* in Slurm's words, whichever scheduler it is: PENDING, RUNNING ... */
    const char *reason; /* the scheduler's own; of a pending job; of another one often None */
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
    char *text;      /* what the jobs point into */
    bool no_cluster; /* beside an error: this machine is of no cluster, its jobs can be none */
};
void sw_queued_jobs_free(struct sw_queued_jobs *jobs);
/* The job of this id, of an array any of its tasks; NULL: it is not among them. */
const struct sw_queued_job *sw_queued_jobs_find(const struct sw_queued_jobs *jobs, const char *id);

/* A job that might be submitted, in the words of its scheduler's options. "nodes", "partition",
 * "time", "signal" and "dependency" mean the same for all. A value is "" for a flag. */
enum { SW_JOB_OPTIONS = 64 };
struct sw_job_request {
    int32_t count;
    struct {
        char *name, *value;
    } option[SW_JOB_OPTIONS];
};
/* Copies; a value that is NULL is not asked for. Errors (SW_ENVIRONMENT): memory. */
int sw_job_request_add(struct sw_job_request *request, const char *name, const char *value,
                       struct sw_error *err);
/* The last one of that name; NULL: none. */
const char *sw_job_request_get(const struct sw_job_request *request, const char *name);
/* A copy with one option (or none: name NULL) of another value; value NULL: without it. */
int sw_job_request_vary(const struct sw_job_request *from, const char *name, const char *value,
                        struct sw_job_request *out, struct sw_error *err);
void sw_job_request_free(struct sw_job_request *request);

enum { SW_JOB_REFUSAL_BYTES = 900 }; /* a site may explain in several lines */
struct sw_job_start {
    bool starts;         /* else the scheduler refuses it: see refusal */
    bool waits;          /* it does not start now, but the queue takes it: see refusal */
    int64_t at;          /* when, by its estimate; seconds since 1970 */
    char partition[128]; /* where */
    char *nodes;         /* "gpu[0-3]" */
    char refusal[SW_JOB_REFUSAL_BYTES];
};
void sw_job_starts_free(struct sw_job_start *starts, int32_t count);

/* End of a job that asks for more than is left to its account. */
enum sw_budget_end {
    SW_BUDGET_ENOUGH,
    SW_BUDGET_WAITS,  /* the job waits until more is left */
    SW_BUDGET_KILLED, /* the job starts, and is killed when nothing is left */
    SW_BUDGET_REFUSED /* the queue does not take the job */
};
const char *sw_budget_end_name(enum sw_budget_end end); /* "enough" "waits" "killed" "refused" */

/* Something that jobs of an account or of the site use together and that has a limit, in minutes of
 * a resource, or in licenses. */
struct sw_budget {
    char holder[96];   /* "account research", "qos long"; of licenses "the site" */
    char limit[24];    /* the scheduler's word: "GrpTRESMins", "GrpWall", "Licenses" */
    char resource[96]; /* "gres/gpu", "wall"; "scratch" of licenses */
    bool is_license;
    double most, used, held; /* held: by running jobs for the time that is left to them, or by
                                reservations of licenses; used, held -1: not told */
    double asked;            /* by this job, with its whole time limit; INFINITY: it has none */
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
/* Rest beside what is used and held, no less than 0; NAN: not known. */
double sw_budget_left(const struct sw_budget *budget);

/* Answer of the scheduler about a job before it was submitted. Free its budgets with
 * sw_budgets_free. */
struct sw_admission {
    char waits[SW_JOB_REFUSAL_BYTES]; /* for what, where the scheduler cannot say when it starts;
                                         "": nothing */
    int32_t left; /* nodes that it could have without those that it waits for; 0: not known */
    char cluster[128];
    int64_t asked, estimate; /* when it was asked, and when the job would start */
    struct sw_budgets budgets;
};

struct sw_quantiles {
    int32_t count;            /* of what they rest on */
    double low, median, high; /* 10th, 50th and 90th percentile */
};

#endif
