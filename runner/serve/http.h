/* HTTP on rank 0, by libmicrohttpd: its thread takes requests, has them read, hands them to the
 * queue and sends what comes back. Of hostile clients it knows: bodies, headers and connections
 * have limits, a request that takes too long to arrive is not waited for, one who is gone is
 * noticed. */
#ifndef SW_SERVE_HTTP_H
#define SW_SERVE_HTTP_H

#include "runner/serve/queue.h"
#include "runner/serve/listen.h"

enum { SW_HTTP_BODY_BYTES = 8 << 20 };

struct sw_http_options {
    struct sw_listener *listener;
    const char *token;       /* clients must show it; NULL: anybody may ask */
    int32_t connections;     /* at a time */
    double client_timeout_s; /* for a request to arrive, and between two of a connection */
    struct sw_request_rules rules;
    int64_t slots;
};

struct sw_http;
/* Whether this build has it; if not, err says so (SW_ENVIRONMENT). */
bool sw_http_is_there(struct sw_error *err);
/* Of libmicrohttpd, "0.9.75", in static memory; NULL: this build has none. */
const char *sw_http_version(void);
/* The queue and all that options name outlive it. Takes over the listener's fd. */
int sw_http_start(const struct sw_http_options *options, struct sw_request_queue *queue,
                  struct sw_http **out, struct sw_error *err);
/* To be called a few times a second by the thread that runs the programs: looks after clients that
 * are gone or too slow. */
void sw_http_sweep(struct sw_http *http);
/* Every completion is finished by now. NULL: nothing. */
void sw_http_stop(struct sw_http *http);
/* The connection of a completion has something to read. */
void sw_http_wake(void *connection);

#endif
