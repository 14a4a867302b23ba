/* A scheduler is a row: what queues a run's jobs (slurm/), or only starts its ranks where it is
 * called (mpirun/). The rest of plan asks the row of a run's cluster and knows none by its name: a
 * new one is a folder and a line of rows/rows.c.
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

/* What a script says of its own job. */
struct sw_job_script {
    char log[PATH_MAX]; /* where the job prints to, with the scheduler's patterns */
    bool has_comment;   /* so that the token of a submission has no place */
};

enum sw_submitted {
    SW_SUBMIT_DONE,
    SW_SUBMIT_NONE,  /* there surely is no job */
    SW_SUBMIT_UNSURE /* nobody can say */
};

/* What can be asked of one with a queue. */
struct sw_queue_row {
    const char *client; /* the program that asks it: where that is, it can be asked */

    /* Whether a script could start, and when by the scheduler's own word; jobs that wait for nodes
     * which are down are good. Errors: SW_UNMET: it cannot, and why; SW_ENVIRONMENT: no answer. */
    int (*admit)(const char *script, struct sw_admission *out, struct sw_error *err);
    /* Remembers the estimate of the job that it became. */
    void (*admitted)(const struct sw_admission *admission, const char *job);
    /* script: its text; folder: of the run. */
    void (*read_script)(const char *script, const char *folder, struct sw_job_script *out);
    /* Gives it the script of that path. token: what its job carries; NULL: the script has a word of
     * its own there. folder: of the run, for messages. id: the job's, of id_bytes. Anything but
     * SW_SUBMIT_DONE fills err: SW_UNMET: it is refused; SW_ENVIRONMENT: no answer, no such
     * program. What it says beside is printed on stderr. */
    enum sw_submitted (*submit)(const char *script, const char *token, const char *folder, char *id,
                                int32_t id_bytes, struct sw_error *err);

    /* The jobs with these ids or, ids NULL, all of the calling user's, within limit_seconds; those
     * that nobody knows are left out. Errors (SW_ENVIRONMENT): no answer. Free with
     * sw_queued_jobs_free, also after an error. */
    int (*ask)(const char *const *ids, int32_t count, double limit_seconds,
               struct sw_queued_jobs *out, struct sw_error *err);
    /* The same of those that are long over; where nothing is kept of them the answer is empty. */
    int (*ask_history)(const char *const *ids, int32_t count, double limit_seconds,
                       struct sw_queued_jobs *out, struct sw_error *err);
    /* Why a job waits, in words; a reason that is not known is shown as it is. job: its number, for
     * commands. never (may be NULL): true if it will not start unless something is changed. Returns
     * buffer. */
    const char *(*reason_words)(const char *reason, const char *job, char *buffer, int32_t bytes,
                                bool *never);
    /* What the state of a job that is over means; "" where it says nothing. */
    const char *(*end_words)(const char *state);
    /* The setting that lets such a job end otherwise; "": none does. */
    const char *(*end_advice)(const char *state);
    /* Where a script without a word on it prints to, beside it: "slurm-%j.out"; of an array. */
    const char *log, *log_of_task;

    const char *resume;  /* the command that lets a suspended job go on */
    const char *cancel;  /* the command that ends a job by its number */
    const char *exclude; /* the setting that names nodes which a job must not have */
    /* A command that lets a job which waits for a node that is gone ask for so many tasks; false:
     * it does not wait for one. NULL: there is none. */
    bool (*ask_fewer)(const struct sw_queued_job *job, int32_t tasks, char *command, int32_t bytes);

    /* INT to the ranks, which save and end. */
    int (*interrupt)(const char *id, struct sw_error *err);
    /* Ends the job; kill: its ranks without a chance to save. */
    int (*end)(const char *id, bool kill, struct sw_error *err);
    /* So that it is not started again when it ends; not every site lets users do so. */
    void (*forbid_requeue)(const char *id);
    /* The id as the two above take it, without what limits how many tasks run at a time. false:
     * they do not take it. */
    bool (*plain_id)(const char *id, char out[SW_SHOWN_JOB_BYTES]);

    /* Lines of `plan --version`, or, where json is not NULL, members of its document. NULL: none.
     */
    void (*write_version)(FILE *out, struct sw_json *json);
    /* A cluster file from what the scheduler knows. Returns an exit code. NULL: it knows too
     * little. */
    int (*import_cluster)(const struct sw_options *options);
};

struct sw_forecast; /* what a scheduler said of its nodes, limits and waits; the row's own */

/* So many jobs are worth believing: that waited, and of ours. */
enum { SW_WAITS_ENOUGH = 10, SW_STARTS_ENOUGH = 5 };

