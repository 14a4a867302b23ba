/* A sequence being generated: new tokens, their text, and its end. Knows neither slots nor readers.
 * Owns its contents; one thread. */
#ifndef SW_GENERATION_H
#define SW_GENERATION_H

#include "runner/generate/engine.h"
#include "runner/generate/codec.h"
#include "runner/generate/prompts.h"

struct sw_generation {
    const struct sw_stops *stops; /* owned by the caller */
    int32_t end;                  /* further end token; -1: none */
    bool ignores_ends;            /* true if neither `end` nor the model's end tokens end it */
    const int32_t *stop_token;    /* [stop_token_count], the caller's: further end tokens */
    int32_t stop_token_count;
    int64_t min_tokens;   /* least number of tokens before an end token or stop text ends it */
    int32_t *tokens;      /* [count] of [capacity]; new tokens, without the end token */
    double *logprobs;     /* [count] */
    int32_t top;          /* most probable tokens kept per token */
    int32_t *top_tokens;  /* [count, top]; padded with -1 */
    double *top_logprobs; /* [count, top] */
    size_t *begins;       /* [count] length of the text before the token */
    int64_t count, capacity;
    struct sw_detokenizer *detokenizer;
    size_t stop_at;     /* bytes of the text before the stop text; SIZE_MAX: all */
    const char *reason; /* "stop" or "length"; NULL: not yet ended */
};

/* Begins a generation; free it even after an error. top: 0 .. SW_TOP_TOKENS. prompt [prompt_count]:
 * put before the text, to repeat it; NULL, 0: the text continues it. Errors: SW_ENVIRONMENT. */
int sw_generation_begin(struct sw_generation *generation, struct sw_codec *codec,
                        const struct sw_stops *stops, int32_t top, const int32_t *prompt,
                        int64_t prompt_count, struct sw_error *err);
/* Adds a token. True if more tokens are wanted; false also after an error. */
bool sw_generation_take(struct sw_generation *generation, const struct sw_codec *codec,
                        int32_t token, double logprob, const struct sw_top *top,
                        struct sw_error *err);
/* Ends the generation: no more tokens. */
void sw_generation_end(struct sw_generation *generation, struct sw_error *err);
/* The text; its first *bytes are final: whole characters in which no stop text can begin. */
const char *sw_generation_text(const struct sw_generation *generation, size_t *bytes);
void sw_generation_free(struct sw_generation *generation);

#endif
