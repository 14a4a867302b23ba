#include "planner/supervise/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A ruler of Open MPI has 74 dashes; a block with more lines than its texts have ends by itself. */
enum { RULER_BYTES = 39, MOST_BLOCK_LINES = 40 };

static bool begins(const char *line, const char *prefix)
{
    return strncmp(line, prefix, strlen(prefix)) == 0;
}

static bool is_ruler(const char *line)
{
    const size_t dashes = strspn(line, "-");
    return dashes >= RULER_BYTES && line[dashes] == '\0';
}

/* "rank 5 ..." */
static bool is_rank(const char *line)
{
    if (!begins(line, "rank "))
        return false;
    const size_t digits = strspn(line + 5, "0123456789");
    return digits > 0 && line[5 + digits] == ' ';
}

/* "error: ...", "runner: error: ...", "runner train: error: ..." */
static bool is_error(const char *line)
{
    if (begins(line, "runner")) {
        line += 6 + strspn(line + 6, "abcdefghijklmnopqrstuvwxyz ");
        if (!begins(line, ": "))
            return false;
        line += 2;
    }
    return begins(line, "error: ");
}

/* Open MPI's: "[n3:12] ...", "[n3][...", "*** ..." */
static bool is_mpi(const char *line)
{
    if (begins(line, "*** "))
        return true;
    if (line[0] != '[')
        return false;
    const char *end = strchr(line, ']');
    return end != NULL && (end[1] == '[' || end[1] == ' ');
}

enum sw_output_route sw_output_route(struct sw_output_lines *lines, const char *line)
{
    if (is_rank(line) && strstr(line, ": MPI does not start for ") != NULL) {
        const bool again = lines->waited;
        lines->waited = true;
        if (again)
            return SW_OUTPUT_ASIDE;
    }
    if ((is_rank(line) && strstr(line, " (host ") == line + 5 + strspn(line + 5, "0123456789")) ||
        is_error(line))
        return SW_OUTPUT_BOTH;
    if (is_ruler(line)) {
        lines->is_block = !lines->is_block;
        lines->block_lines = 0;
        return SW_OUTPUT_ASIDE;
    }
    if (lines->is_block && ++lines->block_lines < MOST_BLOCK_LINES &&
        strstr(line, "error: ") == NULL && !begins(line, "checkpoint of ") &&
        !begins(line, "note: "))
        return SW_OUTPUT_ASIDE;
    if (lines->launcher != NULL && lines->launcher->is_own(line))
        return SW_OUTPUT_ASIDE;
    return is_mpi(line) ? SW_OUTPUT_ASIDE : SW_OUTPUT_LOG;
}

/* ---- The thread ---- */

struct sw_output {
    pthread_t thread;
    FILE *from;
    char *aside;
    const struct sw_launcher_lines *launcher;
};

static void write_all(int to, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t wrote = write(to, text, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return; /* a full disk must not end the job */
        text += wrote;
        bytes -= (size_t)wrote;
    }
}

static void *read_lines(void *argument)
{
    struct sw_output *o = argument;
    struct sw_output_lines lines = {.launcher = o->launcher};
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    int aside = -1;
    while ((bytes = getline(&line, &room, o->from)) > 0) {
        const bool ends = line[bytes - 1] == '\n';
        line[bytes - (ends ? 1 : 0)] = '\0';
        const enum sw_output_route route = sw_output_route(&lines, line);
        if (ends)
            line[bytes - 1] = '\n';
        if (route != SW_OUTPUT_LOG) {
            if (aside < 0)
                aside = open(o->aside, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
            if (aside >= 0)
                write_all(aside, line, (size_t)bytes);
        }
        if (route != SW_OUTPUT_ASIDE)
            write_all(STDOUT_FILENO, line, (size_t)bytes);
    }
    if (aside >= 0)
        close(aside);
    free(line);
    return NULL;
}

struct sw_output *sw_output_begin(const char *aside, const struct sw_launcher_lines *launcher,
                                  int *in, struct sw_error *err)
{
    int fds[2] = {-1, -1};
    struct sw_output *o = calloc(1, sizeof *o);
    if (o != NULL)
        o->launcher = launcher;
    if (o == NULL || (o->aside = strdup(aside)) == NULL || pipe2(fds, O_CLOEXEC) != 0 ||
        (o->from = fdopen(fds[0], "re")) == NULL ||
        pthread_create(&o->thread, NULL, read_lines, o) != 0) {
        sw_fail(err, SW_ENVIRONMENT, "cannot read what the ranks print: %s", strerror(errno));
        if (o != NULL && o->from != NULL)
            fclose(o->from);
        else if (fds[0] >= 0)
            close(fds[0]);
        if (fds[1] >= 0)
            close(fds[1]);
        if (o != NULL)
            free(o->aside);
        free(o);
        return NULL;
    }
    *in = fds[1];
    return o;
}

void sw_output_end(struct sw_output *o)
{
    if (o == NULL)
        return;
    pthread_join(o->thread, NULL);
    fclose(o->from);
    free(o->aside);
    free(o);
}

int sw_supervise_fail(const struct sw_error *err)
{
    char text[SW_ERROR_TEXT_BYTES];
    fprintf(stderr, "%s\n", sw_error_format(err, "plan supervise", text));
    return err->status == SW_OK ? SW_ENVIRONMENT : (int)err->status;
}
