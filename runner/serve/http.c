#include "runner/serve/http.h"

#include "core/base/text.h"
#include "runner/serve/clients.h"
#include "runner/serve/metrics.h"
#include "runner/serve/page.h"
#include "runner/serve/reader.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 32 << 10, /* per request; libmicrohttpd answers larger ones with 431 */
    STREAM_BLOCK_BYTES = 4096,
    RUN_OUT_BYTES = 4 * SW_HTTP_BODY_BYTES, /* read of an oversized body before disconnecting */
    LEAVING = 64,                           /* extra connections while closed ones end */
    AUTHORITY_BYTES = 264,
    SHOWN_BYTES = 48 /* most of a client's text in a message */
};

struct sw_http {
    struct sw_http_options options;
    struct sw_request_queue *queue;
    struct MHD_Daemon *daemon;
    struct sw_answerer answerer;
    int64_t started; /* seconds since 1970 */
    struct sw_clients *clients;
    struct sw_body_reader *reader;
};

/* A request being received. */
struct exchange {
    struct sw_client *client;
    const struct route *route;
    const char *path; /* from the address, in libmicrohttpd's memory of this request */
    size_t received;
    struct sw_body body;
    bool is_read; /* true once the body was given to the reader */
    struct sw_completion *completion;
};

/* ---- Responses ---- */

/* Allows other sites' pages to read responses to requests with the token (CORS); without a token
 * they are refused. */
