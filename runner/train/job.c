#include "runner/train/job.h"

#include "core/plan/data_file.h"
#include "core/program/workspace_collective.h"
#include "runner/rank/accelerator.h"
#include "runner/rank/gpu_kinds.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Set-up ---- */

static enum sw_device_kind kind_of(const struct sw_job *job)
{
    return job->plan->run->cluster.accelerator.device;
}

static struct sw_place plan_place(const struct sw_job *job)
{
    return (struct sw_place){.file = job->plan_path};
}

static int compile(struct sw_job *job)
{
    struct sw_program_options options;
    if (sw_plan_program_options(job->plan->run, &job->plan->decision, &options, &job->err) != 0 ||
        sw_program_set_compile(&options, &job->programs, &job->err) != 0 ||
        sw_program_model_flops(&options, &job->flops_per_step, &job->err) != 0)
        return -1;
    const enum sw_program_kind other =
        sw_program_set_differs(job->programs, job->plan->program_digest);
    if (job->plan->program_digest[SW_PROGRAM_TRAIN] == 0)
        return sw_fail_at(&job->err, SW_BAD_INPUT, plan_place(job),
                          "the plan is of a mesh that serves, and has no program that trains; emit "
                          "one without 'job'");
    if (other != SW_PROGRAM_KINDS)
        return sw_fail_at(&job->err, SW_BAD_INPUT, plan_place(job),
                          "this runner makes another '%s' program of the plan than the plan "
                          "tool that wrote it; emit the plan again with the plan tool of the same "
                          "version",
                          sw_program_kind_name(other));
    return 0;
}

static int set_up(struct sw_job *job, double holdout)
{
    const struct sw_run_config *run = job->plan->run;
    const int32_t ranks = sw_mesh_rank_count(&job->plan->decision.mesh);
    if (job->launch->size != ranks)
        return sw_fail_at(&job->err, SW_BAD_INPUT, plan_place(job),
                          "the plan needs %d rank%s, %d %s started; start it with mpirun "
                          "-np %d, or srun --mpi=pmix -n %d",
                          ranks, ranks == 1 ? "" : "s", job->launch->size,
                          job->launch->size == 1 ? "was" : "were", ranks, ranks);
    if (run->data_path == NULL)
        return sw_fail_at(&job->err, SW_BAD_INPUT, plan_place(job),
                          "the run names no data to train on; add data: {path: FILE} to "
                          "the run file and emit the plan again");
    if (compile(job) != 0 || sw_data_check(run, &job->err) != 0 ||
        sw_dataset_open(run->data_path, sw_data_is_bytes(run), holdout, run->data_seed,
                        run->model.shape.vocab_size, run->sequence_length, &job->data,
                        &job->err) != 0)
        return -1;
    job->device =
        sw_accelerator_device(job->launch, kind_of(job), sw_launch_threads(job->launch), &job->err);
    return job->device == NULL ? -1 : 0;
}

/* Ranks of different programs would wait for each other's collectives, or mix them up. */
static int check_same(struct sw_job *job, int64_t number)
{
    const int64_t tokens =
        sw_dataset_train_tokens(job->data) + sw_dataset_holdout_tokens(job->data);
    const uint64_t values[] = {job->plan->digest, (uint64_t)number, (uint64_t)tokens};
    switch (sw_launch_difference(job->launch, values, 3)) {
    case 0:
        return sw_fail_at(&job->err, SW_BAD_INPUT, plan_place(job),
                          "not every rank has this plan; give all of them the same file");
    case 1:
        return sw_fail(&job->err, SW_BAD_INPUT,
                       "not every rank has the same --steps; give all of them the same");
    case 2:
        return sw_fail_at(&job->err, SW_BAD_INPUT,
                          (struct sw_place){.file = job->plan->run->data_path},
                          "the data file has another length on some node; copy it to all");
    default:
        return 0;
    }
}

/* Once every rank got this far: creating the communicator is collective. */
static int set_up_executor(struct sw_job *job)
{
    const struct sw_plan_prediction *p = &job->plan->prediction;
    /* that a rank may say nothing: a step, or a save that is written in the pause */
    const double longest = fmax(p->step_seconds, p->save_seconds);
    struct sw_axes groups[SW_MESH_GROUPS];
    const int32_t group_count = sw_program_set_axes(job->programs, groups);
    if (sw_accelerator_comm(job->launch, &job->plan->decision.mesh, groups, group_count,
                            job->device, kind_of(job), sw_launch_stall_seconds(longest), &job->comm,
                            &job->err) != 0 ||
        sw_executor_create(job->programs, job->device, job->comm, NULL, &job->executor,
                           &job->err) != 0)
        return -1;
    const struct sw_collective_slots slots = sw_collective_slots(
        SW_ALL_REDUCE, job->launch->size, SW_JOB_VOTES, sizeof(float), false, false);
    job->vote_workspace = aligned_alloc(
        SW_ARENA_ALIGNMENT,
        (size_t)((slots.slots * slots.slot_bytes / SW_ARENA_ALIGNMENT + 1) * SW_ARENA_ALIGNMENT));
    return job->vote_workspace != NULL ? 0 : sw_fail(&job->err, SW_ENVIRONMENT, "out of memory");
}

