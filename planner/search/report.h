/* What the commands say of a search: for people, and as JSON. */
#ifndef SW_SEARCH_REPORT_H
#define SW_SEARCH_REPORT_H

#include "planner/command/command.h"
#include "planner/search/search.h"

/* purpose.c. What meshes are ranked for: --for, or `job` of the run. */
enum sw_purpose sw_search_purpose(const struct sw_options *options,
                                  const struct sw_run_config *run);

/* What no mesh does when this one (NULL: none) comes closest: "fits", or "leaves the headroom of".
 */
const char *sw_report_lacks(const struct sw_candidate *closest);
/* "mesh_dim 1,1,8,1 misses serve.token_latency 5 ms with 6 ms" of a mesh that misses a goal of the
 * run. Returns buffer. */
char *sw_report_missed(const struct sw_run_config *run, const struct sw_candidate *c, char *buffer,
                       size_t bytes);
/* Why nothing fits, or keeps the goals of the run, and what comes closest; returns SW_UNMET. */
int sw_report_unmet(const struct sw_run_config *run, const struct sw_search *search);

/* parameters.c. Those of the run's model. Errors: freeze; memory. */
struct sw_parameter_count;
int sw_search_parameters(const struct sw_run_config *run, struct sw_parameter_count *out,
                         struct sw_error *err);
/* "8.03 B parameters, 218 M in each of 32 layers"; with `freeze`, how many of them are trained.
 * Returns buffer. */
const char *sw_report_parameters(const struct sw_parameter_count *count, char *buffer,
                                 size_t bytes);
/* The line `model` with that. */
void sw_report_model_line(FILE *out, const struct sw_run_config *run);
/* Members of the open object: parameters, active_parameters, ... */
struct sw_json;
void sw_parameters_write_json(struct sw_json *json, const struct sw_parameter_count *count);
void sw_run_parameters_write_json(struct sw_json *json, const struct sw_run_config *run);

/* How sure the band around times is: measured on runs that were left out of a fit, or assumed. */
const char *sw_report_band(const struct sw_cost *cost);
/* The band, what it rests on, and what may go wrong. */
void sw_report_trust(FILE *out, const struct sw_cost *cost);

void sw_report_search(FILE *out, const struct sw_run_config *run, const struct sw_search *search,
                      const struct sw_options *options);
/* What happens when the steps take longer than the job's time limit; "" when they don't. Returns
 * buffer. */
const char *sw_report_time_limit(const struct sw_run_config *run, double run_seconds, char *buffer,
                                 size_t bytes);
/* " of rings of 8" into buffer, "" for one ring; returns buffer. */
const char *sw_report_rings(const struct sw_decision *decision, char *buffer, size_t bytes);
/* mesh, memory, step, and how MFU counts */
void sw_report_choice(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c);
/* "100,000 steps take 2.5 days, 3,859 accelerator-hours" of a step of so many seconds. Returns
 * buffer. */
char *sw_report_run(const struct sw_run_config *run, double step_seconds, char *buffer,
                    size_t bytes);
/* The rule that chose. */
void sw_report_why(FILE *out, const struct sw_run_config *run, enum sw_purpose purpose);
/* Rows of the table where --top does not say. */
enum { SW_SHOWN_ROWS = 10 };
/* All steps of the run, in seconds; NAN where it does not say optimizer.total_steps. Training takes
 * the default number of steps then, but nobody meant it to be what a run costs. */
double sw_report_run_seconds(const struct sw_run_config *run, double step_seconds);
/* All steps on all accelerators; NAN as above. */
double sw_report_accelerator_hours(const struct sw_run_config *run, double step_seconds);
/* The lines of one rejected mesh. */
void sw_report_rejected(FILE *out, const struct sw_candidate *c);
/* warnings.c. Warns on stderr, with the place of the time limit, of steps that take longer than the
 * job may; github: an annotation on stdout. Nothing where the run does not say its steps. */
void sw_report_warn_of_time(const struct sw_options *options, const char *path,
                            const struct sw_run_config *run, double trained_step_s);
/* Warns on stderr of what a job of the run lacks (lacks.h), each with its place; planned: a run
 * without data is told so by a note, for it may be meant for planning. github: annotations. */
void sw_report_warn_of_lacks(const struct sw_options *options, const struct sw_run_config *run,
                             bool planned);

/* Says on stderr that the run's device is one that nobody has run yet, and whose times its prices
 * of serving are. */
void sw_report_note_device(const char *path, const struct sw_run_config *run);

/* advice.c: a line on stderr of each thing that the choice leaves on the table: a mesh that
 * is more than 10 % faster, and fewer nodes that are no slower. */
void sw_report_warn_of_choice(const char *path, const struct sw_run_config *run,
                              const struct sw_candidate *chosen, const struct sw_advice *advice);

/* counts.c, json.c: a line for each number of nodes; the same as the member `key`. */
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
    const struct sw_frontier *frontier; /* NULL: no numbers of nodes were compared */
    const struct sw_run_config *before; /* the stage before; NULL: none */
};
/* The names of a set of a layer's values, as an array. */
void sw_layer_values_write_json(struct sw_json *json, const char *key,
                                const struct sw_layer_values *has, struct sw_layer_values set);

/* json.c: one object and a newline; a mesh as the member `key` of another one. */
void sw_search_print_json(FILE *out, const struct sw_run_config *run,
                          const struct sw_search *search, const struct sw_options *options,
                          const struct sw_search_told *told);
void sw_candidate_write_json(struct sw_json *json, const char *key,
                             const struct sw_layer_values *values, const struct sw_candidate *c);

#endif
