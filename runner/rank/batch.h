/* The feeds of programs that train or evaluate: tokens and labels of who reads batches, positions
 * from 0 on. */
#ifndef SW_RANK_BATCH_H
#define SW_RANK_BATCH_H

#include "runner/rank/execute.h"

enum { SW_BATCH_FEEDS = 3 };

/* read: asked for "tokens" and for "labels", int32_t each; a label below 0 is ignored, as are those
 * of sequences that pad the batch. */
void sw_batch_feeds(sw_feed_reader read, void *context, struct sw_feed out[SW_BATCH_FEEDS]);
/* Which of the two. */
bool sw_batch_wants_labels(const struct sw_ask *ask);

/* sw_step.loss_scale of a step with so many labels that count: the loss is their mean, 0 of none.
 */
static inline double sw_batch_loss_scale(int64_t labels)
{
    return labels > 0 ? 1.0 / (double)labels : 0;
}

#endif
