#include "planner/command/process.h"

#include "core/base/clock.h"
#include "core/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_DIAGNOSTICS_BYTES = 64 << 10, MAX_OUTPUT_BYTES = 256 << 20 };

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_among(const char *variable, const char *const *names)
{
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        if (starts_with(variable, names[i]))
            return true;
    return false;
}

/* A NULL-ended list that points into the environment; malloc'ed. */
static char **clean_environment(const struct sw_process_client *client)
{
    static const char *const dropped[] = {"PMI", "OMPI_", "LC_ALL=", "POSIXLY_CORRECT=", NULL};
    static char locale[] = "LC_ALL=C";
    size_t count = 0, used = 0;
    while (environ[count] != NULL)
        count++;
    char **out = malloc((count + 3) * sizeof *out);
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (is_among(environ[i], client->kept) ||
            (!is_among(environ[i], client->dropped) && !is_among(environ[i], dropped)))
            out[used++] = environ[i];
    out[used++] = locale;
    if (client->set != NULL)
        out[used++] = (char *)client->set;
    out[used] = NULL;
    return out;
}

/* Data from one pipe. */
struct stream {
    char *text;
    size_t bytes, room, most;
    bool full; /* true if more came than `most` */
};

static int append(struct stream *s, const char *data, size_t bytes)
{
    if (bytes > s->most - s->bytes) {
        s->full = true;
        bytes = s->most - s->bytes;
    }
    if (s->bytes + bytes + 1 > s->room) {
        const size_t room = 2 * s->room + bytes + 1024;
        char *grown = realloc(s->text, room);
        if (grown == NULL)
            return -1;
        s->text = grown;
        s->room = room;
    }
    memcpy(s->text + s->bytes, data, bytes);
    s->bytes += bytes;
    s->text[s->bytes] = '\0';
    return 0;
}

/* Reads once. 1: more may come; 0: the end; -1: no memory. */
static int drain(int fd, struct stream *s)
{
    char buffer[65536];
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? 1 : 0;
    if (got == 0)
        return 0;
    return append(s, buffer, (size_t)got) == 0 ? 1 : -1;
}

static _Noreturn void become(const char *const *argv, char **environment, int in, int out,
                             int errors, int failed)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    setpgid(0, 0); /* a timeout then also ends its children */
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(errors, 2) < 0)
        _exit(127);
    execvpe(argv[0], (char *const *)argv, environment);
    const int why = errno;
    if (write(failed, &why, sizeof why) < 0)
        _exit(126);
    _exit(127);
}

/* The input as an open file, so that a program that does not read it cannot block. */
static int input_file(const char *input)
{
    if (input == NULL)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    FILE *file = tmpfile();
    if (file == NULL)
        return -1;
    int fd = -1;
    if (fputs(input, file) >= 0 && fflush(file) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0)
        fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 3);
    fclose(file);
    return fd;
}

/* Reads both pipes until they end or time is over. -1: no memory, or too much data. */
static int gather(int out, int errors, double deadline, struct stream streams[2], bool *timed_out)
{
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = errors, .events = POLLIN}};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        const double left = deadline - sw_clock_now();
        if (left <= 0) {
            *timed_out = true;
            return 0;
        }
        if (poll(fds, 2, (int)(left * 1e3) + 1) < 0 && errno != EINTR)
            return -1;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || fds[i].revents == 0)
                continue;
            const int more = drain(fds[i].fd, &streams[i]);
            if (more < 0 || (i == 0 && streams[i].full))
                return -1;
            if (more == 0)
                fds[i].fd = -1;
        }
    }
    return 0;
}

/* Exit code once it has ended by itself in time, plus the grace period after TERM. */
static int wait_for(pid_t child, double deadline, double grace_seconds, bool *timed_out)
{
    int status = 0;
    bool over = *timed_out;
    if (over && grace_seconds > 0) {
        kill(-child, SIGTERM);
        over = false;
        deadline = sw_clock_now() + grace_seconds;
    }
    while (!over) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child)
            return sw_process_code(status);
        if (ended < 0 && errno != EINTR)
            return 127;
        over = sw_clock_now() > deadline;
        *timed_out = *timed_out || over;
        const struct timespec nap = {.tv_nsec = 2000000};
        nanosleep(&nap, NULL);
    }
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return 128 + SIGKILL;
}

