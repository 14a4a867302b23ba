/* A request being answered: its sequences, and the bytes to send to its client.
 *
 * Two threads share it. The HTTP thread makes it, hands it to the queue and reads `out`; the
 * program thread generates and writes `out`. Members under `guarded` belong to the queue's mutex
 * (queue.h), the others to the program thread once the queue has the completion. */
#ifndef SW_SERVE_COMPLETION_H
#define SW_SERVE_COMPLETION_H

#include "runner/generate/generation.h"
#include "runner/serve/request.h"

enum sw_completion_stage { SW_SEQUENCE_WAITS, SW_SEQUENCE_RUNS, SW_SEQUENCE_ENDED };

/* Identity of a client: compared byte by byte. */
struct sw_client_id {
    unsigned char address[8]; /* see clients.h */
    char key[56];             /* without a server token, the end of the client's; zero padded */
};

struct sw_completion_sequence {
    enum sw_completion_stage stage;
    bool begun; /* true if it once had a slot and yielded it */
    bool ahead; /* true if its client had no other slot at its start */
    int64_t prompt, slot;
    int64_t cached; /* prompt tokens found in the cache at its first start */
    double token_s; /* time of its latest token, sw_clock_now; 0: none */
    uint64_t seed;
    struct sw_generation generation;
    /* prompt's log-probabilities, [its count], if wanted; else NULL */
    double *prompt_logprobs;
    int32_t *top; /* [its count, request.logprobs], see generation.h */
    double *top_logprobs;
    /* a stream's bytes and tokens sent to the client */
    size_t told_bytes;
    int64_t told_tokens;
    bool told_prompt;
};

struct sw_completion {
    struct sw_api_request request;
    struct sw_completion_sequence
        *sequence; /* [sequence_count]; prompt p's sample s at p * n + s */
    int64_t sequence_count, ended;
    char id[40];
    int64_t created;                 /* seconds since 1970 */
    double arrived_s, first_token_s; /* sw_clock_now; 0: not yet */
    /* guarded */
    struct sw_completion *next;
    struct sw_client_queue *client_queue; /* the client's, in the queue */
    int64_t arrived_calls;                /* programs completed at its arrival */
    int64_t waiting, running;             /* numbers of sequences */
    struct sw_chars out;                  /* `sent` bytes are sent; of a stream only recent bytes */
    size_t sent;
    int32_t status; /* HTTP status; set when finished */
    bool finished;  /* true if `out` is complete */
    bool released;  /* true if no thread reads it any more */
    bool asleep;    /* true if its connection waits for more */
    void *connection;
};

#endif
