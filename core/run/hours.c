#include "core/run/hours.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/run/metrics_line.h"
#include "core/run/stages.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(id, key, words) [SW_TIME_##id] = key,
const char *const sw_time_part_keys[SW_TIME_PART_COUNT] = {SW_TIME_PARTS(X)};
#undef X
#define X(id, key, words) [SW_TIME_##id] = words,
const char *const sw_time_part_words[SW_TIME_PART_COUNT] = {SW_TIME_PARTS(X)};
#undef X

/* A start of the ranks; seconds since rank 0 was started. */
struct attempt {
    char job[64];
    double began; /* since 1970; 0: unknown */
    double ready_s, last_s;
    double steps_s, lost_s, saves_s, evaluation_s; /* lost: seconds of steps that were repeated */
    double wait_s, judge_s; /* seconds of saves and evaluations after the last step */
    double durable_s;       /* seconds that the newest of those saves takes beyond its pause */
    int64_t ranks, step;    /* newest step; 0: none */
};

/* A completed step and its cost. */
struct kept {
    int64_t step, attempt;
    double seconds, mfu;
};

struct allocation {
    char job[64];
    int64_t restarts, accelerators;
    double began, ended, limit_s; /* ended 0: unknown */
};

struct summing {
    int64_t before; /* steps of earlier stages, added to those of this one */
    struct attempt *attempt;
    struct kept *kept;
    struct allocation *allocation;
    int64_t attempts, kepts, allocations;
    int64_t saved; /* newest step with a checkpoint */
    const char *job;
    struct sw_hours *out;
    struct sw_error *err;
};

static bool counts(const struct summing *s, const char *job)
{
    return s->job == NULL || strcmp(s->job, job) == 0;
}

