#include "planner/scheduler/slurm/waits.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/queue.h"
#include "planner/scheduler/slurm/settings.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_SECONDS 5.0
enum { LOG_BYTES_MAX = 8 << 20, LOG_JOBS_MAX = 1024 };

/* ---- Quantiles ---- */

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Interpolated between the two nearest ranks. */
static double quantile(const double *sorted, int32_t count, double share)
{
    const double at = share * (count - 1);
    const int32_t below = (int32_t)at;
    return below + 1 < count ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below])
                             : sorted[count - 1];
}

struct sw_quantiles sw_quantiles_of(double *values, int32_t count)
{
    if (count == 0)
        return (struct sw_quantiles){0};
    qsort(values, (size_t)count, sizeof *values, compare_numbers);
    return (struct sw_quantiles){.count = count,
                                 .low = quantile(values, count, 0.1),
                                 .median = quantile(values, count, 0.5),
                                 .high = quantile(values, count, 0.9)};
}

/* ---- Accounting ---- */

static int no_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the waits of jobs");
}

/* Fields of a line that '|' separates. */
static const char *field(const char *line, char *out, size_t bytes)
{
    const size_t length = strcspn(line, "|\n");
    snprintf(out, bytes, "%.*s", (int)length, line);
    return line + length + (line[length] == '|');
}

int sw_waits_read(const char *text, struct sw_waits *out, struct sw_error *err)
{
    int32_t lines = 1;
    for (const char *p = text; *p != '\0'; p++)
        lines += *p == '\n';
    out->job = calloc((size_t)lines, sizeof *out->job);
    out->count = 0;
    if (out->job == NULL)
        return no_memory(err);
    for (const char *line = text; *line != '\0';) {
        struct sw_wait *w = &out->job[out->count];
        char nodes[32], limit[64], eligible[32], start[32];
        const char *p = field(line, w->partition, sizeof w->partition);
        p = field(p, nodes, sizeof nodes);
        p = field(p, limit, sizeof limit);
        p = field(p, eligible, sizeof eligible);
        field(p, start, sizeof start);
        const int64_t from = sw_slurm_moment(eligible), to = sw_slurm_moment(start);
        w->nodes = (int32_t)strtol(nodes, NULL, 10);
        w->limit_s = sw_slurm_time_seconds(limit);
        w->wait_s = (double)(to - from);
        out->count += from > 0 && to >= from && w->nodes > 0;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return 0;
}

int sw_waits_load(struct sw_waits *out, struct sw_error *err)
{
    static const char *const argv[] = {
        "sacct",      "-a", "-n",
        "-P",         "-X", "-S",
        "now-14days", "-o", "Partition,NNodes,Timelimit,Eligible,Start",
        NULL};
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    int status = 0;
    *out = (struct sw_waits){0};
    if (sw_process_exists("sacct") &&
        sw_slurm_process(argv, NULL, ANSWER_SECONDS, &result, &ignored) == 0 && !result.timed_out &&
        result.exit_code == 0)
        status = sw_waits_read(result.out, out, err);
    sw_process_free(&result);
    return status;
}

void sw_waits_free(struct sw_waits *waits)
{
    free(waits->job);
    *waits = (struct sw_waits){0};
}

static bool near(double a, double b)
{
    return isinf(a) || isinf(b) ? isinf(a) && isinf(b) : a <= 2 * b && b <= 2 * a;
}

struct sw_quantiles sw_waits_like(const struct sw_waits *waits, const char *partition,
                                  int32_t nodes, double limit_s)
{
    double *like = malloc(((size_t)waits->count + 1) * sizeof *like);
    int32_t count = 0;
    if (like == NULL)
        return (struct sw_quantiles){0};
    for (int32_t i = 0; i < waits->count; i++) {
        const struct sw_wait *w = &waits->job[i];
        if (strcmp(w->partition, partition) == 0 && near(w->nodes, nodes) &&
            near(w->limit_s, limit_s))
            like[count++] = w->wait_s;
    }
    const struct sw_quantiles out = sw_quantiles_of(like, count);
    free(like);
    return out;
}

/* ---- Our own jobs ---- */

/* false: no home directory for it. */
static bool log_path(char folder[PATH_MAX], char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (state != NULL && state[0] == '/')
        length = snprintf(folder, PATH_MAX, "%s/shardwright", state);
    else if (home != NULL && home[0] == '/')
        length = snprintf(folder, PATH_MAX, "%s/.local/state/shardwright", home);
    return length > 0 && length < PATH_MAX - 32 &&
           snprintf(path, PATH_MAX, "%s/starts.jsonl", folder) < PATH_MAX;
}

/* Appends one line in a single write, so that concurrent writers leave whole lines. */
static void append(const char *cluster, int64_t job, const char *key, int64_t first,
                   const char *other, int64_t second)
{
    char folder[PATH_MAX], path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    struct sw_error ignored = {0};
    if (!log_path(folder, path) || sw_file_make_folder(folder, &ignored) != 0)
        return;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return;
    struct sw_json j = {.out = out, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "cluster", cluster);
    sw_json_integer(&j, "job", job);
    sw_json_integer(&j, key, first);
    if (other != NULL)
        sw_json_integer(&j, other, second);
    sw_json_end(&j);
    fputc('\n', out);
    const int fd =
        fclose(out) == 0 ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        /* a missing log does no harm */
        if (write(fd, text, bytes) < 0)
            bytes = 0;
        close(fd);
    }
    free(text);
}

