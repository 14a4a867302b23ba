/* Reports about a search: for people, and as JSON. */
#ifndef SW_SEARCH_REPORT_H
#define SW_SEARCH_REPORT_H

#include "planner/command/command.h"
#include "planner/search/search.h"

/* purpose.c. Purpose of the ranking: --for, or `job` of the run. */
enum sw_purpose sw_search_purpose(const struct sw_options *options,
                                  const struct sw_run_config *run);

/* Phrase for a search without result, by its closest mesh (NULL: none): "fits", or "leaves the
 * headroom of". */
const char *sw_report_lacks(const struct sw_candidate *closest);
/* "mesh_dim 1,1,8,1 misses serve.token_latency 5 ms with 6 ms" for a mesh that misses a goal of the
 * run. Returns buffer. */
char *sw_report_missed(const struct sw_run_config *run, const struct sw_candidate *c, char *buffer,
                       size_t bytes);
/* Reports why no mesh fits, or keeps the goals of the run, and the closest mesh; returns
 * SW_UNMET. */
int sw_report_unmet(const struct sw_run_config *run, const struct sw_search *search);

/* parameters.c. Counts the model's parameters. Errors: freeze; memory. */
struct sw_parameter_count;
int sw_search_parameters(const struct sw_run_config *run, struct sw_parameter_count *out,
                         struct sw_error *err);
/* "8.03 B parameters, 218 M in each of 32 layers"; with `freeze`, also the number of trained ones.
 * Returns buffer. */
const char *sw_report_parameters(const struct sw_parameter_count *count, char *buffer,
                                 size_t bytes);
/* Prints the line `model` with that. */
void sw_report_model_line(FILE *out, const struct sw_run_config *run);
/* Members of the open object: parameters, active_parameters, ... */
struct sw_json;
void sw_parameters_write_json(struct sw_json *json, const struct sw_parameter_count *count);
void sw_run_parameters_write_json(struct sw_json *json, const struct sw_run_config *run);

/* Basis of the band around times: measured on runs left out of a fit, or assumed. */
const char *sw_report_band(const struct sw_cost *cost);
/* Prints the band, its basis, and possible errors. */
void sw_report_trust(FILE *out, const struct sw_cost *cost);

void sw_report_search(FILE *out, const struct sw_run_config *run, const struct sw_search *search,
                      const struct sw_options *options);
/* Consequence of steps that take longer than the job's time limit; "": they do not. Returns
 * buffer. */
const char *sw_report_time_limit(const struct sw_run_config *run, double run_seconds, char *buffer,
                                 size_t bytes);
/* " of rings of 8", "" for one ring, in buffer, which it returns. */
const char *sw_report_rings(const struct sw_decision *decision, char *buffer, size_t bytes);
/* prints mesh, memory, step, and MFU with its definition */
void sw_report_choice(FILE *out, const struct sw_run_config *run, const struct sw_candidate *c);
/* "100,000 steps take 2.5 days, 3,859 accelerator-hours" for a step of that many seconds. Returns
 * buffer. */
char *sw_report_run(const struct sw_run_config *run, double step_seconds, char *buffer,
                    size_t bytes);
/* Prints the rule that chose. */
void sw_report_why(FILE *out, const struct sw_run_config *run, enum sw_purpose purpose);
/* Rows of the table without --top. */
enum { SW_SHOWN_ROWS = 10 };
/* Seconds of all steps; NAN: the run does not give optimizer.total_steps. Training then takes the
 * default number, but the run's cost should not be based on it. */
double sw_report_run_seconds(const struct sw_run_config *run, double step_seconds);
/* All steps on all accelerators; NAN as above. */
double sw_report_accelerator_hours(const struct sw_run_config *run, double step_seconds);
/* Prints the lines of one rejected mesh. */
void sw_report_rejected(FILE *out, const struct sw_candidate *c);
/* warnings.c. Warns on stderr, at the time limit's position, if the steps take longer than the job
 * may; github: an annotation on stdout. Nothing if the run does not give its steps. */
void sw_report_warn_of_time(const struct sw_options *options, const char *path,
                            const struct sw_run_config *run, double trained_step_s);
/* Warns on stderr of things that a job of the run lacks (lacks.h), each at its position; planned:
 * true to note missing data instead, since the run may be for planning only. github:
 * annotations. */
void sw_report_warn_of_lacks(const struct sw_options *options, const struct sw_run_config *run,
                             bool planned);

/* Notes on stderr that the run's device is untested, and the software whose times the prices of
 * serving are. */
void sw_report_note_device(const char *path, const struct sw_run_config *run);

/* advice.c: a line on stderr for each better choice: a mesh more than 10 % faster, or fewer nodes
 * that are no slower. */
void sw_report_warn_of_choice(const char *path, const struct sw_run_config *run,
                              const struct sw_candidate *chosen, const struct sw_advice *advice);

/* counts.c, json.c: prints a line for each number of nodes; writes the same as the member `key`. */
void sw_report_node_counts(FILE *out, const struct sw_run_config *run,
                           const struct sw_node_count *counts, int32_t count);
struct sw_json;
void sw_node_counts_write_json(struct sw_json *json, const char *key,
                               const struct sw_run_config *run, const struct sw_node_count *counts,
                               int32_t count);

/* Additional reports of a search for training. */
struct sw_search_told {
    const struct sw_advice *advice; /* NULL: no mesh fits */
    const struct sw_node_count *counts;
    int32_t count;
    const struct sw_frontier *frontier; /* NULL: no numbers of nodes were compared */
    const struct sw_run_config *before; /* run of the earlier stage; NULL: none */
};
/* Writes the names of a set of a layer's values as an array. */
void sw_layer_values_write_json(struct sw_json *json, const char *key,
                                const struct sw_layer_values *has, struct sw_layer_values set);

/* json.c: writes one object and a newline; a mesh as the member `key` of another one. */
void sw_search_print_json(FILE *out, const struct sw_run_config *run,
                          const struct sw_search *search, const struct sw_options *options,
                          const struct sw_search_told *told);
void sw_candidate_write_json(struct sw_json *json, const char *key,
                             const struct sw_layer_values *values, const struct sw_candidate *c);

#endif
