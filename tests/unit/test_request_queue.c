/* The queue of requests: who is taken, whose turn it is, who gives a slot up, who is too late; and
 * the sockets that they come over. */
#include "runner/serve/clients.h"
#include "runner/serve/listen.h"
#include "runner/serve/queue.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { SLOTS = 4, QUEUE = 20, MOST = 14 /* of a request: half of the queue and the slots */ };

static void wake(void *connection)
{
    ++*(int *)connection;
}

static void sleep_on(void *connection)
{
    (void)connection;
}

static struct sw_request_queue *new_queue(void)
{
    struct sw_request_queue *queue = NULL;
    struct sw_error err = {0};
    assert_int_equal(sw_request_queue_create(SLOTS, QUEUE, wake, &queue, &err), 0);
    return queue;
}

/* A request of one prompt and n texts, of the client with this key. */
static struct sw_completion *new_completion(int64_t n)
{
    struct sw_api_request request = {.prompt_count = 1, .params = sw_sampling_params_default()};
    request.params.n = n;
    request.prompt = calloc(1, sizeof *request.prompt);
    assert_non_null(request.prompt);
    struct sw_completion *completion = sw_completion_new(&request);
    assert_non_null(completion);
    return completion;
}

static struct sw_completion *submit(struct sw_request_queue *queue, const char *key, int64_t n)
{
    struct sw_client_id client = {.key = ""};
    struct sw_completion *completion = new_completion(n);
    struct sw_refusal refusal;
    int32_t retry_s = 0;
    memcpy(client.key, key, strlen(key));
    assert_int_equal(sw_request_queue_submit(queue, &client, completion, &refusal, &retry_s), 0);
    return completion;
}

static void refuse(struct sw_request_queue *queue, const char *key, int64_t n, int32_t status,
                   const char *code, const char *message)
{
    struct sw_client_id client = {.key = ""};
    struct sw_refusal refusal;
    int32_t retry_s = 0;
    memcpy(client.key, key, strlen(key));
    assert_int_equal(sw_request_queue_submit(queue, &client, new_completion(n), &refusal, &retry_s),
                     -1);
    assert_int_equal(refusal.status, status);
    assert_string_equal(refusal.code, code);
    assert_string_equal(refusal.err.message, message);
    assert_true(retry_s >= 1 && retry_s <= 60);
}

static struct sw_completion_sequence *take(struct sw_request_queue *queue,
                                           struct sw_completion *wanted)
{
    struct sw_completion *completion = NULL;
    struct sw_completion_sequence *text = sw_request_queue_next(queue, &completion);
    assert_non_null(text);
    assert_ptr_equal(completion, wanted);
    assert_int_equal(text->stage, SW_SEQUENCE_RUNS);
    return text;
}

static void forget(void *context, struct sw_completion_sequence *text)
{
    (void)text;
    ++*(int *)context;
}

static void texts_are_counted_not_requests(void **state)
{
    struct sw_request_queue *queue = new_queue();
    (void)state;
    refuse(queue, "a", MOST + 1, 400, "too_many_sequences",
           "15 sequences; a request has at most 14 here, half of --queue and the slots");
    (void)submit(queue, "a", MOST); /* four have slots at once, ten wait */
    struct sw_completion *completion = NULL;
    for (int32_t i = 0; i < SLOTS; i++)
        assert_non_null(sw_request_queue_next(queue, &completion));
    refuse(queue, "a", 1, 429, "queue_full",
           "10 sequences of yours wait already; try again in 3 s");
    (void)submit(queue, "b", 9);
    refuse(queue, "c", 2, 503, "queue_full", "19 sequences wait already; try again in 5 s");
    (void)submit(queue, "c", 1);
    assert_int_equal(sw_request_queue_counts(queue).waiting, QUEUE);
    assert_int_equal(sw_request_queue_counts(queue).busy, 2);
    sw_request_queue_close(queue, "the server is stopping");
    refuse(queue, "d", 1, 503, "draining", "the server is stopping");
    sw_request_queue_free(queue);
}

