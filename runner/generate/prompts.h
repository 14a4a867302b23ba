/* Prompts of `runner generate`: JSON lines with a prompt and sampling parameters each, all checked
 * before generating. Owns the prompts. */
#ifndef SW_PROMPTS_H
#define SW_PROMPTS_H

#include "runner/generate/engine.h"
#include "runner/generate/codec.h"

#include <jansson.h>
#include <stdio.h>

/* Sampling (core/ir/sampling.h) and length of a sequence. */
struct sw_sampling_params {
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, max_new_tokens, min_new_tokens, seed, n;
};
/* Defaults of the command line. */
struct sw_sampling_params sw_sampling_params_default(void);

/* Fields: key of a line and, with dashes, option of the command line; true for double, false for
 * int64_t; least; most; true if it must exceed least; the value's name in help; the help text. */
/* clang-format off */
#define SW_SAMPLING_PARAMS(X)                                                                      \
    X(temperature, true, 0, 100, false, "T",                                                       \
      "0: greedy (the default); above 0: sampling, 1 leaves the distribution as it is")            \
    X(top_k, false, 0, 1 << 24, false, "K",                                                        \
      "sample from the K most probable tokens")                                                    \
    X(top_p, true, 0, 1, true, "P",                                                                \
      "sample from the smallest set whose probabilities add up to P")                              \
    X(min_p, true, 0, 1, false, "P",                                                               \
      "sample from tokens at least P times as probable as the best")                               \
    X(repetition_penalty, true, 0.01, 100, false, "R",                                                 \
      "divides the logits of tokens that the text already has (default: 1)")                          \
    X(presence_penalty, true, -2, 2, false, "P",                                                   \
      "subtracted once from the logit of each token that the completion has")                              \
    X(frequency_penalty, true, -2, 2, false, "F",                                                  \
      "subtracted from the logit of a token for each time that the completion has it")                   \
    X(min_new_tokens, false, 0, INT32_MAX, false, "N",                                             \
      "the text does not end before it has N new tokens (default: 0)")                               \
    X(max_new_tokens, false, 1, INT32_MAX, false, "N",                                             \
      "at most N new tokens (default: 128)")                                                 \
    X(seed, false, -0x1p63, 0x1p63, false, "N",                                                     \
      "seed of the sampler, any of 64 bits")                                                       \
    X(n, false, 1, 10000, false, "N",                                                              \
      "completions per prompt")
/* clang-format on */
struct sw_sampling_params_field {
    const char *name;
    bool real; /* true: double; false: int64_t */
    double least, most;
    bool above; /* true if `real` must exceed least */
    size_t offset;
};
extern const struct sw_sampling_params_field sw_sampling_params_fields[]; /* ends with name NULL */
/* Converts to the engine's form. */
struct sw_sampling sw_sampling_params_sampling(const struct sw_sampling_params *params);
/* Sets a field. Returns 0, or -1: out of range; text [160] then says what is allowed. */
int sw_sampling_params_set(struct sw_sampling_params *params,
                           const struct sw_sampling_params_field *field, double value,
                           char text[160]);
/* Sets a field to a whole number, exact beyond a double's digits. */
int sw_sampling_params_set_whole(struct sw_sampling_params *params,
                                 const struct sw_sampling_params_field *field, int64_t value,
                                 char text[160]);
/* Sets a field to a JSON value, which may not be a number. */
int sw_sampling_params_read(struct sw_sampling_params *params,
                            const struct sw_sampling_params_field *field, const json_t *value,
                            char text[160]);

/* Texts that end a generation; {0}: none. */
struct sw_stops {
    char **text; /* [count], malloc'ed, none of them empty */
    int32_t count;
};
int sw_stops_add(struct sw_stops *stops, const char *text);
void sw_stops_free(struct sw_stops *stops);

struct sw_prompt {
    int32_t *tokens; /* [token_count] */
    int64_t token_count;
    struct sw_sampling_params params;
    struct sw_stops stops;
    int32_t line; /* in the file; 0: from the command line */
};
struct sw_prompts {
    struct sw_prompt *at; /* [count] */
    int64_t count;
    int64_t samples; /* sum of all n */
};

/* Limits of the model. */
struct sw_prompt_limits {
    int64_t vocab, max_tokens;
    bool scored; /* true if lines are texts to score, {"text": TEXT}, of any length */
};

/* Reads lines of {"prompt": TEXT} or {"tokens": [...]} with any params fields and "stop": TEXT or
 * [TEXT...]; absent keys default to `defaults` and `stops`. Skips empty lines. Writes a line
 * "PATH:LINE: error: ..." to `complaints` (NULL: none) for every mistake, up to a hundred. Returns
 * 0, or -1 if there was one, with their number in err. */
int sw_prompts_read(const char *path, const char *text, size_t bytes, struct sw_codec *codec,
                    const struct sw_prompt_limits *limits,
                    const struct sw_sampling_params *defaults, const struct sw_stops *stops,
                    FILE *complaints, struct sw_prompts *out, struct sw_error *err);
/* Makes one prompt from the command line. */
int sw_prompts_single(const char *prompt, struct sw_codec *codec,
                      const struct sw_prompt_limits *limits,
                      const struct sw_sampling_params *params, const struct sw_stops *stops,
                      struct sw_prompts *out, struct sw_error *err);
void sw_prompts_free(struct sw_prompts *prompts);

#endif