static void allow_pages(const struct sw_http *http, struct MHD_Response *response)
{
    if (http->options.token != NULL)
        (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", "*");
}

static enum MHD_Result respond(const struct sw_http *http, struct MHD_Connection *connection,
                               int32_t status, const char *type, const char *extra,
                               const char *value, const struct sw_chars *bytes)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        bytes->count, bytes->byte != NULL ? bytes->byte : (char *)"", MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", type);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    allow_pages(http, response);
    if (extra != NULL)
        (void)MHD_add_response_header(response, extra, value);
    const enum MHD_Result result = MHD_queue_response(connection, (unsigned int)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct sw_http *http, struct MHD_Connection *connection,
                              const struct sw_refusal *refusal, const char *extra,
                              const char *value)
{
    struct sw_chars out = {0};
    if (refusal->status < 500 && refusal->status != 429) /* counted elsewhere */
        sw_request_queue_count_refused(http->queue);
    const enum MHD_Result result =
        sw_answer_error(refusal, false, &out) != 0
            ? MHD_NO
            : respond(http, connection, refusal->status, "application/json", extra, value, &out);
    sw_chars_free(&out);
    return result;
}

static enum MHD_Result refuse_with(struct sw_http *http, struct MHD_Connection *connection,
                                   int32_t status, const char *code, const char *extra,
                                   const char *value, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

static enum MHD_Result refuse_with(struct sw_http *http, struct MHD_Connection *connection,
                                   int32_t status, const char *code, const char *extra,
                                   const char *value, const char *format, ...)
{
    struct sw_refusal refusal = {.status = status, .type = "invalid_request_error", .code = code};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(refusal.err.message, sizeof refusal.err.message, format, arguments);
    va_end(arguments);
    return refuse(http, connection, &refusal, extra, value);
}

/* ---- What is asked with GET ---- */

static enum MHD_Result show_page(struct sw_http *http, struct MHD_Connection *connection,
                                 const char *rest)
{
    const struct sw_chars page = {(char *)sw_serve_page, sw_serve_page_bytes, 0};
    (void)rest;
    return respond(http, connection, 200, "text/html; charset=utf-8", "Content-Security-Policy",
                   "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                   "connect-src 'self'; base-uri 'none'; form-action 'none'",
                   &page);
}

/* Shows all models, or the one named in the address. */
static enum MHD_Result show_models(struct sw_http *http, struct MHD_Connection *connection,
                                   const char *rest)
{
    struct sw_chars out = {0};
    char shown[SHOWN_BYTES + 4];
    if (rest != NULL && strcmp(rest, http->options.rules.model) != 0)
        return refuse_with(http, connection, 404, "model_not_found", NULL, NULL,
                           "the model '%s' is not served here; this server has '%.200s'",
                           sw_text_shown(rest, SHOWN_BYTES, shown), http->options.rules.model);
    const int64_t most = http->options.rules.limits.max_tokens;
    const int failed = rest != NULL ? sw_answer_model(&http->answerer, http->started, most, &out)
                                    : sw_answer_models(&http->answerer, http->started, most, &out);
    const enum MHD_Result result =
        failed != 0 ? MHD_NO : respond(http, connection, 200, "application/json", NULL, NULL, &out);
    sw_chars_free(&out);
    return result;
}

static enum MHD_Result show_health(struct sw_http *http, struct MHD_Connection *connection,
                                   const char *rest)
{
    const char *closed = sw_request_queue_closed(http->queue);
    char text[64];
    (void)rest;
    snprintf(text, sizeof text, "{\"status\":\"%s\"}\n", closed == NULL ? "ok" : "draining");
    const struct sw_chars out = {text, strlen(text), 0};
    return respond(http, connection, closed == NULL ? 200 : 503, "application/json", NULL, NULL,
                   &out);
}

static enum MHD_Result show_metrics(struct sw_http *http, struct MHD_Connection *connection,
                                    const char *rest)
{
    const struct sw_request_queue_counts counts = sw_request_queue_counts(http->queue);
    struct sw_chars out = {0};
    (void)rest;
    sw_serve_metrics(&counts, http->options.slots, http->options.rules.limits.max_tokens, &out);
    const enum MHD_Result result = respond(
        http, connection, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, NULL, &out);
    sw_chars_free(&out);
    return result;
}

/* ---- Texts ---- */

static void put_to_sleep(void *connection)
{
    MHD_suspend_connection(connection);
}

void sw_http_wake(void *connection)
{
    MHD_resume_connection(connection);
}

struct stream {
    struct sw_request_queue *queue;
    struct sw_completion *completion;
    struct MHD_Connection *connection;
};

static ssize_t read_stream(void *context, uint64_t at, char *to, size_t most)
{
    const struct stream *s = context;
    (void)at;
    const int64_t n =
        sw_request_queue_read(s->queue, s->completion, to, most, put_to_sleep, s->connection);
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)n;
}

static enum MHD_Result begin_stream(struct sw_http *http, struct MHD_Connection *connection,
                                    struct sw_completion *completion)
{
    struct stream *stream = malloc(sizeof *stream);
    if (stream == NULL)
        return MHD_NO;
    *stream = (struct stream){http->queue, completion, connection};
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, stream, free);
    if (response == NULL) {
        free(stream);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
    allow_pages(http, response);
    const enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

/* Sends a response that is not streamed once it is complete. */
static enum MHD_Result answer(struct sw_http *http, struct MHD_Connection *connection,
                              struct exchange *exchange)
{
    struct sw_completion *completion = exchange->completion;
    if (!sw_request_queue_is_finished(http->queue, completion, put_to_sleep, connection))
        return MHD_YES;
    return completion->out.count == 0 ? MHD_NO /* the client is gone */
                                      : respond(http, connection, completion->status,
                                                "application/json", NULL, NULL, &completion->out);
}

/* Identity: without a server token, the client's own token distinguishes it within its address. */
static struct sw_client_id client_id_of(const struct sw_http *http,
                                        struct MHD_Connection *connection,
                                        const struct sw_client *client)
{
    struct sw_client_id id = {.key = ""};
    const char *shown = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    sw_client_address(client, id.address);
    const size_t length = shown != NULL ? strlen(shown) : 0, size = sizeof id.key;
    if (http->options.token == NULL && length > 0)
        memcpy(id.key, length > size ? shown + length - size : shown,
               length > size ? size : length);
    return id;
}

static enum MHD_Result submit(struct sw_http *http, struct MHD_Connection *connection,
                              struct exchange *exchange)
{
    struct sw_refusal refusal;
    char seconds[16];
    int32_t retry_s = 0;
    struct sw_completion *completion = sw_completion_new(&exchange->body.request);
    if (completion == NULL)
        return MHD_NO;
    const struct sw_client_id id = client_id_of(http, connection, exchange->client);
    const bool streams = completion->request.stream;
    if (sw_request_queue_submit(http->queue, &id, completion, &refusal, &retry_s) != 0) {
        snprintf(seconds, sizeof seconds, "%d", (int)retry_s);
        return refuse(http, connection, &refusal, refusal.status == 400 ? NULL : "Retry-After",
                      seconds);
    }
    exchange->completion = completion;
    sw_client_awaits(http->clients, exchange->client, completion);
    return streams ? begin_stream(http, connection, completion)
                   : answer(http, connection, exchange);
}

/* Handles a complete body, and again after parsing. */
static enum MHD_Result complete(struct sw_http *http, struct MHD_Connection *connection,
                                struct exchange *exchange, enum sw_endpoint endpoint)
{
    struct sw_body *body = &exchange->body;
    if (!exchange->is_read) {
        exchange->is_read = true;
        body->endpoint = endpoint;
        sw_body_reader_add(http->reader, body, put_to_sleep, connection);
    }
    if (!sw_body_reader_is_done(http->reader, body))
        return MHD_YES;
    return body->status == 0 ? submit(http, connection, exchange)
                             : refuse(http, connection, &body->refusal, NULL, NULL);
}

/* ---- Routes ---- */

/* Routes. Except for the page, a path that ends with a slash matches every address beginning with
 * it; `show` gets the rest, else NULL. */
static const struct route {
    const char *path, *method;
    bool is_open; /* true if open without the token */
    enum MHD_Result (*show)(struct sw_http *http, struct MHD_Connection *connection,
                            const char *rest);
    enum sw_endpoint endpoint; /* if `show` is NULL */
} routes[] = {
    {"/", "GET", true, show_page, SW_COMPLETIONS},
    {"/health", "GET", true, show_health, SW_COMPLETIONS},
    {"/metrics", "GET", false, show_metrics, SW_COMPLETIONS},
    {"/v1/models", "GET", false, show_models, SW_COMPLETIONS},
    {"/v1/models/", "GET", false, show_models, SW_COMPLETIONS},
    {"/v1/completions", "POST", false, NULL, SW_COMPLETIONS},
    {"/v1/chat/completions", "POST", false, NULL, SW_CHAT_COMPLETIONS},
};

static bool is_prefix(const struct route *route)
{
    const size_t length = strlen(route->path);
    return length > 1 && route->path[length - 1] == '/';
}

static const struct route *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (is_prefix(&routes[i]) ? strncmp(routes[i].path, path, strlen(routes[i].path)) == 0
                                  : strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

/* Path of a request; for a whole URL, as sent to proxies (RFC 9112, 3.2.2), its host and port go to
 * `authority` [AUTHORITY_BYTES], else "". */
static const char *path_of(const char *url, char *authority)
{
    static const char scheme[] = "http://";
    const size_t begin = sizeof scheme - 1;
    authority[0] = '\0';
    if (strncasecmp(url, scheme, begin) != 0)
        return url;
    const size_t length = strcspn(url + begin, "/");
    snprintf(authority, AUTHORITY_BYTES, "%.*s", (int)length, url + begin);
    return url[begin + length] != '\0' ? url + begin + length : "/";
}

/* Compares in constant time, so that a token cannot be guessed letter by letter. */
static bool is_token(const char *shown, const char *token)
{
    const size_t length = strlen(token), given = strlen(shown);
    unsigned char differs = given != length;
    for (size_t i = 0; i < given; i++)
        differs |= (unsigned char)(shown[i] ^ token[i % length]);
    return differs == 0;
}

static bool may_ask(const struct sw_http *http, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *shown = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    return http->options.token == NULL ||
           (shown != NULL && strncasecmp(shown, scheme, sizeof scheme - 1) == 0 && /* RFC 9110 */
            is_token(shown + sizeof scheme - 1, http->options.token));
}

/* True for requests of other sites: a page in this machine's browser can reach a loopback address
 * and, by a name that its owner points here, even read responses. Such a request has an Origin, or
 * a Host that is no loopback name. */
static bool is_foreign(const struct sw_http *http, struct MHD_Connection *connection,
                       const char *authority)
{
    static const char *const own[] = {"127.", "localhost", "[::1]"};
    const char *host = *authority != '\0'
                           ? authority
                           : MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    if (http->options.token != NULL || http->options.listener->is_file)
        return false;
    bool known = host == NULL || *host == '\0';
    for (size_t i = 0; !known && i < sizeof own / sizeof own[0]; i++)
        known = strncmp(host, own[i], strlen(own[i])) == 0 &&
                (i == 0 ? strspn(host, "0123456789.:") == strlen(host)
                        : host[strlen(own[i])] == ':' || host[strlen(own[i])] == '\0');
    return !known || (origin != NULL && (strncmp(origin, "http://", 7) != 0 || host == NULL ||
                                         strcmp(origin + 7, host) != 0));
}

struct counts {
    int32_t lengths, hosts;
    bool spaced; /* true if a header's name ends in a space, which readers treat differently */
};

static enum MHD_Result count_headers(void *context, enum MHD_ValueKind kind, const char *key,
                                     const char *value)
{
    struct counts *counts = context;
    (void)kind;
    (void)value;
    counts->lengths +=
        strcasecmp(key, "Content-Length") == 0 || strcasecmp(key, "Transfer-Encoding") == 0;
    counts->hosts += strcasecmp(key, "Host") == 0;
    counts->spaced |= strpbrk(key, " \t") != NULL;
    return MHD_YES;
}

/* Refuses ambiguous or repeated headers: a proxy may believe another one, and take bytes after a
 * body for another client's request (RFC 9112, 3.2, 5.1 and 6.3). Returns 1: continue. */
static int check_headers(struct sw_http *http, struct MHD_Connection *connection,
                         enum MHD_Result *result)
{
    struct counts counts = {0};
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_headers, &counts);
    if (counts.lengths > 1)
        *result = refuse_with(http, connection, 400, "ambiguous_length", "Connection", "close",
                              "the length of the body is given %d times; give one Content-Length "
                              "or Transfer-Encoding",
                              (int)counts.lengths);
    else if (counts.hosts > 1)
        *result = refuse_with(http, connection, 400, "ambiguous_host", "Connection", "close",
                              "the host is given %d times; give one", (int)counts.hosts);
    else if (counts.spaced)
        *result = refuse_with(http, connection, 400, "invalid_header", "Connection", "close",
                              "a header's name has a space; write 'NAME: VALUE'");
    else
        return 1;
    return 0;
}

/* Checks the body's size and transfer coding. Returns 1: continue. */
static int check_body(struct sw_http *http, struct MHD_Connection *connection,
                      enum MHD_Result *result)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    const char *coding =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Encoding");
    const char *transfer =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding");
    if (length != NULL && strtoull(length, NULL, 10) > SW_HTTP_BODY_BYTES)
        *result = refuse_with(http, connection, 413, "body_too_large", "Connection", "close",
                              "the body has at most %d bytes", SW_HTTP_BODY_BYTES);
    else if (coding != NULL && strcasecmp(coding, "identity") != 0)
        *result = refuse_with(http, connection, 415, "unsupported_encoding", "Accept-Encoding",
                              "identity", "the body is compressed; send it as it is");
    else if (transfer != NULL && strcasecmp(transfer, "chunked") != 0)
        /* libmicrohttpd would read until the client closes its side */
        *result = refuse_with(http, connection, 415, "unsupported_encoding", "Connection", "close",
                              "the body comes in another Transfer-Encoding than chunked; send it "
                              "in chunks or with a Content-Length");
    else
        return 1;
    return 0;
}

/* Answers a browser's preflight request for another site's page: with a token it may proceed, if it
 * sends it. */
static enum MHD_Result allow_request(const struct sw_http *http, struct MHD_Connection *connection,
                                     const struct route *route)
{
    const char *headers =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (char *)"", MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    allow_pages(http, response);
    (void)MHD_add_response_header(response, "Access-Control-Allow-Methods", route->method);
    (void)MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                  headers != NULL ? headers : "Authorization, Content-Type");
    (void)MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    const enum MHD_Result result = MHD_queue_response(connection, 204, response);
    MHD_destroy_response(response);
    return result;
}

