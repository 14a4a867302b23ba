/* Listening address: a TCP port, or a socket in the file system. */
#ifndef SW_SERVE_LISTEN_H
#define SW_SERVE_LISTEN_H

#include "core/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct sw_listener {
    int fd;        /* -1: none */
    bool is_local; /* true if only this machine can reach it */
    bool is_file;  /* true for a socket in the file system, `path`, with this identity: */
    dev_t device;
    ino_t file;
    char text[300]; /* "http://127.0.0.1:8000", "unix:/run/x" */
    char path[108];
};

/* address: "HOST:PORT", "[IPV6]:PORT", "PORT" of 127.0.0.1, "unix:PATH"; port 0: any free one.
 * Replaces a socket file that a dead server left; a new one has only owner permissions. Errors:
 * SW_BAD_INPUT: no such address; SW_ENVIRONMENT: not available. */
int sw_listener_bind(const char *address, struct sw_listener *out, struct sw_error *err);
/* Accepts clients from now on. A socket file listens earlier, since others would take a
 * non-listening one for a dead server's; its clients have waited. */
int sw_listener_listen(struct sw_listener *listener, struct sw_error *err);
/* Closes the listener and removes its file, unless another server has the name now. */
void sw_listener_close(struct sw_listener *listener);

#endif
