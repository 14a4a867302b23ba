#include "runner/train/train.h"

#include "core/base/clock.h"
#include "core/program/workspace_collective.h"
#include "runner/accelerator.h"
#include "runner/train/dataset.h"
#include "runner/execute.h"
#include "runner/gpu_kinds.h"
#include "runner/train/metrics.h"
#include "runner/train/learning_rate.h"
#include "runner/version.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the ranks tell each other between steps. */
enum { FLAGS = 2 };

struct training {
    const struct sw_launch *launch;
    const struct sw_plan *plan;
    const char *plan_path;
    struct sw_program_set *programs;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    struct sw_dataset *data;
    struct sw_metrics *metrics; /* rank 0 */
    void *exchange_workspace;
    double flops_per_step; /* of the model, over all ranks */
    double started, last_line;
    double bigram_bits;  /* of the held-out data; NAN: not known yet */
    bool line_open;      /* the terminal's line of progress has no end yet */
    struct sw_error err; /* what this rank found wrong; told to all between steps */
    bool together;       /* every rank leaves at the same place: errors are agreed on */
    bool stopped;        /* by a signal that some rank got */
};

/* Set by the signal handler; read between steps. */
static volatile sig_atomic_t stop_requested;

static void request_stop(int number)
{
    (void)number;
    stop_requested = 1;
}

/* ---- Data ---- */

typedef int (*read_sequence)(const struct sw_dataset *data, int64_t sequence, int32_t *tokens,
                             int32_t *labels, struct sw_error *err);

/* Where the data is bad the step goes on with zeros: the other ranks are in its collectives and
 * would wait for this one. The exchange after the step tells them, and nothing of it is reported.
 */
static void read_batch(struct training *t, read_sequence read, int64_t first, int64_t rows,
                       int32_t *tokens, int32_t *labels)
{
    const int64_t s = t->plan->run->sequence_length;
    for (int64_t r = 0; r < rows; r++) {
        if (t->err.status == SW_OK &&
            read(t->data, first + r, tokens + r * s, labels + r * s, &t->err) == 0)
            continue;
        memset(tokens + r * s, 0, (size_t)s * sizeof *tokens);
        memset(labels + r * s, 0, (size_t)s * sizeof *labels);
    }
}

static int64_t first_sequence(const struct training *t, int64_t step, int32_t micro_step,
                              int64_t first_row)
{
    return (step - 1) * t->plan->run->global_batch_size +
           micro_step * t->programs->program[SW_PROGRAM_TRAIN]->micro_batch + first_row;
}

static int train_batch(void *context, int64_t step, int32_t micro_step, int64_t first_row,
                       int64_t rows, int32_t *tokens, int32_t *labels, struct sw_error *err)
{
    struct training *t = context;
    (void)err;
    read_batch(t, sw_dataset_train, first_sequence(t, step, micro_step, first_row), rows, tokens,
               labels);
    return 0;
}

static int holdout_batch(void *context, int64_t step, int32_t micro_step, int64_t first_row,
                         int64_t rows, int32_t *tokens, int32_t *labels, struct sw_error *err)
{
    struct training *t = context;
    (void)err;
    read_batch(t, sw_dataset_holdout, first_sequence(t, step, micro_step, first_row), rows, tokens,
               labels);
    return 0;
}

static int64_t holdout_labels(void *context, int64_t step)
{
    const struct training *t = context;
    const int64_t batch = t->plan->run->global_batch_size;
    return sw_dataset_holdout_counted(t->data, (step - 1) * batch, batch);
}

/* ---- Set-up ---- */

static enum sw_device_kind kind_of(const struct training *t)
{
    return t->plan->run->cluster.accelerator.device;
}

static int compile(struct training *t)
{
    struct sw_program_options options;
    if (sw_plan_program_options(t->plan->run, &t->plan->decision, &options, &t->err) != 0 ||
        sw_program_set_compile(&options, &t->programs, &t->err) != 0 ||
        sw_program_model_flops(&options, &t->flops_per_step, &t->err) != 0)
        return -1;
    const enum sw_program_kind other = sw_program_set_differs(t->programs, t->plan->program_digest);
    if (other != SW_PROGRAM_KINDS)
        return sw_fail_at(&t->err, SW_BAD_INPUT, (struct sw_place){.file = t->plan_path},
                          "this runner makes another '%s' program of the plan than the plan "
                          "tool that wrote it; emit the plan again with the plan tool of the same "
                          "version",
                          sw_program_kind_name(other));
    return 0;
}

