/* Remaining amounts of limits that a run's job shares with others, for commands that print them:
 * asked of the scheduler of the run's cluster, about the job of the run's script. */
#ifndef SW_EMIT_BUDGET_H
#define SW_EMIT_BUDGET_H

#include "planner/command/options.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/search.h"

/* A scheduler that is loaded at most once; zeroed before. */
struct sw_budget_source {
    const struct sw_scheduler *row;
    struct sw_forecast *forecast; /* NULL: not opened yet, or no answer */
    bool silent;                  /* true if it did not answer, and is not asked again */
};
void sw_budget_source_close(struct sw_budget_source *source);

/* Adds the budgets of a job of the run with that mesh to *out. None if the run's scheduler has no
 * such limits or cannot be asked from here; one that does not answer is reported on stderr, once.
 * Errors: SW_ENVIRONMENT: memory; SW_BAD_INPUT: as sw_search_place. */
int sw_budgets_ask(struct sw_budget_source *source, const struct sw_run_config *run,
                   const struct sw_candidate *candidate, struct sw_budgets *out,
                   struct sw_error *err);

/* Adds to budgets from `first` on the number of jobs of limit_s that the whole run takes, if
 * together they need more than is left. Errors (SW_ENVIRONMENT): memory. */
int sw_budgets_say_run(const struct sw_run_config *run, const struct sw_candidate *candidate,
                       double limit_s, struct sw_budgets *out, int32_t first, struct sw_error *err);

/* Prints a line for each on stderr, "path: note: ...", with "warning" if it is not enough; as
 * annotations if the options say so. path NULL: for the submitted job. */
void sw_budgets_tell(const struct sw_options *options, const char *path,
                     const struct sw_budgets *budgets);
/* Writes the member `key`, an array. */
struct sw_json;
void sw_budgets_write_json(struct sw_json *json, const char *key, const struct sw_budgets *budgets);

#endif
