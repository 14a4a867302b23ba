/* Thread that parses bodies: JSON and especially tokenizing take too long for the HTTP thread. Owns
 * the thread; parses bodies in order of arrival; they stay their exchange's. */
#ifndef SW_SERVE_READER_H
#define SW_SERVE_READER_H

#include "runner/serve/request.h"
#include "runner/text/tokenizer/tokenizer.h"

/* A body and its parsed request. */
struct sw_body {
    enum sw_endpoint endpoint;
    struct sw_chars bytes;
    /* after parsing */
    int status;                    /* see sw_api_request_read */
    struct sw_api_request request; /* freed with the body unless taken over */
    struct sw_refusal refusal;
    /* guarded by the reader's mutex */
    bool done;
    struct sw_body *next;
    void *connection;
};
void sw_body_free(struct sw_body *body); /* frees the contents */

struct sw_body_reader;

/* wake(connection): its body is parsed; called on the reader's thread without locks. The rules
 * outlive the reader. Errors: SW_ENVIRONMENT: no memory, no thread. */
int sw_body_reader_start(const struct sw_request_rules *rules, void (*wake)(void *connection),
                         struct sw_body_reader **out, struct sw_error *err);
/* Calls sleep(connection) with the lock held, so that no wake is missed, and queues the body. */
void sw_body_reader_add(struct sw_body_reader *reader, struct sw_body *body,
                        void (*sleep)(void *connection), void *connection);
bool sw_body_reader_is_done(struct sw_body_reader *reader, struct sw_body *body);
/* Ends the thread; unparsed and later bodies get 503. May be NULL, also below. */
void sw_body_reader_stop(struct sw_body_reader *reader);
void sw_body_reader_free(struct sw_body_reader *reader); /* must be stopped */

#endif
