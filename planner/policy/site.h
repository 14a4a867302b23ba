/* A centre's advice on runs: conditions with a sentence each, which it ships once in
 * /etc/shardwright/site.yaml (core/config/site.h), asked of the plan that a run gets. Nothing is
 * refused for them, and a file that is wrong is told in one line and left out. */
#ifndef SW_POLICY_SITE_H
#define SW_POLICY_SITE_H

#include "core/cost/run_cost.h"
#include "planner/command/options.h"
#include "planner/search/search.h"

#define SW_SITE_FILE "/etc/shardwright/site.yaml"

/* Says each sentence whose condition holds of the run on the candidate's mesh, "SITE:LINE:COLUMN:
 * warning: ...", on stderr or as annotations as the options have it. The file is that of
 * SHARDWRIGHT_SITE, where that is set ("": none). cost: of the whole run; NULL: it is priced here,
 * where a condition asks for it. */
void sw_site_advise(const struct sw_options *options, const struct sw_run_config *run,
                    const struct sw_candidate *candidate, const struct sw_run_cost *cost);

#endif
