/* What the commands of `plan` share: reading a run file, reporting mistakes, and the commands
 * themselves, each in its own file. Nothing below planner/ but main and the commands prints. */
#ifndef SW_PLANNER_COMMAND_H
#define SW_PLANNER_COMMAND_H

#include "core/config/config.h"
#include "planner/options.h"
#include "planner/search/search.h"

/* Commands. Each returns the exit code; stdout is data, stderr is for people. */
int sw_command_check(const struct sw_options *options);
int sw_command_search(const struct sw_options *options);
int sw_command_explain(const struct sw_options *options);
int sw_command_emit(const struct sw_options *options);
int sw_command_fit(const struct sw_options *options);
int sw_command_diff(const struct sw_options *options);
int sw_command_schema(const struct sw_options *options);

/* A run file, with the command line's overrides. */
struct sw_session {
    struct sw_config *config; /* owns what run points to */
    struct sw_run_config run;
};
/* Reads the only file of the options. absolute: paths become absolute (for files that are written).
 * Returns an exit code; mistakes are printed. Free with sw_session_free. */
int sw_session_open(const struct sw_options *options, bool absolute, struct sw_session *out);
void sw_session_free(struct sw_session *session);

/* One line on stderr; returns the error's exit code. */
int sw_command_fail(const struct sw_error *err);
/* Prints errors and, when notes is set, notes; returns the number of errors. */
int32_t sw_command_diagnose(const struct sw_config *config, bool notes);
/* Why nothing fits, and what comes closest; returns SW_UNMET. */
int sw_command_unmet(const struct sw_run_config *run, const struct sw_search *search);
/* The name most like `name`, NULL when none is near. */
const char *sw_command_nearest(const char *name, const char *const *names, int32_t count);

/* The words of the run file. */
const char *sw_recompute_word(enum sw_recompute recompute);
const char *sw_strategy_word(enum sw_strategy strategy);
const char *sw_version(void);

/* report.c: text for people. */
void sw_report_search(FILE *out, const struct sw_run_config *run, const struct sw_search *search,
                      const struct sw_options *options);
void sw_report_choice(FILE *out, const struct sw_candidate *c); /* mesh, memory, step */

/* json.c: the JSON of INTERFACE.md, one object and a newline. Errors (SW_ENVIRONMENT): memory. */
struct sw_explain;
int sw_json_search(FILE *out, const struct sw_run_config *run, const struct sw_search *search,
                   const struct sw_options *options, struct sw_error *err);
int sw_json_explain(FILE *out, const struct sw_explain *x, bool rejected, struct sw_error *err);

/* explain.c: collectives of one kind over one group in one step. */
struct sw_traffic {
    enum sw_op_kind kind;
    struct sw_axes axes;
    double calls, bytes, seconds; /* of a step, on one rank */
};

#endif
