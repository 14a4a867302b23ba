/* Connections, from when they come to when they end: whose request is not whole yet, whose client
 * is gone. Knows sockets, nothing of HTTP but its interim answer.
 *
 * Whoever opens connections and says nothing shuts nobody out: an address has at most half of them
 * in that state, and when all are taken the one that has said nothing for longest makes room. An
 * address is an IPv4 address, the first 64 bits of an IPv6 one, or "this machine" for sockets in
 * the file system. */
#ifndef SW_SERVE_CLIENTS_H
#define SW_SERVE_CLIENTS_H

#include "runner/serve/queue.h"

#include <sys/socket.h>

struct sw_client;
struct sw_clients;

enum { SW_CLIENTS_BURST = 32 }; /* beyond `connections`, of those that come at once */

/* connections: that may be open; timeout_s: for a request to arrive, and between two of a
 * connection. NULL: no memory. Owns the clients. */
struct sw_clients *sw_clients_new(int32_t connections, double timeout_s);
void sw_clients_free(struct sw_clients *clients); /* NULL: nothing; nobody is connected any more */

/* ---- The thread of HTTP ---- */

/* A connection came, from `address` (NULL: not known). NULL: no memory. */
struct sw_client *sw_client_came(struct sw_clients *clients, int fd,
                                 const struct sockaddr *address);
void sw_client_left(struct sw_clients *clients, struct sw_client *client);
/* Its address, as above. */
void sw_client_address(const struct sw_client *client, unsigned char to[8]);
/* Its request is whole; takes_interim: it knows answers "100 Continue", as HTTP/1.1 does. */
void sw_client_asked(struct sw_clients *clients, struct sw_client *client, bool takes_interim);
/* This is what it waits for. */
void sw_client_awaits(struct sw_clients *clients, struct sw_client *client,
                      struct sw_completion *completion);
/* It has its answer. */
void sw_client_answered(struct sw_clients *clients, struct sw_client *client);

/* ---- The thread that runs the programs ---- */

/* Hangs up on clients that are too slow and tells the queue which are gone. One that has closed its
 * side may still read: it is sent what means nothing (an interim answer, a comment of a stream),
 * and is gone when that comes back. */
void sw_clients_sweep(struct sw_clients *clients, struct sw_request_queue *queue);

#endif
