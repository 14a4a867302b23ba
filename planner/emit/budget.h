/* Rest of the limits that a run's job shares with others, for the commands that tell it:
 * asked of the scheduler of the run's cluster, about the job that the run's script would be. */
#ifndef SW_EMIT_BUDGET_H
#define SW_EMIT_BUDGET_H

#include "planner/command/options.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/search.h"

/* A scheduler that is asked at most once, whatever is asked of it; zeroed before. */
struct sw_budget_source {
    const struct sw_scheduler *row;
    struct sw_forecast *forecast; /* NULL: not opened yet, or it gives no answer */
    bool silent;                  /* no answer: it is not asked again */
};
void sw_budget_source_close(struct sw_budget_source *source);

/* Adds to *out what is left for a job of the run with that mesh. Nothing where the run's scheduler
 * has no such limits or cannot be asked from here; one that does not answer gets a line on stderr,
 * once. Errors: SW_ENVIRONMENT: memory; SW_BAD_INPUT: as sw_search_place. */
int sw_budgets_ask(struct sw_budget_source *source, const struct sw_run_config *run,
                   const struct sw_candidate *candidate, struct sw_budgets *out,
                   struct sw_error *err);

/* Says in budgets from `first` on how many jobs of limit_s the whole run takes as much as, where
 * that is more than is left. Errors (SW_ENVIRONMENT): memory. */
int sw_budgets_say_run(const struct sw_run_config *run, const struct sw_candidate *candidate,
                       double limit_s, struct sw_budgets *out, int32_t first, struct sw_error *err);

/* A line for each on stderr, "path: note: ...", and "warning" where there is not enough; as
 * annotations where the options say so. path NULL: of the job that is submitted. */
void sw_budgets_tell(const struct sw_options *options, const char *path,
                     const struct sw_budgets *budgets);
/* The member `key`, an array. */
struct sw_json;
void sw_budgets_write_json(struct sw_json *json, const char *key, const struct sw_budgets *budgets);

#endif