static int set_up(struct training *t)
{
    const struct sw_run_config *run = t->plan->run;
    const int32_t ranks = sw_mesh_rank_count(&t->plan->decision.mesh);
    if (t->launch->size != ranks)
        return sw_fail_at(&t->err, SW_BAD_INPUT, (struct sw_place){.file = t->plan_path},
                          "the plan needs %d rank%s, %d %s started; start it with mpirun "
                          "-np %d, or srun --mpi=pmix -n %d",
                          ranks, ranks == 1 ? "" : "s", t->launch->size,
                          t->launch->size == 1 ? "was" : "were", ranks, ranks);
    if (run->data_path == NULL)
        return sw_fail_at(&t->err, SW_BAD_INPUT, (struct sw_place){.file = t->plan_path},
                          "the run names no data to train on; add data: {path: FILE} to "
                          "the run file and emit the plan again");
    if (compile(t) != 0)
        return -1;
    if (sw_dataset_open(run->data_path, run->data_holdout, run->data_seed,
                        run->model.shape.vocab_size, run->sequence_length, &t->data, &t->err) != 0)
        return -1;
    t->device = sw_accelerator_device(t->launch, kind_of(t), sw_launch_threads(t->launch), &t->err);
    return t->device == NULL ? -1 : 0;
}

/* Ranks of different programs would wait for each other's collectives, or mix them up. */
static int check_same(struct training *t, int64_t steps)
{
    const int64_t tokens = sw_dataset_train_tokens(t->data) + sw_dataset_holdout_tokens(t->data);
    const uint64_t values[] = {t->plan->digest, (uint64_t)steps, (uint64_t)tokens};
    switch (sw_launch_difference(t->launch, values, 3)) {
    case 0:
        return sw_fail_at(&t->err, SW_BAD_INPUT, (struct sw_place){.file = t->plan_path},
                          "not every rank has this plan; give all of them the same file");
    case 1:
        return sw_fail(&t->err, SW_BAD_INPUT,
                       "not every rank has the same --steps; give all of them the same");
    case 2:
        return sw_fail_at(&t->err, SW_BAD_INPUT, (struct sw_place){.file = t->plan->run->data_path},
                          "the data file has another length on some node; copy it to all");
    default:
        return 0;
    }
}

/* Once every rank got this far: creating the communicator is collective. */
static int set_up_executor(struct training *t)
{
    const struct sw_run_config *run = t->plan->run;
    if (sw_accelerator_comm(t->launch, &t->plan->decision.mesh, t->device, kind_of(t), &t->comm,
                            &t->err) != 0)
        return -1;
    if (sw_executor_create(t->programs, t->device, t->comm, &t->executor, &t->err) != 0)
        return -1;
    const struct sw_collective_slots slots =
        sw_collective_slots(SW_ALL_REDUCE, t->launch->size, FLAGS, sizeof(float), false, false);
    t->exchange_workspace = aligned_alloc(
        SW_ARENA_ALIGNMENT,
        (size_t)((slots.slots * slots.slot_bytes / SW_ARENA_ALIGNMENT + 1) * SW_ARENA_ALIGNMENT));
    if (t->exchange_workspace == NULL)
        return sw_fail(&t->err, SW_ENVIRONMENT, "out of memory");
    return sw_executor_init_state(t->executor, run->data_seed, run->model.shape.initializer_range,
                                  &t->err);
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
    sw_program_set_free(t->programs);
    free(t->exchange_workspace);
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
    const double time = sw_clock_now();
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
    t->line_open = terminal && !final;
}

/* Before anything else is said. */
static void end_line(struct training *t)
{
    if (t->line_open)
        fputc('\n', stderr);
    t->line_open = false;
}

/* ---- The loop ---- */

