/* What serving costs on one mesh: bytes, time per token, time to the first token, and what takes
 * the time. Numbers come from the programs `prefill` and `decode` and their prices. Owns the
 * programs. */
#ifndef SW_PLANNER_SERVING_H
#define SW_PLANNER_SERVING_H

#include "core/cost/cost.h"
#include "core/plan/plan.h"
#include "core/program/state.h"

/* The largest part of a token's time. */
enum sw_token_limit {
    SW_LIMIT_WEIGHTS,
    SW_LIMIT_CACHE,
    SW_LIMIT_REDUCTIONS,
    SW_LIMIT_GATHERS, /* of weights that are streamed */
    SW_LIMIT_REST
};
enum sw_token_limit sw_serving_limit(const struct sw_cost_parts *time);
const char *sw_serving_limit_name(enum sw_token_limit limit); /* "weights", "cache" ... */

struct sw_serving_price {
    struct sw_program_set *programs;  /* NULL: the run says nothing of serving */
    int64_t texts, max_tokens, chunk; /* as rounded */
    int64_t prompt_tokens;
    enum sw_dtype cache;
    bool streams;                         /* weights stay split over fsdp */
    struct sw_mesh mesh;                  /* with the order of its axes */
    double token_seconds;                 /* of a token of every text, with full caches */
    double first_seconds;                 /* of the chunks of a prompt: slots are empty before it */
    double tokens_per_second;             /* of all texts together */
    int64_t decode_bytes;                 /* that a rank sends for a token */
    enum sw_passes passes;                /* what goes round for a chunk of prompts (serving.h) */
    int64_t chunk_bytes[SW_PASSES_COUNT]; /* that a rank sends for one, either way; 0: that way
                                             there is none */
    struct sw_cost_parts time;            /* of a run of `decode` */
    /* of a rank: arena and what it is made of */
    int64_t arena_bytes, weight_bytes, cache_bytes, transient_bytes;
    int64_t scale_bytes; /* of cache_bytes: the scales of one in int8 */
};

/* Of the decision's mesh. serve.stream_weights: auto becomes what the mesh needs. Errors: SW_UNMET:
 * the mesh cannot serve the model; SW_BAD_INPUT; SW_ENVIRONMENT. */
int sw_serving_price_make(const struct sw_run_config *run, const struct sw_decision *decision,
                          struct sw_serving_price *out, struct sw_error *err);
/* The same with the order of the mesh's axes in which a token takes least. */
int sw_serving_price_best_order(const struct sw_run_config *run, const struct sw_decision *decision,
                                struct sw_serving_price *out, struct sw_error *err);
/* Whether a rank's memory has room for it, beside what is reserved. */
bool sw_serving_fits(const struct sw_run_config *run, const struct sw_program_set *programs);
void sw_serving_price_free(struct sw_serving_price *price);

/* The goals of the run that it misses. */
bool sw_serving_misses_token(const struct sw_run_config *run, const struct sw_serving_price *price);
bool sw_serving_misses_first(const struct sw_run_config *run, const struct sw_serving_price *price);

/* Settles serve.stream_weights of a run that says something of serving for that mesh. Errors: as
 * sw_serving_price_make. */
int sw_serving_settle(struct sw_run_config *run, const struct sw_decision *decision,
                      struct sw_error *err);

/* Fills in the digests of the programs of serving of a run that says something of it. Errors: as
 * above; SW_UNMET: it does not fit into the memory of a rank. */
int sw_serving_digests(const struct sw_run_config *run, const struct sw_decision *decision,
                       uint64_t digest[SW_PROGRAM_KINDS], struct sw_error *err);

#endif
