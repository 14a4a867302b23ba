/* Rest of the limits that jobs share: minutes of its accounts and qos
 * (GrpTRESMins, GrpWall) and licenses, and what becomes of a job that needs more. */
#ifndef SW_SLURM_BUDGET_H
#define SW_SLURM_BUDGET_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/controller.h"
#include "planner/scheduler/slurm/usage.h"

/* Limits that the site enforces on a job like this one in the first partition and with the first
 * qos that it names, whether they are enough or not. With `safe` in AccountingStorageEnforce a job
 * waits which would need more than is left; without, it starts and is killed when nothing is left
 * (resource_limits.html, slurm.conf(5)). A request that the site cannot place has none. Errors
 * (SW_ENVIRONMENT): memory. */
int sw_slurm_budgets_find(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                          const struct sw_slurm_accounting *accounting,
                          const struct sw_slurm_licenses *licenses, struct sw_budgets *out,
                          struct sw_error *err);

#endif
