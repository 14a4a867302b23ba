/* What a text changes about the logits of single tokens, as `sample` reads it (sampling.h): of each
 * slot a list in the order of tokens, of biases, of tokens that may not come yet, and of those that
 * were made, where that is asked for.
 *
 * Tokens of the prompt do not count as made, as with OpenAI and vLLM. Every rank keeps the same
 * lists of the same texts. Nothing is allocated after the beginning; where no text asks, nothing
 * is copied. */
#ifndef SW_GENERATE_ADJUSTMENTS_H
#define SW_GENERATE_ADJUSTMENTS_H

#include "runner/generate/biases.h"

struct sw_adjustments {
    int64_t slots, most; /* most: of a slot */
    float *entries;      /* [slots, most, SW_ADJUSTMENT_NUMBERS] */
    int32_t *made;       /* [slots, most] how often the token was made */
    int64_t *count;      /* [slots] */
};

/* most: as sw_sampling_adjustments has it. false: out of memory, and nothing is left behind. */
bool sw_adjustments_create(int64_t slots, int64_t most, struct sw_adjustments *out);
void sw_adjustments_free(struct sw_adjustments *adjustments); /* zeros are allowed */

/* A text begins in the slot; biases: NULL for none. bans: whether `banned` are. */
void sw_adjustments_begin(struct sw_adjustments *adjustments, int64_t slot,
                          const struct sw_biases *biases, bool bans);
/* What was banned is not any more. */
void sw_adjustments_allow(struct sw_adjustments *adjustments, int64_t slot,
                          const struct sw_biases *biases);
/* A token was made, which costs it that much the next time: presence once, frequency each time. */
void sw_adjustments_made(struct sw_adjustments *adjustments, int64_t slot, int32_t token,
                         double presence, double frequency);
/* Those of the slot [count, SW_ADJUSTMENT_NUMBERS]. */
const float *sw_adjustments_of(const struct sw_adjustments *adjustments, int64_t slot);

#endif