/* Checks the head before the body. Returns 1: continue; else `*result`. */
static int check_head(struct sw_http *http, struct MHD_Connection *connection, const char *url,
                      const char *method, struct exchange *exchange, enum MHD_Result *result)
{
    char authority[AUTHORITY_BYTES];
    const char *path = exchange->path = path_of(url, authority);
    const struct route *route = exchange->route = find_route(path);
    const bool head = strcmp(method, "HEAD") == 0;
    if (check_headers(http, connection, result) == 0)
        return 0;
    if (is_foreign(http, connection, authority))
        *result = refuse_with(http, connection, 403, "foreign_origin", NULL, NULL,
                              "the request comes from a page of another site; start the server "
                              "with --token-file");
    else if (route == NULL)
        *result = refuse_with(http, connection, 404, "not_found", NULL, NULL,
                              "there is nothing at this address; see /v1/models");
    else if (strcmp(method, "OPTIONS") == 0 && http->options.token != NULL)
        *result = allow_request(http, connection, route);
    else if (strcmp(route->method, head ? "GET" : method) != 0)
        *result = refuse_with(http, connection, 405, "method_not_allowed", "Allow", route->method,
                              "%s takes %s", route->path, route->method);
    else if (!route->is_open && !may_ask(http, connection))
        *result =
            refuse_with(http, connection, 401, "invalid_api_key", "WWW-Authenticate", "Bearer",
                        "the token is missing or wrong; send "
                        "'Authorization: Bearer TOKEN'");
    else
        return check_body(http, connection, result);
    return 0;
}

