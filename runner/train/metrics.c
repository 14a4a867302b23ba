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

enum { DIGITS = 9 }; /* of measured values: a float's */

static struct sw_json begin_line(const struct sw_metrics *m)
{
    struct sw_json j = {.out = m->file, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    return j;
}

static void write_digest(struct sw_json *j, const char *key, uint64_t digest)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    sw_json_text(j, key, text);
}

int sw_metrics_header(struct sw_metrics *m, const struct sw_plan *plan, const char *versions,
                      struct sw_error *err)
{
    char mesh[64], order[64];
    struct sw_json j = begin_line(m);
    sw_json_text(&j, "schema", "shardwright.metrics/1");
    sw_json_text(&j, "run", plan->run->name);
    write_digest(&j, "plan_digest", plan->digest);
    write_digest(&j, "program_digest", plan->program_digest[SW_PROGRAM_TRAIN]);
    write_digest(&j, "evaluate_digest", plan->program_digest[SW_PROGRAM_EVALUATE]);
    sw_json_text(&j, "mesh_dim", sw_mesh_format(&plan->decision.mesh, mesh, sizeof mesh));
    sw_json_text(&j, "axis_order", sw_mesh_format_order(&plan->decision.mesh, order, sizeof order));
    sw_json_digits(&j, "predicted_step_seconds", plan->prediction.step_seconds, DIGITS);
    sw_json_integer(&j, "predicted_memory", plan->prediction.memory_total);
    sw_json_integer(&j, "arena_bytes", plan->prediction.arena_bytes);
    sw_json_raw(&j, "versions", versions, strlen(versions));
    sw_json_end(&j);
    return finish(m, err);
}

int sw_metrics_step(struct sw_metrics *m, const struct sw_metrics_step *s, struct sw_error *err)
{
    struct sw_json j = begin_line(m);
    sw_json_integer(&j, "step", s->step);
    sw_json_digits(&j, "loss", s->loss, DIGITS);
    sw_json_digits(&j, "grad_norm", s->grad_norm, DIGITS);
    sw_json_digits(&j, "learning_rate", s->learning_rate, DIGITS);
    sw_json_integer(&j, "tokens", s->tokens);
    sw_json_digits(&j, "step_seconds", s->step_seconds, DIGITS);
    sw_json_digits(&j, "tokens_per_second", (double)s->tokens / s->step_seconds, DIGITS);
    sw_json_digits(&j, "mfu", s->mfu, DIGITS);
    sw_json_integer(&j, "arena_bytes", s->arena_bytes);
    sw_json_end(&j);
    return finish(m, err);
}

int sw_metrics_holdout(struct sw_metrics *m, int64_t step, double bits_per_token,
                       double bigram_bits, struct sw_error *err)
{
    struct sw_json j = begin_line(m);
    sw_json_integer(&j, "step", step);
    sw_json_digits(&j, "held_out_bits_per_token", bits_per_token, DIGITS);
    sw_json_digits(&j, "bigram_bits_per_token", bigram_bits, DIGITS);
    sw_json_end(&j);
    return finish(m, err);
}

void sw_metrics_close(struct sw_metrics *m)
{
    if (m == NULL)
        return;
    fclose(m->file);
    free(m);
}
