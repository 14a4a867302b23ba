#include "runner/train.h"

#include "core/program/workspace_collective.h"
#include "runner/accelerator.h"
#include "runner/dataset.h"
#include "runner/execute.h"
#include "runner/metrics.h"
#include "runner/schedule.h"
#include "runner/version.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct training {
    const struct sw_launch *launch;
    const struct sw_plan *plan;
    struct sw_program *program;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    struct sw_dataset *data;
    struct sw_metrics *metrics; /* rank 0 */
    void *agree_workspace;
    double flops_per_step; /* of the model, over all ranks */
    double started, last_line;
};

/* Set by the signal handler; read between steps. */
static volatile sig_atomic_t stop_requested;

static void request_stop(int number)
{
    (void)number;
    stop_requested = 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Data ---- */

static int train_batch(void *context, int64_t step, int32_t micro_step, int64_t first_row,
                       int64_t rows, int32_t *tokens, int32_t *labels, struct sw_error *err)
{
    const struct training *t = context;
    const int64_t s = t->program->sequence_length;
    const int64_t first = (step - 1) * t->plan->run->global_batch_size +
                          micro_step * t->program->micro_batch + first_row;
    for (int64_t r = 0; r < rows; r++)
        if (sw_dataset_train(t->data, first + r, tokens + r * s, labels + r * s, err) != 0)
            return -1;
    return 0;
}

static int holdout_batch(void *context, int64_t step, int32_t micro_step, int64_t first_row,
                         int64_t rows, int32_t *tokens, int32_t *labels, struct sw_error *err)
{
    const struct training *t = context;
    const int64_t s = t->program->sequence_length;
    const int64_t first = (step - 1) * t->plan->run->global_batch_size +
                          micro_step * t->program->micro_batch + first_row;
    for (int64_t r = 0; r < rows; r++)
        if (sw_dataset_holdout(t->data, first + r, tokens + r * s, labels + r * s, err) != 0)
            return -1;
    return 0;
}

/* ---- Set-up ---- */

static int32_t threads_per_rank(const struct sw_launch *launch)
{
    const char *set = getenv("OMP_NUM_THREADS");
    if (set != NULL && atoi(set) > 0)
        return atoi(set);
    cpu_set_t usable;
    int cores = 1;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0)
        cores = CPU_COUNT(&usable);
    /* a rank that its launcher bound has its cores for itself */
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int32_t threads = cores < online ? cores : cores / launch->local_size;
    return threads > 0 ? threads : 1;
}

static bool on_gpus(const struct training *t)
{
    return t->plan->run->cluster.accelerator.device != SW_DEVICE_CPU;
}

static int compile(struct training *t, struct sw_error *err)
{
    struct sw_program_options options;
    if (sw_plan_program_options(t->plan->run, &t->plan->decision, &options, err) != 0 ||
        sw_program_compile(&options, SW_LAID_OUT, &t->program, err) != 0 ||
        sw_program_model_flops(&options, &t->flops_per_step, err) != 0)
        return -1;
    if (sw_program_digest(t->program) != t->plan->program_digest)
        return sw_fail(err, SW_BAD_INPUT,
                       "this runner makes another program of the plan than the plan tool that "
                       "wrote it; emit the plan "
                       "again with the plan tool of the same version");
    return 0;
}

static int set_up(struct training *t, struct sw_error *err)
{
    const struct sw_run_config *run = t->plan->run;
    const int32_t ranks = sw_mesh_rank_count(&t->plan->decision.mesh);
    if (t->launch->size != ranks)
        return sw_fail(err, SW_BAD_INPUT,
                       "the plan needs %d ranks but %d %s started; use mpirun -np %d, or srun "
                       "--mpi=pmix -n %d",
                       ranks, t->launch->size, t->launch->size == 1 ? "was" : "were", ranks, ranks);
    if (run->data_path == NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "the run names no data to train on; add data: {path: FILE} to the run file");
    if (compile(t, err) != 0)
        return -1;
    if (sw_dataset_open(run->data_path, run->data_holdout, run->data_seed, run->model.vocab_size,
                        run->sequence_length, &t->data, err) != 0)
        return -1;
    t->device = sw_accelerator_device(t->launch, on_gpus(t), threads_per_rank(t->launch), err);
    return t->device == NULL ? -1 : 0;
}