/* Makes room for one more element of `bytes` behind `count`, in powers of two; NULL: no memory. */
static void *grow(void *array, int64_t count, size_t bytes, struct sw_error *err)
{
    if ((count & (count + 1)) != 0 && count != 0)
        return array;
    void *grown = realloc(array, (size_t)(2 * count + 1) * bytes);
    if (grown == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the run's time");
    return grown;
}

/* ---- Lines of the ranks ---- */

static int take_header(struct summing *s, const struct sw_metrics_line *line)
{
    struct attempt *grown = grow(s->attempt, s->attempts, sizeof *grown, s->err);
    if (grown == NULL)
        return -1;
    s->attempt = grown;
    struct attempt *a = &grown[s->attempts++];
    *a = (struct attempt){.ready_s = line->elapsed_s,
                          .last_s = line->elapsed_s,
                          .ranks = line->ranks > 0 ? line->ranks : 1};
    memcpy(a->job, line->job, sizeof a->job);
    a->began = line->time > 0 ? line->time - line->elapsed_s : 0;
    if (line->first_step > s->saved)
        s->saved = line->first_step;
    if (counts(s, a->job)) {
        s->out->memory_planned = line->predicted_memory;
        s->out->memory_limit = line->memory_limit;
        s->out->memory_used = 0;
    }
    return 0;
}

/* Drops the last completed step, which was lost. */
static void drop_step(struct summing *s)
{
    const struct kept *k = &s->kept[--s->kepts];
    struct attempt *a = &s->attempt[k->attempt];
    a->steps_s -= k->seconds;
    a->lost_s += k->seconds;
    if (!counts(s, a->job))
        return;
    s->out->repeated_steps++;
}

static int take_step(struct summing *s, const struct sw_metrics_line *line)
{
    while (s->kepts > 0 && s->kept[s->kepts - 1].step >= line->step)
        drop_step(s);
    struct kept *grown = grow(s->kept, s->kepts, sizeof *grown, s->err);
    if (grown == NULL)
        return -1;
    s->kept = grown;
    struct attempt *a = &s->attempt[s->attempts - 1];
    grown[s->kepts++] = (struct kept){line->step, s->attempts - 1, line->step_s, line->mfu};
    a->steps_s += line->step_s;
    a->saves_s += a->wait_s;
    a->evaluation_s += a->judge_s;
    a->wait_s = a->judge_s = a->durable_s = 0;
    a->last_s = fmax(line->elapsed_s, a->last_s + (line->elapsed_s > 0 ? 0 : line->step_s));
    a->step = line->step;
    if (counts(s, a->job) && line->memory_bytes > s->out->memory_used)
        s->out->memory_used = line->memory_bytes;
    return 0;
}

/* Counts a save: after the last step ranks wait for all of it, before that for its pause. */
static void take_save(struct summing *s, const struct sw_metrics_line *line)
{
    struct attempt *a = &s->attempt[s->attempts - 1];
    a->wait_s += line->pause_s;
    if (line->step == a->step)
        a->durable_s = fmax(0, line->durable_s - line->pause_s);
    if (line->step > s->saved)
        s->saved = line->step;
}

static int take_line(struct summing *s, const char *text, size_t bytes)
{
    struct sw_metrics_line line;
    sw_metrics_line_parse(text, bytes, &line);
    line.step += s->before;
    line.first_step += s->before;
    if (line.kind == SW_METRICS_HEADER)
        return take_header(s, &line);
    if (s->attempts == 0)
        return 0;
    if (line.kind == SW_METRICS_STEP)
        return take_step(s, &line);
    if (line.kind == SW_METRICS_SAVE)
        take_save(s, &line);
    if (line.kind == SW_METRICS_HELD_OUT)
        s->attempt[s->attempts - 1].judge_s += line.seconds;
    return 0;
}

/* ---- Lines of the jobs ---- */

static double number(const json_t *line, const char *key)
{
    const double value = json_number_value(json_object_get(line, key));
    return isfinite(value) && value > 0 ? value : 0;
}

static int take_begin(struct summing *s, const char *job, const json_t *line)
{
    struct allocation *grown = grow(s->allocation, s->allocations, sizeof *grown, s->err);
    if (grown == NULL)
        return -1;
    s->allocation = grown;
    struct allocation *a = &grown[s->allocations++];
    *a = (struct allocation){.restarts = (int64_t)fmin(number(line, "restarts"), 1e9),
                             .accelerators = (int64_t)fmin(number(line, "accelerators"), 1e9),
                             .began = number(line, "began")};
    snprintf(a->job, sizeof a->job, "%s", job);
    return 0;
}

static int take_allocation(struct summing *s, const char *text, size_t bytes)
{
    json_t *line = json_loadb(text, bytes, 0, NULL);
    const char *job = json_string_value(json_object_get(line, "job"));
    int status = 0;
    if (job != NULL && strlen(job) < 64 && number(line, "began") > 0) {
        status = take_begin(s, job, line);
    } else if (job != NULL && number(line, "ended") > 0) {
        const int64_t restarts = (int64_t)fmin(number(line, "restarts"), 1e9);
        for (int64_t i = s->allocations - 1; i >= 0; i--) {
            struct allocation *a = &s->allocation[i];
            if (strcmp(a->job, job) != 0 || a->restarts != restarts || a->ended > 0)
                continue;
            a->ended = number(line, "ended");
            a->limit_s = number(line, "limit_seconds");
            break;
        }
    }
    json_decref(line);
    return status;
}

/* Calls take for each whole line; a missing file has none. */
static int read_lines(struct summing *s, const char *folder, const char *name,
                      int (*take)(struct summing *s, const char *text, size_t bytes))
{
    char *path = sw_path_join(folder, name), *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    int status = 0;
    FILE *in = path != NULL ? fopen(path, "re") : NULL;
    if (path == NULL)
        status = sw_fail(s->err, SW_ENVIRONMENT, "out of memory for the path of %s", name);
    else if (in == NULL && errno != ENOENT && errno != ENOTDIR)
        status = sw_fail(s->err, SW_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    while (in != NULL && status == 0 && (bytes = getline(&line, &room, in)) > 0)
        status = take(s, line, (size_t)bytes);
    if (in != NULL)
        fclose(in);
    free(line);
    free(path);
    return status;
}

/* ---- The sums ---- */

/* Ends an attempt, and adds the time after its last step to it. */
static void close_attempt(struct attempt *a)
{
    const double tail = a->wait_s + a->durable_s + a->judge_s;
    a->saves_s += a->wait_s + a->durable_s;
    a->evaluation_s += a->judge_s;
    a->last_s =
        fmax(a->last_s + tail, a->ready_s + a->steps_s + a->lost_s + a->saves_s + a->evaluation_s);
}

static void add(struct summing *s, enum sw_time_part part, double accelerators, double seconds)
{
    if (seconds > 0)
        s->out->part_s[part] += accelerators * seconds;
}

/* Adds the parts of an attempt, on its ranks. */
static void add_attempt(struct summing *s, const struct attempt *a)
{
    const double ranks = (double)a->ranks;
    add(s, SW_TIME_STARTS, ranks, a->ready_s);
    add(s, SW_TIME_STEPS, ranks, a->steps_s);
    add(s, SW_TIME_REPEATED, ranks, a->lost_s);
    add(s, SW_TIME_SAVES, ranks, a->saves_s);
    add(s, SW_TIME_EVALUATION, ranks, a->evaluation_s);
    add(s, SW_TIME_BETWEEN, ranks,
        a->last_s - a->ready_s - a->steps_s - a->lost_s - a->saves_s - a->evaluation_s);
    s->out->attempts++;
}

/* True if the attempt ran in this allocation: the last one of its job that began before. */
static bool is_of(const struct summing *s, const struct attempt *a, int64_t index)
{
    enum {
        CLOCKS_SECONDS = 5
    }; /* difference between the clocks of a compute node and the
          job's own process */
    const struct allocation *l = &s->allocation[index];
    if (strcmp(a->job, l->job) != 0 || a->began < l->began - CLOCKS_SECONDS)
        return false;
    for (int64_t i = index + 1; i < s->allocations; i++)
        if (strcmp(a->job, s->allocation[i].job) == 0 &&
            a->began >= s->allocation[i].began - CLOCKS_SECONDS)
            return false;
    return true;
}

/* Adds the time that a job held outside of its attempts. */
static void add_allocation(struct summing *s, int64_t index)
{
    const struct allocation *l = &s->allocation[index];
    double cursor = l->began;
    int64_t found = 0;
    for (int64_t i = 0; i < s->attempts; i++) {
        const struct attempt *a = &s->attempt[i];
        if (!is_of(s, a, index))
            continue;
        add(s, SW_TIME_STARTS, (double)l->accelerators, a->began - cursor);
        add(s, SW_TIME_IDLE, (double)(l->accelerators - a->ranks), a->last_s);
        cursor = fmax(cursor, a->began + a->last_s);
        found++;
    }
    add(s, found > 0 ? SW_TIME_IDLE : SW_TIME_STARTS, (double)l->accelerators, l->ended - cursor);
    s->out->job_s = fmax(cursor, l->ended) - l->began;
    s->out->job_limit_s = l->limit_s;
    s->out->supervised = true;
    memcpy(s->out->job, l->job, sizeof s->out->job);
}

static void sum_up(struct summing *s)
{
    struct sw_hours *out = s->out;
    double useful = 0;
    for (int64_t i = 0; i < s->attempts; i++)
        close_attempt(&s->attempt[i]);
    for (int64_t i = 0; i < s->attempts; i++)
        if (counts(s, s->attempt[i].job)) {
            add_attempt(s, &s->attempt[i]);
            out->job_s = s->attempt[i].last_s;
            memcpy(out->job, s->attempt[i].job, sizeof out->job);
        }
    for (int64_t i = 0; i < s->allocations; i++)
        if (counts(s, s->allocation[i].job))
            add_allocation(s, i);
    for (int64_t i = 0; i < s->kepts; i++) {
        const struct attempt *a = &s->attempt[s->kept[i].attempt];
        if (!counts(s, a->job))
            continue;
        out->steps++;
        useful += s->kept[i].mfu * s->kept[i].seconds * (double)a->ranks;
    }
    for (int32_t i = 0; i < SW_TIME_PART_COUNT; i++)
        out->held_s += out->part_s[i];
    const double steps_s = out->part_s[SW_TIME_STEPS];
    out->mfu = steps_s > 0 ? useful / steps_s : 0;
    out->held_mfu = out->held_s > 0 ? useful / out->held_s : 0;
}

/* Reads the lines of a run's ranks, or those of each stage. */
static int read_ranks(struct summing *s, const char *folder)
{
    char note[256];
    struct sw_stages *stages = calloc(1, sizeof *stages);
    if (stages == NULL)
        return sw_fail(s->err, SW_ENVIRONMENT, "out of memory for the run's time");
    int status = sw_stages_read(folder, stages, note, s->err);
    if (status == 0 && stages->count == 0)
        status = read_lines(s, folder, "metrics.jsonl", take_line);
    for (int32_t i = 0; status == 0 && i < stages->count; i++) {
        char *inside = sw_path_join(folder, stages->stage[i].name);
        s->before = sw_stages_steps(stages, i) - stages->stage[i].first_step;
        status = inside != NULL
                     ? read_lines(s, inside, "metrics.jsonl", take_line)
                     : sw_fail(s->err, SW_ENVIRONMENT, "out of memory for the run's time");
        free(inside);
    }
    free(stages);
    return status;
}

int sw_hours_read(const char *folder, const char *job, bool live, struct sw_hours *out,
                  struct sw_error *err)
{
    struct summing s = {.job = job, .out = out, .err = err};
    *out = (struct sw_hours){0};
    int status = read_ranks(&s, folder);
    if (status == 0)
        status = read_lines(&s, folder, "allocations.jsonl", take_allocation);
    while (status == 0 && !live && s.kepts > 0 && s.kept[s.kepts - 1].step > s.saved)
        drop_step(&s);
    if (status == 0)
        sum_up(&s);
    free(s.attempt);
    free(s.kept);
    free(s.allocation);
    return status;
}

/* ---- Writers ---- */

static int append(const char *folder, char *text, size_t bytes, struct sw_error *err)
{
    char *path = sw_path_join(folder, "allocations.jsonl");
    FILE *out = path != NULL ? fopen(path, "ae") : NULL;
    bool kept = out != NULL && fwrite(text, 1, bytes, out) == bytes;
    if (out != NULL)
        kept = fclose(out) == 0 && kept;
    const int status = kept ? 0
                            : sw_fail(err, SW_ENVIRONMENT, "cannot write %s/allocations.jsonl: %s",
                                      folder, strerror(errno));
    free(path);
    return status;
}

enum { TIME_DIGITS = 14 }; /* digits of a date in milliseconds */

static FILE *begin_line(struct sw_json *j, char **text, size_t *bytes, const char *job,
                        int64_t restarts, struct sw_error *err)
{
    FILE *memory = open_memstream(text, bytes);
    if (memory == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for allocations.jsonl");
        return NULL;
    }
    *j = (struct sw_json){.out = memory, .style = SW_JSON_LINE};
    sw_json_object(j, NULL);
    sw_json_text(j, "job", job);
    sw_json_integer(j, "restarts", restarts);
    return memory;
}

static int end_line(struct sw_json *j, FILE *memory, const char *folder, char **text, size_t *bytes,
                    struct sw_error *err)
{
    sw_json_end(j);
    fputc('\n', memory);
    const int status = fclose(memory) != 0
                           ? sw_fail(err, SW_ENVIRONMENT, "out of memory for allocations.jsonl")
                           : append(folder, *text, *bytes, err);
    free(*text);
    return status;
}

int sw_allocation_note_begin(const char *folder, const char *job, int64_t restarts,
                             int64_t accelerators, double began, struct sw_error *err)
{
    struct sw_json j;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = begin_line(&j, &text, &bytes, job, restarts, err);
    if (memory == NULL)
        return -1;
    sw_json_integer(&j, "accelerators", accelerators);
    sw_json_digits(&j, "began", began, TIME_DIGITS);
    return end_line(&j, memory, folder, &text, &bytes, err);
}

int sw_allocation_note_end(const char *folder, const char *job, int64_t restarts, double ended,
                           int32_t code, double limit_s, struct sw_error *err)
{
    struct sw_json j;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = begin_line(&j, &text, &bytes, job, restarts, err);
    if (memory == NULL)
        return -1;
    sw_json_digits(&j, "ended", ended, TIME_DIGITS);
    sw_json_integer(&j, "code", code);
    sw_json_digits(&j, "limit_seconds", limit_s, TIME_DIGITS);
    return end_line(&j, memory, folder, &text, &bytes, err);
}
