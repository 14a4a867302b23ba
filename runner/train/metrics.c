#include "runner/train/metrics.h"

#include "core/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sw_metrics {
    FILE *file;
    off_t whole; /* where the last whole line ends */
    char path[4096];
};

/* A run that was killed may have left the beginning of a line; the next one starts below it. */
static bool ends_inside_line(FILE *file)
{
    return fseeko(file, -1, SEEK_END) == 0 && fgetc(file) != '\n';
}

int sw_metrics_open(const char *directory, struct sw_metrics **out, struct sw_error *err)
{
    if (sw_file_make_folder(directory, err) != 0)
        return -1;
    struct sw_metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the metrics");
    errno = ENAMETOOLONG;
    if (snprintf(m->path, sizeof m->path, "%s/metrics.jsonl", directory) < (int)sizeof m->path)
        m->file = fopen(m->path, "a+");
    if (m->file == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "cannot write %s/metrics.jsonl: %s", directory,
                strerror(errno));
        free(m);
        return -1;
    }
    const bool inside = ends_inside_line(m->file);
    (void)fseeko(m->file, 0, SEEK_END);
    m->whole = ftello(m->file);
    if (inside)
        fputc('\n', m->file);
    *out = m;
    return 0;
}

/* Ends a line; whoever follows the file sees whole lines only. */
static int finish(struct sw_metrics *m, struct sw_error *err)
{
    fputc('\n', m->file);
    if (fflush(m->file) == 0 && !ferror(m->file)) {
        m->whole = ftello(m->file);
        return 0;
    }
    const int reason = errno;
    __fpurge(m->file);
    const int kept = m->whole < 0 ? -1 : ftruncate(fileno(m->file), m->whole);
    (void)kept; /* from a device or a pipe nothing can be taken back */
    return sw_fail(err, SW_ENVIRONMENT, "cannot write %s: %s", m->path, strerror(reason));
}

/* JSON has no NaN and no infinity. */
static void number(FILE *file, const char *key, double value)
{
    if (isfinite(value))
        fprintf(file, ",\"%s\":%.9g", key, value);
    else
        fprintf(file, ",\"%s\":null", key);
}

static void string(FILE *file, const char *key, const char *value)
{
    fprintf(file, ",\"%s\":\"", key);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', file);
        if ((unsigned char)*value >= 0x20)
            fputc(*value, file);
    }
    fputc('"', file);
}

int sw_metrics_header(struct sw_metrics *m, const struct sw_plan *plan, const char *versions,
                      struct sw_error *err)
{
    char mesh[64], order[64];
    FILE *f = m->file;
    fprintf(f, "{\"schema\":\"shardwright.metrics/1\"");
    string(f, "run", plan->run->name);
    fprintf(f, ",\"plan_digest\":\"%016" PRIx64 "\",\"program_digest\":\"%016" PRIx64 "\"",
            plan->digest, plan->program_digest);
    string(f, "mesh_dim", sw_mesh_format(&plan->decision.mesh, mesh, sizeof mesh));
    string(f, "axis_order", sw_mesh_format_order(&plan->decision.mesh, order, sizeof order));
    number(f, "predicted_step_seconds", plan->prediction.step_seconds);
    fprintf(f, ",\"predicted_memory\":%" PRId64 ",\"arena_bytes\":%" PRId64 ",\"versions\":%s}",
            plan->prediction.memory_total, plan->prediction.arena_bytes, versions);
    return finish(m, err);
}

int sw_metrics_step(struct sw_metrics *m, const struct sw_metrics_step *s, struct sw_error *err)
{
    FILE *f = m->file;
    fprintf(f, "{\"step\":%" PRId64, s->step);
    number(f, "loss", s->loss);
    number(f, "grad_norm", s->grad_norm);
    number(f, "learning_rate", s->learning_rate);
    fprintf(f, ",\"tokens\":%" PRId64, s->tokens);
    number(f, "step_seconds", s->step_seconds);
    number(f, "tokens_per_second", (double)s->tokens / s->step_seconds);
    number(f, "mfu", s->mfu);
    fprintf(f, ",\"arena_bytes\":%" PRId64 "}", s->arena_bytes);
    return finish(m, err);
}

int sw_metrics_holdout(struct sw_metrics *m, int64_t step, double bits_per_token,
                       double bigram_bits, struct sw_error *err)
{
    fprintf(m->file, "{\"step\":%" PRId64, step);
    number(m->file, "held_out_bits_per_token", bits_per_token);
    number(m->file, "bigram_bits_per_token", bigram_bits);
    fputc('}', m->file);
    return finish(m, err);
}

void sw_metrics_close(struct sw_metrics *m)
{
    if (m == NULL)
        return;
    fclose(m->file);
    free(m);
}
