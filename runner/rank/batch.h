/* The feeds of programs that train or evaluate: tokens and labels of who reads batches, positions,
 * and the documents that tokens belong to. */
#ifndef SW_RANK_BATCH_H
#define SW_RANK_BATCH_H

#include "runner/rank/execute.h"

enum { SW_BATCH_FEEDS = 5 };

/* read: asked for labels by that name, else for tokens, int32_t each; a label below 0 is ignored,
 * as are those of sequences that pad the batch. documents: true if it is also asked for "segments"
 * and "key segments", and for "positions" where each sequence has its own; else a sequence is one
 * document. */
struct sw_batch {
    sw_feed_reader read;
    void *context;
    bool documents;
};
/* Feeds of the inputs that the program has; returns how many. `batch` outlives them. */
int32_t sw_batch_feeds(const struct sw_batch *batch, const struct sw_program *program,
                       struct sw_feed out[SW_BATCH_FEEDS]);
/* Which of the two. */
bool sw_batch_wants_labels(const struct sw_ask *ask);

/* sw_step.loss_scale of a step with so many labels that count: the loss is their mean, 0 of none.
 */
static inline double sw_batch_loss_scale(int64_t labels)
{
    return labels > 0 ? 1.0 / (double)labels : 0;
}

#endif