/* One that can say when a job would start. */
struct sw_forecast_row {
    /* true if this machine is one from which it can be asked: commands that need no answer ask only
     * then. */
    bool (*is_here)(void);
    /* Errors (SW_ENVIRONMENT): it does not answer. */
    struct sw_forecast *(*open)(struct sw_error *err);
    void (*close)(struct sw_forecast *forecast); /* NULL does nothing */
    const char *(*cluster)(const struct sw_forecast *forecast);
    const char *(*version)(const struct sw_forecast *forecast);
    /* Adds what a script asks for. Errors (SW_ENVIRONMENT): memory. */
    int (*read)(const char *script, struct sw_job_request *out, struct sw_error *err);
    /* Asks for all that the others answer from, about jobs like this one. */
    int (*load)(struct sw_forecast *forecast, const struct sw_job_request *base,
                struct sw_error *err);
    /* A partition's name; name NULL: the default one's. NULL: there is none. */
    const char *(*partition)(const struct sw_forecast *forecast, const char *name);
    /* Whether such a job can start at all; else why, in one line. */
    bool (*admits)(const struct sw_forecast *forecast, const struct sw_job_request *request,
                   char why[256]);
    /* Adds to *out the rest of the limits that such a job shares with others; asks for them
     * where `load` did not. Errors (SW_ENVIRONMENT): no answer, no memory. */
    int (*budgets)(struct sw_forecast *forecast, const struct sw_job_request *request,
                   struct sw_budgets *out, struct sw_error *err);
    /* When each would start; out has room for count; a refusal says why in words. */
    int (*starts)(struct sw_forecast *forecast, const struct sw_job_request *requests,
                  int32_t count, struct sw_job_start *out, struct sw_error *err);
    /* How long jobs like this have waited. */
    struct sw_quantiles (*waits)(const struct sw_forecast *forecast, const char *partition,
                                 int32_t nodes, double limit_s);
    /* Actual / estimated wait of our own jobs. */
    struct sw_quantiles (*ratio)(const struct sw_forecast *forecast);
};

/* Where a job asks its nodes to lie, since the price of its mesh rests on it. */
struct sw_node_request {
    int32_t segment; /* nodes of each of its segments, which lie in one block; 0: not asked for */
    int32_t groups;  /* that its nodes are spread over at most; 0: not asked for */
    double seconds;  /* of a step where it gets that */
    double apart_seconds; /* and where it does not */
    double gain_s;        /* of all steps; INFINITY: their number is not said */
    const char *name;     /* of the scheduler's option for it; NULL: there is none, or it is set */
    char option[48];      /* what that is given; "": nothing is asked for */
    char why[256];        /* for people, in a line; "": likewise */
};

/* What other parts of plan ask of a job's settings. */
struct sw_job_terms {
    const char *time;           /* its limit as it is written; NULL: none is set */
    double time_s;              /* INFINITY: no limit */
    enum sw_continue continues; /* how it goes on that ended before its run did */
    bool depends;               /* on another job, which may make what is lacking */
    const char *partition;      /* where it runs; a list with commas; NULL: none is named */
};

struct sw_scheduler {
    const char *name; /* as `launcher` of a cluster has it, and its section: "slurm" */
    const struct sw_launcher *launcher; /* its settings */
    const char *title;                  /* for messages: "Slurm" */
    const char *starter;                /* the command that takes its script: "sbatch" */
    const char *suffix;                 /* of its script's name: "sbatch" */
    const struct sw_script_row *script;
    const struct sw_queue_row *queue;           /* NULL: none, what it starts is no job */
    const struct sw_forecast_row *forecast;     /* NULL: it does not say when a job would start */
    const struct sw_allocation_ops *allocation; /* NULL: `plan supervise` is not for its jobs */

    /* Seconds of a time limit as it is written; INFINITY: none, NULL. */
    double (*seconds)(const char *time);
    struct sw_job_terms (*terms)(const struct sw_cluster_config *cluster);
    /* Puts what is asked for into the settings, which may point into it, unless they ask for
     * something themselves, and fills in its words. NULL: it cannot be asked. */
    void (*place)(struct sw_cluster_config *cluster, struct sw_node_request *placement);
    /* Whether ranks run inside an image. */
    bool (*has_container)(const struct sw_run_config *run);
    /* The words before the runner that start so many ranks on each of the nodes, with a space
     * behind, in a line that people read. */
    void (*write_start)(FILE *out, const struct sw_cluster_config *cluster, int32_t nodes,
                        int32_t per_node);
};

/* The rows; ends with NULL. And what descriptions may say of them, in the same order. */
extern const struct sw_scheduler *const sw_schedulers[];
extern const struct sw_launchers sw_launchers;
const struct sw_scheduler *sw_scheduler_of(const struct sw_cluster_config *cluster);
/* Whose script a file is, by its name's ending; "", or one of none with a queue: as
 * sw_scheduler_here. */
const struct sw_scheduler *sw_scheduler_of_script(const char *path);
/* The one of the cluster where that has jobs; else the first that has, for templates of people. */
const struct sw_scheduler *sw_scheduler_of_jobs(const struct sw_cluster_config *cluster);
/* One with a queue that can be asked on this machine; where none can, the first that has one. */
const struct sw_scheduler *sw_scheduler_here(void);

struct sw_job_terms sw_job_terms(const struct sw_cluster_config *cluster);
/* Fails with a line that there is no queue. what: "so there is no job to submit; ...". */
int sw_scheduler_fail_no_queue(const struct sw_cluster_config *cluster, const char *what,
                               struct sw_error *err);

#endif
