/* HTTP on rank 0, by libmicrohttpd: its thread receives requests, has them parsed, queues them and
 * sends responses. Expects hostile clients: bodies, headers and connections are limited, slow
 * requests time out, lost clients are noticed. */
#ifndef SW_SERVE_HTTP_H
#define SW_SERVE_HTTP_H

#include "runner/serve/queue.h"
#include "runner/serve/listen.h"

enum { SW_HTTP_BODY_BYTES = 8 << 20 };

struct sw_http_options {
    struct sw_listener *listener;
    const char *token;       /* clients must send it; NULL: open to all */
    int32_t connections;     /* maximum at a time */
    double client_timeout_s; /* for a request to arrive, and between two of a connection */
    struct sw_request_rules rules;
    int64_t slots;
};

struct sw_http;
/* True if this build has HTTP; else err says so (SW_ENVIRONMENT). */
bool sw_http_is_there(struct sw_error *err);
/* Version of libmicrohttpd, "0.9.75", in static memory; NULL: not in this build. */
const char *sw_http_version(void);
/* The queue and everything in options outlive it. Takes over the listener's fd. */
int sw_http_start(const struct sw_http_options *options, struct sw_request_queue *queue,
                  struct sw_http **out, struct sw_error *err);
/* Handles gone and slow clients; called a few times a second by the program thread. */
void sw_http_sweep(struct sw_http *http);
/* Stops; every completion must be finished. NULL: does nothing. */
void sw_http_stop(struct sw_http *http);
/* Wakes the connection of a completion that has something to read. */
void sw_http_wake(void *connection);

#endif
