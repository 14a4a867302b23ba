#include "core/run/metrics_line.h"

#include "core/base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double number(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double positive(const json_t *line, const char *key)
{
    const double value = number(line, key);
    return isfinite(value) && value > 0 ? value : 0;
}

static int64_t count(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_integer(value) && json_integer_value(value) > 0 ? json_integer_value(value) : 0;
}

static void copy_text(const json_t *line, const char *key, char *out, size_t bytes)
{
    const char *text = json_string_value(json_object_get(line, key));
    snprintf(out, bytes, "%s", text != NULL ? text : "");
    sw_text_show(out);
}

static void take_header(const json_t *line, struct sw_metrics_line *out)
{
    out->kind = SW_METRICS_HEADER;
    out->attempt = count(line, "attempt");
    copy_text(line, "plan_digest", out->plan_digest, sizeof out->plan_digest);
    copy_text(line, "mesh_dim", out->mesh, sizeof out->mesh);
    copy_text(line, "job", out->job, sizeof out->job);
    out->predicted_s = positive(line, "predicted_step_seconds");
    out->predicted_memory = count(line, "predicted_memory");
    out->memory_limit = count(line, "memory_limit");
    out->time = positive(line, "time");
    out->ranks = count(line, "ranks");
    out->first_step = count(line, "first_step");
    out->last_step = count(line, "last_step");
    out->evaluation_batches = count(line, "evaluation_batches");
}

static void take_step(const json_t *line, struct sw_metrics_line *out)
{
    out->kind = SW_METRICS_STEP;
    out->step = count(line, "step");
    out->loss = number(line, "loss");
    out->step_s = positive(line, "step_seconds");
    out->tokens_per_second = positive(line, "tokens_per_second");
    out->mfu = positive(line, "mfu");
    out->memory_bytes = count(line, "memory_bytes");
}

static void take(const json_t *line, struct sw_metrics_line *out)
{
    const char *schema = json_string_value(json_object_get(line, "schema"));
    out->elapsed_s = positive(line, "elapsed_seconds");
    if (schema != NULL && strcmp(schema, "shardwright.metrics/1") == 0) {
        take_header(line, out);
    } else if (json_object_get(line, "step_seconds") != NULL && count(line, "step") > 0) {
        take_step(line, out);
    } else if (json_object_get(line, "held_out_bits_per_token") != NULL) {
        out->kind = SW_METRICS_HELD_OUT;
        out->step = count(line, "step");
        out->held_out_bits = number(line, "held_out_bits_per_token");
        out->seconds = positive(line, "seconds");
    } else if (count(line, "checkpoint_step") > 0) {
        out->kind = SW_METRICS_SAVE;
        out->step = count(line, "checkpoint_step");
        out->pause_s = positive(line, "pause_seconds");
        out->durable_s = positive(line, "durable_seconds");
    }
}

void sw_metrics_line_parse(const char *text, size_t bytes, struct sw_metrics_line *out)
{
    json_t *line = json_loadb(text, bytes, 0, NULL);
    memset(out, 0, sizeof *out);
    out->loss = out->held_out_bits = NAN;
    if (json_is_object(line))
        take(line, out);
    json_decref(line);
}