static void clients_take_turns(void **state)
{
    struct sw_request_queue *queue = new_queue();
    (void)state;
    struct sw_completion *a = submit(queue, "a", 8), *more = submit(queue, "a", 2);
    (void)take(queue, a);
    (void)take(queue, a);
    struct sw_completion *b = submit(queue, "b", 3);
    /* who has fewest; of equals who was served longest ago */
    (void)take(queue, b);
    struct sw_completion_sequence *second = take(queue, b);
    (void)take(queue, a);
    (void)take(queue, b);
    sw_request_queue_ended(queue, b, second);
    for (int32_t i = 0; i < 5; i++)
        (void)take(queue, a);
    (void)take(queue, more);
    sw_request_queue_free(queue);
}

static void who_had_none_goes_ahead(void **state)
{
    struct sw_request_queue *queue = new_queue();
    (void)state;
    struct sw_completion *a = submit(queue, "a", 3);
    assert_true(take(queue, a)->ahead);
    assert_false(take(queue, a)->ahead);
    struct sw_completion *b = submit(queue, "b", 1);
    assert_true(take(queue, b)->ahead);
    assert_false(take(queue, a)->ahead);
    sw_request_queue_free(queue);
}

static void calls_are_counted_from_a_request_on(void **state)
{
    struct sw_request_queue *queue = new_queue();
    (void)state;
    struct sw_completion *a = submit(queue, "a", 1);
    sw_request_queue_count_token(queue, a, true, 0); /* in the first call that runs */
    sw_request_queue_count_call(queue);
    assert_int_equal(sw_request_queue_counts(queue).first_token_calls, 1);
    sw_request_queue_count_call(queue);
    struct sw_completion *b = submit(queue, "b", 1);
    sw_request_queue_count_call(queue);
    sw_request_queue_count_call(queue);
    sw_request_queue_count_token(queue, a, false, 0.5);
    sw_request_queue_count_token(queue, b, true, 0);
    sw_request_queue_count_call(queue);
    assert_int_equal(sw_request_queue_counts(queue).first_token_calls, 1 + 3);
    assert_int_equal(sw_request_queue_counts(queue).calls, 5);
    assert_int_equal(sw_request_queue_counts(queue).first_token.count, 2);
    assert_int_equal(sw_request_queue_counts(queue).token.count, 1);
    sw_request_queue_free(queue);
}

static void who_has_none_gets_a_slot(void **state)
{
    struct sw_request_queue *queue = new_queue();
    struct sw_completion_sequence *held[SLOTS];
    (void)state;
    struct sw_completion *a = submit(queue, "a", 8);
    for (int32_t i = 0; i < SLOTS; i++) {
        held[i] = take(queue, a);
        held[i]->generation.count = 10 + i % 3; /* as long as that */
    }
    assert_null(sw_request_queue_yield(queue)); /* nobody else waits */
    struct sw_completion *b = submit(queue, "b", 2);
    assert_ptr_equal(sw_request_queue_yield(queue), held[3]); /* the newest of the shortest */
    assert_int_equal(held[3]->stage, SW_SEQUENCE_WAITS);
    (void)take(queue, b);
    assert_null(sw_request_queue_yield(queue)); /* b has one */
    struct sw_completion *c = submit(queue, "c", 1), *d = submit(queue, "d", 1);
    assert_ptr_equal(sw_request_queue_yield(queue), held[0]);
    (void)take(queue, c);
    assert_ptr_equal(sw_request_queue_yield(queue), held[1]);
    (void)take(queue, d);
    (void)submit(queue, "e", 1);
    assert_null(sw_request_queue_yield(queue)); /* each has one */
    held[0]->generation = held[1]->generation = held[2]->generation = held[3]->generation =
        (struct sw_generation){0};
    const struct sw_request_queue_counts counts = sw_request_queue_counts(queue);
    assert_int_equal(counts.yielded, 3);
    assert_int_equal(counts.running, SLOTS);
    assert_int_equal(counts.sequences, 7);
    sw_request_queue_free(queue);
}

