/* Queue between the HTTP thread and the program thread: completions come in, up to a limit, and
 * their bytes go out. Owns the completions.
 *
 * Limits and turns count sequences, by client. At most `queue` sequences wait, half as many of one
 * client, so that no client takes all places. A slot goes to the client with fewest, among equals
 * to the one whose last turn is oldest; its sequences start in order of arrival. A client without a
 * slot gets one from a client with several: that sequence starts again later and generates the same
 * tokens, which are not sent twice. */
#ifndef SW_SERVE_QUEUE_H
#define SW_SERVE_QUEUE_H

#include "runner/serve/answer.h"

enum { SW_TIME_BUCKETS = 18 };
/* Histogram of durations: `at_most[i]` are at most sw_time_bucket(i) seconds. */
struct sw_times {
    int64_t at_most[SW_TIME_BUCKETS], count;
    double sum;
};
/* 1, 2.5 and 5 times 10^-3, ... : 0.001 s to 500 s */
double sw_time_bucket(int32_t i);

/* Counts for /metrics, since the start. */
struct sw_request_queue_counts {
    int64_t requests; /* accepted; each ends in one of these ways: */
    int64_t answered, gone /* lost clients */, failed, late /* timed out */;
    int64_t refused, busy; /* refused ones; 429 and 503 */
    int64_t cached;        /* current tokens of sequences in slots */
    int64_t yielded;       /* sequences that yielded slots */
    int64_t sequences, prompt_tokens, new_tokens;
    int64_t prompt_tokens_cached; /* reused from the cache */
    int64_t waiting, running;     /* current sequences */
    /* program runs; and summed over requests, runs from arrival to first token: 1 if nothing ran at
     * arrival and one run read the prompt */
    int64_t calls, first_token_calls;
    /* from request to first token; between a sequence's tokens; from request to whole response */
    struct sw_times first_token, token, answer;
};

struct sw_request_queue;

/* queue: number of sequences that may wait. wake(connection): its completion has something to read;
 * called on the program thread without locks. */
int sw_request_queue_create(int64_t slots, int64_t queue, void (*wake)(void *connection),
                            struct sw_request_queue **out, struct sw_error *err);
void sw_request_queue_free(struct sw_request_queue *queue); /* frees completions; accepts NULL */

/* ---- The thread of HTTP ---- */

/* Makes a completion and takes over the request. NULL: no memory, the caller keeps the request. */
struct sw_completion *sw_completion_new(struct sw_api_request *request);
/* Takes over a client's completion. Returns 0, or -1 with *refusal and frees the completion: 400:
 * it never fits; 429: too many of the client's sequences wait; 503: too many of all do, or the
 * queue is closed. *retry_s: time to retry. */
int sw_request_queue_submit(struct sw_request_queue *queue, const struct sw_client_id *client,
                            struct sw_completion *completion, struct sw_refusal *refusal,
                            int32_t *retry_s);
/* Copies bytes to send, at most `most`; -1: the end. If there are none, calls `sleep` with the lock
 * held, so that no wake is missed, and returns 0. */
int64_t sw_request_queue_read(struct sw_request_queue *queue, struct sw_completion *completion,
                              char *to, size_t most, void (*sleep)(void *connection),
                              void *connection);
/* True if the response is complete. If not, calls `sleep` as above. */
bool sw_request_queue_is_finished(struct sw_request_queue *queue, struct sw_completion *completion,
                                  void (*sleep)(void *connection), void *connection);
/* Releases a completion that the HTTP thread no longer reads; the program thread frees it. */
void sw_request_queue_release(struct sw_request_queue *queue, struct sw_completion *completion);
void sw_request_queue_count_refused(struct sw_request_queue *queue);
struct sw_request_queue_counts sw_request_queue_counts(const struct sw_request_queue *queue);
/* NULL if open; else the reason, "draining" ... */
const char *sw_request_queue_closed(const struct sw_request_queue *queue);

/* ---- The thread that runs the programs ---- */

/* Waits for a change, at most `seconds`. */
void sw_request_queue_wait(struct sw_request_queue *queue, double seconds);
/* Frees finished completions. Calls `drop` for each running sequence without a client. */
void sw_request_queue_reap(struct sw_request_queue *queue,
                           void (*drop)(void *context, struct sw_completion_sequence *sequence),
                           void *context);
/* Next sequence for a slot, marked as running; NULL: none waits. It has priority over clients with
 * several slots. */
struct sw_completion_sequence *sw_request_queue_next(struct sw_request_queue *queue,
                                                     struct sw_completion **completion);
/* Running sequence that must yield its slot to a client without one, marked as waiting; the caller
 * empties the slot. NULL: none. Call only if no slot is free. */
struct sw_completion_sequence *sw_request_queue_yield(struct sw_request_queue *queue);
/* Marks a running sequence as ended. */
void sw_request_queue_ended(struct sw_request_queue *queue, struct sw_completion *completion,
                            struct sw_completion_sequence *sequence);
/* Appends bytes for the client; finished: true if they are the last, with this status. */
void sw_request_queue_write(struct sw_request_queue *queue, struct sw_completion *completion,
                            const struct sw_chars *bytes, bool finished, int32_t status);
/* Reports a completion's client as gone: wakes its connection, which finds out. */
void sw_request_queue_gone(struct sw_request_queue *queue, struct sw_completion *completion);
/* Refuses new completions from now on, with this reason. */
void sw_request_queue_close(struct sw_request_queue *queue, const char *why);
bool sw_request_queue_is_empty(
    struct sw_request_queue *queue); /* true if nothing waits, runs or remains to be sent */
/* Ends every unfinished completion with this error. */
void sw_request_queue_fail(struct sw_request_queue *queue, const struct sw_refusal *refusal);
/* Ends with 504 every unfinished completion older than `seconds`. */
void sw_request_queue_expire(struct sw_request_queue *queue, double seconds);
/* Counts a new token: the completion's first, or `since_s` after its sequence's previous one. */
void sw_request_queue_count_token(struct sw_request_queue *queue,
                                  const struct sw_completion *completion, bool first,
                                  double since_s);
/* Counts a program run. */
void sw_request_queue_count_call(struct sw_request_queue *queue);
/* Sets totals since the start: prompt tokens read, prompt tokens reused, new tokens; and current
 * tokens of sequences in slots. */
void sw_request_queue_count_tokens(struct sw_request_queue *queue, int64_t prompt,
                                   int64_t prompt_cached, int64_t made, int64_t cached);

#endif
