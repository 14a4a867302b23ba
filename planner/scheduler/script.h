/* A scheduler row's part of the scripts that `plan emit` writes: its templates, the placeholders of
 * its settings, and the form of its limits. */
#ifndef SW_SCHEDULER_SCRIPT_H
#define SW_SCHEDULER_SCRIPT_H

#include "core/config/config.h"
#include "planner/command/argv.h"
#include "planner/command/template.h"

#include <limits.h>
#include <stdint.h>

struct sw_plan;
struct sw_node_request;
struct sw_scheduler;

struct sw_placeholder {
    const char *name; /* NULL ends a list */
    enum sw_template_kind kind;
    const char *about; /* text of the reference */
};

/* Inputs of a script. */
struct sw_script_request {
    const struct sw_run_config *run;
    double step_seconds;                     /* predicted, with saves and evaluations */
    int64_t lead_seconds;                    /* seconds before the limit at which ranks are
                                                told to save */
    const char *plan, *runner;               /* absolute paths */
    const struct sw_node_request *placement; /* placement requested in the run's settings;
                                                never NULL */
};

/* Limits that follow from a plan are rounded up to usual values. */
enum { SW_LIMIT_STEP_MINUTES = 5, SW_TIME_BYTES = 32, SW_LOG_BYTES = 2 * PATH_MAX };

struct sw_script_row {
    /* Its templates: for a training, for one that runs once, and for other job types (text NULL:
     * none). */
    struct {
        const char *file, *text;
    } training, once, other;
    /* True if there are no decisions in or after the job: it starts its ranks, and ends with them.
     * NULL if there is no such template. */
    bool (*runs_once)(const struct sw_run_config *run);
    /* form of its directives; NULL: none */
    const struct sw_template_dialect *dialect;

    /* Its values for templates, also for runs that another row starts, since a user's template may
     * be for it. NULL: none. */
    const struct sw_placeholder *placeholders;
    /* Sets `value` of out, its placeholders in order; others stay NULL. Values live in the run, or
     * in `texts`, which lives as long (sw_script_keep). Errors: SW_BAD_INPUT: a path that its
     * settings cannot have; SW_ENVIRONMENT: memory. */
    int (*fill)(const struct sw_script_request *request, struct sw_template_value *out,
                struct sw_argv *texts, struct sw_error *err);
    /* Path of a job's log in the form of a directive, with the scheduler's patterns. NULL: it has
     * no jobs. Errors (SW_ENVIRONMENT): the path is too long. */
    int (*log)(const struct sw_run_config *run, char out[SW_LOG_BYTES], struct sw_error *err);

    /* ---- for a row with a queue ---- */

    /* Writes a limit in its settings' form. */
    void (*format_time)(int64_t minutes, char out[SW_TIME_BYTES]);
    /* Least seconds of a limit that follows from the plan; NULL: none. */
    double (*least_limit_s)(const struct sw_cluster_config *cluster, int64_t lead_seconds);
    /* Reason why the ranks of a training are not told to save before the limit, as a part of a
     * sentence; NULL: they are. */
    const char *(*unwarned)(const struct sw_run_config *run, int64_t lead_seconds);
    /* Mistake in the time limit of a run that continues itself, if its jobs would be told to save
     * as soon as they begin; "": none. Returns buffer. NULL: never. */
    const char *(*short_limit)(const struct sw_run_config *run, int64_t lead_seconds, char *buffer,
                               size_t bytes);
};

/* Seconds before the limit at which ranks are told to save, for that long a step and a
 * checkpoint. */
int64_t sw_script_lead_s(double step_and_save_seconds);

/* A formatted text that lives as long as texts; NULL: no memory, see sw_argv_check of texts. */
const char *sw_script_keep(struct sw_argv *texts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The limit of a job whose steps, with saves and evaluations, take so long: the run's own; else the
 * steps' need with a margin, at least the row's least and at most the cluster's. In buffer or the
 * run; NULL: none. */
const char *sw_script_time_limit(const struct sw_scheduler *row, const struct sw_run_config *run,
                                 double step_seconds, int64_t lead_seconds,
                                 char buffer[SW_TIME_BYTES]);

/* Gives the plan's run the job of the script beside its file, since a plan has none; without a
 * script it trains. path: the plan's. suited: memory of that run, which must live as long as the
 * plan. Errors (SW_ENVIRONMENT): memory. */
int sw_script_find_job(const char *path, struct sw_plan *plan, struct sw_run_config *suited,
                       struct sw_error *err);

#endif
