/* How a token follows from logits: the settings that `sample` reads for each slot, in this order.
 *
 * First the biases of the row's adjustments are added to the logits of their tokens. Then the
 * logits of tokens seen before (a bit for each of the vocabulary) are divided by `penalty` where
 * positive and multiplied where not (Keskar et al. 2019). Then what the adjustments say is taken
 * off. That is the order of vLLM, which makes logit_bias and min_tokens a bias, and
 * frequency_penalty times the number of a token that were made, with presence_penalty, what is
 * taken off. temperature 0: the
 * largest logit, of equals the first. Else logits / temperature become probabilities, and of the
 * most probable tokens those stay that are among the first top_k (0: any number), that are needed
 * to reach top_p together (Holtzman et al. 2020; 1: all), and that have at least min_p times the
 * probability of the first (Nguyen et al. 2024; 0: all); one of them is drawn by `draw`, uniform in
 * [0, 1). The order of the filters is transformers'.
 *
 * Beside the chosen token `top_tokens` gives the SW_SAMPLING_TOP tokens with the largest logits, of
 * equals the first one first: of the logits as they are, whatever was asked of drawing. */
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
    SW_SAMPLING_TOP,      /* of the most probable tokens so many are wanted; 0 .. SW_TOP_TOKENS */
    SW_SAMPLING_ADJUSTED, /* of the row's adjustments so many count; 0: nothing reads them */
    SW_SAMPLING_SETTINGS
};

enum {
    SW_TOP_TOKENS = 20, /* the most that can be asked for: OpenAI's for conversations */
    /* of a slot: the chosen token and its log-probability, then those of the most probable tokens;
     * -1 and 0 where none was asked for, or the vocabulary has no more */
    SW_SAMPLED_NUMBERS = 2 + 2 * SW_TOP_TOKENS
};

/* An adjustment of a token's logit, as fp32 numbers. A row's come in the order of their tokens, no
 * token twice. */
enum sw_adjustment {
    SW_ADJUSTMENT_TOKEN,
    SW_ADJUSTMENT_BIAS,
    SW_ADJUSTMENT_PENALTY, /* what is taken off */
    SW_ADJUSTMENT_NUMBERS
};

enum {
    SW_BIASED_TOKENS = 300, /* that a text may have a bias of: OpenAI's limit */
    SW_BANNED_TOKENS = 148  /* that may be banned before a text has its min_tokens */
};

/* A bias that bans a token: below all others, and a number, so that something is left where all
 * tokens are banned. */
#define SW_BANNED_BIAS (-1e30f)

/* Adjustments that a row has room for: every token that a text of so many can have made, each that
 * has a bias or is banned. */
static inline int64_t sw_sampling_adjustments(int64_t vocab, int64_t max_tokens)
{
    const int64_t most = max_tokens + SW_BIASED_TOKENS + SW_BANNED_TOKENS;
    return most < vocab ? most : vocab;
}

/* int32_t words of `seen` for a vocabulary. */
static inline int64_t sw_sampling_words(int64_t vocab)
{
    return (vocab + 31) / 32;
}

#endif
