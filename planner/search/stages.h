/* Output about a run with stages: the start of each, and their totals. */
#ifndef SW_SEARCH_STAGES_H
#define SW_SEARCH_STAGES_H

#include "planner/search/run_cost.h"
#include "planner/search/search.h"

#include <stdio.h>

/* One stage with its chosen mesh. */
struct sw_stage_price {
    char name[72], mesh[64];
    int64_t steps;       /* steps of the stage itself */
    double tokens;       /* tokens of its steps */
    double step_seconds; /* NAN: no mesh fits */
    double seconds, accelerator_hours;
    int32_t nodes, accelerators;
    bool says_steps;
    struct sw_run_cost cost; /* whole stage, from sw_search_price_run */
};

/* candidate NULL: no mesh fits. */
void sw_stage_price_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                         struct sw_stage_price *out);

/* Prints "stage 2 of 3, long" and its starting point; before: run of the earlier stage, NULL: it is
 * the first. Nothing for a run without stages. */
void sw_stages_tell_head(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_config *before);
/* The same as one line for each stage but the first. */
void sw_stages_tell_link(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_config *before);
/* Start of a stage after the earlier one, as the end of a sentence. Returns buffer. */
const char *sw_stages_link(const struct sw_run_config *run, const struct sw_run_config *before,
                           char *buffer, size_t bytes);
/* True if one job trains both: on the same numbers of nodes, with a scheduler whose job decides its
 * next action. */
bool sw_stages_share_job(const struct sw_run_config *run, const struct sw_run_config *before);

/* Reports on stderr a stage without a mesh. Nothing for a run without stages. */
void sw_stages_tell_unmet(const struct sw_run_config *run);

/* Prints a row for each stage, and their sums; the whole run's cost is the sum of all stages'. run:
 * of a stage. */
void sw_stages_tell_totals(FILE *out, const struct sw_run_config *run,
                           const struct sw_stage_price *price, int32_t count);
/* Writes the members steps, tokens, run_seconds, accelerator_hours and run_cost, sums over stages,
 * of the object `key`; null if a stage has no mesh. */
struct sw_json;
void sw_stages_write_totals(struct sw_json *json, const char *key, const struct sw_run_config *run,
                            const struct sw_stage_price *price, int32_t count);
/* Writes the member `stage`: name, number, of, begins_with, continue_schedule, link. */
void sw_stages_write_stage(struct sw_json *json, const struct sw_run_config *run,
                           const struct sw_run_config *before);

#endif
