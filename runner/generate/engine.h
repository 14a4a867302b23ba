/* Generates sequences token by token: assigns slots of the batch, feeds the programs `prefill` and
 * `decode`, and scores existing texts with `score`. Knows tokens only, neither files nor
 * tokenizers.
 *
 * Every rank runs the same engine on the same sequences: each has all sampled tokens, so all decide
 * alike without communication. A slot whose sequence ends takes the next one while others continue;
 * each sequence gets the tokens it would get alone. Owns its buffers, borrows the executor.
 * Allocates nothing while generating.
 *
 * If a set interleaves (core/ir/serving.h), a call of chunks pauses for a token of every running
 * sequence once sw_serving_slice_seconds have passed since the last one. Time decides when a token
 * is made, never which.
 *
 * sw_engine_run asks for prompts and completes them until there are no more. A server, which gets
 * them one by one, puts each into a slot and runs one program at a time: sw_engine_admit,
 * sw_engine_step, sw_engine_drop, in the same order on every rank. */
#ifndef SW_ENGINE_H
#define SW_ENGINE_H

#include "runner/generate/adjustments.h"
#include "runner/rank/execute.h"

/* Sampling settings (core/ir/sampling.h). {0} with penalty 1 and top_p 1: greedy. */
struct sw_sampling {
    double temperature, top_p, min_p, penalty;
    int64_t top_k;
    double presence, frequency; /* subtracted from a generated token's logit: once, each time */
};

/* A prompt to continue. */
struct sw_sequence {
    int64_t number;        /* chosen by the caller */
    const int32_t *tokens; /* prompt, >= 1 token; the caller's until the sequence ends */
    int64_t token_count;
    int64_t max_new_tokens; /* >= 1; limited by the cache; may be 0 if scored */
    struct sw_sampling sampling;
    int64_t min_tokens;             /* new tokens before banned ones are allowed; 0: no ban */
    const struct sw_biases *biases; /* the caller's until the sequence ends; NULL: none */
    uint64_t seed;                  /* this sequence's; determines each draw with the position */
    bool ahead;                     /* true if its prompt has priority (batch_scheduler.h) */
    /* True to report log-probabilities of the prompt's own tokens. */
    bool scored;
    /* Number of most probable tokens to report with each new one, at most SW_TOP_TOKENS; if scored
     * also for each prompt token, which is then fed to `decode` one by one. */
    int32_t top;
};

/* Most probable tokens at a position, the best first, the lower of equals. */
struct sw_top {
    int32_t count; /* number requested, or the vocabulary's size */
    int32_t token[SW_TOP_TOKENS];
    double logprob[SW_TOP_TOKENS];
};

struct sw_engine_calls {
    /* Next sequence: 1; none: 0; -1 with err filled. The same on every rank. */
    int (*next)(void *context, struct sw_sequence *out, struct sw_error *err);
    /* New token number `index`, its log-probability and the most probable tokens there. True if
     * more are wanted. */
    bool (*token)(void *context, const struct sw_sequence *sequence, int64_t index, int32_t token,
                  double logprob, const struct sw_top *top);
    /* End of a sequence; full: true if the cache has no room left. */
    void (*ended)(void *context, const struct sw_sequence *sequence, bool full);
    /* Reports, in order, the log-probability of a scored prompt's token `index` >= 1; below, the
     * most probable ones there. NULL: not wanted. */
    void (*scored)(void *context, const struct sw_sequence *sequence, int64_t index,
                   double logprob);
    void (*ranked)(void *context, const struct sw_sequence *sequence, int64_t index,
                   const struct sw_top *top);
    void *context;
};

/* Counts since the engine was created. */
struct sw_engine_counts {
    int64_t prefills, decodes;         /* runs of the programs */
    int64_t reads;                     /* those of `prefills` that ran `read` */
    int64_t prompt_tokens, new_tokens; /* prompt tokens that were read; generated tokens */
    int64_t cached_tokens;             /* prompt tokens reused from the cache */
    int64_t prefill_rows, decode_rows; /* rows of these runs in tokens, idle ones included */
    int64_t inside;                    /* decodes within calls of chunks */
    double prefill_seconds, decode_seconds;
};

struct sw_engine;
int sw_engine_create(struct sw_executor *executor, struct sw_engine **out, struct sw_error *err);
void sw_engine_free(struct sw_engine *engine); /* may be NULL */

/* Limits a sequence's tokens, prompt included, below the cache's room (whole chunks); a larger
 * limit has no effect. */
void sw_engine_limit(struct sw_engine *engine, int64_t max_tokens);
int64_t sw_engine_max_tokens(const struct sw_engine *engine);
int64_t sw_engine_slots(const struct sw_engine *engine);

/* Collective. Generates sequences until there are no more. A prompt of max_tokens or more ends at
 * once, full. Errors: from `next` and the executor. */
int sw_engine_run(struct sw_engine *engine, const struct sw_engine_calls *calls,
                  struct sw_error *err);

bool sw_engine_has_room(const struct sw_engine *engine); /* true if a slot is free */
/* Chooses a slot: the free one with the longest reusable prefix, if that is at least half of the
 * slot's old prompt; else, on the batch's shard with the fewest sequences, the least recently used.
 * -1: none is free. */
int64_t sw_engine_free_slot(const struct sw_engine *engine, const struct sw_sequence *sequence);
/* Puts the sequence into a free slot. As in sw_engine_run, one without room ends at once. *kept
 * (may be NULL; unchanged if it ends at once): number of prompt tokens reused from the cache
 * (prefix.h), which does not change any result. */
void sw_engine_admit(struct sw_engine *engine, int64_t slot, const struct sw_sequence *sequence,
                     const struct sw_engine_calls *calls, int64_t *kept);
/* Frees the slot; its sequence is not reported again. */
void sw_engine_drop(struct sw_engine *engine, int64_t slot);
bool sw_engine_is_busy(const struct sw_engine *engine);
/* Collective. Runs one program: chunks of prompts, in order of admission but priority ones first,
 * or a token of every running sequence. If both wait they alternate, so that long prompts do not
 * stop running sequences. Does not call `next`. Errors: the executor's. */
int sw_engine_step(struct sw_engine *engine, const struct sw_engine_calls *calls,
                   struct sw_error *err);
/* For tests: calls of chunks of an interleaving set pause at every `every`-th possible point, in
 * sw_engine_run too, instead of by time. */
void sw_engine_pause_at(struct sw_engine *engine, int32_t every);

/* Collective. Log-probabilities of tokens 1 .. of `count` sequences, at most one per slot, each at
 * most max_tokens + 1 long: logprobs[i][t - 1] is token t's, given those before it. */
int sw_engine_score(struct sw_engine *engine, const struct sw_sequence *sequences, int64_t count,
                    float *const *logprobs, struct sw_error *err);

const struct sw_engine_counts *sw_engine_counts(const struct sw_engine *engine);

#endif
