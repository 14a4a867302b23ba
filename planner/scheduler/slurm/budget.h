/* Remaining amounts of limits that jobs share: minutes of accounts and qos (GrpTRESMins, GrpWall)
 * and licenses, and the outcome for a job that needs more. */
#ifndef SW_SLURM_BUDGET_H
#define SW_SLURM_BUDGET_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/controller.h"
#include "planner/scheduler/slurm/usage.h"

/* Finds the limits that the site enforces on a job like this one, in the first partition and with
 * the first qos that it names, sufficient or not. With `safe` in AccountingStorageEnforce a job
 * that would need more than is left waits; without, it starts and is killed when nothing is left
 * (resource_limits.html, slurm.conf(5)). A request that fits no partition has none. Errors
 * (SW_ENVIRONMENT): memory. */
int sw_slurm_budgets_find(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                          const struct sw_slurm_accounting *accounting,
                          const struct sw_slurm_licenses *licenses, struct sw_budgets *out,
                          struct sw_error *err);

#endif
