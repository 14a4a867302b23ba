#include "runner/generate/lines.h"

#include "runner/checkpoint/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sw_place place_of(const char *path, int64_t line)
{
    return (struct sw_place){
        .file = path, .line = line > INT32_MAX ? INT32_MAX : (int32_t)line, .column = line > 0};
}

static int fail_errno(const char *path, const char *what, struct sw_error *err)
{
    return sw_fail_at(err, SW_ENVIRONMENT, place_of(path, 0), "%s: %s", what, strerror(errno));
}

/* Reads the existing lines. *good: bytes of valid lines. An unreadable line, from a killed process
 * or node, must be the last. */
static int read_lines(struct sw_lines *lines, const char *path, sw_lines_check check, void *context,
                      off_t *good, struct sw_error *err)
{
    char *line = NULL, text[160];
    size_t room = 0;
    ssize_t length;
    int64_t bad = 0, number = 0;
    int status = 0;
    *good = 0;
    while (status == 0 && (length = getline(&line, &room, lines->out)) > 0) {
        json_t *root = line[length - 1] == '\n'
                           ? json_loadb(line, (size_t)length, JSON_ALLOW_NUL, NULL)
                           : NULL;
        number++;
        if (!sw_json_is_object(root)) {
            bad = bad > 0 ? bad : number;
        } else if (bad > 0) {
            status = sw_fail_at(
                err, SW_BAD_INPUT, place_of(path, bad),
                "not a line of JSON, and others follow it; to start anew, move the file away");
        } else if (check(context, lines->done, root, text) != 0) {
            status = sw_fail_at(err, SW_BAD_INPUT, place_of(path, number),
                                "%s; to start anew, move the file away", text);
        } else {
            lines->done++;
            *good += length;
        }
        json_decref(root);
    }
    if (status == 0 && ferror(lines->out))
        status = fail_errno(path, "cannot read it", err);
    free(line);
    return status;
}

int sw_lines_begin(struct sw_new_file *file, const char *path, const char *from,
                   const char *and_from, struct sw_error *err)
{
    const char *const source[] = {from, and_from};
    for (int32_t i = 0; i < 2; i++)
        if (source[i] != NULL && strcmp(source[i], "-") != 0 && sw_path_same(source[i], path))
            return sw_fail_at(err, SW_BAD_INPUT, place_of(path, 0),
                              "this is read, and would be replaced; name another file with -o");
    return sw_file_begin(file, path, 0666, err) == 0
               ? 0
               : sw_path_blame(err, errno, "name another file with -o");
}

int sw_lines_open(struct sw_lines *lines, const char *path, sw_lines_check check, void *context,
                  struct sw_error *err)
{
    struct stat there;
    off_t good = 0;
    *lines = (struct sw_lines){.out = NULL};
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) {
        const int reason = errno;
        (void)fail_errno(path, "cannot open it for writing", err);
        return sw_path_blame(err, reason, "name another file with -o");
    }
    if (fstat(fd, &there) != 0 || !S_ISREG(there.st_mode)) {
        (void)close(fd);
        return sw_fail_at(err, SW_BAD_INPUT, place_of(path, 0),
                          "only a regular file can be continued");
    }
    /* not every file system has locks */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        (void)close(fd);
        return sw_fail_at(err, SW_ENVIRONMENT, place_of(path, 0),
                          "another process is writing it; wait until that has ended");
    }
    lines->out = fdopen(fd, "r+");
    if (lines->out == NULL) {
        (void)close(fd);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the output");
    }
    int status = read_lines(lines, path, check, context, &good, err);
    if (status == 0 && ((there.st_size > good && ftruncate(fd, good) != 0) ||
                        fseeko(lines->out, good, SEEK_SET) != 0))
        status = fail_errno(path, "cannot cut off what a killed process left", err);
    if (status != 0)
        sw_lines_abandon(lines);
    return status;
}

void sw_lines_flush(struct sw_lines *lines)
{
    (void)fflush(lines->out);
}

int sw_lines_close(struct sw_lines *lines, const char *path, struct sw_error *err)
{
    FILE *out = lines->out;
    lines->out = NULL;
    bool failed = ferror(out) != 0;
    failed |= fflush(out) != 0;
    /* EINVAL: the device cannot sync */
    failed |= fsync(fileno(out)) != 0 && errno != EINVAL;
    const int why = errno;
    failed |= fclose(out) != 0;
    errno = failed ? why : 0;
    return failed ? fail_errno(path, "cannot write it", err) : 0;
}

void sw_lines_abandon(struct sw_lines *lines)
{
    if (lines->out != NULL)
        (void)fclose(lines->out);
    lines->out = NULL;
}

int64_t sw_lines_part(int64_t count, int64_t part, int64_t parts)
{
    /* the first count % parts parts have one more; avoids overflow */
    const int64_t extra = count % parts;
    return count / parts * part + (part < extra ? part : extra);
}

int sw_lines_parse_part(const char *text, int64_t *part, int64_t *parts)
{
    enum { MOST_PARTS = 1000000 };
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    *part = strtoll(text, &end, 10);
    if (*end != '/' || end[1] < '0' || end[1] > '9')
        return -1;
    *parts = strtoll(end + 1, &end, 10);
    return *end == '\0' && errno == 0 && *part < *parts && *parts <= MOST_PARTS ? 0 : -1;
}