static void close_pair(const int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int run(const char *const *argv, const char *input, char **environment, const char *where,
               double limit_seconds, double grace_seconds, struct sw_process_result *out,
               struct sw_error *err)
{
    int in = -1, output[2] = {-1, -1}, errors[2] = {-1, -1}, failed[2] = {-1, -1}, status = -1;
    struct stream streams[2] = {{.most = MAX_OUTPUT_BYTES}, {.most = MAX_DIAGNOSTICS_BYTES}};
    const double deadline = sw_clock_now() + limit_seconds;
    *out = (struct sw_process_result){.exit_code = 127};
    if (environment == NULL || append(&streams[0], "", 0) != 0 || append(&streams[1], "", 0) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while starting '%s'", argv[0]);
        goto out;
    }
    in = input_file(input);
    if (in < 0 || pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0 ||
        pipe2(failed, O_CLOEXEC) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot start '%s': %s", argv[0], strerror(errno));
        goto out;
    }
    const pid_t child = fork();
    if (child == 0)
        become(argv, environment, in, output[1], errors[1], failed[1]);
    if (child < 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot start '%s': %s", argv[0], strerror(errno));
        goto out;
    }
    close(output[1]), close(errors[1]), close(failed[1]);
    output[1] = errors[1] = failed[1] = -1;
    int why = 0;
    out->started = read(failed[0], &why, sizeof why) != (ssize_t)sizeof why;
    if (gather(output[0], errors[0], deadline, streams, &out->timed_out) != 0) {
        wait_for(child, deadline, 0, &(bool){true});
        sw_fail(err, SW_ENVIRONMENT, "'%s' printed more than fits into memory or %d MiB", argv[0],
                MAX_OUTPUT_BYTES >> 20);
        goto out;
    }
    out->exit_code = wait_for(child, deadline, grace_seconds, &out->timed_out);
    if (out->started) {
        status = 0;
    } else if (why == ENOENT) {
        sw_fail(err, SW_ENVIRONMENT, "there is no '%s' on this machine; %s", argv[0], where);
    } else {
        sw_fail(err, SW_ENVIRONMENT, "cannot start '%s': %s", argv[0], strerror(why));
    }
out:
    if (in >= 0)
        close(in);
    close_pair(output), close_pair(errors), close_pair(failed);
    out->out = streams[0].text, out->out_bytes = streams[0].bytes;
    out->diagnostics = streams[1].text, out->diagnostics_bytes = streams[1].bytes;
    return status;
}

static const char no_place[] = "add the folder that it is in to PATH";

int sw_process_run(const struct sw_process_client *client, const char *const *argv,
                   const char *input, double limit_seconds, struct sw_process_result *out,
                   struct sw_error *err)
{
    static const struct sw_process_client nobody = {.where = no_place};
    if (client == NULL)
        client = &nobody;
    char **environment = clean_environment(client);
    const int status = run(argv, input, environment, client->where, limit_seconds, 0, out, err);
    free(environment);
    return status;
}

int sw_process_run_within(const char *const *argv, double limit_seconds,
                          struct sw_process_result *out, struct sw_error *err)
{
    enum { GRACE_SECONDS = 5 };
    return run(argv, NULL, environ, no_place, limit_seconds, GRACE_SECONDS, out, err);
}

int sw_process_start(const char *const *argv, int out, pid_t *child, struct sw_error *err)
{
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *child = in < 0 ? -1 : fork();
    if (*child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        signal(SIGINT, SIG_IGN); /* like a shell's background job */
        signal(SIGQUIT, SIG_IGN);
        if (dup2(in, 0) < 0 || (out >= 0 && (dup2(out, 1) < 0 || dup2(out, 2) < 0)))
            _exit(127);
        execvp(argv[0], (char *const *)argv);
        dprintf(2, "error: cannot start '%s': %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    const int why = errno;
    if (in >= 0)
        close(in);
    if (*child > 0)
        return 0;
    return sw_fail(err, SW_ENVIRONMENT, "cannot start '%s': %s", argv[0], strerror(why));
}

int sw_process_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void sw_process_free(struct sw_process_result *result)
{
    free(result->out);
    free(result->diagnostics);
    *result = (struct sw_process_result){0};
}

const char *sw_process_complaint(struct sw_process_result *result)
{
    char *text = result->diagnostics;
    if (text == NULL)
        return "";
    size_t end = strlen(text);
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        text[--end] = '\0';
    char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    char *mark = strstr(line, "error: ");
    return mark != NULL ? mark + strlen("error: ") : line;
}

/* The line at `text` without a leading "PROGRAM: " and "error: ", of *bytes. */
static const char *bare_line(const char *text, size_t *bytes)
{
    static const char *const marks[] = {"error: ", "fatal: "};
    const char *line = text, *end = text + strcspn(text, "\n");
    while (end > line && (end[-1] == ' ' || end[-1] == '\r'))
        end--;
    const size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (name > 0 && name + 2 <= (size_t)(end - line) && strncmp(line + name, ": ", 2) == 0)
        line += name + 2;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (starts_with(line, marks[i]))
            line += strlen(marks[i]);
    *bytes = line < end ? (size_t)(end - line) : 0;
    return line;
}

char *sw_process_words(const struct sw_process_result *result, char *buffer, size_t bytes)
{
    const char *text = result->diagnostics != NULL ? result->diagnostics : "";
    size_t used = 0;
    buffer[0] = '\0';
    for (const char *p = text; *p != '\0';) {
        size_t length = 0;
        const char *line = bare_line(p, &length);
        p += strcspn(p, "\n");
        p += *p == '\n';
        if (length == 0)
            continue;
        const int wrote = snprintf(buffer + used, bytes - used, "%s%.*s", used > 0 ? "; " : "",
                                   (int)length, line);
        if ((size_t)wrote >= bytes - used) {
            memcpy(buffer + bytes - 4, "...", 4);
            break;
        }
        used += (size_t)wrote;
    }
    return sw_text_show(buffer);
}

bool sw_process_exists(const char *program)
{
    const char *path = getenv("PATH");
    char candidate[4096];
    if (strchr(program, '/') != NULL)
        return access(program, X_OK) == 0;
    for (const char *p = path; p != NULL && *p != '\0';) {
        const size_t length = strcspn(p, ":");
        if (snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, p, program) <
                (int)sizeof candidate &&
            access(candidate, X_OK) == 0)
            return true;
        p += length + (p[length] == ':');
    }
    return false;
}
