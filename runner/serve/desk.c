#include "runner/serve/desk.h"

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

struct sw_desk {
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t news;
    bool has_news;
    int64_t slots, queue;
    void (*wake)(void *connection);
    struct sw_job *first, *last; /* in the order in which they came */
    struct sw_desk_counts counts;
    const char *closed;
};

int sw_desk_create(int64_t slots, int64_t queue, void (*wake)(void *connection),
                   struct sw_desk **out, struct sw_error *err)
{
    struct sw_desk *d = calloc(1, sizeof *d);
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

static void free_job(struct sw_job *job)
{
    for (int64_t i = 0; i < job->text_count; i++) {
        sw_making_free(&job->text[i].making);
        free(job->text[i].prompt_logprobs);
        free(job->text[i].top);
        free(job->text[i].top_logprobs);
    }
    free(job->text);
    sw_chars_free(&job->out);
    sw_api_request_free(&job->request);
    free(job);
}

void sw_desk_free(struct sw_desk *d)
{
    if (d == NULL)
        return;
    while (d->first != NULL) {
        struct sw_job *job = d->first;
        d->first = job->next;
        free_job(job);
    }
    (void)pthread_cond_destroy(&d->news);
    (void)pthread_mutex_destroy(&d->mutex);
    free(d);
}

/* ---- The thread of HTTP ---- */

struct sw_job *sw_job_new(struct sw_api_request *request)
{
    struct sw_job *job = calloc(1, sizeof *job);
    const int64_t n = request->wish.n;
    uint64_t number = 0;
    if (job == NULL)
        return NULL;
    job->text_count = request->prompt_count * n;
    job->text = calloc((size_t)job->text_count, sizeof *job->text);
    if (job->text == NULL) {
        free(job);
        return NULL;
    }
    for (int64_t i = 0; i < job->text_count; i++)
        job->text[i].prompt = i / n;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = (uint64_t)(sw_clock_now() * 1e9);
    snprintf(job->id, sizeof job->id, "%s%016llx",
             request->endpoint == SW_COMPLETIONS ? "cmpl-" : "chatcmpl-",
             (unsigned long long)number);
    if (!request->has_seed)
        request->wish.seed = (int64_t)(number >> 11);
    job->created = (int64_t)time(NULL);
    job->arrived_s = sw_clock_now();
    job->request = *request;
    *request = (struct sw_api_request){0};
    return job;
}

static void tell(struct sw_desk *d)
{
    d->has_news = true;
    (void)pthread_cond_signal(&d->news);
}

/* How long the texts that wait will, as far as those before them tell. */
static int32_t retry_seconds(const struct sw_desk *d)
{
    const double each =
        d->counts.answered > 0 ? d->counts.answer_s / (double)d->counts.answered : 1;
    const double wanted = ceil(each * (double)d->counts.waiting / (double)(d->slots));
    return wanted < 1 ? 1 : wanted > MOST_RETRY_S ? MOST_RETRY_S : (int32_t)wanted;
}

int sw_desk_submit(struct sw_desk *d, struct sw_job *job, struct sw_refusal *refusal,
                   int32_t *retry_s)
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
    } else if (d->counts.waiting > 0 && d->counts.waiting + job->text_count > d->queue) {
        d->counts.busy++;
        status = sw_fail(&refusal->err, SW_ENVIRONMENT, "%lld text%s already; try again in %d s",
                         (long long)d->counts.waiting, d->counts.waiting == 1 ? " waits" : "s wait",
                         (int)*retry_s);
    } else {
        if (d->last != NULL)
            d->last->next = job;
        else
            d->first = job;
        d->last = job;
        d->counts.requests++;
        d->counts.waiting += job->text_count;
        tell(d);
    }
    pthread_mutex_unlock(&d->mutex);
    if (status != 0)
        free_job(job);
    return status;
}

int64_t sw_desk_read(struct sw_desk *d, struct sw_job *job, char *to, size_t most,
                     void (*sleep)(void *connection), void *connection)
{
    pthread_mutex_lock(&d->mutex);
    const size_t left = job->out.count - job->sent, n = left < most ? left : most;
    int64_t result = n == 0 && job->finished ? -1 : (int64_t)n;
    if (n > 0) {
        memcpy(to, job->out.byte + job->sent, n);
        job->sent += n;
    } else if (result == 0) {
        job->asleep = true;
        job->connection = connection;
        sleep(connection);
    }
    pthread_mutex_unlock(&d->mutex);
    return result;
}

bool sw_desk_is_finished(struct sw_desk *d, struct sw_job *job, void (*sleep)(void *connection),
                         void *connection)
{
    pthread_mutex_lock(&d->mutex);
    const bool finished = job->finished;
    if (!finished) {
        job->asleep = true;
        job->connection = connection;
        sleep(connection);
    }
    pthread_mutex_unlock(&d->mutex);
    return finished;
}

void sw_desk_release(struct sw_desk *d, struct sw_job *job)
{
    pthread_mutex_lock(&d->mutex);
    job->released = true;
    d->counts.gone += !job->finished;
    tell(d);
    pthread_mutex_unlock(&d->mutex);
}

void sw_desk_count_refused(struct sw_desk *d)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.refused++;
    pthread_mutex_unlock(&d->mutex);
}

struct sw_desk_counts sw_desk_counts(const struct sw_desk *desk)
{
    struct sw_desk *d = (struct sw_desk *)desk; /* its mutex */
    pthread_mutex_lock(&d->mutex);
    const struct sw_desk_counts counts = d->counts;
    pthread_mutex_unlock(&d->mutex);
    return counts;
}

