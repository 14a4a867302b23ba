/* The thread that reads bodies: JSON and, above all, tokens take longer than the thread of HTTP has
 * for one client. Owns the thread; bodies are read one after another, in the order in which they
 * come, and stay their exchange's. */
#ifndef SW_SERVE_READER_H
#define SW_SERVE_READER_H

#include "runner/serve/request.h"
#include "runner/text/tokenizer/tokenizer.h"

/* A body and what came of it. */
struct sw_body {
    enum sw_endpoint endpoint;
    struct sw_chars bytes;
    /* once it is read */
    int status;                    /* as sw_api_request_read */
    struct sw_api_request request; /* freed with the body unless it was taken over */
    struct sw_refusal refusal;
    /* guarded by the reader's mutex */
    bool done;
    struct sw_body *next;
    void *connection;
};
void sw_body_free(struct sw_body *body); /* what it holds */

struct sw_body_reader;

/* wake(connection): its body is read; on the reader's thread, with no lock held. The rules outlive
 * it. Errors: SW_ENVIRONMENT: no memory, no thread. */
int sw_body_reader_start(const struct sw_request_rules *rules, void (*wake)(void *connection),
                         struct sw_body_reader **out, struct sw_error *err);
/* Calls sleep(connection) with the lock held, so that no waking is missed, and reads the body by
 * and by. */
void sw_body_reader_add(struct sw_body_reader *reader, struct sw_body *body,
                        void (*sleep)(void *connection), void *connection);
bool sw_body_reader_is_done(struct sw_body_reader *reader, struct sw_body *body);
/* The thread ends; bodies that were not read are refused with 503, and so are those that come. May
 * be NULL, as below. */
void sw_body_reader_stop(struct sw_body_reader *reader);
void sw_body_reader_free(struct sw_body_reader *reader); /* was stopped */

#endif
