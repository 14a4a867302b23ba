#include "core/run/stages.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 16 };
static const char schema[] = "shardwright.stages/1", file_name[] = "stages.json";

/* ---- Reading ---- */

/* True if it can be a folder's name in paths. */
static bool is_name(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && text[0] != '\0' && strlen(text) == json_string_length(value) &&
           strlen(text) < SW_STAGE_NAME_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               strlen(text);
}

static bool get_count(const json_t *stage, const char *key, int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(stage, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= most;
}

static bool get_stage(const json_t *stage, struct sw_stage *out)
{
    const json_t *name = json_object_get(stage, "name"),
                 *seconds = json_object_get(stage, "step_seconds");
    int64_t fewest, nodes;
    if (!is_name(name) || !get_count(stage, "steps", INT64_MAX, &out->steps) ||
        !get_count(stage, "first_step", INT64_MAX, &out->first_step) ||
        !get_count(stage, "fewest_nodes", INT32_MAX, &fewest) ||
        !get_count(stage, "nodes", INT32_MAX, &nodes) || !json_is_number(seconds) ||
        !(json_number_value(seconds) >= 0))
        return false;
    snprintf(out->name, sizeof out->name, "%s", json_string_value(name));
    out->step_seconds = json_number_value(seconds);
    out->fewest_nodes = (int32_t)fewest;
    out->nodes = (int32_t)nodes;
    return true;
}

/* Parses stages.json. Returns the mistake of the text; NULL: none. */
static const char *parse(const char *text, size_t bytes, struct sw_stages *out)
{
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *version = json_string_value(json_object_get(root, "schema"));
    const json_t *list = json_object_get(root, "stages");
    const size_t count = json_array_size(list);
    const char *wrong = NULL;
    if (version == NULL || strcmp(version, schema) != 0)
        wrong = "its schema is not shardwright.stages/1";
    else if (count < 1 || count > SW_STAGES)
        wrong = "'stages' is not a list of 1 to 64 stages";
    for (size_t i = 0; wrong == NULL && i < count; i++)
        if (!get_stage(json_array_get(list, i), &out->stage[i]))
            wrong = "a stage lacks name, steps, first_step, step_seconds, fewest_nodes or nodes";
    out->count = wrong == NULL ? (int32_t)count : 0;
    json_decref(root);
    return wrong;
}

int sw_stages_read(const char *folder, struct sw_stages *out, char note[256], struct sw_error *err)
{
    char *path = sw_path_join(folder, file_name), *text = NULL;
    size_t bytes = 0;
    *out = (struct sw_stages){0};
    note[0] = '\0';
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path of %s/%s", folder,
                       file_name);
    int status = sw_file_read(path, true, BYTES_MAX, &text, &bytes, NULL);
    if (status == 0) {
        const char *wrong = parse(text, bytes, out);
        if (wrong != NULL)
            snprintf(note, 256, "%s is broken, and counts as none", wrong);
    } else if (errno == ENOENT || errno == ENOTDIR) {
        status = 0;
    } else {
        sw_fail(err, SW_ENVIRONMENT, "cannot read '%s': %s", path, strerror(errno));
    }
    free(text);
    free(path);
    return status;
}

/* ---- Writing ---- */

static char *make_text(const char *run, const struct sw_stages *stages, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    struct sw_json j = {.out = out, .style = SW_JSON_TABS};
    if (out == NULL)
        return NULL;
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", schema);
    sw_json_text(&j, "run", run);
    sw_json_array(&j, "stages");
    for (int32_t i = 0; i < stages->count; i++) {
        const struct sw_stage *s = &stages->stage[i];
        sw_json_inline(&j, NULL);
        sw_json_text(&j, "name", s->name);
        sw_json_integer(&j, "steps", s->steps);
        sw_json_integer(&j, "first_step", s->first_step);
        sw_json_number(&j, "step_seconds", s->step_seconds);
        sw_json_integer(&j, "fewest_nodes", s->fewest_nodes);
        sw_json_integer(&j, "nodes", s->nodes);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    sw_json_end(&j);
    fputc('\n', out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

int sw_stages_write(const char *folder, const char *run, const struct sw_stages *stages,
                    struct sw_error *err)
{
    char *path = sw_path_join(folder, file_name), *old = NULL;
    size_t bytes = 0, old_bytes = 0;
    char *text = path != NULL && stages->count > 0 ? make_text(run, stages, &bytes) : NULL;
    int status = 0;
    if (path == NULL || (stages->count > 0 && text == NULL)) {
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory for %s/%s", folder, file_name);
    } else if (stages->count == 0) {
        (void)unlink(path);
    } else if (sw_file_read(path, true, BYTES_MAX, &old, &old_bytes, NULL) != 0 ||
               old_bytes != bytes || memcmp(old, text, bytes) != 0) {
        status = sw_file_write(path, text, bytes, 0666, err);
    }
    free(old);
    free(text);
    free(path);
    return status;
}

/* ---- The current stage ---- */

int32_t sw_stages_current(const char *folder, const struct sw_stages *stages)
{
    char note[256];
    for (int32_t i = stages->count - 1; i >= 0; i--) {
        const struct sw_stage *s = &stages->stage[i];
        struct sw_attempt attempt = {0};
        char *inside = sw_path_join(folder, s->name);
        if (inside == NULL || sw_attempt_read(inside, &attempt, note, NULL) != 0)
            attempt = (struct sw_attempt){0};
        free(inside);
        if (attempt.attempt > 0)
            return attempt.verdict == SW_VERDICT_DONE && attempt.step >= s->steps ? i + 1 : i;
    }
    return 0;
}

int64_t sw_stages_steps(const struct sw_stages *stages, int32_t stage)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < stage; i++)
        sum += stages->stage[i].steps - stages->stage[i].first_step;
    return sum;
}
