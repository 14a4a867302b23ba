/* Cost of a plan's whole run, and its output in commands. */
#ifndef SW_SEARCH_RUN_COST_H
#define SW_SEARCH_RUN_COST_H

#include "core/cost/run_cost.h"
#include "core/programs/program_set.h"
#include "planner/search/search.h"

/* Prices the run on the candidate's mesh. programs: of that mesh; NULL: compiles them. out->terms
 * .steps is 0 and every estimate NAN if the run does not train or does not give its steps. Errors
 * (SW_ENVIRONMENT): memory. */
int sw_search_price_run(const struct sw_run_config *run, const struct sw_candidate *candidate,
                        const struct sw_program_set *programs, struct sw_run_cost *out,
                        struct sw_error *err);

/* Seconds of a whole evaluation, given evaluate_s for one global batch; 0: no data file is
 * visible. */
double sw_search_evaluation_s(const struct sw_run_config *run, double evaluate_s);

/* Seconds of a step with its share of saves and evaluations, for time limits; the candidate's own
 * step if the run's cost is unknown. */
double sw_run_trained_step_s(const struct sw_run_cost *cost, const struct sw_candidate *candidate);
/* The same, priced here. */
double sw_search_trained_step_s(const struct sw_run_config *run,
                                const struct sw_candidate *candidate);

/* Currency of cluster.price_per_accelerator_hour. */
const char *sw_run_unit_of_price(const struct sw_run_config *run);

/* "ends after 2.7 days (2.5 to 3.0 days): 4,103 accelerator-hours, 2,872 kWh, 10,257 USD". Returns
 * buffer. */
char *sw_report_run_cost(const struct sw_run_config *run, const struct sw_run_cost *cost,
                         char *buffer, size_t bytes);
/* "steps 2.5 days, saves 12.0 min, starts 4.0 min, repeated 1.1 h; 3.2 failures, 4 jobs": parts
 * that are not zero. Returns buffer. */
char *sw_report_run_parts(const struct sw_run_cost *cost, char *buffer, size_t bytes);
/* Prints the line `cost` with both; nothing if the run does not give its steps. */
void sw_report_cost_line(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_cost *cost);

struct sw_json;
/* Writes the member `key`: an object, null if the run does not give its steps. */
void sw_run_cost_write_json(struct sw_json *json, const char *key, const struct sw_run_config *run,
                            const struct sw_run_cost *cost);

#endif
