#include "runner/serve/queue.h"

#include "core/base/clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { MOST_RETRY_S = 60 };

/* A client with completions. */
struct sw_client_queue {
    struct sw_client_queue *next;
    struct sw_client_id client;
    int64_t completions, waiting, running; /* waiting, running: sequences */
    int64_t turn;                          /* time of its latest start */
};

struct sw_request_queue {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t news;
    bool has_news;
    int64_t slots, queue;
    void (*wake)(void *connection);
    struct sw_completion *first, *last; /* in order of arrival */
    struct sw_client_queue *client_queues;
    int64_t turns;
    struct sw_request_queue_counts counts;
    const char *closed;
};

int sw_request_queue_create(int64_t slots, int64_t queue, void (*wake)(void *connection),
                            struct sw_request_queue **out, struct sw_error *err)
{
    struct sw_request_queue *d = calloc(1, sizeof *d);
    pthread_condattr_t attributes;
    if (d == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the requests");
    d->slots = slots;
    d->queue = queue;
    d->wake = wake;
    (void)pthread_mutex_init(&d->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&d->news, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    *out = d;
    return 0;
}

static void free_completion(struct sw_completion *completion)
{
    for (int64_t i = 0; i < completion->sequence_count; i++) {
        sw_generation_free(&completion->sequence[i].generation);
        free(completion->sequence[i].prompt_logprobs);
        free(completion->sequence[i].top);
        free(completion->sequence[i].top_logprobs);
    }
    free(completion->sequence);
    sw_chars_free(&completion->out);
    sw_api_request_free(&completion->request);
    free(completion);
}

/* Finds or adds the client; NULL: no memory. */
static struct sw_client_queue *join_client_queue(struct sw_request_queue *d,
                                                 const struct sw_client_id *client)
{
    struct sw_client_queue *p = d->client_queues;
    while (p != NULL && memcmp(&p->client, client, sizeof *client) != 0)
        p = p->next;
    if (p == NULL && (p = calloc(1, sizeof *p)) != NULL) {
        p->client = *client;
        p->next = d->client_queues;
        d->client_queues = p;
    }
    return p;
}

static void leave_client_queue(struct sw_request_queue *d, struct sw_client_queue *client_queue)
{
    struct sw_client_queue **at = &d->client_queues;
    if (--client_queue->completions > 0)
        return;
    while (*at != client_queue)
        at = &(*at)->next;
    *at = client_queue->next;
    free(client_queue);
}

/* Adds to the numbers of waiting and running sequences of a completion; may be negative. */
static void count_sequences(struct sw_request_queue *d, struct sw_completion *completion,
                            int64_t waiting, int64_t running)
{
    completion->waiting += waiting;
    completion->running += running;
    completion->client_queue->waiting += waiting;
    completion->client_queue->running += running;
    d->counts.waiting += waiting;
    d->counts.running += running;
    if (d->counts.running == 0)
        d->counts.cached = 0; /* until the engine's next count */
}

void sw_request_queue_free(struct sw_request_queue *d)
{
    if (d == NULL)
        return;
    while (d->first != NULL) {
        struct sw_completion *completion = d->first;
        d->first = completion->next;
        leave_client_queue(d, completion->client_queue);
        free_completion(completion);
    }
    (void)pthread_cond_destroy(&d->news);
    (void)pthread_mutex_destroy(&d->mutex);
    free(d);
}

/* ---- The thread of HTTP ---- */

struct sw_completion *sw_completion_new(struct sw_api_request *request)
{
    struct sw_completion *completion = calloc(1, sizeof *completion);
    const int64_t n = request->params.n;
    uint64_t number = 0;
    if (completion == NULL)
        return NULL;
    completion->sequence_count = request->prompt_count * n;
    completion->sequence = calloc((size_t)completion->sequence_count, sizeof *completion->sequence);
    if (completion->sequence == NULL) {
        free(completion);
        return NULL;
    }
    for (int64_t i = 0; i < completion->sequence_count; i++)
        completion->sequence[i].prompt = i / n;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = (uint64_t)(sw_clock_now() * 1e9);
    snprintf(completion->id, sizeof completion->id, "%s%016llx",
             request->endpoint == SW_COMPLETIONS ? "cmpl-" : "chatcmpl-",
             (unsigned long long)number);
    if (!request->has_seed)
        request->params.seed = (int64_t)(number >> 11);
    completion->created = (int64_t)time(NULL);
    completion->arrived_s = sw_clock_now();
    completion->request = *request;
    *request = (struct sw_api_request){0};
    return completion;
}

static void tell(struct sw_request_queue *d)
{
    d->has_news = true;
    (void)pthread_cond_signal(&d->news);
}

double sw_time_bucket(int32_t i)
{
    static const double steps[] = {1, 2.5, 5};
    return steps[i % 3] * pow(10, i / 3 - 3);
}

static void add_time(struct sw_times *times, double seconds)
{
    for (int32_t i = 0; i < SW_TIME_BUCKETS; i++)
        times->at_most[i] += seconds <= sw_time_bucket(i);
    times->count++;
    times->sum += seconds;
}

/* Estimated wait of the waiting sequences, from earlier ones. */
static int32_t retry_seconds(const struct sw_request_queue *d)
{
    const double each =
        d->counts.answer.count > 0 ? d->counts.answer.sum / (double)d->counts.answer.count : 1;
    const double wanted = ceil(each * (double)d->counts.waiting / (double)(d->slots));
    return wanted < 1 ? 1 : wanted > MOST_RETRY_S ? MOST_RETRY_S : (int32_t)wanted;
}

/* Half of the places, at least one. */
static int64_t share_of(const struct sw_request_queue *d)
{
    return (d->queue + 1) / 2;
}

static int refuse_full(struct sw_request_queue *d, struct sw_refusal *refusal, int32_t status,
                       int64_t waiting, int32_t retry_s)
{
    refusal->status = status;
    refusal->type = status == 429 ? "rate_limit_error" : "server_error";
    refusal->code = "queue_full";
    d->counts.busy++;
    return sw_fail(&refusal->err, SW_ENVIRONMENT, "%lld sequence%s%s%s already; try again in %d s",
                   (long long)waiting, waiting == 1 ? "" : "s", status == 429 ? " of yours" : "",
                   waiting == 1 ? " waits" : " wait", (int)retry_s);
}

/* Accepts or refuses, with the mutex held. Sequences that get a slot at once do not count as
 * waiting. */
static int check_submitted(struct sw_request_queue *d, const struct sw_client_queue *client_queue,
                           const struct sw_completion *completion, struct sw_refusal *refusal,
                           int32_t retry_s)
{
    const int64_t count = completion->sequence_count, most = share_of(d) + d->slots;
    const int64_t taken = d->counts.running + d->counts.waiting;
    const int64_t at_once = d->slots > taken ? d->slots - taken : 0;
    const int64_t more = count > at_once ? count - at_once : 0;
    if (d->closed != NULL) {
        *refusal = (struct sw_refusal){.status = 503, .type = "server_error", .code = "draining"};
        return sw_fail(&refusal->err, SW_ENVIRONMENT, "%s", d->closed);
    }
    if (count > most) {
        *refusal = (struct sw_refusal){.status = 400,
                                       .type = "invalid_request_error",
                                       .code = "too_many_sequences",
                                       .param = "n"};
        return sw_fail(
            &refusal->err, SW_BAD_INPUT,
            "%lld sequences; a request has at most %lld here, half of --queue and the slots",
            (long long)count, (long long)most);
    }
    if (more > 0 && d->counts.waiting + more > d->queue)
        return refuse_full(d, refusal, 503, d->counts.waiting, retry_s);
    if (more > 0 && client_queue->waiting + more > share_of(d))
        return refuse_full(d, refusal, 429, client_queue->waiting, retry_s);
    return 0;
}

static void append(struct sw_request_queue *d, struct sw_client_queue *client_queue,
                   struct sw_completion *completion)
{
    if (d->last != NULL)
        d->last->next = completion;
    else
        d->first = completion;
    d->last = completion;
    completion->client_queue = client_queue;
    completion->arrived_calls = d->counts.calls;
    d->counts.requests++;
    count_sequences(d, completion, completion->sequence_count, 0);
    tell(d);
}

int sw_request_queue_submit(struct sw_request_queue *d, const struct sw_client_id *client,
                            struct sw_completion *completion, struct sw_refusal *refusal,
                            int32_t *retry_s)
{
    int status = -1;
    *refusal = (struct sw_refusal){.status = 500, .type = "server_error"};
    pthread_mutex_lock(&d->mutex);
    *retry_s = retry_seconds(d);
    struct sw_client_queue *client_queue = join_client_queue(d, client);
    if (client_queue == NULL) {
        sw_fail(&refusal->err, SW_ENVIRONMENT, "out of memory for a request");
    } else {
        client_queue->completions++;
        status = check_submitted(d, client_queue, completion, refusal, *retry_s);
        if (status == 0)
            append(d, client_queue, completion);
        else
            leave_client_queue(d, client_queue);
    }
    pthread_mutex_unlock(&d->mutex);
    if (status != 0)
        free_completion(completion);
    return status;
}

/* Drops sent bytes once moving the rest costs no more than sending did; streams may be long. */
static void forget_sent(struct sw_completion *completion)
{
    struct sw_chars *out = &completion->out;
    const size_t left = out->count - completion->sent;
    if (completion->sent < left)
        return;
    memmove(out->byte, out->byte + completion->sent, left);
    out->count = left;
    completion->sent = 0;
}

int64_t sw_request_queue_read(struct sw_request_queue *d, struct sw_completion *completion,
                              char *to, size_t most, void (*sleep)(void *connection),
                              void *connection)
{
    pthread_mutex_lock(&d->mutex);
    const size_t left = completion->out.count - completion->sent, n = left < most ? left : most;
    int64_t result = n == 0 && completion->finished ? -1 : (int64_t)n;
    if (n > 0) {
        memcpy(to, completion->out.byte + completion->sent, n);
        completion->sent += n;
        forget_sent(completion);
    } else if (result == 0) {
        completion->asleep = true;
        completion->connection = connection;
        sleep(connection);
    }
    pthread_mutex_unlock(&d->mutex);
    return result;
}

bool sw_request_queue_is_finished(struct sw_request_queue *d, struct sw_completion *completion,
                                  void (*sleep)(void *connection), void *connection)
{
    pthread_mutex_lock(&d->mutex);
    const bool finished = completion->finished;
    if (!finished) {
        completion->asleep = true;
        completion->connection = connection;
        sleep(connection);
    }
    pthread_mutex_unlock(&d->mutex);
    return finished;
}

void sw_request_queue_release(struct sw_request_queue *d, struct sw_completion *completion)
{
    pthread_mutex_lock(&d->mutex);
    completion->released = true;
    d->counts.gone += !completion->finished;
    tell(d);
    pthread_mutex_unlock(&d->mutex);
}

void sw_request_queue_count_refused(struct sw_request_queue *d)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.refused++;
    pthread_mutex_unlock(&d->mutex);
}

struct sw_request_queue_counts sw_request_queue_counts(const struct sw_request_queue *queue)
{
    struct sw_request_queue *d = (struct sw_request_queue *)queue; /* for its mutex */
    pthread_mutex_lock(&d->mutex);
    const struct sw_request_queue_counts counts = d->counts;
    pthread_mutex_unlock(&d->mutex);
    return counts;
}

const char *sw_request_queue_closed(const struct sw_request_queue *queue)
{
    struct sw_request_queue *d = (struct sw_request_queue *)queue; /* for its mutex */
    pthread_mutex_lock(&d->mutex);
    const char *closed = d->closed;
    pthread_mutex_unlock(&d->mutex);
    return closed;
}

/* ---- The thread that runs the programs ---- */

void sw_request_queue_wait(struct sw_request_queue *d, double seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&d->mutex);
    while (!d->has_news && pthread_cond_timedwait(&d->news, &d->mutex, &until) != ETIMEDOUT) {
    }
    d->has_news = false;
    pthread_mutex_unlock(&d->mutex);
}

