/* A text that is being made: the new tokens, how they spell, where it ends. Knows neither slots nor
 * who reads it. Owns what it holds; one thread. */
#ifndef SW_GENERATION_H
#define SW_GENERATION_H

#include "runner/generate/engine.h"
#include "runner/generate/codec.h"
#include "runner/generate/prompts.h"

struct sw_generation {
    const struct sw_stops *stops; /* the caller's */
    int32_t end;                  /* a token that ends it beside the model's own; -1: none */
    bool ignores_ends;            /* neither `end` nor the model's own tokens end it */
    const int32_t *stop_token;    /* [stop_token_count], the caller's: others that do */
    int32_t stop_token_count;
    int64_t min_tokens;   /* neither a token nor a stop ends it before it has so many */
    int32_t *tokens;      /* [count], of [capacity]; new ones, without the one that ends */
    double *logprobs;     /* of each */
    int32_t top;          /* of the most probable tokens so many are kept with each */
    int32_t *top_tokens;  /* [count, top]; -1 behind the last */
    double *top_logprobs; /* [count, top] */
    size_t *begins;       /* where in the text it was when the token came */
    int64_t count, capacity;
    struct sw_detokenizer *detokenizer;
    size_t stop_at;     /* bytes of the text that count; SIZE_MAX: all */
    const char *reason; /* "stop" or "length"; NULL: not ended */
};

/* top: 0 .. SW_TOP_TOKENS. prompt [prompt_count]: spelled first, for a text that repeats it; NULL,
 * 0: the text goes on behind it. A generation that was begun, even with an error, is freed. Errors:
 * SW_ENVIRONMENT. */
int sw_generation_begin(struct sw_generation *generation, struct sw_codec *codec,
                        const struct sw_stops *stops, int32_t top, const int32_t *prompt,
                        int64_t prompt_count, struct sw_error *err);
/* Whether more tokens are wanted behind this one; false also after an error. */
bool sw_generation_take(struct sw_generation *generation, const struct sw_codec *codec,
                        int32_t token, double logprob, const struct sw_top *top,
                        struct sw_error *err);
/* No more tokens come. */
void sw_generation_end(struct sw_generation *generation, struct sw_error *err);
/* The text, of which *bytes are there to stay: whole characters in which no stop can begin. */
const char *sw_generation_text(const struct sw_generation *generation, size_t *bytes);
void sw_generation_free(struct sw_generation *generation);

#endif
