/* A client's request: the body of /v1/completions or /v1/chat/completions, checked and encoded.
 * Knows neither connections nor slots. Bodies are untrusted: every mistake is a refusal. */
#ifndef SW_SERVE_REQUEST_H
#define SW_SERVE_REQUEST_H

#include "runner/generate/prompts.h"

enum sw_endpoint { SW_COMPLETIONS, SW_CHAT_COMPLETIONS };

enum {
    SW_REQUEST_TEXTS = 256, /* per request: prompts times n */
    SW_REQUEST_STOPS = 16,
    SW_REQUEST_STOP_TOKENS = 64,
    SW_REQUEST_TOP = 5 /* most probable tokens of a completion; OpenAI's limit */
};

struct sw_request_prompt {
    int32_t *tokens; /* [count], malloc'ed */
    int64_t count;
};
struct sw_api_request {
    enum sw_endpoint endpoint;
    struct sw_request_prompt *prompt; /* [prompt_count] */
    int64_t prompt_count;
    struct sw_sampling_params params; /* max_new_tokens may be 0 */
    bool has_seed;
    struct sw_stops stops;
    int32_t end;     /* end token of an answer in a conversation; -1: none */
    bool ignore_eos; /* true if only stop texts and stop tokens end a sequence */
    int32_t stop_token[SW_REQUEST_STOP_TOKENS];
    int32_t stop_token_count;
    struct sw_biases biases; /* includes bans of end tokens for params.min_new_tokens */
    bool stream, include_usage, echo;
    int32_t logprobs; /* most probable tokens with each token; -1: no log-probabilities */
};

/* Reason of a refusal: an HTTP status and OpenAI's error object. */
struct sw_refusal {
    int32_t status;
    const char *type;  /* "invalid_request_error" ...; static */
    const char *code;  /* static; NULL: null */
    const char *param; /* key in the body, static; NULL: null */
    struct sw_error err;
};

/* Rules that requests are checked against. */
struct sw_request_rules {
    struct sw_codec *codec;
    struct sw_prompt_limits limits;
    const char *model;                   /* name that clients may give */
    const struct sw_chat_template *chat; /* NULL: refuses conversations */
};

/* Returns 0, or -1 with *refusal; call sw_api_request_free on *out in any case. One thread at a
 * time, because of the tokenizer. */
int sw_api_request_read(const struct sw_request_rules *rules, enum sw_endpoint endpoint,
                        const char *body, size_t bytes, struct sw_api_request *out,
                        struct sw_refusal *refusal);
void sw_api_request_free(struct sw_api_request *request);

#endif
