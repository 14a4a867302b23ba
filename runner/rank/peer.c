#include "runner/rank/peer.h"

#include <stdio.h>
#include <string.h>

/* From help-mpi-btl-tcp.txt of Open MPI 4 and 5, "peer hung up". */
static const char says_gone[] = "An MPI communication peer process has unexpectedly disconnected.";
static const char says_host[] = "  Peer host:";

static bool take_line(struct sw_peer *peer)
{
    const char *line = peer->line;
    if (strncmp(line, says_gone, sizeof says_gone - 1) == 0)
        peer->gone = true;
    if (!peer->gone || peer->host[0] != '\0' || strncmp(line, says_host, sizeof says_host - 1) != 0)
        return false;
    line += sizeof says_host - 1;
    line += strspn(line, " ");
    snprintf(peer->host, sizeof peer->host, "%.*s", (int)strcspn(line, " \r"), line);
    return peer->host[0] != '\0';
}

bool sw_peer_hear(struct sw_peer *peer, const char *bytes, size_t count)
{
    bool complete = false;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n') {
            if (peer->used < sizeof peer->line - 1)
                peer->line[peer->used++] = bytes[i] != '\0' ? bytes[i] : ' ';
            continue;
        }
        peer->line[peer->used] = '\0';
        peer->used = 0;
        complete = take_line(peer) || complete;
    }
    return complete;
}
