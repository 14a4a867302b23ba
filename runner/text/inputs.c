#include "runner/text/inputs.h"

#include "core/base/clock.h"
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20 };

static int fail_to_open(const char *path, struct sw_error *err)
{
    const enum sw_status status = sw_path_status(errno, false);
    return sw_fail_at(err, status, (struct sw_place){.file = path},
                      "cannot open the file to tokenize: %s%s", strerror(errno),
                      status == SW_BAD_INPUT ? "; name a file that exists" : "");
}

static int check_input(struct sw_inputs *inputs, const char *from, const char *to,
                       const char *and_to, struct sw_error *err)
{
    struct stat info;
    int file = -1;
    if (stat(from, &info) != 0)
        return fail_to_open(from, err);
    if (S_ISDIR(info.st_mode))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = from},
                          "this is a folder; name a file to tokenize");
    /* a pipe's writer would lose its only reader */
    if (S_ISREG(info.st_mode) && (file = open(from, O_RDONLY | O_CLOEXEC)) < 0)
        return fail_to_open(from, err);
    if (file >= 0)
        (void)close(file);
    if (sw_path_same(from, to) || sw_path_same(from, and_to))
        return sw_fail_at(err, SW_BAD_INPUT,
                          (struct sw_place){.file = sw_path_same(from, to) ? to : and_to},
                          "this is the file to tokenize; name another one to write");
    inputs->has_total = inputs->has_total && S_ISREG(info.st_mode);
    inputs->total_bytes += info.st_size;
    return 0;
}

int sw_inputs_begin(struct sw_inputs *inputs, const char *const *path, int32_t count,
                    const char *to, const char *and_to, struct sw_error *err)
{
    struct stat there;
    *inputs = (struct sw_inputs){.path = path, .count = count, .file = -1, .has_total = true};
    inputs->tells = isatty(STDERR_FILENO) == 1;
    for (int32_t i = 0; i < count; i++)
        if (check_input(inputs, path[i], to, and_to, err) != 0)
            return -1;
    /* the final rename would replace a device or pipe with a file */
    if (stat(to, &there) == 0 && !S_ISREG(there.st_mode))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = to},
                          "not a regular file; name a file to write");
    return 0;
}

static void close_file(struct sw_inputs *inputs)
{
    if (inputs->file >= 0)
        (void)close(inputs->file);
    inputs->file = -1;
    inputs->begin = inputs->end = 0;
    inputs->ended = false;
    inputs->line = 0;
}

int sw_inputs_open(struct sw_inputs *inputs, int32_t i, struct sw_error *err)
{
    close_file(inputs);
    inputs->from = inputs->path[i];
    inputs->file = open(inputs->from, O_RDONLY | O_CLOEXEC);
    return inputs->file >= 0 ? 0 : fail_to_open(inputs->from, err);
}

/* Reads more behind the buffer's contents. */
static int fill(struct sw_inputs *inputs, struct sw_error *err)
{
    ssize_t got;
    if (inputs->begin > 0) {
        memmove(inputs->buffer, inputs->buffer + inputs->begin, inputs->end - inputs->begin);
        inputs->end -= inputs->begin;
        inputs->begin = 0;
    }
    if (inputs->room - inputs->end < BLOCK_BYTES) {
        const size_t room = 2 * inputs->room + BLOCK_BYTES;
        char *grown = realloc(inputs->buffer, room);
        if (grown == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%.200s'", inputs->from);
        inputs->buffer = grown;
        inputs->room = room;
    }
    do
        got = read(inputs->file, inputs->buffer + inputs->end, BLOCK_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = inputs->from},
                          "cannot read it: %s", strerror(errno));
    inputs->end += (size_t)got;
    inputs->read_bytes += got;
    inputs->ended = got == 0;
    return 0;
}

int sw_inputs_block(struct sw_inputs *inputs, const char **data, size_t *bytes,
                    struct sw_error *err)
{
    inputs->begin = inputs->end = 0;
    const int status = fill(inputs, err);
    *data = inputs->buffer;
    *bytes = status == 0 ? inputs->end : 0;
    return status;
}

static bool has_mark(const struct sw_inputs *inputs)
{
    return inputs->line == 0 && inputs->end - inputs->begin >= 3 &&
           memcmp(inputs->buffer + inputs->begin, "\xef\xbb\xbf", 3) == 0;
}

int sw_inputs_line(struct sw_inputs *inputs, const char **line, size_t *bytes, struct sw_error *err)
{
    size_t seen = 0; /* bytes searched without a break */
    const char *end = NULL;
    *line = NULL;
    for (;;) {
        const size_t left = inputs->end - inputs->begin, at = inputs->begin + seen;
        end = left > seen ? memchr(inputs->buffer + at, '\n', left - seen) : NULL;
        if (end != NULL || inputs->ended)
            break;
        seen = left;
        if (left > INT32_MAX) {
            inputs->line++;
            return sw_fail_at(err, SW_BAD_INPUT, sw_inputs_place(inputs, 1),
                              "a line of more than 2^31 - 1 bytes; make it several");
        }
        if (fill(inputs, err) != 0)
            return -1;
    }
    if (end == NULL && inputs->begin == inputs->end)
        return 0;
    inputs->begin += has_mark(inputs) ? 3 : 0;
    *line = inputs->buffer + inputs->begin;
    *bytes = end != NULL ? (size_t)(end - *line) : inputs->end - inputs->begin;
    inputs->begin += *bytes + (end != NULL);
    inputs->line++;
    return 0;
}

struct sw_place sw_inputs_place(const struct sw_inputs *inputs, int32_t column)
{
    return (struct sw_place){.file = inputs->from,
                             .line = inputs->line < INT32_MAX ? (int32_t)inputs->line : INT32_MAX,
                             .column = column};
}

void sw_inputs_tell(struct sw_inputs *inputs, int64_t documents, int64_t tokens)
{
    const double now = inputs->tells ? sw_clock_now() : 0;
    if (!inputs->tells || now - inputs->told_at < 0.1)
        return;
    inputs->told_at = now;
    fprintf(stderr, "\r\033[K%.1f", (double)inputs->read_bytes * 1e-6);
    if (inputs->has_total)
        fprintf(stderr, " of %.1f", (double)inputs->total_bytes * 1e-6);
    fprintf(stderr, " MB, %" PRId64 " document%s, %" PRId64 " tokens", documents,
            documents == 1 ? "" : "s", tokens);
    fflush(stderr);
}

void sw_inputs_end(struct sw_inputs *inputs)
{
    close_file(inputs);
    free(inputs->buffer);
    inputs->buffer = NULL;
    inputs->room = 0;
    if (inputs->tells && inputs->told_at > 0)
        fprintf(stderr, "\r\033[K");
    inputs->told_at = 0;
}