static void who_is_late_is_told(void **state)
{
    static const char wanted[] =
        "{\"error\":{\"message\":\"the answer was not complete within 2 s, the server's "
        "--deadline\","
        "\"type\":\"server_error\",\"param\":null,\"code\":\"deadline\"}}\n";
    struct sw_request_queue *queue = new_queue();
    int woken = 0, dropped = 0;
    (void)state;
    struct sw_completion *old = submit(queue, "a", 3), *young = submit(queue, "a", 1);
    (void)take(queue, old);
    sw_request_queue_count_tokens(queue, 9, 0, 4, 13);
    assert_int_equal(sw_request_queue_counts(queue).cached, 13);
    old->arrived_s -= 2.5;
    assert_false(sw_request_queue_is_finished(queue, old, sleep_on, &woken));
    sw_request_queue_expire(queue, 2);
    assert_true(old->finished);
    assert_false(young->finished);
    assert_int_equal(woken, 1);
    assert_int_equal(old->status, 504);
    assert_int_equal(old->out.count, sizeof wanted - 1);
    assert_memory_equal(old->out.byte, wanted, sizeof wanted - 1);
    sw_request_queue_reap(queue, forget, &dropped);
    assert_int_equal(dropped, 1);
    const struct sw_request_queue_counts counts = sw_request_queue_counts(queue);
    assert_int_equal(counts.late, 1);
    assert_int_equal(counts.waiting, 1);
    assert_int_equal(counts.running, 0);
    assert_int_equal(counts.cached, 0); /* before the engine counts again */
    sw_request_queue_release(queue, old);
    sw_request_queue_reap(queue, forget, &dropped);
    (void)take(queue, young);
    sw_request_queue_free(queue);
}

/* A request ends in one way, and is counted once; how long an answer took says nothing of others.
 */
static void an_end_is_counted_once(void **state)
{
    static const struct sw_chars nothing = {0};
    const struct sw_refusal stopping = {.status = 503, .type = "server_error"};
    struct sw_request_queue *queue = new_queue();
    int dropped = 0;
    (void)state;
    sw_request_queue_write(queue, submit(queue, "a", 1), &nothing, true, 200);
    sw_request_queue_gone(queue, submit(queue, "a", 1));
    sw_request_queue_release(queue, submit(queue, "a", 1)); /* its connection ended first */
    sw_request_queue_reap(queue, forget, &dropped);
    struct sw_completion *left = submit(queue, "a", 1), *seen = submit(queue, "a", 1),
                         *old = submit(queue, "b", 1);
    sw_request_queue_release(queue, left); /* while the engine ends it */
    sw_request_queue_write(queue, left, &nothing, true, 200);
    sw_request_queue_release(queue, seen); /* while its client is found to be gone */
    sw_request_queue_gone(queue, seen);
    old->arrived_s -= 9;
    sw_request_queue_release(queue, old);
    sw_request_queue_expire(queue, 5);
    sw_request_queue_reap(queue, forget, &dropped);
    submit(queue, "b", 1)->arrived_s -= 9;
    sw_request_queue_expire(queue, 5);
    sw_request_queue_write(queue, submit(queue, "a", 1), &nothing, true, 500);
    (void)submit(queue, "b", 1);
    sw_request_queue_fail(queue, &stopping);
    const struct sw_request_queue_counts counts = sw_request_queue_counts(queue);
    assert_int_equal(counts.requests, 9);
    assert_int_equal(counts.answered, 1);
    assert_int_equal(counts.answer.count, 1);
    assert_int_equal(counts.gone, 5);
    assert_int_equal(counts.late, 1);
    assert_int_equal(counts.failed, 2);
    sw_request_queue_free(queue);
}