static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t bytes)
{
    exchange->received += bytes;
    if (exchange->received > RUN_OUT_BYTES)
        return MHD_NO;
    if (exchange->received > SW_HTTP_BODY_BYTES)
        return MHD_YES;
    return sw_chars_add(&exchange->body.bytes, data, bytes) == 0 ? MHD_YES : MHD_NO;
}

static struct exchange *begin_exchange(struct sw_http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *exchange = calloc(1, sizeof *exchange);
    (void)http;
    if (exchange == NULL || info == NULL || info->socket_context == NULL) {
        free(exchange);
        return NULL;
    }
    exchange->client = info->socket_context;
    return exchange;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload_data,
                              size_t *upload_bytes, void **of_request)
{
    struct sw_http *http = context;
    struct exchange *exchange = *of_request;
    enum MHD_Result result = MHD_YES;
    if (exchange == NULL) {
        exchange = *of_request = begin_exchange(http, connection);
        if (exchange == NULL)
            return MHD_NO;
        (void)check_head(http, connection, url, method, exchange, &result);
        return result;
    }
    if (*upload_bytes > 0) {
        result = take_body(exchange, upload_data, *upload_bytes);
        *upload_bytes = 0;
        return result;
    }
    if (exchange->completion != NULL)
        return answer(http, connection, exchange);
    sw_client_asked(http->clients, exchange->client, strcmp(version, MHD_HTTP_VERSION_1_1) == 0);
    if (exchange->received > SW_HTTP_BODY_BYTES)
        return refuse_with(http, connection, 413, "body_too_large", NULL, NULL,
                           "the body has at most %d bytes", SW_HTTP_BODY_BYTES);
    const struct route *route = exchange->route;
    return route->show != NULL
               ? route->show(http, connection,
                             is_prefix(route) ? exchange->path + strlen(route->path) : NULL)
               : complete(http, connection, exchange, route->endpoint);
}

