/* A centre's advice on runs: conditions with a sentence each, installed once as
 * /etc/shardwright/site.yaml (core/config/site.h), and tested on a run's plan. They refuse nothing,
 * and a wrong file is reported in one line and skipped. */
#ifndef SW_POLICY_SITE_H
#define SW_POLICY_SITE_H

#include "core/cost/run_cost.h"
#include "planner/command/options.h"
#include "planner/search/search.h"

#define SW_SITE_FILE "/etc/shardwright/site.yaml"

/* Prints each sentence whose condition holds for the run on the candidate's mesh,
 * "SITE:LINE:COLUMN: warning: ...", on stderr or as annotations by the options. SHARDWRIGHT_SITE
 * names another file ("": none). cost: of the whole run; NULL: priced here if a condition needs
 * it. */
void sw_site_advise(const struct sw_options *options, const struct sw_run_config *run,
                    const struct sw_candidate *candidate, const struct sw_run_cost *cost);

#endif
