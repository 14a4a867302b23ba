/* A sequence's wishes about single tokens: more or less likely, or banned up to some length. Plain
 * data, the same on every rank. */
#ifndef SW_GENERATE_BIASES_H
#define SW_GENERATE_BIASES_H

#include "core/ir/sampling.h"
#include "runner/generate/codec.h"

/* Each token at most once in a list. */
struct sw_biases {
    int32_t count, banned_count;
    int32_t token[SW_BIASED_TOKENS]; /* [count], each with its addend to the logit */
    float bias[SW_BIASED_TOKENS];
    int32_t banned[SW_BANNED_TOKENS]; /* [banned_count] until min_tokens are generated */
};

/* Adds tokens to `banned`, except those in it or beyond the vocabulary. False: no room for all. */
bool sw_biases_ban(struct sw_biases *biases, int64_t vocab, const int32_t *tokens, size_t count);
/* Bans the model's end tokens. */
bool sw_biases_ban_ends(struct sw_biases *biases, int64_t vocab, const struct sw_codec *codec);

#endif