const char *sw_desk_closed(const struct sw_desk *desk)
{
    struct sw_desk *d = (struct sw_desk *)desk; /* its mutex */
    pthread_mutex_lock(&d->mutex);
    const char *closed = d->closed;
    pthread_mutex_unlock(&d->mutex);
    return closed;
}

/* ---- The thread that runs the programs ---- */

void sw_desk_wait(struct sw_desk *d, double seconds)
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

/* Texts of a job that nobody reads. */
static void end_texts(struct sw_desk *d, struct sw_job *job,
                      void (*drop)(void *context, struct sw_job_text *text), void *context)
{
    for (int64_t i = 0; i < job->text_count; i++) {
        struct sw_job_text *text = &job->text[i];
        d->counts.waiting -= text->stage == SW_TEXT_WAITS;
        d->counts.running -= text->stage == SW_TEXT_RUNS;
        if (text->stage == SW_TEXT_RUNS)
            drop(context, text);
        text->stage = SW_TEXT_ENDED;
    }
}

void sw_desk_tidy(struct sw_desk *d, void (*drop)(void *context, struct sw_job_text *text),
                  void *context)
{
    struct sw_job *kept = NULL;
    pthread_mutex_lock(&d->mutex);
    for (struct sw_job *job = d->first, *next; job != NULL; job = next) {
        next = job->next;
        if (job->released || job->finished)
            end_texts(d, job, drop, context);
        if (!job->released) {
            kept = job;
            continue;
        }
        if (kept != NULL)
            kept->next = next;
        else
            d->first = next;
        free_job(job);
    }
    d->last = kept;
    pthread_mutex_unlock(&d->mutex);
}

struct sw_job_text *sw_desk_next(struct sw_desk *d, struct sw_job **out)
{
    struct sw_job_text *found = NULL;
    pthread_mutex_lock(&d->mutex);
    for (struct sw_job *job = d->first; job != NULL && found == NULL; job = job->next)
        for (int64_t i = 0; i < job->text_count && found == NULL && !job->released; i++)
            if (job->text[i].stage == SW_TEXT_WAITS) {
                found = &job->text[i];
                *out = job;
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

void sw_desk_ended(struct sw_desk *d, struct sw_job *job, struct sw_job_text *text)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.running--;
    text->stage = SW_TEXT_ENDED;
    job->ended++;
    pthread_mutex_unlock(&d->mutex);
}

/* With the mutex held; the connection to wake, or NULL. */
static void *rouse(struct sw_job *job)
{
    void *connection = job->asleep ? job->connection : NULL;
    job->asleep = false;
    return connection;
}

void sw_desk_write(struct sw_desk *d, struct sw_job *job, const struct sw_chars *bytes,
                   bool finished, int32_t status)
{
    pthread_mutex_lock(&d->mutex);
    const bool written =
        bytes->count == 0 || sw_chars_add(&job->out, bytes->byte, bytes->count) == 0;
    if (finished) {
        job->finished = true;
        job->status = written ? status : 500;
        d->counts.answered++;
        d->counts.failed += status >= 500;
        d->counts.answer_s += sw_clock_now() - job->arrived_s;
        if (job->first_token_s > 0)
            d->counts.first_token_s += job->first_token_s - job->arrived_s;
    }
    void *connection = finished || job->request.stream ? rouse(job) : NULL;
    pthread_mutex_unlock(&d->mutex);
    if (connection != NULL)
        d->wake(connection);
}

void sw_desk_gone(struct sw_desk *d, struct sw_job *job)
{
    static const struct sw_chars nothing = {0};
    pthread_mutex_lock(&d->mutex);
    const bool over = job->finished;
    d->counts.gone += !over;
    pthread_mutex_unlock(&d->mutex);
    if (!over)
        sw_desk_write(d, job, &nothing, true, 499);
}

void sw_desk_close(struct sw_desk *d, const char *why)
{
    pthread_mutex_lock(&d->mutex);
    d->closed = why;
    pthread_mutex_unlock(&d->mutex);
}

bool sw_desk_is_empty(struct sw_desk *d)
{
    pthread_mutex_lock(&d->mutex);
    const bool empty = d->first == NULL;
    pthread_mutex_unlock(&d->mutex);
    return empty;
}

void sw_desk_fail(struct sw_desk *d, const struct sw_refusal *refusal)
{
    struct sw_job *job;
    pthread_mutex_lock(&d->mutex);
    job = d->first;
    pthread_mutex_unlock(&d->mutex);
    while (job != NULL) { /* only this thread takes jobs away */
        struct sw_chars out = {0};
        pthread_mutex_lock(&d->mutex);
        const bool over = job->finished;
        pthread_mutex_unlock(&d->mutex);
        if (!over) {
            (void)sw_answer_error(refusal, job->request.stream, &out);
            sw_desk_write(d, job, &out, true, refusal->status);
        }
        sw_chars_free(&out);
        pthread_mutex_lock(&d->mutex);
        job = job->next;
        pthread_mutex_unlock(&d->mutex);
    }
}

void sw_desk_count_tokens(struct sw_desk *d, int64_t prompt, int64_t made)
{
    pthread_mutex_lock(&d->mutex);
    d->counts.prompt_tokens = prompt;
    d->counts.new_tokens = made;
    pthread_mutex_unlock(&d->mutex);
}
