#include "runner/serve/clients.h"

#include "core/base/clock.h"

#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const double burst_s = 1; /* time in which simultaneous clients' requests arrive */
enum { ADDRESS_BYTES = 8, PROBES = 3, MOST_PROBE_S = 32767 /* Linux's limit */ };

struct sw_client {
    struct sw_client *previous, *next;
    int fd;
    unsigned char address[ADDRESS_BYTES]; /* zeros: the file system's, or unknown */
    double since_s;                       /* time of arrival, or of its latest response's end */
    bool asked;                           /* its request is complete */
    bool answered;                        /* it was answered before */
    bool hung_up;                         /* its connection is being closed */
    bool takes_interim;                   /* it accepts interim responses */
    bool probed;                          /* it was probed since it closed its side */
    struct sw_completion *completion;
};

struct sw_clients {
    pthread_mutex_t mutex; /* guards all below; locked before the queue's */
    struct sw_client *first;
    int32_t count, connections;
    double timeout_s;
};

struct sw_clients *sw_clients_new(int32_t connections, double timeout_s)
{
    struct sw_clients *clients = calloc(1, sizeof *clients);
    if (clients == NULL)
        return NULL;
    clients->connections = connections;
    clients->timeout_s = timeout_s;
    (void)pthread_mutex_init(&clients->mutex, NULL);
    return clients;
}

void sw_clients_free(struct sw_clients *clients)
{
    if (clients == NULL)
        return;
    (void)pthread_mutex_destroy(&clients->mutex);
    free(clients);
}

/* ---- The thread of HTTP ---- */

/* Stores the address. An IPv6 socket also accepts IPv4 clients, with addresses after ten bytes of
 * zeros and two of ones (RFC 4291, 2.5.5.2), treated as IPv4. */