/* Ends the sequences of a released completion. */
static void end_texts(struct sw_request_queue *d, struct sw_completion *completion,
                      void (*drop)(void *context, struct sw_completion_sequence *sequence),
                      void *context)
{
    for (int64_t i = 0; i < completion->sequence_count; i++) {
        struct sw_completion_sequence *sequence = &completion->sequence[i];
        count_sequences(d, completion, -(sequence->stage == SW_SEQUENCE_WAITS),
                        -(sequence->stage == SW_SEQUENCE_RUNS));
        if (sequence->stage == SW_SEQUENCE_RUNS)
            drop(context, sequence);
        sequence->stage = SW_SEQUENCE_ENDED;
    }
}

void sw_request_queue_reap(struct sw_request_queue *d,
                           void (*drop)(void *context, struct sw_completion_sequence *sequence),
                           void *context)
{
    struct sw_completion *kept = NULL;
    pthread_mutex_lock(&d->mutex);
    for (struct sw_completion *completion = d->first, *next; completion != NULL;
         completion = next) {
        next = completion->next;
        if (completion->released || completion->finished)
            end_texts(d, completion, drop, context);
        if (!completion->released) {
            kept = completion;
            continue;
        }
        if (kept != NULL)
            kept->next = next;
        else
            d->first = next;
        leave_client_queue(d, completion->client_queue);
        free_completion(completion);
    }
    d->last = kept;
    pthread_mutex_unlock(&d->mutex);
}