static void end_exchange(void *context, struct MHD_Connection *connection, void **of_request,
                         enum MHD_RequestTerminationCode how)
{
    struct sw_http *http = context;
    struct exchange *exchange = *of_request;
    (void)connection;
    (void)how;
    if (exchange == NULL)
        return;
    sw_client_answered(http->clients, exchange->client);
    if (exchange->completion != NULL)
        sw_request_queue_release(http->queue, exchange->completion);
    sw_body_free(&exchange->body);
    free(exchange);
    *of_request = NULL;
}

/* ---- Connections ---- */

static void note_connection(void *context, struct MHD_Connection *connection, void **of_socket,
                            enum MHD_ConnectionNotificationCode what)
{
    struct sw_http *http = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        const union MHD_ConnectionInfo *from =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        *of_socket = fd != NULL ? sw_client_came(http->clients, fd->connect_fd,
                                                 from != NULL ? from->client_addr : NULL)
                                : NULL;
    } else if (*of_socket != NULL) {
        sw_client_left(http->clients, *of_socket);
    }
}

void sw_http_sweep(struct sw_http *http)
{
    sw_clients_sweep(http->clients, http->queue);
}

/* ---- The daemon ---- */

bool sw_http_is_there(struct sw_error *err)
{
    (void)err;
    return true;
}

