/* Measures of a plan for conditions. */
#ifndef SW_POLICY_MEASURE_H
#define SW_POLICY_MEASURE_H

#include "core/cost/run_cost.h"
#include "planner/policy/fail_if.h"
#include "planner/search/search.h"

/* Fills *out for a run on the candidate's mesh. cost: of the whole run; its estimates may be NAN.
 * communication_bytes: sent by a rank in a step or a token; NAN: unknown. */
void sw_measures_take(const struct sw_run_config *run, enum sw_purpose purpose,
                      const struct sw_candidate *candidate, const struct sw_run_cost *cost,
                      double communication_bytes, struct sw_measures *out);

#endif