/* Client whose turn it is, the first comer among equals (last in the list); NULL: none waits. */
static struct sw_client_queue *next_client_queue(const struct sw_request_queue *d)
{
    struct sw_client_queue *best = NULL;
    for (struct sw_client_queue *p = d->client_queues; p != NULL; p = p->next)
        if (p->waiting > 0 && (best == NULL || p->running < best->running ||
                               (p->running == best->running && p->turn <= best->turn)))
            best = p;
    return best;
}

struct sw_completion_sequence *sw_request_queue_next(struct sw_request_queue *d,
                                                     struct sw_completion **out)
{
    struct sw_completion_sequence *found = NULL;
    pthread_mutex_lock(&d->mutex);
    struct sw_client_queue *client_queue = next_client_queue(d);
    struct sw_completion *completion = d->first;
    while (client_queue != NULL &&
           (completion->client_queue != client_queue || completion->waiting == 0))
        completion = completion->next;
    for (int64_t i = 0; client_queue != NULL && found == NULL; i++)
        if (completion->sequence[i].stage == SW_SEQUENCE_WAITS)
            found = &completion->sequence[i];
    if (found != NULL) {
        *out = completion;
        found->stage = SW_SEQUENCE_RUNS;
        count_sequences(d, completion, -1, 1);
        found->ahead = client_queue->running == 1;
        client_queue->turn = ++d->turns;
        d->counts.sequences += !found->begun;
        found->begun = true;
    }
    pthread_mutex_unlock(&d->mutex);
    return found;
}