/* Between steps: sets t->stopped when any rank was asked to stop, since signals do not reach all
 * ranks in the same step; fails, on all ranks together, when any found something wrong. */
static int exchange(struct training *t)
{
    float flags[FLAGS] = {stop_requested ? 1.0f : 0.0f, t->err.status != SW_OK ? 1.0f : 0.0f};
    if (t->comm->size > 1) {
        struct sw_collective_call call;
        uint64_t ticket;
        memset(&call, 0, sizeof call);
        call.kind = SW_ALL_REDUCE;
        call.axes = (struct sw_axes){SW_AXIS_COUNT, {SW_DP, SW_FSDP, SW_TP, SW_SP}};
        call.dtype = SW_F32;
        call.count = 1;
        call.in[0] = flags;
        call.out[0] = flags;
        call.elems[0] = FLAGS;
        call.outer = call.n = call.middle = call.m = 1;
        call.inner = FLAGS;
        call.workspace = t->exchange_workspace;
        if (t->comm->vtable->start(t->comm, &call, &ticket, &t->err) != 0 ||
            t->comm->vtable->wait(t->comm, ticket, &t->err) != 0)
            return -1;
    }
    t->stopped = flags[0] > 0;
    t->together = flags[1] > 0;
    return t->together ? -1 : 0;
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
    return run->compute == SW_BF16_T ? a->peak_bf16_flops : a->peak_fp32_flops;
}

/* ---- The held-out tail ---- */

/* Bits per held-out token: the evaluate program in the place of the train program's transients,
 * every label counted once. Nothing is known when t->stopped afterwards. */
static int held_out_bits(struct training *t, double *bits)
{
    const struct sw_batches inputs = {holdout_batch, holdout_labels, t};
    const int64_t batch = t->plan->run->global_batch_size;
    const int64_t batches = (sw_dataset_holdout_sequences(t->data) + batch - 1) / batch;
    double sum = 0;
    for (int64_t b = 1; b <= batches && !t->stopped; b++) {
        struct sw_step step = {.step = b};
        struct sw_output loss = {.name = "loss"};
        if (sw_executor_run(t->executor, SW_PROGRAM_EVALUATE, &step, &inputs, &loss, 1, &t->err) !=
                0 ||
            exchange(t) != 0)
            return -1;
        sum += loss.value * (double)holdout_labels(t, b);
    }
    *bits = sum / log(2) / (double)sw_dataset_holdout_labels(t->data);
    return 0;
}

/* Says how the model does on what was held out: at the end, and during training (`evaluate`). */
static int judge(struct training *t, int64_t steps)
{
    double bits = 0, bigram = NAN;
    if (sw_dataset_holdout_labels(t->data) == 0)
        return 0;
    if (held_out_bits(t, &bits) != 0)
        return t->together ? -1 : sw_fail_context(&t->err, "held-out loss");
    if (t->launch->rank != 0 || t->stopped)
        return 0;
    end_line(t);
    if (sw_dataset_is_bytes(t->data)) {
        if (isnan(t->bigram_bits)) /* reads all that is trained on */
            t->bigram_bits = sw_dataset_bigram_bits(t->data);
        bigram = t->bigram_bits;
        fprintf(stderr, "held-out: %.3f bits/byte (byte-bigram %.3f)\n", bits, bigram);
    } else {
        fprintf(stderr, "held-out: %.3f bits/token\n", bits);
    }
    (void)sw_metrics_holdout(t->metrics, steps, bits, bigram, &t->err); /* agreed on at the end */
    return 0;
}

