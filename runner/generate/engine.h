/* Texts made token by token: which slot of the batch has which text, what the programs `prefill`
 * and `decode` are fed, and what `score` says of texts that are there. Knows tokens alone, neither
 * files nor tokenizers.
 *
 * Every rank runs the same engine on the same texts: each has all sampled tokens, so all decide
 * alike and nothing else need be said between them. A slot whose text ends takes the next one while
 * the others go on; each text's tokens are those that it would get alone. Owns its buffers, borrows
 * the executor. Nothing is allocated while texts are made.
 *
 * sw_engine_run asks for prompts and completes them until there are no more. A server, which gets
 * them one by one, puts each into a slot and runs a program at a time: sw_engine_admit,
 * sw_engine_step, sw_engine_drop, in the same order on every rank. */
#ifndef SW_ENGINE_H
#define SW_ENGINE_H

#include "runner/generate/adjustments.h"
#include "runner/rank/execute.h"

/* How tokens are chosen: core/ir/sampling.h. {0} with penalty 1 and top_p 1: the most probable
 * one. */
struct sw_sampling {
    double temperature, top_p, min_p, penalty;
    int64_t top_k;
    double presence, frequency; /* off the logit of a token that was made: once, each time */
};

/* A text to go on with. */
struct sw_sequence {
    int64_t number;        /* the caller's */
    const int32_t *tokens; /* of the prompt, >= 1; the caller's until the text has ended */
    int64_t token_count;
    int64_t max_new_tokens; /* >= 1; never beyond the cache; of one that is scored perhaps 0 */
    struct sw_sampling sampling;
    int64_t min_tokens;             /* so many new ones before one that is banned; 0: none is */
    const struct sw_biases *biases; /* the caller's until the text has ended; NULL: none */
    uint64_t seed;                  /* of this text: with its place in it decides what is drawn */
    bool ahead; /* its prompt may be read before those that came before it (batch_scheduler.h) */
    /* Log-probabilities of the prompt's own tokens are wanted. */
    bool scored;
    /* So many of the most probable tokens are wanted in the place of each new one, at most
     * SW_TOP_TOKENS; and, where it is scored, of each of the prompt's, for which that is fed to
     * `decode` token by token. */
    int32_t top;
};

/* The most probable tokens in one place, the first first; of equals the lower token. */
struct sw_top {
    int32_t count; /* as wanted, or as many as the vocabulary has */
    int32_t token[SW_TOP_TOKENS];
    double logprob[SW_TOP_TOKENS];
};

struct sw_engine_calls {
    /* The next text: 1; there is none: 0; -1 (err filled). The same on every rank. */
    int (*next)(void *context, struct sw_sequence *out, struct sw_error *err);
    /* A token of a text, its index-th new one, its log-probability and the most probable ones
     * there; whether more are wanted. */
    bool (*token)(void *context, const struct sw_sequence *sequence, int64_t index, int32_t token,
                  double logprob, const struct sw_top *top);
    /* It has ended; full: for want of room in the cache. */
    void (*ended)(void *context, const struct sw_sequence *sequence, bool full);
    /* Of a text that is scored: of its prompt's token `index` >= 1 the log-probability; the most
     * probable ones there. Each in order. NULL: nobody asks. */
    void (*scored)(void *context, const struct sw_sequence *sequence, int64_t index,
                   double logprob);
    void (*ranked)(void *context, const struct sw_sequence *sequence, int64_t index,
                   const struct sw_top *top);
    void *context;
};

/* What was done, since the engine was made. */
struct sw_engine_counts {
    int64_t prefills, decodes;         /* runs of the programs; of `read`, too, */
    int64_t reads;                     /* which are these of `prefills` */
    int64_t prompt_tokens, new_tokens; /* of prompts: those that were read */
    int64_t cached_tokens;             /* of prompts: those that stood in their slots */
    int64_t prefill_rows, decode_rows; /* of these runs, in tokens: those that rest, too */
    double prefill_seconds, decode_seconds;
};

struct sw_engine;
int sw_engine_create(struct sw_executor *executor, struct sw_engine **out, struct sw_error *err);
void sw_engine_free(struct sw_engine *engine); /* may be NULL */

/* Of one text, prompt and all: what the cache has room for, or less where a limit was set (the
 * cache's is rounded up to whole chunks; a larger limit does nothing). */
void sw_engine_limit(struct sw_engine *engine, int64_t max_tokens);
int64_t sw_engine_max_tokens(const struct sw_engine *engine);
int64_t sw_engine_slots(const struct sw_engine *engine);

/* Collective. Makes texts until there are no more. A prompt of at least max_tokens tokens has no
 * room for another one: it ends, full, without any. Errors: of `next` and of the executor. */
int sw_engine_run(struct sw_engine *engine, const struct sw_engine_calls *calls,
                  struct sw_error *err);

bool sw_engine_has_room(const struct sw_engine *engine); /* a slot is free */
/* A slot for the text: where a beginning of its prompt stands in a free one from an earlier text,
 * and that is at least half of what stands there, the one with the longest; else, of the rank of
 * the batch that has fewest texts, the one that was taken longest ago. -1: every slot has a text.
 */
int64_t sw_engine_free_slot(const struct sw_engine *engine, const struct sw_sequence *sequence);
/* The slot, a free one, takes the text. As in sw_engine_run one without room ends at once. *kept
 * (may be NULL; left alone where it ends at once for want of room): how many of the prompt's tokens
 * stood in the slot and are not read again (prefix.h). What is said of the text does not depend on
 * them. */
void sw_engine_admit(struct sw_engine *engine, int64_t slot, const struct sw_sequence *sequence,
                     const struct sw_engine_calls *calls, int64_t *kept);
/* The slot is free; what text it had is not heard of again. */
void sw_engine_drop(struct sw_engine *engine, int64_t slot);
bool sw_engine_is_busy(const struct sw_engine *engine);
/* Collective. Runs one program: chunks of prompts, in the order in which they were admitted but for
 * those that go ahead, or one more token of every text. Where both wait they take turns, so that
 * long prompts do not stop the texts that are being made.
 * `next` is not called. Errors: of the executor. */
int sw_engine_step(struct sw_engine *engine, const struct sw_engine_calls *calls,
                   struct sw_error *err);

/* Collective. Log-probabilities of tokens 1 .. of `count` texts, at most as many as there are slots
 * and each at most max_tokens + 1 long: logprobs[i][t - 1] is that of token t given those before
 * it. */
int sw_engine_score(struct sw_engine *engine, const struct sw_sequence *sequences, int64_t count,
                    float *const *logprobs, struct sw_error *err);

const struct sw_engine_counts *sw_engine_counts(const struct sw_engine *engine);

#endif
