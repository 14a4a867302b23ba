/* Checks before a job is submitted: mistakes that Slurm accepts silently, so that the job waits for
 * ever, and those that it would report later. */
#ifndef SW_SLURM_ADMIT_H
#define SW_SLURM_ADMIT_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/controller.h"

/* True if a job like this can start at all in its partition (its first, or the default one): the
 * partition has its time, nodes, processors, memory and GPUs, and its account and qos may use it.
 * queue (may be NULL: its dependency is not checked): the jobs that the controller knows. If false,
 * why has the reason in one line. */
bool sw_slurm_admits(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting,
                     const struct sw_queued_jobs *queue, char why[256]);

/* True if a job that Slurm would not start now may start when nodes are back that are down or
 * drained: sbatch queues it. Then why names the nodes, "waits for n2 (drained)", and *left is the
 * number of others that it could use. */
bool sw_slurm_waits_for_nodes(const struct sw_job_request *request,
                              const struct sw_slurm_facts *facts, char why[256], int32_t *left);

/* True if sbatch would queue a job that --test-only refused. Then why has the cause of waiting, and
 * *left is as above; else why has the refusal. */
bool sw_slurm_refusal_waits(const struct sw_job_request *request,
                            const struct sw_slurm_facts *facts, const char *refusal,
                            char why[SW_JOB_REFUSAL_BYTES], int32_t *left);

/* Checks a script that is about to be submitted, in all of its partitions, with the controller's
 * estimate of its start. Nodes that are down are waited for. Errors: SW_UNMET: it cannot start, and
 * why; SW_ENVIRONMENT: no answer. */
int sw_slurm_admit_script(const char *script, struct sw_admission *out, struct sw_error *err);
/* Records the estimate for the submitted job (waits.h). */
void sw_slurm_admitted(const struct sw_admission *admission, const char *job);

#endif
