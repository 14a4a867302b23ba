/* What every command that runs programs of a plan sets up on a rank: programs, data, device,
 * communicator, executor; and how the ranks agree between two of its steps. Owns all that it opens.
 */
#ifndef SW_JOB_H
#define SW_JOB_H

#include "core/plan/plan.h"
#include "runner/rank/execute.h"
#include "runner/rank/launch.h"
#include "runner/train/dataset.h"

enum { SW_JOB_VOTES = 8 };

struct sw_job {
    const struct sw_launch *launch;
    const struct sw_plan *plan;
    const char *plan_path;
    struct sw_program_set *programs;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    struct sw_dataset *data;
    double flops_per_step; /* of the model, over all ranks */
    void *vote_workspace;
    struct sw_error err; /* what this rank found wrong; told to all between steps */
};

/* Collective. Everything but the state's contents. holdout: of the data, as sw_dataset_open;
 * number: what must be the same on every rank besides (--steps). Returns what the ranks agreed on,
 * the error printed once; SW_OK. sw_job_close also after an error. */
enum sw_status sw_job_open(struct sw_job *job, double holdout, int64_t number);
void sw_job_close(struct sw_job *job);

/* Collective: prints the error of the lowest rank whose job->err holds one. */
enum sw_status sw_job_agree(const struct sw_job *job);

/* Collective: flags [count <= SW_JOB_VOTES] become their sums over all ranks. The first word
 * between ranks that fails when one is gone. Errors: SW_ENVIRONMENT. */
int sw_job_vote(struct sw_job *job, float *flags, int32_t count, struct sw_error *err);

/* A batch of training or of held-out data for sw_executor_run, from sequence `first` on. Where the
 * data is bad the step goes on with zeros: the other ranks are in its collectives and would wait
 * for this one; job->err says so, and nothing of the step is to be reported. */
typedef int (*sw_job_reader)(const struct sw_dataset *data, int64_t sequence, int32_t *tokens,
                             int32_t *labels, struct sw_error *err);
void sw_job_read(struct sw_job *job, sw_job_reader read, int64_t first, int64_t rows,
                 int32_t *tokens, int32_t *labels);

/* Collective. Mean loss over the held-out tail, in nats for a label, every label counted once; in
 * the place of a step's transients. stop (may be NULL) is asked after every batch, with the ranks'
 * agreement; when it says so, *loss is NAN. Errors: as sw_executor_run; job->err of some rank. */
int sw_job_held_out(struct sw_job *job, int (*stop)(void *context, bool *stops), void *context,
                    double *loss);

/* What is said of it: "3.265 bits/byte (byte-bigram 3.807)". *bigram NAN: found out first, where it
 * is known at all. */
const char *sw_job_describe_loss(const struct sw_job *job, double loss, double *bigram,
                                 char text[96]);

#endif
