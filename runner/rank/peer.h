/* What Open MPI prints when a peer's connection ends: the only word that it says of it, and it says
 * it at once, while its calls wait for ever. Takes bytes as they come, keeps no more than a line.
 */
#ifndef SW_PEER_H
#define SW_PEER_H

#include <stdbool.h>
#include <stddef.h>

struct sw_peer {
    char line[256];
    size_t used;    /* of it; more than there is room for: the rest of the line is passed over */
    bool gone;      /* a peer is */
    char host[256]; /* its host; "" until it was said */
};

/* Zero is the beginning. Returns whether these bytes complete the word that a peer is gone. */
bool sw_peer_hear(struct sw_peer *peer, const char *bytes, size_t count);

#endif
