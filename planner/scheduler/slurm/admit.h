/* What is asked before a job is submitted: mistakes that Slurm takes without a word, so that the
 * job waits for ever, and those that it would find later. */
#ifndef SW_SLURM_ADMIT_H
#define SW_SLURM_ADMIT_H

#include "planner/scheduler/slurm/accounting.h"
#include "planner/scheduler/slurm/controller.h"

/* Whether a job like this can start at all in the partition that it names (its first, or the
 * default one): its time, nodes, processors, memory and GPUs are what the partition has, its
 * account and qos may use it. queue (may be NULL: then its dependency is not looked at): the jobs
 * that the controller knows. Returns whether; else why says it in one line. */
bool sw_slurm_admits(const struct sw_job_request *request, const struct sw_slurm_facts *facts,
                     const struct sw_slurm_accounting *accounting,
                     const struct sw_queued_jobs *queue, char why[256]);

/* Whether a job that Slurm would not start now may when nodes are back that are down or drained:
 * sbatch queues it. Returns whether; then why names the nodes, "waits for n2 (drained)", and *left
 * is how many others it could have. */
bool sw_slurm_waits_for_nodes(const struct sw_job_request *request,
                              const struct sw_slurm_facts *facts, char why[256], int32_t *left);

/* What a refusal of sbatch --test-only means for a submission: true if sbatch would queue the job.
 * Then why says what it waits for, and *left is as above; else why is the refusal. */
bool sw_slurm_refusal_waits(const struct sw_job_request *request,
                            const struct sw_slurm_facts *facts, const char *refusal,
                            char why[SW_JOB_REFUSAL_BYTES], int32_t *left);

/* The same of a script that is about to be submitted, in any of its partitions, with the
 * controller's own word on when it would start. Nodes that are down are waited for. Errors:
 * SW_UNMET: it cannot start, and why; SW_ENVIRONMENT: no answer. */
int sw_slurm_admit_script(const char *script, struct sw_admission *out, struct sw_error *err);
/* Remembers the estimate of the job that it became (waits.h). */
void sw_slurm_admitted(const struct sw_admission *admission, const char *job);

#endif
