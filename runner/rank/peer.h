/* Detects Open MPI's message that a peer's connection ended: its only report, immediate, while its
 * calls wait forever. Reads bytes as they arrive and keeps at most one line. */
#ifndef SW_PEER_H
#define SW_PEER_H

#include <stdbool.h>
#include <stddef.h>

struct sw_peer {
    char line[256];
    size_t used;    /* bytes of the line; an overlong rest is skipped */
    bool gone;      /* true if a peer is gone */
    char host[256]; /* the peer's host; "" until known */
};

/* Starts from zero. True if these bytes complete the message that a peer is gone. */
bool sw_peer_hear(struct sw_peer *peer, const char *bytes, size_t count);

#endif
