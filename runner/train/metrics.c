#include "runner/train/metrics.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sw_metrics {
    FILE *file;
    off_t whole;  /* end of the part to keep */
    bool inside;  /* true if a killed run's line lacks its end: the next one begins below */
    char *header; /* header to recreate the file with; NULL: none yet */
    size_t header_bytes;
    bool header_due; /* true if the file lacks it */
    bool gone;       /* true if the open file was removed and no other can be opened */
    char *waiting;   /* whole lines not yet written */
    size_t waiting_bytes;
    FILE *line; /* the current line, in memory */
    char *line_text;
    size_t line_bytes;
    char path[4096];
};

/* Limit of waiting lines, some ten thousand. Later ones are lost. */
enum { MOST_WAITING = 4 << 20 };

/* Start of the last line if it may be incomplete, else the end. *inside: the object is complete,
 * only its line end is missing. */
static off_t whole_lines(FILE *file, bool *inside)
{
    off_t at = 0, begin = 0;
    int depth = 0;
    bool text = false, escaped = false, closed = false;
    rewind(file);
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) {
        at++;
        if (c == '\n') {
            begin = at;
            depth = 0;
            text = escaped = closed = false;
            continue;
        }
        text = text != (c == '"' && !escaped);
        escaped = text && c == '\\' && !escaped;
        depth += text ? 0 : (c == '{') - (c == '}');
        closed = closed || (c == '}' && !text && depth == 0);
    }
    *inside = closed && at > begin;
    return *inside ? at : begin;
}