/* A stream keeps what its client has yet to get, not all that it ever got. */
static void a_stream_keeps_what_is_not_sent(void **state)
{
    enum { BYTES = 1000, TIMES = 5000 };
    struct sw_request_queue *queue = new_queue();
    struct sw_completion *completion = submit(queue, "a", 1);
    int woken = 0;
    int64_t read = 0;
    (void)state;
    completion->request.stream = true;
    for (int64_t written = 0; written < BYTES * TIMES; written += BYTES) {
        char text[BYTES], got[BYTES];
        for (int64_t i = 0; i < BYTES; i++)
            text[i] = (char)((written + i) % 251);
        const struct sw_chars bytes = {text, BYTES, BYTES};
        sw_request_queue_write(queue, completion, &bytes, false, 200);
        /* some blocks behind */
        const int64_t n = written < 9 * BYTES ? 0
                                              : sw_request_queue_read(queue, completion, got, BYTES,
                                                                      sleep_on, &woken);
        for (int64_t i = 0; i < n; i++)
            assert_int_equal((unsigned char)got[i], (read + i) % 251);
        read += n;
    }
    assert_int_equal(read, BYTES * (TIMES - 9));
    assert_true(completion->out.capacity < 64 * BYTES);
    sw_request_queue_free(queue);
}

/* A token that waited for the acknowledgement of the one before would come 40 ms late. */
static void a_token_waits_for_no_acknowledgement(void **state)
{
    struct sw_listener listener;
    struct sw_error err = {0};
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    int no_delay = 0;
    (void)state;
    assert_int_equal(sw_listener_bind("127.0.0.1:0", &listener, &err), 0);
    assert_int_equal(sw_listener_listen(&listener, &err), 0);
    assert_int_equal(getsockname(listener.fd, (struct sockaddr *)&at, &size), 0);
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&at, size), 0);
    const int accepted = accept(listener.fd, NULL, NULL);
    assert_true(accepted >= 0);
    size = sizeof no_delay;
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
    assert_int_not_equal(no_delay, 0);
    (void)close(accepted);
    (void)close(client);
    sw_listener_close(&listener);
}

enum { CONNECTIONS = 8 };
struct connection {
    int own, peer;
    struct sw_client *client;
};

static struct connection connect_from(struct sw_clients *clients, uint32_t address)
{
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    return (struct connection){pair[0], pair[1],
                               sw_client_came(clients, pair[0], (const struct sockaddr *)&from)};
}

static bool is_hung_up_on(const struct connection *c)
{
    struct pollfd at = {.fd = c->peer, .events = POLLIN};
    return poll(&at, 1, 0) > 0 && (at.revents & POLLHUP) != 0;
}

static void end_connection(struct sw_clients *clients, const struct connection *c)
{
    sw_client_left(clients, c->client);
    (void)close(c->own);
    (void)close(c->peer);
}

/* Many that come at once are clients whose requests are on their way. Who is to go where there is
 * no room is one that was answered and has closed its side, then who said nothing for longest. */
static void a_burst_of_clients_is_let_in(void **state)
{
    enum { MOST = CONNECTIONS + SW_CLIENTS_BURST };
    struct sw_clients *clients = sw_clients_new(CONNECTIONS, 30);
    struct connection all[MOST + 3];
    (void)state;
    assert_non_null(clients);
    for (int32_t i = 0; i < MOST; i++)
        all[i] = connect_from(clients, 0x7f000001u);
    for (int32_t i = 0; i < MOST; i++)
        assert_false(is_hung_up_on(&all[i]));
    sw_client_asked(clients, all[5].client, true);
    sw_client_answered(clients, all[5].client);
    sw_client_asked(clients, all[0].client, true);
    (void)shutdown(all[5].peer, SHUT_WR);
    all[MOST] = connect_from(clients, 0x7f000001u);
    assert_true(is_hung_up_on(&all[5]));
    all[MOST + 1] = connect_from(clients, 0x7f000001u);
    assert_true(is_hung_up_on(&all[1]));
    all[MOST + 2] = connect_from(clients, 0x7f000002u); /* another machine's */
    assert_true(is_hung_up_on(&all[2]));
    for (int32_t i = 0; i < MOST + 3; i++) {
        assert_int_equal(is_hung_up_on(&all[i]), i == 1 || i == 2 || i == 5);
        end_connection(clients, &all[i]);
    }
    sw_clients_free(clients);
}

