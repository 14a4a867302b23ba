#include "runner/serve/listen.h"

#include "core/base/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 128, LOCK_TRIES = 1000, LOCK_TRY_NS = 1000000 };
static const char file_prefix[] = "unix:";

static void forget(struct sw_listener *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
}

static int cannot(struct sw_listener *l, const char *address, struct sw_error *err)
{
    const int why = errno;
    forget(l);
    return sw_fail(err, why == EADDRNOTAVAIL ? SW_BAD_INPUT : SW_ENVIRONMENT,
                   "cannot listen at '%.200s': %s%s", address, strerror(why),
                   why == EADDRINUSE && strncmp(address, file_prefix, sizeof file_prefix - 1) == 0
                       ? "; end what listens there, or name another socket with --listen"
                   : why == EADDRINUSE    ? "; end what listens there, or name another port (0: a "
                                            "free one) with --listen"
                   : why == EACCES        ? "; name a port above 1023 with --listen"
                   : why == EADDRNOTAVAIL ? "; name an address of this machine with --listen"
                                          : "");
}

static int cannot_make(struct sw_listener *l, const char *address, struct sw_error *err)
{
    const int why = errno;
    forget(l);
    sw_fail(err, SW_ENVIRONMENT, "cannot listen at '%.200s': %s", address, strerror(why));
    return sw_path_blame(err, why, "name a socket elsewhere with --listen");
}

/* True if nothing listens to the socket: a killed server left it. */
static bool is_left_behind(const struct sockaddr_un *to)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) != 0 &&
                         errno == ECONNREFUSED;
    if (fd >= 0)
        (void)close(fd);
    return refused;
}

/* Locks the socket's folder: servers check and remove sockets in it one at a time, since a bound
 * socket that does not listen yet looks left behind. Servers hold the lock for microseconds; one
 * held for a second is not a server's and is ignored. -1: no such folder, or not readable. */
static int hold_folder_of(const char *path)
{
    const struct timespec between = {.tv_nsec = LOCK_TRY_NS};
    const char *slash = strrchr(path, '/');
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path] = ".";
    if (slash != NULL)
        snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int32_t i = 0; fd >= 0 && i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0 &&
                        (errno == EWOULDBLOCK || errno == EINTR);
         i++)
        (void)nanosleep(&between, NULL);
    return fd;
}

static void release_folder(int folder)
{
    if (folder >= 0)
        (void)close(folder);
}

/* Binds while the folder is locked. */
static int bind_path(const char *address, const char *path, struct sw_listener *l,
                     struct sw_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct stat made; /* created or found */
    _Static_assert(sizeof to.sun_path == sizeof l->path, "a path that one of them has no room for");
    memcpy(to.sun_path, path, strlen(path) + 1);
    if (lstat(path, &made) == 0 && !S_ISSOCK(made.st_mode))
        return sw_fail(err, SW_BAD_INPUT,
                       "cannot listen at '%.200s': the file is no socket; name another one with "
                       "--listen",
                       address);
    if (is_left_behind(&to))
        (void)unlink(path);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* before bind, so that the file has this mode from the start */
    if (l->fd < 0 || fchmod(l->fd, 0600) != 0)
        return cannot(l, address, err);
    if (bind(l->fd, (const struct sockaddr *)&to, sizeof to) != 0)
        return errno == EADDRINUSE ? cannot(l, address, err) : cannot_make(l, address, err);
    if (listen(l->fd, BACKLOG) != 0 || lstat(path, &made) != 0)
        return cannot_make(l, address, err);
    l->is_local = l->is_file = true;
    l->device = made.st_dev;
    l->file = made.st_ino;
    memcpy(l->path, path, strlen(path) + 1);
    snprintf(l->text, sizeof l->text, "unix:%s", path);
    return 0;
}

static int bind_file(const char *address, const char *path, struct sw_listener *l,
                     struct sw_error *err)
{
    if (*path == '\0' || strlen(path) >= sizeof l->path)
        return sw_fail(err, SW_BAD_INPUT, "the path of a socket has 1 to %zu bytes",
                       sizeof l->path - 1);
    const int folder = hold_folder_of(path);
    const int status = bind_path(address, path, l, err);
    release_folder(folder);
    return status;
}

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)at)->sin_addr.s_addr) >> 24 == 127;
    return at->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
}

static void describe(struct sw_listener *l)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    char host[64] = "?", port[16] = "?";
    if (getsockname(l->fd, (struct sockaddr *)&at, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&at, size, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(l->text, sizeof l->text, strchr(host, ':') != NULL ? "http://[%s]:%s" : "http://%s:%s",
             host, port);
}

static int bind_port(const char *address, const char *host, const char *port, struct sw_listener *l,
                     struct sw_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    const int one = 1, failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0)
        return sw_fail(err, SW_BAD_INPUT, "'%.200s' is not an address to listen at: %s", address,
                       gai_strerror(failed));
    l->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* A token is a small segment. Nagle's algorithm (RFC 896) would hold it until the client's
     * system acknowledges the previous one, delayed by 40 ms. Accepted sockets inherit the
     * option. */
    const bool bound = l->fd >= 0 &&
                       setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                       setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
                       bind(l->fd, found->ai_addr, found->ai_addrlen) == 0;
    l->is_local = is_loopback(found->ai_addr);
    freeaddrinfo(found);
    if (!bound)
        return cannot(l, address, err);
    describe(l);
    return 0;
}

int sw_listener_bind(const char *address, struct sw_listener *l, struct sw_error *err)
{
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(address, ':'), *port = colon != NULL ? colon + 1 : address;
    char *end;
    *l = (struct sw_listener){.fd = -1};
    if (strncmp(address, file_prefix, sizeof file_prefix - 1) == 0)
        return bind_file(address, address + sizeof file_prefix - 1, l, err);
    const unsigned long number = strtoul(port, &end, 10);
    const size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    if (*port < '0' || *port > '9' || *end != '\0' || number > 65535 || length >= sizeof host ||
        colon == address)
        return sw_fail(err, SW_BAD_INPUT,
                       "'%.200s' is not an address to listen at; give HOST:PORT, PORT or unix:PATH",
                       address);
    if (length > 0 && address[0] == '[' && address[length - 1] == ']')
        snprintf(host, sizeof host, "%.*s", (int)length - 2, address + 1);
    else if (length > 0)
        snprintf(host, sizeof host, "%.*s", (int)length, address);
    return bind_port(address, host, port, l, err);
}

int sw_listener_listen(struct sw_listener *l, struct sw_error *err)
{
    return listen(l->fd, BACKLOG) == 0 ? 0 : cannot(l, l->text, err);
}

void sw_listener_close(struct sw_listener *l)
{
    struct stat there;
    const int folder = l->is_file ? hold_folder_of(l->path) : -1;
    forget(l);
    if (l->is_file && lstat(l->path, &there) == 0 && there.st_dev == l->device &&
        there.st_ino == l->file)
        (void)unlink(l->path);
    release_folder(folder);
    *l = (struct sw_listener){.fd = -1};
}