static void note_address(struct sw_client *client, const struct sockaddr *address)
{
    const struct in6_addr *six = NULL;
    if (address != NULL && address->sa_family == AF_INET)
        memcpy(client->address, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    if (address != NULL && address->sa_family == AF_INET6)
        six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (six != NULL && IN6_IS_ADDR_V4MAPPED(six))
        memcpy(client->address, six->s6_addr + 12, 4);
    else if (six != NULL)
        memcpy(client->address, six, ADDRESS_BYTES);
}

static void hang_up(struct sw_client *client)
{
    client->hung_up = true;
    (void)shutdown(client->fd, SHUT_RDWR);
}

/* Client idle longest, from `address` (NULL: any); *count: number of idle clients. */
static struct sw_client *oldest_silent(const struct sw_clients *clients,
                                       const unsigned char *address, int32_t *count)
{
    struct sw_client *oldest = NULL;
    *count = 0;
    for (struct sw_client *c = clients->first; c != NULL; c = c->next) {
        if (c->asked || c->hung_up ||
            (address != NULL && memcmp(c->address, address, ADDRESS_BYTES) != 0))
            continue;
        ++*count;
        if (oldest == NULL || c->since_s < oldest->since_s)
            oldest = c;
    }
    return oldest;
}

static short state_of(const struct sw_client *client)
{
    struct pollfd from = {.fd = client->fd, .events = POLLRDHUP};
    return poll(&from, 1, 0) > 0 ? from.revents : 0;
}

/* Answered client that closed its side, not yet noticed by the HTTP thread. */
static struct sw_client *find_over(const struct sw_clients *clients)
{
    struct sw_client *c = clients->first;
    while (c != NULL && (c->asked || c->hung_up || !c->answered || state_of(c) == 0))
        c = c->next;
    return c;
}

/* Makes room: simultaneous clients may exceed `connections` by SW_CLIENTS_BURST, since their
 * requests are on the way. An address with more than half displaces only its own. */
static void make_room(const struct sw_clients *clients, const unsigned char *address)
{
    const bool full = clients->count >= clients->connections,
               packed = clients->count >= clients->connections + SW_CLIENTS_BURST;
    const double before_s = packed ? INFINITY : sw_clock_now() - burst_s;
    int32_t of_address, of_all;
    struct sw_client *over = full ? find_over(clients) : NULL;
    struct sw_client *own = oldest_silent(clients, address, &of_address);
    const bool most = own != NULL && of_address > clients->connections / 2;
    struct sw_client *one = most ? own : full ? oldest_silent(clients, NULL, &of_all) : NULL;
    if (over != NULL)
        hang_up(over);
    else if (one != NULL && one->since_s < before_s)
        hang_up(one);
}

/* Has the system probe a silent client after half of the time, and close its connection after all
 * of it without acknowledgements (tcp(7)): a machine that died sends nothing. state_of() sees the
 * result. */
static void ask_if_there(int fd, double seconds)
{
    const double half = fmin(seconds / 2, MOST_PROBE_S);
    const int on = 1, probes = PROBES, idle_s = half < 1 ? 1 : (int)half,
              each_s = idle_s < PROBES ? 1 : idle_s / PROBES;
    const unsigned int most_ms = (unsigned int)(seconds * 1e3);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof each_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

struct sw_client *sw_client_came(struct sw_clients *clients, int fd, const struct sockaddr *address)
{
    struct sw_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    client->fd = fd;
    client->since_s = sw_clock_now();
    note_address(client, address);
    if (address != NULL && (address->sa_family == AF_INET || address->sa_family == AF_INET6))
        ask_if_there(fd, clients->timeout_s);
    pthread_mutex_lock(&clients->mutex);
    make_room(clients, client->address);
    client->next = clients->first;
    if (client->next != NULL)
        client->next->previous = client;
    clients->first = client;
    clients->count++;
    pthread_mutex_unlock(&clients->mutex);
    return client;
}

void sw_client_address(const struct sw_client *client, unsigned char to[ADDRESS_BYTES])
{
    memcpy(to, client->address, ADDRESS_BYTES);
}

void sw_client_left(struct sw_clients *clients, struct sw_client *client)
{
    pthread_mutex_lock(&clients->mutex);
    if (client->next != NULL)
        client->next->previous = client->previous;
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        clients->first = client->next;
    clients->count--;
    pthread_mutex_unlock(&clients->mutex);
    free(client);
}

void sw_client_asked(struct sw_clients *clients, struct sw_client *client, bool takes_interim)
{
    pthread_mutex_lock(&clients->mutex);
    client->asked = true;
    client->takes_interim = takes_interim;
    pthread_mutex_unlock(&clients->mutex);
}

void sw_client_awaits(struct sw_clients *clients, struct sw_client *client,
                      struct sw_completion *completion)
{
    pthread_mutex_lock(&clients->mutex);
    client->completion = completion;
    client->probed = false;
    pthread_mutex_unlock(&clients->mutex);
}

void sw_client_answered(struct sw_clients *clients, struct sw_client *client)
{
    pthread_mutex_lock(&clients->mutex);
    client->asked = false;
    client->answered = true;
    client->completion = NULL;
    client->since_s = sw_clock_now();
    pthread_mutex_unlock(&clients->mutex);
}

/* ---- The thread that runs the programs ---- */

/* True if the client is gone. One that closed its side is sent, once, bytes that readers ignore,
 * and to which the system of a gone one objects: an interim response (RFC 9110), or a stream's
 * comment line with a colon (server-sent events). Not after a response: only this thread sets
 * `finished`. *comment: true if a comment is to be sent. */
static bool is_gone(struct sw_client *client, bool *comment)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    short state = state_of(client);
    *comment = false;
    if ((state & POLLRDHUP) != 0 && (state & (POLLHUP | POLLERR)) == 0 && !client->probed &&
        !client->completion->finished) {
        client->probed = true;
        *comment = client->completion->request.stream;
        if (!*comment && client->takes_interim) {
            (void)send(client->fd, interim, sizeof interim - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            state = state_of(client); /* on this machine the result is immediate */
        }
    }
    return (state & (POLLHUP | POLLERR)) != 0;
}

/* First completion whose client is gone or gets a comment; only this thread frees completions. */
static struct sw_completion *look(struct sw_clients *clients, bool *comment)
{
    const double now = sw_clock_now();
    struct sw_completion *found = NULL;
    *comment = false;
    pthread_mutex_lock(&clients->mutex);
    for (struct sw_client *c = clients->first; c != NULL && found == NULL; c = c->next) {
        if (!c->asked && !c->hung_up && now - c->since_s > clients->timeout_s)
            hang_up(c);
        if (c->completion != NULL && is_gone(c, comment)) {
            found = c->completion;
            c->completion = NULL;
        } else if (*comment) {
            found = c->completion;
        }
    }
    pthread_mutex_unlock(&clients->mutex);
    return found;
}

void sw_clients_sweep(struct sw_clients *clients, struct sw_request_queue *queue)
{
    char text[] = ":\n\n";
    const struct sw_chars bytes = {text, sizeof text - 1, 0};
    bool comment;
    for (struct sw_completion *found; (found = look(clients, &comment)) != NULL;)
        if (comment)
            sw_request_queue_write(queue, found, &bytes, false, 200);
        else
            sw_request_queue_gone(queue, found);
}
