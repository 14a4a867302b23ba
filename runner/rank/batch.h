/* Feeds of training and evaluation programs: tokens and labels from a batch reader, positions, and
 * the tokens' documents. */
#ifndef SW_RANK_BATCH_H
#define SW_RANK_BATCH_H

#include "runner/rank/execute.h"

enum { SW_BATCH_FEEDS = 5 };

/* read: called for labels (by that name) or tokens, int32_t each; a label below 0 is ignored, as
 * are labels of padding sequences. documents: true if also called for "segments" and "key
 * segments", and for "positions" if each sequence has its own; else a sequence is one document. */
struct sw_batch {
    sw_feed_reader read;
    void *context;
    bool documents;
};
/* Fills the feeds of the program's inputs; returns their number. `batch` outlives them. */
int32_t sw_batch_feeds(const struct sw_batch *batch, const struct sw_program *program,
                       struct sw_feed out[SW_BATCH_FEEDS]);
/* True if labels are wanted, false for tokens. */
bool sw_batch_wants_labels(const struct sw_ask *ask);

/* sw_step.loss_scale of a step with that many counted labels: the loss is their mean, 0 if none. */
static inline double sw_batch_loss_scale(int64_t labels)
{
    return labels > 0 ? 1.0 / (double)labels : 0;
}

#endif