void sw_starts_note(const char *cluster, int64_t job, int64_t asked, int64_t estimate)
{
    append(cluster, job, "asked", asked, "estimate", estimate);
}

struct noted {
    int64_t job, asked, estimate, started;
};

/* Reads the newest jobs of the cluster in the log. */
static int32_t read_log(const char *cluster, struct noted out[LOG_JOBS_MAX])
{
    char folder[PATH_MAX], path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    int32_t count = 0;
    if (!log_path(folder, path) ||
        sw_file_read(path, true, LOG_BYTES_MAX, &text, &bytes, NULL) != 0)
        return 0;
    for (char *line = text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        json_t *entry = json_loadb(line, length, 0, NULL);
        const char *of = json_string_value(json_object_get(entry, "cluster"));
        const int64_t job = json_integer_value(json_object_get(entry, "job"));
        const int64_t started = json_integer_value(json_object_get(entry, "started"));
        if (of != NULL && strcmp(of, cluster) == 0 && job > 0 && started > 0) {
            for (int32_t i = count - 1; i >= 0; i--)
                if (out[i].job == job) {
                    out[i].started = started;
                    break;
                }
        } else if (of != NULL && strcmp(of, cluster) == 0 && job > 0) {
            if (count == LOG_JOBS_MAX)
                memmove(out, out + 1, (size_t)--count * sizeof *out);
            out[count++] =
                (struct noted){.job = job,
                               .asked = json_integer_value(json_object_get(entry, "asked")),
                               .estimate = json_integer_value(json_object_get(entry, "estimate"))};
        }
        json_decref(entry);
        line += length;
        line += *line == '\n';
    }
    free(text);
    return count;
}

/* Finds starts of jobs that the controller still knows. */
static int settle(struct sw_slurm *slurm, struct noted *noted, int32_t count, struct sw_error *err)
{
    struct sw_queued_jobs queue = {0};
    int32_t open_count = 0;
    for (int32_t i = 0; i < count; i++)
        open_count += noted[i].started == 0;
    if (open_count == 0)
        return 0;
    const int status = sw_slurm_queue(slurm, &queue, err);
    for (int32_t i = 0; status == 0 && i < count; i++) {
        for (int32_t k = 0; noted[i].started == 0 && k < queue.count; k++) {
            const struct sw_queued_job *q = &queue.job[k];
            if (q->number != noted[i].job || q->start < noted[i].asked ||
                q->start > (int64_t)time(NULL) || strcmp(q->state, "PENDING") == 0)
                continue;
            noted[i].started = q->start;
            append(sw_slurm_cluster(slurm), q->number, "started", q->start, NULL, 0);
        }
    }
    sw_queued_jobs_free(&queue);
    return status;
}

int sw_starts_ratio(struct sw_slurm *slurm, struct sw_quantiles *out, struct sw_error *err)
{
    const double least = 60; /* seconds: a shorter wait counts as none */
    struct noted *noted = calloc(LOG_JOBS_MAX, sizeof *noted);
    double *ratio = calloc(LOG_JOBS_MAX, sizeof *ratio);
    int32_t used = 0, status = -1;
    *out = (struct sw_quantiles){0};
    if (noted == NULL || ratio == NULL) {
        no_memory(err);
        goto out;
    }
    const int32_t count = read_log(sw_slurm_cluster(slurm), noted);
    if (settle(slurm, noted, count, err) != 0)
        goto out;
    for (int32_t i = 0; i < count; i++)
        if (noted[i].started > 0)
            ratio[used++] = fmax((double)(noted[i].started - noted[i].asked), least) /
                            fmax((double)(noted[i].estimate - noted[i].asked), least);
    *out = sw_quantiles_of(ratio, used);
    status = 0;
out:
    free(noted);
    free(ratio);
    return status;
}
