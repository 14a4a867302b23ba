/* Generates or scores sequences on in-process ranks (a thread each), like `runner generate`, and
 * returns values to compare. Parameters are the generator's; norms and biases are spread as in the
 * harness. A failing rank prints a line and ends the process. Link with sw_runner, sw_collective,
 * sw_device_cpu. */
#ifndef SW_TEST_TEXTS_H
#define SW_TEST_TEXTS_H

#include "runner/collective/comm.h"
#include "runner/generate/engine.h"

/* Result of a sequence, on the observed rank. */
struct sw_made_text {
    int64_t made; /* new tokens */
    bool full;
    int32_t *tokens;  /* [max_tokens] */
    double *logprobs; /* [max_tokens]; scoring: token t + 1's at t */
    /* [max_tokens] for new tokens; [max_tokens + t] for prompt token t, if scored and generated */
    struct sw_top *top;
};

struct sw_test_texts {
    const struct sw_program_options *options; /* training options: mesh, model, rules */
    struct sw_serving serving;
    uint64_t seed;
    double stddev;
    const struct sw_sequence *texts; /* [count]; numbers are set */
    int64_t count;
    bool scores;                                             /* scores tokens, generates none */
    bool unpoisoned;                                         /* see struct sw_harness */
    int32_t pause_every;                                     /* see sw_engine_pause_at */
    void (*took)(int32_t rank, int64_t text, int64_t index); /* per token; may be NULL */
    /* Another device, and a communicator for it that takes over *comm; both may be NULL */
    struct sw_device *(*device)(struct sw_error *err);
    int (*connect)(void *context, const struct sw_program_set *set, struct sw_device *device,
                   struct sw_comm **comm, struct sw_error *err);
    void *context;
    /* results */
    int64_t arena_bytes, planned_arena_bytes; /* rank 0's; predicted by the set */
    int32_t other_ranks;                      /* ranks with results other than rank 0's */
    int64_t cached_tokens;                    /* prompt tokens that rank 0 did not read */
    int64_t reads;                            /* rank 0's runs of `read` */
    int64_t inside;                           /* rank 0's of `decode` within calls of chunks */
    int64_t prefill_rows, decode_rows;        /* see sw_engine_counts */
    struct sw_made_text *made;                /* [count], rank 0's */
};

/* Returns 0, or -1 (err: the mesh cannot serve the model). Call sw_test_texts_free in any case. */
int sw_test_texts_run(struct sw_test_texts *texts, struct sw_error *err);
void sw_test_texts_free(struct sw_test_texts *texts);

#endif
