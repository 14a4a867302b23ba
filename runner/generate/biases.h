/* What a text asks of single tokens: to come more or less often, or not before it has some length.
 * Plain data, the same on every rank. */
#ifndef SW_GENERATE_BIASES_H
#define SW_GENERATE_BIASES_H

#include "core/ir/sampling.h"
#include "runner/generate/codec.h"

/* Each token at most once in a list. */
struct sw_biases {
    int32_t count, banned_count;
    int32_t token[SW_BIASED_TOKENS]; /* [count], each with what is added to its logit */
    float bias[SW_BIASED_TOKENS];
    int32_t banned[SW_BANNED_TOKENS]; /* [banned_count] until the text has its min_tokens */
};

/* Adds tokens to `banned`: but those that are there, and those beyond the vocabulary. false: there
 * is no room for all of them. */
bool sw_biases_ban(struct sw_biases *biases, int64_t vocab, const int32_t *tokens, size_t count);
/* The model's own that end a text. */
bool sw_biases_ban_ends(struct sw_biases *biases, int64_t vocab, const struct sw_codec *codec);

#endif
