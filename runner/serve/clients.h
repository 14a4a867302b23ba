/* Connections from start to end: incomplete requests, clients that disconnect. Knows sockets, and
 * of HTTP only the interim response.
 *
 * Idle connections shut no client out: an address has at most half of them, and when all are taken,
 * the one idle longest is closed. An address is an IPv4 address, the first 64 bits of an IPv6 one,
 * or "this machine" for sockets in the file system. */
#ifndef SW_SERVE_CLIENTS_H
#define SW_SERVE_CLIENTS_H

#include "runner/serve/queue.h"

#include <sys/socket.h>

struct sw_client;
struct sw_clients;

enum { SW_CLIENTS_BURST = 32 }; /* further connections, for simultaneous arrivals */

/* connections: maximum open; timeout_s: for a request to arrive, and between two of a connection.
 * NULL: no memory. Owns the clients. */
struct sw_clients *sw_clients_new(int32_t connections, double timeout_s);
void sw_clients_free(struct sw_clients *clients); /* NULL: nothing; all must have left */

/* ---- The thread of HTTP ---- */

/* Adds a connection from `address` (NULL: unknown). NULL: no memory. */
struct sw_client *sw_client_came(struct sw_clients *clients, int fd,
                                 const struct sockaddr *address);
void sw_client_left(struct sw_clients *clients, struct sw_client *client);
/* The client's address, as above. */
void sw_client_address(const struct sw_client *client, unsigned char to[8]);
/* Marks its request as complete; takes_interim: true if it understands "100 Continue", as HTTP/1.1
 * does. */
void sw_client_asked(struct sw_clients *clients, struct sw_client *client, bool takes_interim);
/* Sets the completion it waits for. */
void sw_client_awaits(struct sw_clients *clients, struct sw_client *client,
                      struct sw_completion *completion);
/* Marks it as answered. */
void sw_client_answered(struct sw_clients *clients, struct sw_client *client);

/* ---- The thread that runs the programs ---- */

/* Disconnects slow clients and tells the queue which clients are gone. One that closed its sending
 * side may still read: it is sent meaningless bytes (an interim response, a stream comment), and is
 * gone if those are rejected. */
void sw_clients_sweep(struct sw_clients *clients, struct sw_request_queue *queue);

#endif