enum sw_status sw_job_agree(const struct sw_job *job)
{
    return sw_launch_agree(job->launch, job->err.status == SW_OK ? NULL : &job->err);
}

enum sw_status sw_job_open(struct sw_job *job, double holdout, int64_t number)
{
    (void)set_up(job, holdout);
    const enum sw_status status = sw_job_agree(job);
    if (status != SW_OK)
        return status;
    if (check_same(job, number) == 0 && sw_kinds_check(job->launch, job->device, &job->err) == 0)
        (void)set_up_executor(job);
    return sw_job_agree(job);
}

void sw_job_close(struct sw_job *job)
{
    sw_executor_free(job->executor);
    if (job->comm != NULL)
        job->comm->vtable->destroy(job->comm);
    if (job->device != NULL)
        job->device->vtable->destroy(job->device);
    sw_dataset_close(job->data);
    sw_program_set_free(job->programs);
    free(job->vote_workspace);
}

/* ---- Between steps ---- */

int sw_job_vote(struct sw_job *job, float *flags, int32_t count, struct sw_error *err)
{
    struct sw_collective_call call;
    uint64_t ticket;
    if (job->comm->size == 1)
        return 0;
    memset(&call, 0, sizeof call);
    call.kind = SW_ALL_REDUCE;
    call.axes = (struct sw_axes){SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
    call.dtype = SW_F32;
    call.count = 1;
    call.in[0] = flags;
    call.out[0] = flags;
    call.elems[0] = count;
    call.outer = call.n = call.middle = call.m = 1;
    call.inner = count;
    call.workspace = job->vote_workspace;
    return job->comm->vtable->start(job->comm, &call, &ticket, err) != 0 ||
                   job->comm->vtable->wait(job->comm, ticket, err) != 0
               ? -1
               : 0;
}

/* ---- Data ---- */

void sw_job_read(struct sw_job *job, sw_job_reader read, int64_t first, int64_t rows,
                 int32_t *tokens, int32_t *labels)
{
    const int64_t s = job->plan->run->sequence_length;
    for (int64_t r = 0; r < rows; r++) {
        if (job->err.status == SW_OK &&
            read(job->data, first + r, tokens + r * s, labels + r * s, &job->err) == 0)
            continue;
        memset(tokens + r * s, 0, (size_t)s * sizeof *tokens);
        memset(labels + r * s, 0, (size_t)s * sizeof *labels);
    }
}

/* ---- The held-out tail ---- */

static int held_out_batch(void *context, int64_t step, int32_t micro_step, int64_t first_row,
                          int64_t rows, int32_t *tokens, int32_t *labels, struct sw_error *err)
{
    struct sw_job *job = context;
    (void)err;
    sw_job_read(job, sw_dataset_holdout,
                (step - 1) * job->plan->run->global_batch_size +
                    micro_step * job->programs->program[SW_PROGRAM_EVALUATE]->micro_batch +
                    first_row,
                rows, tokens, labels);
    return 0;
}

static int64_t held_out_labels(void *context, int64_t step)
{
    const struct sw_job *job = context;
    const int64_t batch = job->plan->run->global_batch_size;
    return sw_dataset_holdout_counted(job->data, (step - 1) * batch, batch);
}

int sw_job_held_out(struct sw_job *job, int (*stop)(void *context, bool *stops), void *context,
                    double *loss)
{
    const struct sw_batches inputs = {held_out_batch, held_out_labels, job};
    const int64_t batch = job->plan->run->global_batch_size;
    const int64_t batches = (sw_dataset_holdout_sequences(job->data) + batch - 1) / batch;
    double sum = 0;
    *loss = NAN;
    for (int64_t b = 1; b <= batches; b++) {
        struct sw_step step = {.step = b};
        struct sw_output out = {.name = "loss"};
        bool stops = false;
        if (sw_executor_run(job->executor, SW_PROGRAM_EVALUATE, &step, &inputs, &out, 1,
                            &job->err) != 0)
            return sw_fail_context(&job->err, "held-out loss");
        if (stop(context, &stops) != 0)
            return -1;
        if (stops)
            return 0;
        sum += out.value * (double)held_out_labels(job, b);
    }
    *loss = sum / (double)sw_dataset_holdout_labels(job->data);
    return 0;
}

const char *sw_job_describe_loss(const struct sw_job *job, double loss, double *bigram,
                                 char text[96])
{
    const double bits = loss / log(2);
    if (!sw_dataset_is_bytes(job->data)) {
        snprintf(text, 96, "%.3f bits/token", bits);
        return text;
    }
    if (isnan(*bigram) && sw_dataset_train_tokens(job->data) > 1) /* reads all that is trained on */
        *bigram = sw_dataset_bigram_bits(job->data);
    if (isnan(*bigram))
        snprintf(text, 96, "%.3f bits/byte", bits);
    else
        snprintf(text, 96, "%.3f bits/byte (byte-bigram %.3f)", bits, *bigram);
    return text;
}