/* Once every rank got this far: creating the communicator is collective. */
static int set_up_executor(struct training *t, struct sw_error *err)
{
    const struct sw_run_config *run = t->plan->run;
    if (sw_accelerator_comm(t->launch, &t->program->mesh, t->device, on_gpus(t), &t->comm, err) !=
        0)
        return -1;
    if (sw_executor_create(t->program, t->device, t->comm, &t->executor, err) != 0)
        return -1;
    const struct sw_collective_slots slots =
        sw_collective_slots(SW_ALL_REDUCE, t->launch->size, 1, sizeof(float), false, false);
    t->agree_workspace = aligned_alloc(
        SW_ARENA_ALIGNMENT,
        (size_t)((slots.slots * slots.slot_bytes / SW_ARENA_ALIGNMENT + 1) * SW_ARENA_ALIGNMENT));
    if (t->agree_workspace == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    return sw_executor_init_parameters(t->executor, run->data_seed, run->model.initializer_range,
                                       err);
}

static void tear_down(struct training *t)
{
    sw_metrics_close(t->metrics);
    sw_executor_free(t->executor);
    if (t->comm != NULL)
        t->comm->vtable->destroy(t->comm);
    if (t->device != NULL)
        t->device->vtable->destroy(t->device);
    sw_dataset_close(t->data);
    sw_program_free(t->program);
    free(t->agree_workspace);
}

/* ---- Progress ---- */

static void format_duration(double seconds, char text[32])
{
    const int64_t s = seconds > 0 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, 32, "%" PRId64 " h %02d min", s / 3600, (int)(s / 60 % 60));
    else if (s >= 60)
        snprintf(text, 32, "%" PRId64 " min %02d s", s / 60, (int)(s % 60));
    else
        snprintf(text, 32, "%" PRId64 " s", s);
}

/* On a terminal one line that is written over, at most ten times a second; else a line about every
 * twentieth of the run, or every 10 s. */
static void progress(struct training *t, int64_t step, int64_t last, double loss,
                     double tokens_per_second, bool final)
{
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const int64_t every = last / 20 > 0 ? last / 20 : 1;
    const double time = now();
    char left[32];
    const bool due =
        terminal ? time - t->last_line >= 0.1 : step % every == 0 || time - t->last_line >= 10;
    if (!due && !final && step != 1)
        return;
    t->last_line = time;
    format_duration((time - t->started) / (double)step * (double)(last - step), left);
    fprintf(stderr, "%sstep %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  %s left%s",
            terminal ? "\r\033[K" : "", step, last, loss, tokens_per_second, left,
            terminal && !final ? "" : "\n");
    fflush(stderr);
}

/* ---- The loop ---- */

