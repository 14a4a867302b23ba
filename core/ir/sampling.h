/* Sampling: the settings that `sample` reads for each slot, in this order, and their meaning.
 *
 * First the biases of the row's adjustments are added to the logits of their tokens. Then the
 * logits of tokens seen before (`seen`, a bit for each token of the vocabulary) are divided by
 * `penalty` where positive and multiplied where not (Keskar et al. 2019). Then the penalties of the
 * adjustments are subtracted. This is the order of vLLM: logit_bias and min_tokens are biases;
 * frequency_penalty times the count of a generated token, plus presence_penalty, is the penalty.
 * temperature 0 takes the largest logit, of equals the first. Else logits / temperature become
 * probabilities. Tokens stay that are among the top_k most probable (0: any number), that are
 * needed to reach top_p together (Holtzman et al. 2020; 1: all), and whose probability is at least
 * min_p times the largest (Nguyen et al. 2024; 0: all); `draw`, uniform in [0, 1), picks one. The
 * filters run in the order of transformers.
 *
 * Beside the chosen token `top_tokens` returns the SW_SAMPLING_TOP tokens with the largest logits,
 * of equals the first one first; settings do not change these logits. */
#ifndef SW_SAMPLING_H
#define SW_SAMPLING_H

#include <stdint.h>

enum sw_sampling_setting {
    SW_SAMPLING_TEMPERATURE,
    SW_SAMPLING_TOP_K,
    SW_SAMPLING_TOP_P,
    SW_SAMPLING_MIN_P,
    SW_SAMPLING_PENALTY, /* 1: none */
    SW_SAMPLING_DRAW,
    SW_SAMPLING_TOP,      /* number of most probable tokens to return; 0 .. SW_TOP_TOKENS */
    SW_SAMPLING_ADJUSTED, /* number of the row's adjustments; 0: none is read */
    SW_SAMPLING_SETTINGS
};

enum {
    SW_TOP_TOKENS = 20, /* most that can be asked for: OpenAI's limit for conversations */
    /* numbers for each slot: the chosen token and its log-probability, then those of the most
     * probable tokens; -1 and 0 where fewer are asked for or exist */
    SW_SAMPLED_NUMBERS = 2 + 2 * SW_TOP_TOKENS
};

/* Adjustment of a token's logit, as fp32 numbers. A row's adjustments are sorted by token, no token
 * twice. */
enum sw_adjustment {
    SW_ADJUSTMENT_TOKEN,
    SW_ADJUSTMENT_BIAS,
    SW_ADJUSTMENT_PENALTY, /* subtracted from the logit */
    SW_ADJUSTMENT_NUMBERS
};

enum {
    SW_BIASED_TOKENS = 300, /* most tokens with a bias: OpenAI's limit */
    SW_BANNED_TOKENS = 148  /* most tokens banned before a sequence has its min_tokens */
};

/* Bias that bans a token: below all others, but finite, so that one token is left even if all are
 * banned. */
#define SW_BANNED_BIAS (-1e30f)

/* Adjustments that fit into a row: one for each token that a sequence of that length can have
 * generated, and each that is biased or banned. */
static inline int64_t sw_sampling_adjustments(int64_t vocab, int64_t max_tokens)
{
    const int64_t most = max_tokens + SW_BIASED_TOKENS + SW_BANNED_TOKENS;
    return most < vocab ? most : vocab;
}

/* int32_t words of `seen`. */
static inline int64_t sw_sampling_words(int64_t vocab)
{
    return (vocab + 31) / 32;
}

#endif
