#include "runner/train/trainer.h"

#include "core/base/token_index.h"
#include "core/plan/data_file.h"
#include "core/programs/compile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SLOW_TOKENS = 1000000000 }; /* of a rank, whose reading takes seconds */

/* ---- Set-up ---- */

/* *good: an index beside the file says that all its tokens are below vocab_size. */
static int look_at_index(struct sw_trainer *trainer, bool *good)
{
    const struct sw_run_config *run = trainer->rank->plan->run;
    struct sw_token_index index;
    bool found;
    *good = false;
    if (sw_token_index_open(run->data_path, &found, &index, &trainer->rank->err) != 0)
        return -1;
    *good = found && index.largest < run->model.shape.vocab_size;
    if (found)
        sw_token_index_close(&index);
    return 0;
}

/* A token that is none of the model's ends the run before its first step, not at the one that draws
 * it. Without an index each rank reads its part of the file. */
static int check_tokens(struct sw_trainer *trainer)
{
    struct sw_rank *rank = trainer->rank;
    const int64_t tokens =
        sw_dataset_train_tokens(trainer->data) + sw_dataset_holdout_tokens(trainer->data);
    bool good;
    if (sw_dataset_is_bytes(trainer->data))
        return 0;
    if (look_at_index(trainer, &good) != 0)
        return -1;
    if (good)
        return 0;
    if (rank->launch->rank == 0 && tokens / rank->launch->size > SLOW_TOKENS)
        fprintf(stderr, "checking the numbers of %.1f billion tokens\n", (double)tokens * 1e-9);
    return sw_dataset_check(trainer->data, rank->launch->rank, rank->launch->size, &rank->err);
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
    return sw_dataset_open(run->data_path, sw_data_is_bytes(run), holdout, run->data_seed,
                           run->model.shape.vocab_size, run->sequence_length, &trainer->data,
                           &rank->err) != 0
               ? -1
               : check_tokens(trainer);
}

static int64_t data_tokens(const struct sw_dataset *data)
{
    return data == NULL ? 0 : sw_dataset_train_tokens(data) + sw_dataset_holdout_tokens(data);
}

enum sw_status sw_trainer_open(struct sw_trainer *trainer, double holdout, int64_t steps)
{
    const struct sw_plan *plan = trainer->rank->plan;
    const struct sw_plan_prediction *p = &plan->prediction;
    (void)set_up(trainer, holdout);
    const struct sw_rank_same same[] = {
        {(uint64_t)steps, NULL, "not every rank has the same --steps; give all of them the same"},
        {(uint64_t)data_tokens(trainer->data), plan->run->data_path,
         "the data file has another length on some node; copy it to all"}};
    /* that a rank may say nothing: a step, or a save that is written in the pause */
    return sw_rank_join(trainer->rank, same, 2, fmax(p->step_seconds, p->save_seconds));
}

void sw_trainer_close(struct sw_trainer *trainer)
{
    sw_dataset_close(trainer->data);
}

/* ---- Data ---- */

void sw_trainer_read(struct sw_trainer *trainer, sw_batch_reader read, int64_t first,
                     const struct sw_ask *ask, int32_t *to)
{
    const int64_t s = ask->row_elems;
    const bool labels = sw_batch_wants_labels(ask);
    struct sw_error *err = &trainer->rank->err;
    for (int64_t r = 0; r < ask->rows; r++) {
        int32_t *row = to + r * s;
        if (err->status != SW_OK || read(trainer->data, first + ask->first_row + r,
                                         labels ? NULL : row, labels ? row : NULL, err) != 0)
            memset(row, 0, (size_t)s * sizeof *row);
    }
}

/* ---- The held-out tail ---- */

static int held_out_batch(void *context, const struct sw_ask *ask, void *to, struct sw_error *err)
{
    struct sw_trainer *trainer = context;
    const struct sw_rank *rank = trainer->rank;
    (void)err;
    sw_trainer_read(trainer, sw_dataset_holdout,
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
    const int64_t batches = (sw_dataset_holdout_sequences(trainer->data) + batch - 1) / batch;
    double sum = 0, mean;
    const struct sw_fetch fetch = {.name = "loss", .number = &mean};
    struct sw_feed feeds[SW_BATCH_FEEDS];
    const struct sw_rank *rank = trainer->rank;
    const struct sw_batch reader = {held_out_batch, trainer, rank->plan->run->data_document_end};
    const int32_t fed =
        sw_batch_feeds(&reader, rank->programs->program[SW_PROGRAM_EVALUATE], feeds);
    *loss = NAN;
    for (int64_t b = 1; b <= batches; b++) {
        const int64_t labels = sw_dataset_holdout_counted(trainer->data, (b - 1) * batch, batch);
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
    *loss = sum / (double)sw_dataset_holdout_labels(trainer->data);
    return 0;
}

const char *sw_trainer_describe_loss(const struct sw_trainer *trainer, double loss, double *bigram,
                                     char text[96])
{
    const double bits = loss / log(2);
    if (!sw_dataset_is_bytes(trainer->data)) {
        snprintf(text, 96, "%.3f bits/token", bits);
        return text;
    }
    if (isnan(*bigram) &&
        sw_dataset_train_tokens(trainer->data) > 1) /* reads all that is trained on */
        *bigram = sw_dataset_bigram_bits(trainer->data);
    if (isnan(*bigram))
        snprintf(text, 96, "%.3f bits/byte", bits);
    else
        snprintf(text, 96, "%.3f bits/byte (byte-bigram %.3f)", bits, *bigram);
    return text;
}