/* One address that has more than half of the connections costs no other one its own. */
static void a_burst_of_one_address_pushes_nobody_out(void **state)
{
    enum { OTHERS = CONNECTIONS / 2 - 1, BURST = CONNECTIONS };
    struct sw_clients *clients = sw_clients_new(CONNECTIONS, 30);
    struct connection other[OTHERS], burst[BURST];
    (void)state;
    assert_non_null(clients);
    for (int32_t i = 0; i < OTHERS; i++)
        other[i] = connect_from(clients, 0x7f000001u);
    (void)usleep(1100000); /* older than a burst */
    for (int32_t i = 0; i < BURST; i++)
        burst[i] = connect_from(clients, 0x7f000002u);
    for (int32_t i = 0; i < OTHERS; i++) {
        assert_false(is_hung_up_on(&other[i]));
        end_connection(clients, &other[i]);
    }
    for (int32_t i = 0; i < BURST; i++)
        end_connection(clients, &burst[i]);
    sw_clients_free(clients);
}

/* By a socket of IPv6, too, each machine of IPv4 is a client of its own. */
static void an_address_is_the_same_by_ipv6(void **state)
{
    struct sw_clients *clients = sw_clients_new(CONNECTIONS, 30);
    const struct connection four = connect_from(clients, 0x7f000001u);
    unsigned char wanted[8], got[8];
    (void)state;
    sw_client_address(four.client, wanted);
    for (uint8_t last = 1; last < 3; last++) {
        struct sockaddr_in6 from = {.sin6_family = AF_INET6};
        const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = last};
        int pair[2];
        memcpy(&from.sin6_addr, mapped, sizeof mapped);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct sw_client *client = sw_client_came(clients, pair[0], (struct sockaddr *)&from);
        sw_client_address(client, got);
        assert_int_equal(memcmp(got, wanted, sizeof got) == 0, last == 1);
        sw_client_left(clients, client);
        (void)close(pair[0]);
        (void)close(pair[1]);
    }
    end_connection(clients, &four);
    sw_clients_free(clients);
}

/* Servers that are begun at once load their models between the two calls. */
static void one_server_has_an_address(void **state)
{
    struct sw_listener first, second;
    struct sw_error err = {0};
    char wanted[600], *port;
    (void)state;
    assert_int_equal(sw_listener_bind("127.0.0.1:0", &first, &err), 0);
    port = strrchr(first.text, ':') + 1;
    assert_int_equal(sw_listener_bind(port, &second, &err), 0);
    assert_int_equal(sw_listener_listen(&first, &err), 0);
    assert_int_equal(sw_listener_listen(&second, &err), -1);
    snprintf(wanted, sizeof wanted,
             "cannot listen at '%s': Address already in use; end what listens there, or name "
             "another port (0: a free one) with --listen",
             first.text);
    assert_string_equal(err.message, wanted);
    assert_int_equal(second.fd, -1);
    sw_listener_close(&second);
    sw_listener_close(&first);
}

/* What a server that loads its model has is not left behind; what another has is not taken away. */
static void a_socket_is_its_servers(void **state)
{
    static const char path[] = "test_request_queue.socket", at[] = "unix:test_request_queue.socket";
    struct sw_listener first, second, third;
    struct sw_error err = {0};
    (void)state;
    (void)unlink(path);
    assert_int_equal(sw_listener_bind(at, &first, &err), 0);
    assert_int_equal(sw_listener_bind(at, &second, &err), -1);
    assert_string_equal(err.message, "cannot listen at 'unix:test_request_queue.socket': Address "
                                     "already in use; end what listens there, or name another "
                                     "socket with --listen");
    sw_listener_close(&second);
    assert_int_equal(access(path, F_OK), 0);
    (void)unlink(path);
    err = (struct sw_error){0};
    assert_int_equal(sw_listener_bind(at, &third, &err), 0);
    sw_listener_close(&first);
    assert_int_equal(access(path, F_OK), 0);
    (void)close(third.fd); /* as one that is killed leaves it */
    third.fd = -1;
    assert_int_equal(sw_listener_bind(at, &second, &err), 0);
    sw_listener_close(&third);
    assert_int_equal(access(path, F_OK), 0);
    sw_listener_close(&second);
    assert_int_not_equal(access(path, F_OK), 0);
}

