/* A scheduler is a row: it queues a run's jobs (slurm/), or only starts its ranks where it is
 * called (mpirun/). The rest of plan asks the row of a run's cluster and knows none by name: a new
 * one is a folder and a line of rows/rows.c.
 *
 * Rows are constants and own nothing. Each function may be called by one thread at a time. */
#ifndef SW_SCHEDULER_SCHEDULER_H
#define SW_SCHEDULER_SCHEDULER_H

#include "core/base/json.h"
#include "core/config/config.h"
#include "planner/command/options.h"
#include "planner/scheduler/job.h"
#include "planner/scheduler/script.h"
#include "planner/scheduler/allocation.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

/* Job settings in a script. */
struct sw_job_script {
    char log[PATH_MAX]; /* path of the job's log, with the scheduler's patterns */
    bool has_comment;   /* true if it sets a comment, which leaves no room for a submission's
                           token */
};

enum sw_submitted {
    SW_SUBMIT_DONE,
    SW_SUBMIT_NONE,  /* certainly no job */
    SW_SUBMIT_UNSURE /* unknown */
};

/* Functions of a scheduler with a queue. */
struct sw_queue_row {
    const char *client; /* client program: if it exists, the scheduler can be asked */

    /* Tells if a script could start, and when by the scheduler's own estimate; jobs that wait for
     * nodes which are down are accepted. Errors: SW_UNMET: it cannot, and why; SW_ENVIRONMENT: no
     * answer. */
    int (*admit)(const char *script, struct sw_admission *out, struct sw_error *err);
    /* Records the estimate for the submitted job. */
    void (*admitted)(const struct sw_admission *admission, const char *job);
    /* script: its text; folder: of the run. */
    void (*read_script)(const char *script, const char *folder, struct sw_job_script *out);
    /* Submits the script of that path. token: for the job's comment; NULL: the script sets its own
     * comment. folder: of the run, for messages. id: of the job, in id_bytes. Results other than
     * SW_SUBMIT_DONE fill err: SW_UNMET: refused; SW_ENVIRONMENT: no answer, no such program.
     * Prints its other messages on stderr. */
    enum sw_submitted (*submit)(const char *script, const char *token, const char *folder, char *id,
                                int32_t id_bytes, struct sw_error *err);

    /* The jobs with these ids or, ids NULL, all of the calling user's, within limit_seconds;
     * unknown ones are left out. Errors (SW_ENVIRONMENT): no answer. Free with sw_queued_jobs_free,
     * also after an error. */
    int (*ask)(const char *const *ids, int32_t count, double limit_seconds,
               struct sw_queued_jobs *out, struct sw_error *err);
    /* The same for jobs that ended long ago; empty if no history is kept. */
    int (*ask_history)(const char *const *ids, int32_t count, double limit_seconds,
                       struct sw_queued_jobs *out, struct sw_error *err);
    /* Reason why a job waits, in words; an unknown one is returned unchanged. job: its number, for
     * commands. never (may be NULL): true if it cannot start without a change. Returns buffer. */
    const char *(*reason_words)(const char *reason, const char *job, char *buffer, int32_t bytes,
                                bool *never);
    /* Meaning of the state of a job that is over; "": none. */
    const char *(*end_words)(const char *state);
    /* Setting that lets such a job end otherwise; "": none. */
    const char *(*end_advice)(const char *state);
    /* Default log of a script, beside it: "slurm-%j.out"; for an array. */
    const char *log, *log_of_task;

    const char *resume;  /* command that resumes a suspended job */
    const char *cancel;  /* the command that ends a job by its number */
    const char *exclude; /* setting that names nodes to avoid */
    /* A command that changes the number of tasks of a job that waits for a lost node; false: it
     * waits for none. NULL: no such command. */
    bool (*ask_fewer)(const struct sw_queued_job *job, int32_t tasks, char *command, int32_t bytes);

    /* Sends INT to the ranks, which save and end. */
    int (*interrupt)(const char *id, struct sw_error *err);
    /* Ends the job; kill: its ranks without a chance to save. */
    int (*end)(const char *id, bool kill, struct sw_error *err);
    /* Keeps it from being restarted when it ends; not every site lets users do so. */
    void (*forbid_requeue)(const char *id);
    /* The id in the form of the two calls above, without the limit of concurrent tasks. false: not
     * accepted. */
    bool (*plain_id)(const char *id, char out[SW_SHOWN_JOB_BYTES]);

    /* Writes lines of `plan --version` or, if json is not NULL, members of its document. NULL:
     * none. */
    void (*write_version)(FILE *out, struct sw_json *json);
    /* Writes a cluster file from the scheduler's knowledge. Returns an exit code. NULL: it knows
     * too little. */
    int (*import_cluster)(const struct sw_options *options);
};

struct sw_forecast; /* private answers of a scheduler about nodes, limits and waits */

/* Smallest numbers of jobs for a statistic: waits, and our own starts. */
enum { SW_WAITS_ENOUGH = 10, SW_STARTS_ENOUGH = 5 };

