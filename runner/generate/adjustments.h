/* Changes to single tokens' logits, as `sample` reads them (sampling.h): a list per slot, ordered
 * by token, of biases, banned tokens and, if wanted, penalties on generated tokens.
 *
 * Prompt tokens do not count as generated, as in OpenAI and vLLM. Every rank keeps the same lists.
 * Allocates only at creation; copies nothing if no sequence needs any. */
#ifndef SW_GENERATE_ADJUSTMENTS_H
#define SW_GENERATE_ADJUSTMENTS_H

#include "runner/generate/biases.h"

struct sw_adjustments {
    int64_t slots, most; /* most: per slot */
    float *entries;      /* [slots, most, SW_ADJUSTMENT_NUMBERS] */
    int32_t *made;       /* [slots, most] how often the token was generated */
    int64_t *count;      /* [slots] */
};

/* most: from sw_sampling_adjustments. False: out of memory, with nothing left behind. */
bool sw_adjustments_create(int64_t slots, int64_t most, struct sw_adjustments *out);
void sw_adjustments_free(struct sw_adjustments *adjustments); /* may be zeroed */

/* Starts a sequence in the slot; biases: NULL for none. bans: true to ban its `banned`. */
void sw_adjustments_begin(struct sw_adjustments *adjustments, int64_t slot,
                          const struct sw_biases *biases, bool bans);
/* Lifts the ban. */
void sw_adjustments_allow(struct sw_adjustments *adjustments, int64_t slot,
                          const struct sw_biases *biases);
/* Counts a generated token; penalties: presence once, frequency each time. */
void sw_adjustments_made(struct sw_adjustments *adjustments, int64_t slot, int32_t token,
                         double presence, double frequency);
/* The slot's list [count, SW_ADJUSTMENT_NUMBERS]. */
const float *sw_adjustments_of(const struct sw_adjustments *adjustments, int64_t slot);

#endif