/* Whether any rank was asked to stop: signals do not reach all ranks in the same step. */
static int anyone_stops(struct training *t, bool *stop, struct sw_error *err)
{
    float flag = stop_requested ? 1.0f : 0.0f;
    if (t->comm->size > 1) {
        struct sw_collective_call call;
        uint64_t ticket;
        memset(&call, 0, sizeof call);
        call.kind = SW_ALL_REDUCE;
        call.axes = (struct sw_axes){SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
        call.dtype = SW_F32;
        call.count = 1;
        call.in[0] = &flag;
        call.out[0] = &flag;
        call.elems[0] = 1;
        call.outer = call.n = call.middle = call.m = call.inner = 1;
        call.workspace = t->agree_workspace;
        if (t->comm->vtable->start(t->comm, &call, &ticket, err) != 0 ||
            t->comm->vtable->wait(t->comm, ticket, err) != 0)
            return -1;
    }
    *stop = flag > 0;
    return 0;
}

static struct sw_step make_step(const struct sw_optimizer_config *o, int64_t number)
{
    return (struct sw_step){.step = number,
                            .learning_rate = sw_learning_rate(o, number),
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .eps = o->eps,
                            .weight_decay = o->weight_decay,
                            .grad_clip = o->grad_clip};
}

static double peak_flops(const struct sw_run_config *run)
{
    const struct sw_accelerator_config *a = &run->cluster.accelerator;
    return run->compute == SW_BF16 ? a->peak_bf16_flops : a->peak_fp32_flops;
}

/* Returns the number of steps done, or -1. */
static int64_t run_steps(struct training *t, int64_t last, bool *stopped, struct sw_error *err)
{
    const struct sw_run_config *run = t->plan->run;
    t->started = t->last_line = now();
    *stopped = false;
    for (int64_t number = 1; number <= last; number++) {
        struct sw_step step = make_step(&run->optimizer, number);
        double loss = 0, norm = 0, begin = now();
        if (sw_executor_step(t->executor, &step, train_batch, t, &loss, &norm, err) != 0)
            return sw_fail_context(err, "step %" PRId64, number);
        const double seconds = now() - begin;
        if (anyone_stops(t, stopped, err) != 0)
            return -1;
        if (t->launch->rank == 0) {
            const struct sw_metrics_step line = {
                .step = number,
                .tokens = t->program->tokens_per_step,
                .loss = loss,
                .grad_norm = norm,
                .learning_rate = step.learning_rate,
                .step_seconds = seconds,
                .mfu = t->flops_per_step / seconds / (peak_flops(run) * t->launch->size),
                .arena_bytes = sw_executor_arena_bytes(t->executor)};
            if (sw_metrics_step(t->metrics, &line, err) != 0)
                return -1;
            progress(t, number, last, loss, (double)line.tokens / seconds,
                     number == last || *stopped);
        }
        if (!isfinite(loss))
            return sw_fail(err, SW_UNMET,
                           "the loss of step %" PRId64
                           " is not finite; use a lower learning_rate or more warmup_steps",
                           number);
        if (*stopped)
            return number;
    }
    return last;
}

/* ---- The held-out tail ---- */

/* The parameters of one executor, kept on the host while its arena makes room for another's. */
struct kept {
    char *data;
    size_t bytes;
};

static size_t parameter_bytes(const struct sw_program *p)
{
    size_t bytes = 0;
    for (int32_t v = 0; v < p->value_count; v++)
        if (p->values[v].role == SW_ROLE_PARAMETER && p->values[v].alias < 0)
            bytes += (size_t)(p->values[v].slot_bytes * p->values[v].stack);
    return bytes;
}

/* Both programs have the same parameters in the same order: they are the first values a build
 * makes. */
static int move_parameters(struct training *t, const struct sw_program *p,
                           struct sw_executor *executor, struct kept *kept, bool out)
{
    size_t at = 0;
    int failed = 0;
    for (int32_t v = 0; v < p->value_count; v++) {
        const struct sw_value *value = &p->values[v];
        if (value->role != SW_ROLE_PARAMETER || value->alias >= 0)
            continue;
        const size_t bytes = (size_t)(value->slot_bytes * value->stack);
        void *device = sw_executor_value(executor, v, 0);
        failed |= out ? t->device->vtable->copy_out(t->device, kept->data + at, device, bytes)
                      : t->device->vtable->copy_in(t->device, device, kept->data + at, bytes);
        at += bytes;
    }
    return failed;
}

/* Bits per held-out token: the forward program on the same mesh, every label counted once. */
static int held_out_bits(struct training *t, double *bits, struct sw_error *err)
{
    struct sw_program_options options;
    struct kept kept = {.bytes = parameter_bytes(t->program)};
    kept.data = malloc(kept.bytes);
    if (kept.data == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the held-out loss");
    int status = -1;
    if (move_parameters(t, t->program, t->executor, &kept, true) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot read the parameters from the device");
        goto out;
    }
    sw_executor_free(t->executor);
    t->executor = NULL;
    if (sw_plan_program_options(t->plan->run, &t->plan->decision, &options, err) != 0)
        goto out;
    options.forward_only = true;
    struct sw_program *forward = NULL;
    if (sw_program_compile(&options, SW_LAID_OUT, &forward, err) != 0)
        goto out;
    sw_program_free(t->program);
    t->program = forward;
    if (parameter_bytes(forward) != kept.bytes) {
        sw_fail(err, SW_ENVIRONMENT,
                "the forward program has other parameters than the trained one");
        goto out;
    }
    if (sw_executor_create(forward, t->device, t->comm, &t->executor, err) != 0)
        goto out;
    if (move_parameters(t, forward, t->executor, &kept, false) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot write the parameters to the device");
        goto out;
    }
    const int64_t batch = t->plan->run->global_batch_size;
    const int64_t batches = (sw_dataset_holdout_sequences(t->data) + batch - 1) / batch;
    double sum = 0;
    for (int64_t b = 1; b <= batches; b++) {
        struct sw_step step = {.step = b};
        double loss;
        if (sw_executor_step(t->executor, &step, holdout_batch, t, &loss, NULL, err) != 0)
            goto out;
        sum += loss * (double)forward->tokens_per_step;
    }
    *bits = sum / log(2) / (double)sw_dataset_holdout_labels(t->data);
    status = 0;
out:
    free(kept.data);
    return status;
}

static int judge(struct training *t, int64_t steps, struct sw_error *err)
{
    double bits = 0, bigram = NAN;
    if (sw_dataset_holdout_labels(t->data) == 0)
        return 0;
    if (held_out_bits(t, &bits, err) != 0)
        return sw_fail_context(err, "held-out loss");
    if (t->launch->rank != 0)
        return 0;
    if (sw_dataset_is_bytes(t->data)) {
        bigram = sw_dataset_bigram_bits(t->data);
        fprintf(stderr, "held-out: %.3f bits/byte (byte-bigram %.3f)\n", bits, bigram);
    } else {
        fprintf(stderr, "held-out: %.3f bits/token\n", bits);
    }
    return sw_metrics_holdout(t->metrics, steps, bits, bigram, err);
}

static int open_metrics(struct training *t, struct sw_error *err)
{
    char versions[512];
    if (t->launch->rank != 0)
        return 0;
    if (sw_metrics_open(t->plan->run->directory, &t->metrics, err) != 0)
        return -1;
    return sw_metrics_header(t->metrics, t->plan, sw_version_json(versions, sizeof versions), err);
}

static void announce(const struct training *t, int64_t last)
{
    char mesh[64];
    fprintf(stderr,
            "training %s: %" PRId64 " steps of %" PRId64
            " tokens on mesh %s (%d rank%s), arena %.1f MB per rank\n",
            t->plan->run->name, last, t->program->tokens_per_step,
            sw_mesh_format(&t->plan->decision.mesh, mesh, sizeof mesh), t->launch->size,
            t->launch->size == 1 ? "" : "s", (double)sw_executor_arena_bytes(t->executor) / 1e6);
}

int sw_train(const struct sw_launch *launch, const struct sw_plan *plan,
             const struct sw_train_options *options)
{
    struct training t = {.launch = launch, .plan = plan};
    struct sw_error err = {0};
    bool failed = set_up(&t, &err) != 0;
    enum sw_status status = sw_launch_agree(launch, failed ? &err : NULL);
    if (status == SW_OK) {
        failed = set_up_executor(&t, &err) != 0 || open_metrics(&t, &err) != 0;
        status = sw_launch_agree(launch, failed ? &err : NULL);
    }
    if (status != SW_OK) {
        tear_down(&t);
        return (int)status;
    }
    const struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    const int64_t last = options->steps > 0 ? options->steps : plan->run->optimizer.total_steps;
    bool stopped;
    if (launch->rank == 0)
        announce(&t, last);
    const int64_t done = run_steps(&t, last, &stopped, &err);
    if (done < 0 || (!stopped && judge(&t, done, &err) != 0)) {
        if (err.status == SW_UNMET) { /* every rank sees the same loss */
            status = sw_launch_agree(launch, &err);
            tear_down(&t);
            return (int)status;
        }
        sw_launch_abort(launch, &err);
    }
    if (stopped && launch->rank == 0)
        fprintf(stderr, "stopped after step %" PRId64 " of %" PRId64 "; metrics are in %s\n", done,
                last, plan->run->directory);
    tear_down(&t);
    return stopped ? SW_INTERRUPTED : SW_OK;
}
