/* Makes or scores texts on in-process ranks (one thread each), as `runner generate` does, and
 * brings back what tests compare. Parameters are the generator's; norms and biases are spread as
 * the harness spreads them. A rank that fails prints one line and ends the process. Link with
 * sw_runner, sw_collective, sw_device_cpu. */
#ifndef SW_TEST_TEXTS_H
#define SW_TEST_TEXTS_H

#include "runner/collective/comm.h"
#include "runner/generate/engine.h"

/* What became of a text, on the rank it was asked of. */
struct sw_made_text {
    int64_t made; /* new tokens */
    bool full;
    int32_t *tokens;  /* [max_tokens] */
    double *logprobs; /* [max_tokens]; of scores: of token t + 1 at t */
    /* [max_tokens] of new tokens; [max_tokens + t] of token t of the prompt, where it is scored and
     * made */
    struct sw_top *top;
};

struct sw_test_texts {
    const struct sw_program_options *options; /* of training: the mesh, the model, the rules */
    struct sw_serving serving;
    uint64_t seed;
    double stddev;
    const struct sw_sequence *texts; /* [count]; numbers are set */
    int64_t count;
    bool scores;                                             /* of these tokens; none are made */
    bool unpoisoned;                                         /* as in a job; else as sw_harness's */
    int32_t pause_every;                                     /* as sw_engine_pause_at */
    void (*took)(int32_t rank, int64_t text, int64_t index); /* a token; may be NULL */
    /* Another device than the CPU's, and a communicator for it in place of *comm, which it takes;
     * both may be NULL */
    struct sw_device *(*device)(struct sw_error *err);
    int (*connect)(void *context, const struct sw_program_set *set, struct sw_device *device,
                   struct sw_comm **comm, struct sw_error *err);
    void *context;
    /* set */
    int64_t arena_bytes, planned_arena_bytes; /* what rank 0 holds, what the set says */
    int32_t other_ranks;                      /* that made anything else than rank 0 */
    int64_t cached_tokens;                    /* of prompts, that rank 0 did not read */
    int64_t reads;                            /* runs of `read` there */
    int64_t inside;                           /* of `decode` there, inside calls of chunks */
    int64_t prefill_rows, decode_rows;        /* as sw_engine_counts has them */
    struct sw_made_text *made;                /* [count], rank 0's */
};

/* Returns 0, or -1 (err: the mesh cannot serve the model). Free with sw_test_texts_free in any
 * case. */
int sw_test_texts_run(struct sw_test_texts *texts, struct sw_error *err);
void sw_test_texts_free(struct sw_test_texts *texts);

#endif