const char *sw_http_version(void)
{
    return MHD_get_version();
}

static void say_nothing(void *context, const char *format, va_list arguments)
{
    (void)context;
    (void)format;
    (void)arguments;
}

int sw_http_start(const struct sw_http_options *options, struct sw_request_queue *queue,
                  struct sw_http **out, struct sw_error *err)
{
    struct sw_http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the server");
    http->options = *options;
    http->queue = queue;
    http->answerer = (struct sw_answerer){options->rules.codec, options->rules.model};
    http->started = (int64_t)time(NULL);
    http->clients = sw_clients_new(options->connections, options->client_timeout_s);
    if (http->clients != NULL &&
        sw_body_reader_start(&http->options.rules, sw_http_wake, &http->reader, err) == 0 &&
        sw_listener_listen(options->listener, err) == 0)
        http->daemon = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, http,
            MHD_OPTION_LISTEN_SOCKET, (MHD_socket)options->listener->fd, MHD_OPTION_EXTERNAL_LOGGER,
            say_nothing, NULL, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, http,
            MHD_OPTION_NOTIFY_CONNECTION, note_connection, http, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned int)(options->connections + SW_CLIENTS_BURST + LEAVING),
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)(options->client_timeout_s + 1),
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_END);
    if (http->daemon == NULL) {
        sw_body_reader_stop(http->reader);
        sw_body_reader_free(http->reader);
        sw_clients_free(http->clients);
        free(http);
        return sw_fail(err, SW_ENVIRONMENT, "cannot serve at %s: HTTP does not start",
                       options->listener->text);
    }
    options->listener->fd = -1; /* closed with the daemon */
    *out = http;
    return 0;
}

void sw_http_stop(struct sw_http *http)
{
    if (http == NULL)
        return;
    sw_body_reader_stop(http->reader); /* libmicrohttpd requires that no connection sleeps */
    MHD_stop_daemon(http->daemon);
    sw_body_reader_free(http->reader);
    sw_clients_free(http->clients);
    free(http);
}
