#include "runner/train/trainer.h"

#include "core/plan/data_file.h"
#include "core/programs/compile.h"
#include "runner/train/run_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SLOW_TOKENS = 1000000000 }; /* per rank: reading them takes seconds */

/* ---- Set-up ---- */

static int64_t data_tokens(const struct sw_dataset *data)
{
    return data == NULL ? 0 : sw_dataset_train_tokens(data) + sw_dataset_holdout_tokens(data);
}

/* Checks all tokens before the first step, not when a row draws a bad one. Each rank checks its
 * part of the files. */
static int check_tokens(const struct sw_trainer *trainer, const struct sw_dataset *data)
{
    struct sw_rank *rank = trainer->rank;
    const int64_t tokens = data_tokens(data);
    if (data == NULL || sw_dataset_is_bytes(data))
        return 0;
    if (rank->launch->rank == 0 && tokens / rank->launch->size > SLOW_TOKENS &&
        !sw_dataset_is_checked(data))
        fprintf(stderr, "checking the numbers of %.1f billion tokens\n", (double)tokens * 1e-9);
    return sw_dataset_check(data, rank->launch->rank, rank->launch->size, &rank->err);
}

static int set_up(struct sw_trainer *trainer, double holdout)
{
    struct sw_rank *rank = trainer->rank;
    const struct sw_plan *plan = rank->plan;
    const struct sw_run_config *run = plan->run;
    const struct sw_place place = {.file = rank->plan_path};
    struct sw_program_options options;
    if (sw_rank_compile_training(rank) != 0)
        return -1;
    if (run->data_path == NULL)
        return sw_fail_at(&rank->err, SW_BAD_INPUT, place,
                          "the run names no data to train on; add data: {path: FILE} to "
                          "the run file and emit the plan again");
    if (sw_plan_program_options(run, &plan->decision, &options, &rank->err) != 0 ||
        sw_program_model_flops(&options, &trainer->flops_per_step, &rank->err) != 0 ||
        sw_data_check(run, &rank->err) != 0)
        return -1;
    const bool judged = run->data_validation.count > 0;
    if ((!judged || holdout < 1) && sw_run_data_open(run, &run->data_paths, judged ? 0 : holdout,
                                                     &trainer->data, &rank->err) != 0)
        return -1;
    if (judged &&
        sw_run_data_open(run, &run->data_validation, 1, &trainer->validation, &rank->err) != 0)
        return -1;
    return check_tokens(trainer, trainer->data) != 0 ||
                   check_tokens(trainer, trainer->validation) != 0
               ? -1
               : 0;
}

static uint64_t digest(const struct sw_dataset *data)
{
    return data == NULL ? 0 : sw_dataset_digest(data);
}

enum sw_status sw_trainer_open(struct sw_trainer *trainer, double holdout, int64_t steps)
{
    const struct sw_plan *plan = trainer->rank->plan;
    const struct sw_plan_prediction *p = &plan->prediction;
    (void)set_up(trainer, holdout);
    const struct sw_rank_same same[] = {
        {(uint64_t)steps, NULL, "not every rank has the same --steps; give all of them the same"},
        {(uint64_t)data_tokens(trainer->data), plan->run->data_path,
         "the data file has another length on some node; copy it to all"},
        {digest(trainer->data) + 3 * digest(trainer->validation), plan->run->data_path,
         "the files of data, or their indexes, are not the same on some node; copy them to all"}};
    /* longest silence of a rank: a step, or a save written during the pause */
    return sw_rank_join(trainer->rank, same, SW_RANK_SAME, fmax(p->step_seconds, p->save_seconds));
}

void sw_trainer_close(struct sw_trainer *trainer)
{
    sw_dataset_close(trainer->data);
    sw_dataset_close(trainer->validation);
}

struct sw_dataset *sw_trainer_held(const struct sw_trainer *trainer)
{
    return trainer->validation != NULL ? trainer->validation : trainer->data;
}

