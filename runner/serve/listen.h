/* Where clients connect: a TCP port, or a socket in the file system. */
#ifndef SW_SERVE_LISTEN_H
#define SW_SERVE_LISTEN_H

#include "core/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct sw_listener {
    int fd;        /* -1: none */
    bool is_local; /* nobody from another machine reaches it */
    bool is_file;  /* a socket in the file system, `path`, which is this one: */
    dev_t device;
    ino_t file;
    char text[300]; /* "http://127.0.0.1:8000", "unix:/run/x" */
    char path[108];
};

/* address: "HOST:PORT", "[IPV6]:PORT", "PORT" of 127.0.0.1, "unix:PATH"; port 0: any free one. A
 * file that a server left behind is replaced; a new one is its owner's alone. Errors: SW_BAD_INPUT:
 * no such address; SW_ENVIRONMENT: it cannot be had. */
int sw_listener_bind(const char *address, struct sw_listener *out, struct sw_error *err);
/* From now on clients are heard. Those of a file were before, and have waited: nobody else can tell
 * one that nobody listens to yet from one that was left behind. */
int sw_listener_listen(struct sw_listener *listener, struct sw_error *err);
/* Closes what is still open and takes the file away, unless another has its name by now. */
void sw_listener_close(struct sw_listener *listener);

#endif