/* *done: steps that were reported. A failure to report the last one stays in t->err. */
static int run_steps(struct training *t, int64_t last, int64_t *done)
{
    const struct sw_run_config *run = t->plan->run;
    const struct sw_batches inputs = {.read = train_batch, .context = t};
    t->started = t->last_line = sw_clock_now();
    for (int64_t number = 1; number <= last && !t->stopped; number++) {
        struct sw_step step = make_step(&run->optimizer, number);
        struct sw_output out[2] = {{.name = "loss"}, {.name = "grad_norm"}};
        const double begin = sw_clock_now();
        if (sw_executor_run(t->executor, SW_PROGRAM_TRAIN, &step, &inputs, out, 2, &t->err) != 0)
            return sw_fail_context(&t->err, "step %" PRId64, number);
        const double seconds = sw_clock_now() - begin;
        if (exchange(t) != 0)
            return -1;
        *done = number;
        if (t->launch->rank == 0) {
            const struct sw_metrics_step line = {
                .step = number,
                .tokens = t->programs->tokens_per_step,
                .loss = out[0].value,
                .grad_norm = out[1].value,
                .learning_rate = step.learning_rate,
                .step_seconds = seconds,
                .mfu = t->flops_per_step / seconds / (peak_flops(run) * t->launch->size),
                .arena_bytes = sw_executor_arena_bytes(t->executor)};
            (void)sw_metrics_step(t->metrics, &line, &t->err); /* the next exchange tells */
            progress(t, number, last, out[0].value, (double)line.tokens / seconds,
                     number == last || t->stopped);
        }
        if (!isfinite(out[0].value)) {
            t->together = true; /* every rank has the same loss */
            return sw_fail(&t->err, SW_UNMET,
                           "the loss of step %" PRId64
                           " is not finite; use a lower learning_rate or more warmup_steps",
                           number);
        }
        const int64_t every = run->evaluate_every_steps;
        if (every > 0 && number % every == 0 && number < last && !t->stopped &&
            judge(t, number) != 0)
            return -1;
    }
    return 0;
}

static int open_metrics(struct training *t)
{
    char versions[512];
    if (t->launch->rank != 0)
        return 0;
    if (sw_metrics_open(t->plan->run->directory, &t->metrics, &t->err) != 0)
        return -1;
    return sw_metrics_header(t->metrics, t->plan, sw_version_json(versions, sizeof versions),
                             &t->err);
}

static void announce(const struct training *t, int64_t last)
{
    char mesh[64];
    fprintf(stderr,
            "training %s: %" PRId64 " step%s of %" PRId64
            " tokens on mesh %s (%d rank%s), arena %.1f MB per rank\n",
            t->plan->run->name, last, last == 1 ? "" : "s", t->programs->tokens_per_step,
            sw_mesh_format(&t->plan->decision.mesh, mesh, sizeof mesh), t->launch->size,
            t->launch->size == 1 ? "" : "s", (double)sw_executor_arena_bytes(t->executor) / 1e6);
}

static enum sw_status agree(const struct training *t)
{
    return sw_launch_agree(t->launch, t->err.status == SW_OK ? NULL : &t->err);
}

/* Returns the exit code. */
static int train(struct training *t, int64_t steps)
{
    int64_t done = 0;
    (void)set_up(t);
    enum sw_status status = agree(t);
    if (status == SW_OK) {
        if (check_same(t, steps) == 0 && sw_kinds_check(t->launch, t->device, &t->err) == 0 &&
            set_up_executor(t) == 0)
            (void)open_metrics(t);
        status = agree(t);
    }
    if (status != SW_OK)
        return (int)status;
    const struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    const int64_t last = steps > 0 ? steps : t->plan->run->optimizer.total_steps;
    if (t->launch->rank == 0)
        announce(t, last);
    bool failed = run_steps(t, last, &done) != 0, judging = !failed && !t->stopped;
    if (judging)
        failed = judge(t, done) != 0;
    end_line(t);
    if (failed && !t->together)
        sw_launch_abort(t->launch, &t->err);
    status = agree(t);
    if (status != SW_OK || !t->stopped)
        return (int)status;
    if (t->launch->rank == 0)
        fprintf(stderr, "stopped after step %" PRId64 " of %" PRId64 "%s; metrics are in %s\n",
                done, last, judging ? ", before the held-out loss was known" : "",
                t->plan->run->directory);
    return SW_INTERRUPTED;
}

int sw_train(const struct sw_launch *launch, const struct sw_plan *plan,
             const struct sw_train_options *options)
{
    struct training t = {
        .launch = launch, .plan = plan, .plan_path = options->plan_path, .bigram_bits = NAN};
    const int status = train(&t, options->steps);
    tear_down(&t);
    return status;
}
