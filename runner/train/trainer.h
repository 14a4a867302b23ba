/* What training and evaluating have besides their rank: the data, batches of it, the loss on what
 * is held out. Owns the data. */
#ifndef SW_TRAINER_H
#define SW_TRAINER_H

#include "runner/rank/batch.h"
#include "runner/rank/rank.h"
#include "runner/train/dataset.h"

struct sw_trainer {
    struct sw_rank *rank;
    struct sw_dataset *data;       /* to train on; `evaluate`: to judge by */
    struct sw_dataset *validation; /* of data.validation, or NULL: `data` holds some out */
    double flops_per_step;         /* of the model, over all ranks */
};

/* Collective. Sets up trainer->rank, everything but the state's contents, and the data. holdout: of
 * the data, as sw_dataset_open; where there is data.validation, 1: that alone is opened. steps:
 * --steps, which must be the same on every rank. Returns what the ranks agreed on, the error
 * printed once; SW_OK. sw_trainer_close also after an error. */
enum sw_status sw_trainer_open(struct sw_trainer *trainer, double holdout, int64_t steps);
void sw_trainer_close(struct sw_trainer *trainer);

/* The data that a model is judged by. */
struct sw_dataset *sw_trainer_held(const struct sw_trainer *trainer);

/* Reads what sw_executor_run asks for, for a micro-step that begins with row `first`. Where the
 * data is bad the step goes on with zeros: the other ranks are in its collectives and would wait
 * for this one; rank->err says so, and nothing of the step is to be reported. */
typedef int (*sw_row_reader)(struct sw_dataset *data, int64_t row, const struct sw_row *out,
                             struct sw_error *err);
void sw_trainer_read(const struct sw_trainer *trainer, struct sw_dataset *data, sw_row_reader read,
                     int64_t first, const struct sw_ask *ask, int32_t *to);

/* Collective. Mean loss over the held-out tail, in nats for a label, every label counted once; in
 * the place of a step's transients. stop (may be NULL) is asked after every batch, with the ranks'
 * agreement; when it says so, *loss is NAN. Errors: as sw_executor_run; rank->err of some rank. */
int sw_trainer_held_out(struct sw_trainer *trainer, int (*stop)(void *context, bool *stops),
                        void *context, double *loss);

/* What is said of it: "3.265 bits/byte (byte-bigram 3.807)". *bigram NAN: found out first, where it
 * is known at all. */
const char *sw_trainer_describe_loss(const struct sw_trainer *trainer, double loss, double *bigram,
                                     char text[96]);

#endif
