/* A request that is being answered: its texts, and the bytes that its client has yet to get.
 *
 * Two threads know it. The one of HTTP makes it, hands it to the queue and reads `out`; the one
 * that runs the programs makes its texts and writes `out`. What stands under `guarded` belongs to
 * the queue's mutex (queue.h), everything else to the thread that runs the programs, from the
 * moment that the queue has the completion. */
#ifndef SW_SERVE_COMPLETION_H
#define SW_SERVE_COMPLETION_H

#include "runner/generate/generation.h"
#include "runner/serve/request.h"

enum sw_completion_stage { SW_SEQUENCE_WAITS, SW_SEQUENCE_RUNS, SW_SEQUENCE_ENDED };

/* Whose a request is: compared byte by byte. */
struct sw_client_id {
    unsigned char address[8]; /* as clients.h has it */
    char key[56]; /* what it shows where the server has no token, its end, for tokens begin alike;
                     zeros */
};

struct sw_completion_sequence {
    enum sw_completion_stage stage;
    bool begun; /* it had a slot, and gave it up when it waits again */
    bool ahead; /* its client had no other slot when it got its own */
    int64_t prompt, slot;
    int64_t cached; /* tokens of its prompt that stood in the slot when it first began */
    double token_s; /* when its last token came, sw_clock_now; 0: it has none */
    uint64_t seed;
    struct sw_generation generation;
    /* of the prompt's tokens, [its count], when they are wanted; NULL else */
    double *prompt_logprobs;
    int32_t *top; /* [its count, request.logprobs], as generation.h has those of new tokens */
    double *top_logprobs;
    /* of a stream: what the client has been told */
    size_t told_bytes;
    int64_t told_tokens;
    bool told_prompt;
};

struct sw_completion {
    struct sw_api_request request;
    struct sw_completion_sequence
        *sequence; /* [sequence_count]: at p * n + s prompt p's sample s */
    int64_t sequence_count, ended;
    char id[40];
    int64_t created;                 /* seconds since 1970 */
    double arrived_s, first_token_s; /* sw_clock_now; 0: not yet */
    /* guarded */
    struct sw_completion *next;
    struct sw_client_queue *client_queue; /* of the queue */
    int64_t arrived_calls;                /* programs that had ended when it came */
    int64_t waiting, running;             /* texts */
    struct sw_chars out; /* of which `sent` are sent; of a stream the newest part */
    size_t sent;
    int32_t status; /* of HTTP; set when finished */
    bool finished;  /* all is in `out` */
    bool released;  /* nobody reads it any more */
    bool asleep;    /* its connection waits for more */
    void *connection;
};

#endif
