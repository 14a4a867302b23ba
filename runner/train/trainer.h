/* Shared by training and evaluation besides their rank: the data, batches, the held-out loss. Owns
 * the data. */
#ifndef SW_TRAINER_H
#define SW_TRAINER_H

#include "runner/rank/batch.h"
#include "runner/rank/rank.h"
#include "runner/train/dataset.h"

struct sw_trainer {
    struct sw_rank *rank;
    struct sw_dataset *data;       /* training data; `evaluate`: data to evaluate */
    struct sw_dataset *validation; /* data.validation's; NULL: held out of `data` */
    double flops_per_step;         /* the model's, over all ranks */
};

/* Collective. Sets up trainer->rank, except the state's contents, and the data. holdout: see
 * sw_dataset_open; 1 opens only data.validation if that exists. steps: --steps, equal on every
 * rank. Returns the agreed status, its error printed once; SW_OK. Call sw_trainer_close also after
 * an error. */
enum sw_status sw_trainer_open(struct sw_trainer *trainer, double holdout, int64_t steps);
void sw_trainer_close(struct sw_trainer *trainer);

/* Data for the held-out loss. */
struct sw_dataset *sw_trainer_held(const struct sw_trainer *trainer);

/* Reads what sw_executor_run asks for, in a micro-step that begins with row `first`. Bad data
 * becomes zeros, since the other ranks are in the step's collectives and would wait; rank->err
 * holds the error, and the step's results must be discarded. */
typedef int (*sw_row_reader)(struct sw_dataset *data, int64_t row, const struct sw_row *out,
                             struct sw_error *err);
void sw_trainer_read(const struct sw_trainer *trainer, struct sw_dataset *data, sw_row_reader read,
                     int64_t first, const struct sw_ask *ask, int32_t *to);

/* Collective. Mean loss over the held-out data, in nats per label, each label counted once;
 * overwrites a step's transients. stop (may be NULL) is called after every batch, agreed among the
 * ranks; if it stops, *loss is NAN. Errors: as sw_executor_run; some rank's rank->err. */
int sw_trainer_held_out(struct sw_trainer *trainer, int (*stop)(void *context, bool *stops),
                        void *context, double *loss);

/* Formats "3.265 bits/byte (byte-bigram 3.807)". *bigram NAN: computed first, if possible. */
const char *sw_trainer_describe_loss(const struct sw_trainer *trainer, double loss, double *bigram,
                                     char text[96]);

#endif
