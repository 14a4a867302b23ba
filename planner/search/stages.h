/* Lines about a run with stages: where each begins, and what all of them take together. */
#ifndef SW_SEARCH_STAGES_H
#define SW_SEARCH_STAGES_H

#include "planner/search/run_cost.h"
#include "planner/search/search.h"

#include <stdio.h>

/* One stage with its chosen mesh. */
struct sw_stage_price {
    char name[72], mesh[64];
    int64_t steps;       /* of its own */
    double tokens;       /* of these */
    double step_seconds; /* NAN: no mesh fits */
    double seconds, accelerator_hours;
    int32_t nodes, accelerators;
    bool says_steps;
    struct sw_run_cost cost; /* of the whole stage, as sw_search_price_run has it */
};

/* candidate NULL: no mesh fits. */
void sw_stage_price_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                         struct sw_stage_price *out);

/* "stage 2 of 3, long" and what it begins with and where; before: the run of the stage before,
 * NULL: it is the first. Nothing of a run without stages. */
void sw_stages_tell_head(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_config *before);
/* The same as one line for each stage behind the first. */
void sw_stages_tell_link(FILE *out, const struct sw_run_config *run,
                         const struct sw_run_config *before);
/* Start of the stage behind the one before, as the end of a sentence. Returns buffer. */
const char *sw_stages_link(const struct sw_run_config *run, const struct sw_run_config *before,
                           char *buffer, size_t bytes);
/* True if one job trains both: on the same numbers of nodes, where a scheduler's job decides what
 * comes next. */
bool sw_stages_share_job(const struct sw_run_config *run, const struct sw_run_config *before);

/* Says on stderr which stage has no mesh. Nothing of a run without stages. */
void sw_stages_tell_unmet(const struct sw_run_config *run);

/* A row for each stage, and their sums; the whole run is what the costs of all stages add up to.
 * run: of a stage. */
void sw_stages_tell_totals(FILE *out, const struct sw_run_config *run,
                           const struct sw_stage_price *price, int32_t count);
/* The members steps, tokens, run_seconds, accelerator_hours and run_cost, sums of the stages', of
 * the object `key`; null where a stage has no mesh. */
struct sw_json;
void sw_stages_write_totals(struct sw_json *json, const char *key, const struct sw_run_config *run,
                            const struct sw_stage_price *price, int32_t count);
/* The member `stage`: name, number, of, begins_with, continue_schedule, link. */
void sw_stages_write_stage(struct sw_json *json, const struct sw_run_config *run,
                           const struct sw_run_config *before);

#endif
