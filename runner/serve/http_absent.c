/* Stub for builds without libmicrohttpd. */
#include "runner/serve/http.h"

bool sw_http_is_there(struct sw_error *err)
{
    sw_fail(err, SW_ENVIRONMENT,
            "this runner was built without libmicrohttpd; install libmicrohttpd-dev and build "
            "again");
    return false;
}

const char *sw_http_version(void)
{
    return NULL;
}

int sw_http_start(const struct sw_http_options *options, struct sw_request_queue *queue,
                  struct sw_http **out, struct sw_error *err)
{
    (void)options;
    (void)queue;
    *out = NULL;
    (void)sw_http_is_there(err);
    return -1;
}

void sw_http_sweep(struct sw_http *http)
{
    (void)http;
}

void sw_http_stop(struct sw_http *http)
{
    (void)http;
}

void sw_http_wake(void *connection)
{
    (void)connection;
}
