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

struct sw_request_queue {
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t news;
    bool has_news;
    int64_t slots, queue;
    void (*wake)(void *connection);
    struct sw_completion *first, *last; /* in the order in which they came */
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
    for (int64_t i = 0; i < completion->text_count; i++) {
        sw_generation_free(&completion->text[i].generation);
        free(completion->text[i].prompt_logprobs);
        free(completion->text[i].top);
        free(completion->text[i].top_logprobs);
    }
    free(completion->text);
    sw_chars_free(&completion->out);
    sw_api_request_free(&completion->request);
    free(completion);
}

void sw_request_queue_free(struct sw_request_queue *d)
{
    if (d == NULL)
        return;
    while (d->first != NULL) {
        struct sw_completion *completion = d->first;
        d->first = completion->next;
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
    completion->text_count = request->prompt_count * n;
    completion->text = calloc((size_t)completion->text_count, sizeof *completion->text);
    if (completion->text == NULL) {
        free(completion);
        return NULL;
    }
    for (int64_t i = 0; i < completion->text_count; i++)
        completion->text[i].prompt = i / n;
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

/* How long the texts that wait will, as far as those before them tell. */
static int32_t retry_seconds(const struct sw_request_queue *d)
{
    const double each =
        d->counts.answered > 0 ? d->counts.answer_s / (double)d->counts.answered : 1;
    const double wanted = ceil(each * (double)d->counts.waiting / (double)(d->slots));
    return wanted < 1 ? 1 : wanted > MOST_RETRY_S ? MOST_RETRY_S : (int32_t)wanted;
}

int sw_request_queue_submit(struct sw_request_queue *d, struct sw_completion *completion,
                            struct sw_refusal *refusal, int32_t *retry_s)
{
    int status = 0;
    *refusal = (struct sw_refusal){.status = 429, .type = "rate_limit_error", .code = "queue_full"};
    pthread_mutex_lock(&d->mutex);
    *retry_s = retry_seconds(d);
    if (d->closed != NULL) {
        refusal->status = 503;
        refusal->type = "server_error";
        refusal->code = "draining";
        status = sw_fail(&refusal->err, SW_ENVIRONMENT, "%s", d->closed);
    } else if (d->counts.waiting > 0 && d->counts.waiting + completion->text_count > d->queue) {
        d->counts.busy++;
        status = sw_fail(&refusal->err, SW_ENVIRONMENT, "%lld text%s already; try again in %d s",
                         (long long)d->counts.waiting, d->counts.waiting == 1 ? " waits" : "s wait",
                         (int)*retry_s);
    } else {
        if (d->last != NULL)
            d->last->next = completion;
        else
            d->first = completion;
        d->last = completion;
        d->counts.requests++;
        d->counts.waiting += completion->text_count;
        tell(d);
    }
    pthread_mutex_unlock(&d->mutex);
    if (status != 0)
        free_completion(completion);
    return status;
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
    struct sw_request_queue *d = (struct sw_request_queue *)queue; /* its mutex */
    pthread_mutex_lock(&d->mutex);
    const struct sw_request_queue_counts counts = d->counts;
    pthread_mutex_unlock(&d->mutex);
    return counts;
}

const char *sw_request_queue_closed(const struct sw_request_queue *queue)
{
    struct sw_request_queue *d = (struct sw_request_queue *)queue; /* its mutex */
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

/* Texts of a completion that nobody reads. */
static void end_texts(struct sw_request_queue *d, struct sw_completion *completion,
                      void (*drop)(void *context, struct sw_completion_text *text), void *context)
{
    for (int64_t i = 0; i < completion->text_count; i++) {
        struct sw_completion_text *text = &completion->text[i];
        d->counts.waiting -= text->stage == SW_TEXT_WAITS;
        d->counts.running -= text->stage == SW_TEXT_RUNS;
        if (text->stage == SW_TEXT_RUNS)
            drop(context, text);
        text->stage = SW_TEXT_ENDED;
    }
}

void sw_request_queue_reap(struct sw_request_queue *d,
                           void (*drop)(void *context, struct sw_completion_text *text),
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
        free_completion(completion);
    }
    d->last = kept;
    pthread_mutex_unlock(&d->mutex);
}

struct sw_completion_text *sw_request_queue_next(struct sw_request_queue *d,
                                                 struct sw_completion **out)
{
    struct sw_completion_text *found = NULL;
    pthread_mutex_lock(&d->mutex);
    for (struct sw_completion *completion = d->first; completion != NULL && found == NULL;
         completion = completion->next)
        for (int64_t i = 0; i < completion->text_count && found == NULL && !completion->released;
             i++)
            if (completion->text[i].stage == SW_TEXT_WAITS) {
                found = &completion->text[i];
                *out = completion;
            }
    if (found != NULL) {
        found->stage = SW_TEXT_RUNS;
        d->counts.waiting--;
        d->counts.running++;
        d->counts.texts++;
    }
    pthread_mutex_unlock(&d->mutex);
    return found;
}

void sw_request_queue_ended(struct sw_request_queue *d, struct sw_completion *completion,
                            struct sw_completion_text *text)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.running--;
    text->stage = SW_TEXT_ENDED;
    completion->ended++;
    pthread_mutex_unlock(&d->mutex);
}

/* With the mutex held; the connection to wake, or NULL. */
static void *wake(struct sw_completion *completion)
{
    void *connection = completion->asleep ? completion->connection : NULL;
    completion->asleep = false;
    return connection;
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
        d->counts.answered++;
        d->counts.failed += status >= 500;
        d->counts.answer_s += sw_clock_now() - completion->arrived_s;
        if (completion->first_token_s > 0)
            d->counts.first_token_s += completion->first_token_s - completion->arrived_s;
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
    const bool over = completion->finished;
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

void sw_request_queue_fail(struct sw_request_queue *d, const struct sw_refusal *refusal)
{
    struct sw_completion *completion;
    pthread_mutex_lock(&d->mutex);
    completion = d->first;
    pthread_mutex_unlock(&d->mutex);
    while (completion != NULL) { /* only this thread takes completions away */
        struct sw_chars out = {0};
        pthread_mutex_lock(&d->mutex);
        const bool over = completion->finished;
        pthread_mutex_unlock(&d->mutex);
        if (!over) {
            (void)sw_answer_error(refusal, completion->request.stream, &out);
            sw_request_queue_write(d, completion, &out, true, refusal->status);
        }
        sw_chars_free(&out);
        pthread_mutex_lock(&d->mutex);
        completion = completion->next;
        pthread_mutex_unlock(&d->mutex);
    }
}

void sw_request_queue_count_tokens(struct sw_request_queue *d, int64_t prompt, int64_t made)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.prompt_tokens = prompt;
    d->counts.new_tokens = made;
    pthread_mutex_unlock(&d->mutex);
}
