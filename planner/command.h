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
int sw_command_submit(const struct sw_options *options);
int sw_command_status(const struct sw_options *options);
int sw_command_runs(const struct sw_options *options);
int sw_command_logs(const struct sw_options *options);
int sw_command_cancel(const struct sw_options *options);
int sw_command_fit(const struct sw_options *options);
int sw_command_diff(const struct sw_options *options);
int sw_command_import_cluster(const struct sw_options *options);
int sw_command_schema(const struct sw_options *options);

/* A run file, with the command line's overrides. */
struct sw_run_file {
    struct sw_config *config; /* owns what run points to */
    struct sw_run_config run;
};
/* Reads the only file of the options and shows its notes. absolute: paths become absolute (for
 * files that are written). Returns an exit code; mistakes are printed. Free with sw_run_file_free.
 */
int sw_run_file_open(const struct sw_options *options, bool absolute, struct sw_run_file *out);
void sw_run_file_free(struct sw_run_file *run_file);

/* Whether the data of a run that trains can be meant (sw_data_check). */
int sw_command_check_data(const struct sw_run_config *run, struct sw_error *err);

/* What meshes are ranked for: --for, or `job` of the run. */
enum sw_purpose sw_command_purpose(const struct sw_options *options,
                                   const struct sw_run_config *run);

/* As sw_config_read; "-" is standard input, seen from the working directory. */
struct sw_config *sw_command_read(const char *path, enum sw_config_kind kind,
                                  const struct sw_options *options, struct sw_error *err);
/* What messages call a file. */
const char *sw_command_shown(const char *path);
/* One line on stderr; returns the error's exit code. */
int sw_command_fail(const struct sw_error *err);
/* Prints errors and notes; returns the number of errors. */
enum sw_notes { SW_NOTES_HIDDEN, SW_NOTES_SHORT /* one line each */, SW_NOTES_SHOWN };
int32_t sw_command_diagnose(const struct sw_config *config, enum sw_notes notes);
/* What no mesh does when this one (NULL: none) comes closest: "fits", or "leaves the headroom of".
 */
const char *sw_command_lacks(const struct sw_candidate *closest);
/* Why nothing fits, or keeps the goals of the run, and what comes closest; returns SW_UNMET. */
int sw_command_unmet(const struct sw_run_config *run, const struct sw_search *search);

const char *sw_version(void);

/* How sure the band around times is: measured on runs that were left out of a fit, or assumed. */
const char *sw_report_band(const struct sw_cost *cost);

/* report.c: text for people. */
void sw_report_search(FILE *out, const struct sw_run_config *run, const struct sw_search *search,
                      const struct sw_options *options);
/* What happens when the steps take longer than the job's time limit; "" when they don't. Returns
 * buffer. */
const char *sw_report_time_limit(const struct sw_run_config *run, double run_seconds, char *buffer,
                                 size_t bytes);
/* mesh, memory, step, and how MFU counts */
void sw_report_choice(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c);
/* "100,000 steps take 2.5 days, 3,859 accelerator-hours" of a step of so many seconds. Returns
 * buffer. */
char *sw_report_run(const struct sw_run_config *run, double step_seconds, char *buffer,
                    size_t bytes);
/* The rule that chose. */
void sw_report_why(FILE *out, const struct sw_run_config *run, enum sw_purpose purpose);
/* All steps of the run on all accelerators. */
double sw_report_accelerator_hours(const struct sw_run_config *run, double step_seconds);
/* The lines of one rejected mesh. */
void sw_report_rejected(FILE *out, const struct sw_candidate *c);
/* Warns on stderr, with the place of slurm.time, of steps that take longer than the job may;
 * github: an annotation on stdout. Nothing where the run does not say its steps. */
void sw_command_warn_of_time(const struct sw_options *options, const char *path,
                             const struct sw_run_config *run, double step_seconds);
/* The same of a limit that is hardly longer than lead_seconds, in which a run that goes on by
 * itself would hardly train. */
void sw_command_warn_of_short_limit(const struct sw_options *options, const char *path,
                                    const struct sw_run_config *run, int64_t lead_seconds);

/* Warns on stderr of what a job of the run lacks (lacks.h), each with its place; planned: a run
 * without data is told so by a note, for it may be meant for planning. github: annotations. */
void sw_command_warn_of_lacks(const struct sw_options *options, const struct sw_run_config *run,
                              bool planned);

/* Says on stderr that the run's device is one that nobody has run yet. */
void sw_command_note_device(const char *path, const struct sw_run_config *run);

/* search/advice.c: a line on stderr of each thing that the choice leaves on the table: a mesh that
 * is more than 10 % faster, and fewer nodes that are no slower. */
void sw_command_warn_of_choice(const char *path, const struct sw_run_config *run,
                               const struct sw_candidate *chosen, const struct sw_advice *advice);

/* search/counts.c: a line for each number of nodes; the same as the member `key`. */
void sw_report_node_counts(FILE *out, const struct sw_run_config *run,
                           const struct sw_node_count *counts, int32_t count);
struct sw_json;
void sw_node_counts_write_json(struct sw_json *json, const char *key,
                               const struct sw_run_config *run, const struct sw_node_count *counts,
                               int32_t count);

/* What is told beside a search for training. */
struct sw_search_told {
    const struct sw_advice *advice; /* NULL: nothing fits */
    const struct sw_node_count *counts;
    int32_t count;
};
/* search/json.c: one object and a newline; a mesh as the member `key` of another one. */
void sw_search_print_json(FILE *out, const struct sw_run_config *run,
                          const struct sw_search *search, const struct sw_options *options,
                          const struct sw_search_told *told);
void sw_candidate_write_json(struct sw_json *json, const char *key, const struct sw_candidate *c);

#endif
