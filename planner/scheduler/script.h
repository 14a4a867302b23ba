/* What a scheduler's row gives to the scripts that `plan emit` writes: its templates, the
 * placeholders of its settings, and how its limits are written. */
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
    const char *about; /* what the reference says of it */
};

/* What a script is written for. */
struct sw_script_request {
    const struct sw_run_config *run;
    double step_seconds;                     /* predicted, with its saves and evaluations */
    int64_t lead_seconds;                    /* before its limit the ranks are told to save */
    const char *plan, *runner;               /* absolute paths */
    const struct sw_node_request *placement; /* what the run's settings were given; never NULL */
};

/* Limits that follow from a plan are rounded up to what people write. */
enum { SW_LIMIT_STEP_MINUTES = 5, SW_TIME_BYTES = 32, SW_LOG_BYTES = 2 * PATH_MAX };

struct sw_script_row {
    /* Its templates: of a training, of one that runs once, and of a job of another type (text NULL:
     * it has none). */
    struct {
        const char *file, *text;
    } training, once, other;
    /* Whether nothing is to be decided in or after the job: it starts its ranks, and ends with
     * them. NULL where there is no such template. */
    bool (*runs_once)(const struct sw_run_config *run);
    /* How its directives are written; NULL: it has none. */
    const struct sw_template_dialect *dialect;

    /* The values that it gives to templates, also to those of runs that another row starts: a
     * person's own template may be for it. NULL: none. */
    const struct sw_placeholder *placeholders;
    /* Sets `value` of out, which are its placeholders in order; what is not set stays NULL. Values
     * live in the run, or in `texts`, which lives as long as they do (sw_script_keep). Errors:
     * SW_BAD_INPUT: a path that its settings cannot have; SW_ENVIRONMENT: memory. */
    int (*fill)(const struct sw_script_request *request, struct sw_template_value *out,
                struct sw_argv *texts, struct sw_error *err);
    /* Where a job of the run prints to, as a directive says it, with the scheduler's patterns.
     * NULL: it has no jobs. Errors (SW_ENVIRONMENT): the path is too long. */
    int (*log)(const struct sw_run_config *run, char out[SW_LOG_BYTES], struct sw_error *err);

    /* ---- of a row with a queue ---- */

    /* A limit as its settings have it. */
    void (*format_time)(int64_t minutes, char out[SW_TIME_BYTES]);
    /* Seconds that a limit which follows from the plan must have at least; NULL: any will do. */
    double (*least_limit_s)(const struct sw_cluster_config *cluster, int64_t lead_seconds);
    /* Why the ranks of a run that trains are not told to save before the limit in its settings, as
     * a part of a sentence; NULL: they are. */
    const char *(*unwarned)(const struct sw_run_config *run, int64_t lead_seconds);
    /* What is wrong with the time limit of a run that goes on by itself, where its jobs would be
     * told to save as soon as they begin; "": nothing. Returns buffer. NULL: never anything. */
    const char *(*short_limit)(const struct sw_run_config *run, int64_t lead_seconds, char *buffer,
                               size_t bytes);
};

/* Seconds before its limit at which ranks are told to save that take so long for a step and a
 * checkpoint. */
int64_t sw_script_lead_s(double step_and_save_seconds);

/* A text of its own, as of printf, that lives as long as texts; NULL: no memory, as
 * sw_argv_check of texts tells. */
const char *sw_script_keep(struct sw_argv *texts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The limit of a job whose steps, with saves and evaluations, take so long: the run's own; else
 * what the steps need and some, and no less than the row allows, of which the cluster's is the
 * most. In buffer or the run; NULL: none. */
const char *sw_script_time_limit(const struct sw_scheduler *row, const struct sw_run_config *run,
                                 double step_seconds, int64_t lead_seconds,
                                 char buffer[SW_TIME_BYTES]);

/* Gives the plan's run the job that the script beside its file starts, for a plan does not say;
 * without a script it trains. path: the plan's. suited: the memory of that run, as long as the
 * plan. Errors (SW_ENVIRONMENT): memory. */
int sw_script_find_job(const char *path, struct sw_plan *plan, struct sw_run_config *suited,
                       struct sw_error *err);

#endif