/* The client's running sequence that loses least. */
static struct sw_completion_sequence *shortest_sequence(const struct sw_request_queue *d,
                                                        const struct sw_client_queue *client_queue,
                                                        struct sw_completion **of)
{
    struct sw_completion_sequence *found = NULL;
    for (struct sw_completion *c = d->first; c != NULL; c = c->next)
        for (int64_t i = 0;
             c->client_queue == client_queue && c->running > 0 && i < c->sequence_count; i++)
            if (c->sequence[i].stage == SW_SEQUENCE_RUNS &&
                (found == NULL || c->sequence[i].generation.count <= found->generation.count)) {
                found = &c->sequence[i];
                *of = c;
            }
    return found;
}

struct sw_completion_sequence *sw_request_queue_yield(struct sw_request_queue *d)
{
    struct sw_completion_sequence *sequence = NULL;
    struct sw_completion *completion = NULL;
    pthread_mutex_lock(&d->mutex);
    const struct sw_client_queue *poor = next_client_queue(d);
    const struct sw_client_queue *rich = d->client_queues;
    for (const struct sw_client_queue *p = d->client_queues; p != NULL; p = p->next)
        if (p->running > rich->running)
            rich = p;
    if (poor != NULL && poor->running == 0 && rich->running > 1)
        sequence = shortest_sequence(d, rich, &completion);
    if (sequence != NULL) {
        sequence->stage = SW_SEQUENCE_WAITS;
        count_sequences(d, completion, 1, -1);
        d->counts.yielded++;
    }
    pthread_mutex_unlock(&d->mutex);
    return sequence;
}

void sw_request_queue_ended(struct sw_request_queue *d, struct sw_completion *completion,
                            struct sw_completion_sequence *sequence)
{
    pthread_mutex_lock(&d->mutex);
    count_sequences(d, completion, 0, -1);
    sequence->stage = SW_SEQUENCE_ENDED;
    completion->ended++;
    pthread_mutex_unlock(&d->mutex);
}

/* Called with the mutex held; returns the connection to wake, or NULL. */
static void *wake(struct sw_completion *completion)
{
    void *connection = completion->asleep ? completion->connection : NULL;
    completion->asleep = false;
    return connection;
}

/* Counts an end. Gone (499) and late (504) completions are counted where detected. */
static void count_end(struct sw_request_queue *d, const struct sw_completion *completion)
{
    if (completion->released) /* counted as gone */
        return;
    if (completion->status < 400) {
        d->counts.answered++;
        add_time(&d->counts.answer, sw_clock_now() - completion->arrived_s);
    }
    d->counts.failed += completion->status >= 500 && completion->status != 504;
}