/* Functions of a scheduler that can predict a job's start. */
struct sw_forecast_row {
    /* true if this machine can ask it: commands that need no answer ask only then. */
    bool (*is_here)(void);
    /* Errors (SW_ENVIRONMENT): no answer. */
    struct sw_forecast *(*open)(struct sw_error *err);
    void (*close)(struct sw_forecast *forecast); /* NULL does nothing */
    const char *(*cluster)(const struct sw_forecast *forecast);
    const char *(*version)(const struct sw_forecast *forecast);
    /* Adds a script's requests. Errors (SW_ENVIRONMENT): memory. */
    int (*read)(const char *script, struct sw_job_request *out, struct sw_error *err);
    /* Asks for the data of the calls below, for jobs like this one. */
    int (*load)(struct sw_forecast *forecast, const struct sw_job_request *base,
                struct sw_error *err);
    /* A partition's name; name NULL: the default one's. NULL: none. */
    const char *(*partition)(const struct sw_forecast *forecast, const char *name);
    /* True if such a job can start at all; else why, in one line. */
    bool (*admits)(const struct sw_forecast *forecast, const struct sw_job_request *request,
                   char why[256]);
    /* Adds the rest of the limits that such a job shares with others to *out; asks for them if
     * `load` did not. Errors (SW_ENVIRONMENT): no answer, no memory. */
    int (*budgets)(struct sw_forecast *forecast, const struct sw_job_request *request,
                   struct sw_budgets *out, struct sw_error *err);
    /* Estimated start of each; out has room for count; a refusal has its reason in words. */
    int (*starts)(struct sw_forecast *forecast, const struct sw_job_request *requests,
                  int32_t count, struct sw_job_start *out, struct sw_error *err);
    /* Waiting times of jobs like this. */
    struct sw_quantiles (*waits)(const struct sw_forecast *forecast, const char *partition,
                                 int32_t nodes, double limit_s);
    /* Actual / estimated wait of our own jobs. */
    struct sw_quantiles (*ratio)(const struct sw_forecast *forecast);
};

/* Requested placement of a job's nodes, on which its mesh's price rests. */
struct sw_node_request {
    int32_t segment;      /* nodes of each segment, which must be in one block; 0: no request */
    int32_t groups;       /* most groups for its nodes; 0: no request */
    double seconds;       /* step time with that placement */
    double apart_seconds; /* step time without */
    double gain_s;        /* seconds saved over all steps; INFINITY: their number is not given */
    const char *name;     /* name of the scheduler's option for it; NULL: none, or set already */
    char option[48];      /* value of that option; "": no request */
    char why[256];        /* one line for people; "": none */
};

/* Properties of a job's settings for other parts of plan. */
struct sw_job_terms {
    const char *time;           /* its limit as written; NULL: none */
    double time_s;              /* INFINITY: no limit */
    enum sw_continue continues; /* continuation of a job that ended before its run did */
    bool depends;               /* true if it depends on another job, which may make missing
                                   files */
    const char *partition;      /* comma-separated list; NULL: none */
};

struct sw_scheduler {
    const char *name;                   /* word of `launcher`, and its section: "slurm" */
    const struct sw_launcher *launcher; /* settings */
    const char *title;                  /* for messages: "Slurm" */
    const char *starter;                /* command that takes its script: "sbatch" */
    const char *suffix;                 /* ending of its script's name: "sbatch" */
    const struct sw_script_row *script;
    const struct sw_queue_row *queue;           /* NULL: none; it starts no jobs */
    const struct sw_forecast_row *forecast;     /* NULL: it cannot predict a start */
    const struct sw_allocation_ops *allocation; /* NULL: no `plan supervise` for its jobs */

    /* Seconds of a written time limit; INFINITY: none, NULL. */
    double (*seconds)(const char *time);
    struct sw_job_terms (*terms)(const struct sw_cluster_config *cluster);
    /* Puts the request into the settings, which may then point into it, unless they have one
     * themselves, and fills in its texts. NULL: not possible. */
    void (*place)(struct sw_cluster_config *cluster, struct sw_node_request *placement);
    /* True if ranks run inside an image. */
    bool (*has_container)(const struct sw_run_config *run);
    /* Writes the words before the runner that start that many ranks on each node, with a space
     * behind, for people. */
    void (*write_start)(FILE *out, const struct sw_cluster_config *cluster, int32_t nodes,
                        int32_t per_node);
};

/* The rows; ends with NULL. And their settings for descriptions, in the same order. */
extern const struct sw_scheduler *const sw_schedulers[];
extern const struct sw_launchers sw_launchers;
const struct sw_scheduler *sw_scheduler_of(const struct sw_cluster_config *cluster);
/* The scheduler of a script, by its name's ending; "", or one without a queue: as
 * sw_scheduler_here. */
const struct sw_scheduler *sw_scheduler_of_script(const char *path);
/* The cluster's scheduler if it has jobs; else the first that has, for users' templates. */
const struct sw_scheduler *sw_scheduler_of_jobs(const struct sw_cluster_config *cluster);
/* A scheduler with a queue that this machine can ask; else the first with a queue. */
const struct sw_scheduler *sw_scheduler_here(void);

struct sw_job_terms sw_job_terms(const struct sw_cluster_config *cluster);
/* Fails because there is no queue. what: "so there is no job to submit; ...". */
int sw_scheduler_fail_no_queue(const struct sw_cluster_config *cluster, const char *what,
                               struct sw_error *err);

#endif