struct starter {
    pthread_barrier_t *together;
    struct sw_listener listener;
    struct sw_error err;
    int status;
};

static void *bind_at_once(void *context)
{
    struct starter *s = context;
    (void)pthread_barrier_wait(s->together);
    s->status = sw_listener_bind("unix:test_request_queue.at_once", &s->listener, &s->err);
    return NULL;
}

/* Of servers that begin at once where one was killed, or where none was, one has the socket. */
static void servers_that_begin_at_once(void **state)
{
    enum { SERVERS = 4, ROUNDS = 150 };
    struct starter starter[SERVERS];
    pthread_barrier_t together;
    (void)state;
    (void)unlink("test_request_queue.at_once");
    assert_int_equal(pthread_barrier_init(&together, NULL, SERVERS), 0);
    for (int32_t round = 0; round < ROUNDS; round++) {
        pthread_t thread[SERVERS];
        struct starter *has = NULL;
        for (int32_t i = 0; i < SERVERS; i++) {
            starter[i] = (struct starter){.together = &together};
            assert_int_equal(pthread_create(&thread[i], NULL, bind_at_once, &starter[i]), 0);
        }
        for (int32_t i = 0; i < SERVERS; i++) {
            assert_int_equal(pthread_join(thread[i], NULL), 0);
            if (starter[i].status != 0)
                continue;
            assert_null(has);
            has = &starter[i];
        }
        assert_non_null(has);
        if (round % 3 > 0) { /* as one that is killed leaves it */
            (void)close(has->listener.fd);
            has->listener = (struct sw_listener){.fd = -1};
        }
        for (int32_t i = 0; i < SERVERS; i++)
            sw_listener_close(&starter[i].listener);
    }
    (void)unlink("test_request_queue.at_once");
    (void)pthread_barrier_destroy(&together);
}

/* What is shown of an address that is no UTF-8, and a text that is cut within a character. */
static void an_error_is_always_json(void **state)
{
    static const char wanted[] = "{\"error\":{\"message\":\"no '\xef\xbf\xbd'\","
                                 "\"type\":\"server_error\",\"param\":null,\"code\":null}}\n";
    const struct sw_refusal refusal = {.type = "server_error", .err.message = "no '\xe2\x82'"};
    struct sw_chars out = {0};
    (void)state;
    assert_int_equal(sw_answer_error(&refusal, false, &out), 0);
    assert_int_equal(out.count, sizeof wanted - 1);
    assert_memory_equal(out.byte, wanted, sizeof wanted - 1);
    sw_chars_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_waits_for_no_acknowledgement),
        cmocka_unit_test(a_burst_of_clients_is_let_in),
        cmocka_unit_test(a_burst_of_one_address_pushes_nobody_out),
        cmocka_unit_test(an_address_is_the_same_by_ipv6),
        cmocka_unit_test(one_server_has_an_address),
        cmocka_unit_test(a_socket_is_its_servers),
        cmocka_unit_test(servers_that_begin_at_once),
        cmocka_unit_test(an_error_is_always_json),
        cmocka_unit_test(texts_are_counted_not_requests),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(who_had_none_goes_ahead),
        cmocka_unit_test(calls_are_counted_from_a_request_on),
        cmocka_unit_test(who_has_none_gets_a_slot),
        cmocka_unit_test(who_is_late_is_told),
        cmocka_unit_test(an_end_is_counted_once),
        cmocka_unit_test(a_stream_keeps_what_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
