#include "runner/serve/reader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct sw_body_reader {
    const struct sw_request_rules *rules;
    void (*wake)(void *connection);
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t news;
    struct sw_body *first, *last;
    bool stops;
};

void sw_body_free(struct sw_body *body)
{
    sw_chars_free(&body->bytes);
    sw_api_request_free(&body->request);
}

static void refuse(struct sw_body *body)
{
    body->status = -1;
    body->refusal = (struct sw_refusal){.status = 503, .type = "server_error", .code = "draining"};
    sw_fail(&body->refusal.err, SW_ENVIRONMENT, "the server is stopping");
}

/* Next body; NULL: the thread ends. */
static struct sw_body *wait_for_body(struct sw_body_reader *r, bool *stops)
{
    pthread_mutex_lock(&r->mutex);
    while (r->first == NULL && !r->stops)
        (void)pthread_cond_wait(&r->news, &r->mutex);
    struct sw_body *body = r->first;
    if (body != NULL)
        r->first = body->next;
    if (r->first == NULL)
        r->last = NULL;
    *stops = r->stops;
    pthread_mutex_unlock(&r->mutex);
    return body;
}

static void *read_bodies(void *context)
{
    struct sw_body_reader *r = context;
    bool stops;
    for (struct sw_body *body; (body = wait_for_body(r, &stops)) != NULL;) {
        if (stops)
            refuse(body);
        else
            body->status = sw_api_request_read(r->rules, body->endpoint,
                                               body->bytes.byte != NULL ? body->bytes.byte : "",
                                               body->bytes.count, &body->request, &body->refusal);
        void *connection = body->connection;
        sw_chars_free(&body->bytes); /* may be long, and the response takes longer */
        pthread_mutex_lock(&r->mutex);
        body->done = true;
        pthread_mutex_unlock(&r->mutex);
        r->wake(connection);
    }
    return NULL;
}

int sw_body_reader_start(const struct sw_request_rules *rules, void (*wake)(void *connection),
                         struct sw_body_reader **out, struct sw_error *err)
{
    struct sw_body_reader *r = calloc(1, sizeof *r);
    sigset_t all, before;
    if (r == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the server");
    r->rules = rules;
    r->wake = wake;
    (void)pthread_mutex_init(&r->mutex, NULL);
    (void)pthread_cond_init(&r->news, NULL);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* another thread handles signals */
    const int failed = pthread_create(&r->thread, NULL, read_bodies, r);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    r->started = failed == 0;
    if (failed != 0) {
        sw_body_reader_free(r);
        return sw_fail(err, SW_ENVIRONMENT, "cannot start a thread: %s", strerror(failed));
    }
    *out = r;
    return 0;
}

void sw_body_reader_add(struct sw_body_reader *r, struct sw_body *body,
                        void (*sleep)(void *connection), void *connection)
{
    pthread_mutex_lock(&r->mutex);
    body->connection = connection;
    if (r->stops) {
        refuse(body);
        body->done = true;
    } else {
        if (r->last != NULL)
            r->last->next = body;
        else
            r->first = body;
        r->last = body;
        sleep(connection);
        (void)pthread_cond_signal(&r->news);
    }
    pthread_mutex_unlock(&r->mutex);
}

bool sw_body_reader_is_done(struct sw_body_reader *r, struct sw_body *body)
{
    pthread_mutex_lock(&r->mutex);
    const bool done = body->done;
    pthread_mutex_unlock(&r->mutex);
    return done;
}

void sw_body_reader_stop(struct sw_body_reader *r)
{
    if (r == NULL || !r->started)
        return;
    pthread_mutex_lock(&r->mutex);
    r->stops = true;
    (void)pthread_cond_signal(&r->news);
    pthread_mutex_unlock(&r->mutex);
    (void)pthread_join(r->thread, NULL);
    r->started = false;
}

void sw_body_reader_free(struct sw_body_reader *r)
{
    if (r == NULL)
        return;
    (void)pthread_cond_destroy(&r->news);
    (void)pthread_mutex_destroy(&r->mutex);
    free(r);
}
