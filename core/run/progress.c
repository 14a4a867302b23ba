#include "core/run/progress.h"

#include "core/base/file.h"
#include "core/run/metrics_line.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Sizes for lines of about 250 bytes: a tail has a thousand steps. The newest header may stand
 * before it, and is searched for in that many bytes; else the file's first line is used. */
enum { TAIL_BYTES = 256 << 10, HEADER_BYTES = 8 << 10, MOST_BYTES_BACK = 64 << 20, RECENT = 32 };

static const char header_begins[] = "{\"schema\":\"shardwright.metrics/1\"";

struct reader {
    struct sw_progress *out;
    double recent[RECENT]; /* seconds of recent steps */
    int64_t seen;
};

static void take_header(struct reader *r, const struct sw_metrics_line *line)
{
    struct sw_progress *p = r->out;
    const double age = p->age_seconds;
    *p = (struct sw_progress){
        .started = true, .loss = NAN, .held_out_bits = NAN, .age_seconds = age};
    p->attempt = line->attempt;
    memcpy(p->plan_digest, line->plan_digest, sizeof p->plan_digest);
    memcpy(p->mesh, line->mesh, sizeof p->mesh);
    p->predicted_seconds = line->predicted_s;
    r->seen = 0;
}

static void take_line(struct reader *r, const char *text, size_t bytes)
{
    struct sw_progress *p = r->out;
    struct sw_metrics_line line;
    sw_metrics_line_parse(text, bytes, &line);
    switch (line.kind) {
    case SW_METRICS_HEADER:
        take_header(r, &line);
        break;
    case SW_METRICS_STEP:
        p->step = line.step;
        p->loss = line.loss;
        p->tokens_per_second = line.tokens_per_second;
        if (line.step_s > 0)
            r->recent[r->seen++ % RECENT] = line.step_s;
        break;
    case SW_METRICS_HELD_OUT:
        p->held_out_bits = line.held_out_bits;
        break;
    case SW_METRICS_SAVE:
        p->checkpoint_step = line.step;
        break;
    default:
        break;
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void finish(struct reader *r)
{
    const size_t n = r->seen < RECENT ? (size_t)r->seen : RECENT;
    r->out->steps_seen = r->seen;
    if (n == 0)
        return;
    qsort(r->recent, n, sizeof r->recent[0], compare);
    r->out->step_seconds =
        n % 2 == 1 ? r->recent[n / 2] : (r->recent[n / 2 - 1] + r->recent[n / 2]) / 2;
}

static void take_lines(struct reader *r, const char *text, size_t bytes)
{
    for (const char *end; (end = memchr(text, '\n', bytes)) != NULL;) {
        take_line(r, text, (size_t)(end - text));
        bytes -= (size_t)(end + 1 - text);
        text = end + 1;
    }
}

static struct reader begin(struct sw_progress *out)
{
    *out = (struct sw_progress){.loss = NAN, .held_out_bits = NAN};
    return (struct reader){.out = out};
}

void sw_progress_parse(const char *text, size_t bytes, bool whole, struct sw_progress *out)
{
    struct reader r = begin(out);
    if (!whole) { /* the first line may be cut off */
        const char *end = memchr(text, '\n', bytes);
        const size_t skipped = end == NULL ? bytes : (size_t)(end + 1 - text);
        text += skipped;
        bytes -= skipped;
    }
    take_lines(&r, text, bytes);
    finish(&r);
}

static size_t read_at(int file, char *out, size_t bytes, off_t at)
{
    size_t got = 0;
    while (got < bytes) {
        const ssize_t part = pread(file, out + got, bytes - got, at + (off_t)got);
        if (part == 0 || (part < 0 && errno != EINTR))
            break;
        got += part > 0 ? (size_t)part : 0;
    }
    return got;
}

static void take_header_at(struct reader *r, int file, off_t at)
{
    char line[HEADER_BYTES];
    const size_t got = read_at(file, line, sizeof line, at);
    const char *end = memchr(line, '\n', got);
    if (end != NULL)
        take_line(r, line, (size_t)(end - line));
}

/* The newest header before `before`; -1: not near. */
static off_t find_header(int file, off_t before)
{
    enum { BLOCK = 1 << 20, OVERLAP = sizeof header_begins };
    char *block = malloc(BLOCK + OVERLAP);
    off_t found = -1;
    for (off_t end = before, stop = before > MOST_BYTES_BACK ? before - MOST_BYTES_BACK : 0;
         block != NULL && found < 0 && end > stop;) {
        const off_t begin_at = end - stop > BLOCK ? end - BLOCK : stop;
        const size_t got = read_at(file, block, (size_t)(end - begin_at) + OVERLAP, begin_at);
        const char *at = block;
        for (const char *next; (next = memmem(at, got - (size_t)(at - block), header_begins,
                                              sizeof header_begins - 1)) != NULL;
             at = next + 1)
            found = begin_at + (next - block);
        end = begin_at;
    }
    free(block);
    return found;
}

static void read_open(int file, off_t size, struct reader *r)
{
    char *tail = malloc(TAIL_BYTES);
    if (tail == NULL)
        return;
    off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    const size_t got = read_at(file, tail, TAIL_BYTES, from);
    size_t skipped = 0;
    if (from > 0) {
        const char *end = memchr(tail, '\n', got);
        skipped = end == NULL ? got : (size_t)(end + 1 - tail);
        const off_t header = find_header(file, from + (off_t)skipped);
        take_header_at(r, file, header >= 0 ? header : 0);
    }
    take_lines(r, tail + skipped, got - skipped);
    free(tail);
}

int sw_progress_read(const char *folder, struct sw_progress *out, struct sw_error *err)
{
    struct reader r = begin(out);
    struct stat status;
    int result = 0;
    char *path = sw_path_join(folder, "metrics.jsonl");
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path of %s/metrics.jsonl",
                       folder);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno != ENOENT && errno != ENOTDIR)
        result = sw_fail(err, SW_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        read_open(file, status.st_size, &r);
        out->age_seconds = fmax(0, difftime(now.tv_sec, status.st_mtim.tv_sec));
    }
    if (file >= 0)
        (void)close(file);
    free(path);
    finish(&r);
    return result;
}