/* Opens m->path for appending. */
static int open_file(struct sw_metrics *m, struct sw_error *err)
{
    m->file = fopen(m->path, "a+e");
    if (m->file == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot write %s: %s", m->path, strerror(errno));
    /* a killed run may have left part of a line, invalid for readers */
    struct stat is;
    if (fstat(fileno(m->file), &is) == 0 && S_ISREG(is.st_mode)) {
        const off_t whole = whole_lines(m->file, &m->inside);
        if (whole < is.st_size && ftruncate(fileno(m->file), whole) != 0)
            m->inside = true; /* the next line begins below it */
    }
    (void)fseeko(m->file, 0, SEEK_END);
    m->whole = ftello(m->file);
    return 0;
}

int sw_metrics_open(const char *directory, struct sw_metrics **out, struct sw_error *err)
{
    if (sw_file_make_folder(directory, err) != 0)
        return -1;
    struct sw_metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the metrics");
    if (snprintf(m->path, sizeof m->path, "%s/metrics.jsonl", directory) >= (int)sizeof m->path) {
        free(m);
        return sw_fail(err, SW_ENVIRONMENT, "cannot write %s/metrics.jsonl: %s", directory,
                       strerror(ENAMETOOLONG));
    }
    if (open_file(m, err) != 0) {
        free(m);
        return -1;
    }
    *out = m;
    return 0;
}

/* Appends all or nothing: readers see only whole lines. */
static int append(struct sw_metrics *m, const char *text, size_t bytes, struct sw_error *err)
{
    if (m->inside)
        fputc('\n', m->file);
    fwrite(text, 1, bytes, m->file);
    if (fflush(m->file) == 0 && !ferror(m->file)) {
        m->inside = false;
        m->whole = ftello(m->file);
        return 0;
    }
    const int reason = errno;
    __fpurge(m->file);
    clearerr(m->file);
    const int kept = m->whole < 0 ? -1 : ftruncate(fileno(m->file), m->whole);
    (void)kept; /* devices and pipes cannot be truncated */
    return sw_fail(err, SW_ENVIRONMENT, "cannot write %s: %s", m->path, strerror(reason));
}

/* Writes the header if due, then the waiting lines. */
static int write_waiting(struct sw_metrics *m, struct sw_error *err)
{
    if (m->gone)
        return sw_fail(err, SW_ENVIRONMENT, "cannot write %s: it was removed", m->path);
    if (m->header_due) {
        if (append(m, m->header, m->header_bytes, err) != 0)
            return -1;
        m->header_due = false;
    }
    if (m->waiting_bytes > 0 && append(m, m->waiting, m->waiting_bytes, err) != 0)
        return -1;
    free(m->waiting);
    m->waiting = NULL;
    m->waiting_bytes = 0;
    return 0;
}

enum { DIGITS = 9 };       /* for measured values: a float's */
enum { TIME_DIGITS = 14 }; /* for a date to the millisecond */

static int begin_line(struct sw_metrics *m, struct sw_json *j, struct sw_error *err)
{
    m->line = open_memstream(&m->line_text, &m->line_bytes);
    if (m->line == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the metrics");
    *j = (struct sw_json){.out = m->line, .style = SW_JSON_LINE};
    sw_json_object(j, NULL);
    return 0;
}

/* Adds the line after the waiting ones, then tries to write all. */
static int end_line(struct sw_metrics *m, struct sw_json *j, struct sw_error *err)
{
    sw_json_end(j);
    fputc('\n', m->line);
    bool kept = fclose(m->line) == 0;
    m->line = NULL;
    if (kept && m->waiting_bytes + m->line_bytes <= MOST_WAITING) {
        char *more = realloc(m->waiting, m->waiting_bytes + m->line_bytes);
        kept = more != NULL;
        if (kept) {
            memcpy(more + m->waiting_bytes, m->line_text, m->line_bytes);
            m->waiting = more;
            m->waiting_bytes += m->line_bytes;
        }
    }
    free(m->line_text);
    m->line_text = NULL;
    return kept ? write_waiting(m, err)
                : sw_fail(err, SW_ENVIRONMENT, "out of memory for the metrics");
}

static void write_digest(struct sw_json *j, const char *key, uint64_t digest)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    sw_json_text(j, key, text);
}

static void print_header(FILE *out, const struct sw_plan *plan, const char *versions,
                         const struct sw_metrics_start *start)
{
    const struct sw_metrics_loaded *loaded = &start->loaded;
    char mesh[64], order[64];
    struct sw_json j = {.out = out, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.metrics/1");
    sw_json_text(&j, "run", plan->run->name);
    sw_json_integer(&j, "attempt", start->attempt);
    write_digest(&j, "plan_digest", plan->digest);
    write_digest(&j, "program_digest", plan->program_digest[SW_PROGRAM_TRAIN]);
    write_digest(&j, "evaluate_digest", plan->program_digest[SW_PROGRAM_EVALUATE]);
    write_digest(&j, "save_digest", plan->program_digest[SW_PROGRAM_SAVE]);
    sw_json_text(&j, "mesh_dim", sw_mesh_format(&plan->decision.mesh, mesh, sizeof mesh));
    sw_json_text(&j, "axis_order", sw_mesh_format_order(&plan->decision.mesh, order, sizeof order));
    sw_json_digits(&j, "predicted_step_seconds", plan->prediction.step_seconds, DIGITS);
    sw_json_integer(&j, "predicted_memory", plan->prediction.memory_total);
    sw_json_integer(&j, "arena_bytes", plan->prediction.arena_bytes);
    sw_json_text(&j, "job", start->job);
    sw_json_digits(&j, "time", start->time, TIME_DIGITS);
    sw_json_digits(&j, "elapsed_seconds", start->elapsed_s, DIGITS);
    sw_json_integer(&j, "ranks", start->ranks);
    sw_json_integer(&j, "first_step", start->first_step);
    sw_json_integer(&j, "last_step", start->last_step);
    sw_json_integer(&j, "evaluation_batches", start->evaluation_batches);
    sw_json_integer(&j, "memory_limit", start->memory_limit);
    if (loaded->folder != NULL) {
        sw_json_object(&j, "loaded");
        sw_json_text(&j, "folder", loaded->folder);
        sw_json_integer(&j, "bytes", loaded->bytes);
        sw_json_integer(&j, "reads", loaded->reads);
        sw_json_digits(&j, "seconds", loaded->seconds, DIGITS);
        sw_json_integer(&j, "resident_growth_bytes", loaded->resident_growth_bytes);
        sw_json_end(&j);
    }
    sw_json_raw(&j, "versions", versions, strlen(versions));
    sw_json_end(&j);
    fputc('\n', out);
}

int sw_metrics_header(struct sw_metrics *m, const struct sw_plan *plan, const char *versions,
                      const struct sw_metrics_start *start, struct sw_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory != NULL)
        print_header(memory, plan, versions, start);
    if (memory == NULL || fclose(memory) != 0) {
        free(text);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the metrics");
    }
    free(m->header);
    m->header = text;
    m->header_bytes = bytes;
    m->header_due = true;
    return write_waiting(m, err);
}

/* True if the path names no file, or another one than the open one. */
static bool is_gone(const struct sw_metrics *m)
{
    struct stat there, ours;
    if (fstat(fileno(m->file), &ours) != 0)
        return false;
    if (stat(m->path, &there) == 0)
        return there.st_dev != ours.st_dev || there.st_ino != ours.st_ino;
    return errno == ENOENT; /* not for a file system that is away for a while */
}

int sw_metrics_renew(struct sw_metrics *m, struct sw_error *err)
{
    if (!is_gone(m)) {
        m->gone = false;
        return write_waiting(m, err);
    }
    m->gone = true; /* until another is opened */
    FILE *before = m->file;
    char *folder = sw_path_folder(m->path);
    const int made = folder == NULL ? 0 : sw_file_make_folder(folder, err);
    free(folder);
    if (made != 0 || open_file(m, err) != 0) {
        m->file = before;
        return -1;
    }
    fclose(before);
    m->gone = false;
    m->header_due = m->whole == 0 && m->header != NULL;
    return write_waiting(m, err) != 0 ? -1 : 1;
}

int sw_metrics_step(struct sw_metrics *m, const struct sw_metrics_step *s, struct sw_error *err)
{
    struct sw_json j;
    if (begin_line(m, &j, err) != 0)
        return -1;
    sw_json_integer(&j, "step", s->step);
    sw_json_digits(&j, "loss", s->loss, DIGITS);
    sw_json_digits(&j, "grad_norm", s->grad_norm, DIGITS);
    sw_json_digits(&j, "learning_rate", s->learning_rate, DIGITS);
    sw_json_integer(&j, "tokens", s->tokens);
    if (s->varies)
        sw_json_integer(&j, "labels", s->labels);
    sw_json_digits(&j, "step_seconds", s->step_seconds, DIGITS);
    sw_json_digits(&j, "tokens_per_second", (double)s->tokens / s->step_seconds, DIGITS);
    sw_json_digits(&j, "mfu", s->mfu, DIGITS);
    sw_json_integer(&j, "arena_bytes", s->arena_bytes);
    sw_json_digits(&j, "elapsed_seconds", s->elapsed_s, DIGITS);
    sw_json_integer(&j, "memory_bytes", s->memory_bytes);
    if (s->spike != NULL)
        sw_json_text(&j, "spike", s->spike);
    return end_line(m, &j, err);
}

int sw_metrics_holdout(struct sw_metrics *m, int64_t step, double bits_per_token,
                       double bigram_bits, double seconds, struct sw_error *err)
{
    struct sw_json j;
    if (begin_line(m, &j, err) != 0)
        return -1;
    sw_json_integer(&j, "step", step);
    sw_json_digits(&j, "held_out_bits_per_token", bits_per_token, DIGITS);
    sw_json_digits(&j, "bigram_bits_per_token", bigram_bits, DIGITS);
    sw_json_digits(&j, "seconds", seconds, DIGITS);
    return end_line(m, &j, err);
}

bool sw_metrics_has_holdout(const char *directory, int64_t step)
{
    char path[4096], wanted[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    snprintf(wanted, sizeof wanted, "{\"step\":%" PRId64 ",\"held_out_bits_per_token\":", step);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getline(&line, &room, file) > 0)
        found = strncmp(line, wanted, strlen(wanted)) == 0 && strchr(line, '}') != NULL;
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

int sw_metrics_save(struct sw_metrics *m, const struct sw_metrics_save *s, struct sw_error *err)
{
    struct sw_json j;
    if (begin_line(m, &j, err) != 0)
        return -1;
    sw_json_integer(&j, "checkpoint_step", s->step);
    sw_json_integer(&j, "checkpoint_bytes", s->bytes);
    sw_json_digits(&j, "pause_seconds", s->pause_s, DIGITS);
    sw_json_digits(&j, "write_seconds", s->write_s, DIGITS);
    sw_json_digits(&j, "durable_seconds", s->seconds, DIGITS);
    return end_line(m, &j, err);
}

void sw_metrics_close(struct sw_metrics *m)
{
    if (m == NULL)
        return;
    (void)write_waiting(m, NULL); /* last attempt; its failure was reported */
    fclose(m->file);
    free(m->waiting);
    free(m->header);
    free(m);
}