/* ---- Data ---- */

/* Row part that an input wants. */
static struct sw_row part_of(const char *name, int32_t *to)
{
    return (struct sw_row){.tokens = strcmp(name, "tokens") == 0 ? to : NULL,
                           .labels = strcmp(name, "labels") == 0 ? to : NULL,
                           .positions = strcmp(name, "positions") == 0 ? to : NULL,
                           .segments = strstr(name, "segments") != NULL ? to : NULL};
}

void sw_trainer_read(const struct sw_trainer *trainer, struct sw_dataset *data, sw_row_reader read,
                     int64_t first, const struct sw_ask *ask, int32_t *to)
{
    struct sw_error *err = &trainer->rank->err;
    for (int64_t r = 0; r < ask->rows; r++, to += ask->row_elems) {
        const struct sw_row row = part_of(ask->name, to);
        if (err->status != SW_OK || read(data, first + ask->first_row + r, &row, err) != 0)
            memset(to, 0, (size_t)ask->row_elems * sizeof *to);
    }
}

/* ---- The held-out tail ---- */

static int held_out_batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    struct sw_trainer *trainer = context;
    const struct sw_rank *rank = trainer->rank;
    (void)err;
    sw_trainer_read(trainer, sw_trainer_held(trainer), sw_dataset_holdout,
                    (ask->step->step - 1) * rank->plan->run->global_batch_size +
                        ask->step->micro_step *
                            rank->programs->program[SW_PROGRAM_EVALUATE]->micro_batch,
                    ask, to);
    return 0;
}

int sw_trainer_held_out(struct sw_trainer *trainer, int (*stop)(void *context, bool *stops),
                        void *context, double *loss)
{
    const int64_t batch = trainer->rank->plan->run->global_batch_size;
    struct sw_dataset *held = sw_trainer_held(trainer);
    const int64_t batches = (sw_dataset_holdout_sequences(held) + batch - 1) / batch;
    double sum = 0, mean;
    const struct sw_fetch fetch = {.name = "loss", .number = &mean};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    const struct sw_rank *rank = trainer->rank;
    const struct sw_batch reader = {held_out_batch, trainer, true};
    const int32_t fed =
        sw_batch_feeds(&reader, rank->programs->program[SW_PROGRAM_EVALUATE], feeds);
    *loss = NAN;
    for (int64_t b = 1; b <= batches; b++) {
        const int64_t labels = sw_dataset_holdout_counted(held, (b - 1) * batch, batch);
        const struct sw_step step = {.step = b, .loss_scale = sw_batch_loss_scale(labels)};
        bool stops = false;
        if (sw_executor_run(trainer->rank->executor, SW_PROGRAM_EVALUATE, &step, feeds, fed, &fetch,
                            1, &trainer->rank->err) != 0)
            return sw_fail_context(&trainer->rank->err, "held-out loss");
        if (stop(context, &stops) != 0)
            return -1;
        if (stops)
            return 0;
        sum += mean * (double)labels;
    }
    *loss = sum / (double)sw_dataset_holdout_labels(held);
    return 0;
}

const char *sw_trainer_describe_loss(const struct sw_trainer *trainer, double loss, double *bigram,
                                     char text[96])
{
    const double bits = loss / log(2);
    if (!sw_dataset_is_bytes(sw_trainer_held(trainer))) {
        snprintf(text, 96, "%.3f bits/token", bits);
        return text;
    }
    if (isnan(*bigram) && trainer->validation == NULL &&
        sw_dataset_train_tokens(trainer->data) > 1) /* reads all training data */
        *bigram = sw_dataset_bigram_bits(trainer->data);
    if (isnan(*bigram))
        snprintf(text, 96, "%.3f bits/byte", bits);
    else
        snprintf(text, 96, "%.3f bits/byte (byte-bigram %.3f)", bits, *bigram);
    return text;
}