void sw_request_queue_write(struct sw_request_queue *d, struct sw_completion *completion,
                            const struct sw_chars *bytes, bool finished, int32_t status)
{
    pthread_mutex_lock(&d->mutex);
    const bool written =
        bytes->count == 0 || sw_chars_add(&completion->out, bytes->byte, bytes->count) == 0;
    if (finished) {
        completion->finished = true;
        completion->status = written ? status : 500;
        count_end(d, completion);
    }
    void *connection = finished || completion->request.stream ? wake(completion) : NULL;
    pthread_mutex_unlock(&d->mutex);
    if (connection != NULL)
        d->wake(connection);
}

void sw_request_queue_gone(struct sw_request_queue *d, struct sw_completion *completion)
{
    static const struct sw_chars nothing = {0};
    pthread_mutex_lock(&d->mutex);
    const bool over = completion->finished || completion->released;
    d->counts.gone += !over;
    pthread_mutex_unlock(&d->mutex);
    if (!over)
        sw_request_queue_write(d, completion, &nothing, true, 499);
}

void sw_request_queue_close(struct sw_request_queue *d, const char *why)
{
    pthread_mutex_lock(&d->mutex);
    d->closed = why;
    pthread_mutex_unlock(&d->mutex);
}

bool sw_request_queue_is_empty(struct sw_request_queue *d)
{
    pthread_mutex_lock(&d->mutex);
    const bool empty = d->first == NULL;
    pthread_mutex_unlock(&d->mutex);
    return empty;
}

/* Ends completions that arrived before `before` (sw_clock_now) with the refusal; returns their
 * number. */
static int64_t fail_those(struct sw_request_queue *d, double before,
                          const struct sw_refusal *refusal)
{
    struct sw_completion *completion;
    int64_t count = 0;
    pthread_mutex_lock(&d->mutex);
    completion = d->first;
    pthread_mutex_unlock(&d->mutex);
    while (completion != NULL) { /* only this thread removes completions */
        struct sw_chars out = {0};
        pthread_mutex_lock(&d->mutex);
        const bool over =
            completion->finished || completion->released || completion->arrived_s >= before;
        pthread_mutex_unlock(&d->mutex);
        if (!over) {
            (void)sw_answer_error(refusal, completion->request.stream, &out);
            sw_request_queue_write(d, completion, &out, true, refusal->status);
            count++;
        }
        sw_chars_free(&out);
        pthread_mutex_lock(&d->mutex);
        completion = completion->next;
        pthread_mutex_unlock(&d->mutex);
    }
    return count;
}

void sw_request_queue_fail(struct sw_request_queue *d, const struct sw_refusal *refusal)
{
    (void)fail_those(d, INFINITY, refusal);
}

void sw_request_queue_expire(struct sw_request_queue *d, double seconds)
{
    struct sw_refusal refusal = {.status = 504, .type = "server_error", .code = "deadline"};
    sw_fail(&refusal.err, SW_ENVIRONMENT,
            "the answer was not complete within %.17g s, the server's "
            "--deadline",
            seconds);
    const int64_t late = fail_those(d, sw_clock_now() - seconds, &refusal);
    pthread_mutex_lock(&d->mutex);
    d->counts.late += late;
    pthread_mutex_unlock(&d->mutex);
}

void sw_request_queue_count_tokens(struct sw_request_queue *d, int64_t prompt,
                                   int64_t prompt_cached, int64_t made, int64_t cached)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.prompt_tokens = prompt;
    d->counts.prompt_tokens_cached = prompt_cached;
    d->counts.new_tokens = made;
    d->counts.cached = cached;
    pthread_mutex_unlock(&d->mutex);
}

void sw_request_queue_count_call(struct sw_request_queue *d)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.calls++;
    pthread_mutex_unlock(&d->mutex);
}

void sw_request_queue_count_token(struct sw_request_queue *d,
                                  const struct sw_completion *completion, bool first,
                                  double since_s)
{
    pthread_mutex_lock(&d->mutex);
    if (first) {
        add_time(&d->counts.first_token, completion->first_token_s - completion->arrived_s);
        d->counts.first_token_calls += d->counts.calls + 1 - completion->arrived_calls;
    } else {
        add_time(&d->counts.token, since_s);
    }
    pthread_mutex_unlock(&d->mutex);
}
