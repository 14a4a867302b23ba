/* Where the thread of HTTP and the one that runs the programs meet: completions come in, as many as
 * there is room for, and their bytes go out. Owns the completions.
 *
 * Room and turns are counted in texts, and by who asks. At most `queue` texts wait, of one client
 * half as many, so that nobody's texts are all that there is room for. A slot goes to the client
 * who has fewest, of equals to the one whose last turn is longest ago; his texts begin in the order
 * in which they came. One who has none while another has several is given one of those: the text
 * that has it begins again later and makes the same tokens, which are not told twice. */
#ifndef SW_SERVE_QUEUE_H
#define SW_SERVE_QUEUE_H

#include "runner/serve/answer.h"

enum { SW_TIME_BUCKETS = 18 };
/* Times, of which `at_most[i]` are no longer than sw_time_bucket(i) seconds. */
struct sw_times {
    int64_t at_most[SW_TIME_BUCKETS], count;
    double sum;
};
/* 1, 2.5 and 5 times 10^-3, ... : 0.001 s to 500 s */
double sw_time_bucket(int32_t i);

/* What /metrics says, since the start. */
struct sw_request_queue_counts {
    int64_t requests; /* taken, each of which ends in one of these ways: */
    int64_t answered, gone /* clients */, failed, late /* not whole in time */;
    int64_t refused, busy; /* of others; 429 and 503 */
    int64_t cached;        /* tokens of the texts that have slots, now */
    int64_t yielded;       /* texts that gave up their slots */
    int64_t sequences, prompt_tokens, new_tokens;
    int64_t prompt_tokens_cached; /* that were not read */
    int64_t waiting, running;     /* texts, now */
    /* programs that ran; of them those that ended behind a request and up to its first token, of
     * all requests: 1 where nothing ran when it came and its prompt took one */
    int64_t calls, first_token_calls;
    /* from a request to its first token, between two tokens of a text that streams or not, from a
     * request to its whole answer */
    struct sw_times first_token, token, answer;
};

struct sw_request_queue;

/* queue: texts that may wait. wake(connection): the connection of a completion has something to
 * read; on the thread that runs the programs, with no lock held. */
int sw_request_queue_create(int64_t slots, int64_t queue, void (*wake)(void *connection),
                            struct sw_request_queue **out, struct sw_error *err);
void sw_request_queue_free(struct sw_request_queue *queue); /* and the completions; NULL: nothing */

/* ---- The thread of HTTP ---- */

/* A completion of the request, which it takes over. NULL: no memory, the request is the caller's.
 */
struct sw_completion *sw_completion_new(struct sw_api_request *request);
/* The queue takes the client's completion over. Returns 0, or -1 and *refusal: 400: it never fits;
 * 429: the client's own texts wait; 503: too many of all do, or the queue is closed; then the
 * completion is freed. *retry_s: when to come again. */
int sw_request_queue_submit(struct sw_request_queue *queue, const struct sw_client_id *client,
                            struct sw_completion *completion, struct sw_refusal *refusal,
                            int32_t *retry_s);
/* Copies what is there to send, at most `most` bytes; -1: that was all. When nothing is there, and
 * 0 is returned, `sleep` was called with the lock held, so that no waking is missed. */
int64_t sw_request_queue_read(struct sw_request_queue *queue, struct sw_completion *completion,
                              char *to, size_t most, void (*sleep)(void *connection),
                              void *connection);
/* Whether the answer is whole. If not, as above: `sleep` was called. */
bool sw_request_queue_is_finished(struct sw_request_queue *queue, struct sw_completion *completion,
                                  void (*sleep)(void *connection), void *connection);
/* Nobody reads it any more. It is freed later, by the other thread. */
void sw_request_queue_release(struct sw_request_queue *queue, struct sw_completion *completion);
void sw_request_queue_count_refused(struct sw_request_queue *queue);
struct sw_request_queue_counts sw_request_queue_counts(const struct sw_request_queue *queue);
/* NULL while all is well; "draining" ... */
const char *sw_request_queue_closed(const struct sw_request_queue *queue);

/* ---- The thread that runs the programs ---- */

/* Until something may have changed, at most so long. */
void sw_request_queue_wait(struct sw_request_queue *queue, double seconds);
/* Frees completions that are over. Calls `drop` for each text that runs and that nobody waits for.
 */
void sw_request_queue_reap(struct sw_request_queue *queue,
                           void (*drop)(void *context, struct sw_completion_sequence *sequence),
                           void *context);
/* The text whose turn it is; NULL: none waits. It has a slot then, and goes ahead of those of
 * clients who have several. */
struct sw_completion_sequence *sw_request_queue_next(struct sw_request_queue *queue,
                                                     struct sw_completion **completion);
/* A text that runs and whose slot another client, who has none, is to have; NULL: none need be. It
 * waits then, and its slot is to be emptied. When every slot is taken. */
struct sw_completion_sequence *sw_request_queue_yield(struct sw_request_queue *queue);
/* A text that runs has ended. */
void sw_request_queue_ended(struct sw_request_queue *queue, struct sw_completion *completion,
                            struct sw_completion_sequence *sequence);
/* Adds to what the completion's client gets; finished: that was all, with this status. */
void sw_request_queue_write(struct sw_request_queue *queue, struct sw_completion *completion,
                            const struct sw_chars *bytes, bool finished, int32_t status);
/* The client of a completion is gone: its connection is woken to find that out. */
void sw_request_queue_gone(struct sw_request_queue *queue, struct sw_completion *completion);
/* No new completions, and why. */
void sw_request_queue_close(struct sw_request_queue *queue, const char *why);
bool sw_request_queue_is_empty(
    struct sw_request_queue *queue); /* nothing waits, runs or is yet to be sent */
/* Every completion that is not finished ends with this error. */
void sw_request_queue_fail(struct sw_request_queue *queue, const struct sw_refusal *refusal);
/* Every completion that came longer than so many seconds ago and is not finished ends, with 504. */
void sw_request_queue_expire(struct sw_request_queue *queue, double seconds);
/* A token of the completion was made now: its first, or `since_s` after the text's last one. */
void sw_request_queue_count_token(struct sw_request_queue *queue,
                                  const struct sw_completion *completion, bool first,
                                  double since_s);
/* A program ran. */
void sw_request_queue_count_call(struct sw_request_queue *queue);
/* Since the start: tokens of prompts that were read, those that stood in the cache, new ones. Those
 * of the texts that have slots. */
void sw_request_queue_count_tokens(struct sw_request_queue *queue, int64_t prompt,
                                   int64_t prompt_cached, int64_t made, int64_t cached);

#endif
