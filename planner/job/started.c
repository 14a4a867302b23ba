#include "planner/job/started.h"

#include "core/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 16, ENDS_BYTES_MAX = 16 << 20, MOST_SHARDS = 100000 };
static const int64_t most_counted_bytes = (int64_t)1 << 30;

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

static bool take_text(const json_t *root, const char *key, char *out, size_t bytes)
{
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value) || strlen(text) >= bytes ||
        !is_plain(text))
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool take_number(const json_t *root, const char *key, int64_t least, int64_t most,
                        int64_t *out)
{
    const json_t *value = json_object_get(root, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

static const char *take(const json_t *root, struct sw_started *s)
{
    char schema[32];
    int64_t port = 0, shards = 1;
    if (!take_text(root, "schema", schema, sizeof schema) ||
        strcmp(schema, "shardwright.job/1") != 0)
        return "its schema is not shardwright.job/1";
    if (!take_text(root, "type", s->type, sizeof s->type) ||
        !take_text(root, "job", s->job, sizeof s->job) || !sw_job_id_is_valid(s->job))
        return "'type' or 'job' is missing or wrong";
    if (strcmp(s->type, "serve") == 0) {
        if (!take_text(root, "host", s->host, sizeof s->host) ||
            !take_text(root, "token_file", s->token_file, sizeof s->token_file) ||
            !take_number(root, "port", 1, 65535, &port))
            return "'host', 'port' or 'token_file' is missing or wrong";
    } else if (strcmp(s->type, "generate") == 0 || strcmp(s->type, "score") == 0) {
        if (!take_text(root, "output", s->output, sizeof s->output) ||
            !take_number(root, "shards", 1, MOST_SHARDS, &shards) ||
            !take_number(root, "lines", 0, INT64_MAX, &s->lines))
            return "'output', 'shards' or 'lines' is missing or wrong";
    } else {
        return "'type' is neither generate, score nor serve";
    }
    s->port = (int32_t)port;
    s->shards = (int32_t)shards;
    return NULL;
}

const char *sw_started_parse(const char *text, size_t bytes, struct sw_started *out)
{
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    *out = (struct sw_started){.failed_task = -1};
    const char *wrong = json_is_object(root) ? take(root, out) : "it is not a JSON object";
    json_decref(root);
    if (wrong != NULL)
        *out = (struct sw_started){.failed_task = -1};
    return wrong;
}

/* "JOB TASK CODE" */
static bool parse_end(const char *line, const char *job, int64_t *task, int64_t *code)
{
    char *end;
    const size_t length = strlen(job);
    if (strncmp(line, job, length) != 0 || line[length] != ' ' || line[length + 1] < '0' ||
        line[length + 1] > '9')
        return false;
    *task = strtoll(line + length + 1, &end, 10);
    if (*end != ' ' || end[1] < '0' || end[1] > '9')
        return false;
    *code = strtoll(end + 1, &end, 10);
    return (*end == '\n' || *end == '\0') && *task < MOST_SHARDS && *code < 256;
}

void sw_started_parse_ends(const char *text, struct sw_started *out)
{
    enum { NOT_ENDED = 256 };
    uint16_t *codes = malloc((size_t)out->shards * sizeof *codes);
    int64_t task, code;
    out->ended = 0;
    out->failed_task = -1;
    if (codes == NULL)
        return;
    for (int32_t i = 0; i < out->shards; i++)
        codes[i] = NOT_ENDED;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (parse_end(line, out->job, &task, &code) && task < out->shards)
            codes[task] = (uint16_t)code;
    }
    for (int32_t i = 0; i < out->shards; i++) {
        out->ended += codes[i] == 0;
        if (codes[i] != 0 && codes[i] != NOT_ENDED && out->failed_task < 0) {
            out->failed_task = i;
            out->failed_code = codes[i];
        }
    }
    free(codes);
}

/* Counts the lines of one part; false: longer than *left bytes. */
static bool count_lines(const char *path, int64_t *left, int64_t *lines)
{
    char buffer[65536];
    size_t got;
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return true; /* not begun */
    while (*left > 0 && (got = fread(buffer, 1, sizeof buffer, in)) > 0) {
        *left -= (int64_t)got;
        for (const char *p = buffer; (p = memchr(p, '\n', (size_t)(buffer + got - p))) != NULL; p++)
            ++*lines;
    }
    (void)fclose(in);
    return *left > 0;
}

static void count_written(struct sw_started *s)
{
    char part[PATH_MAX + 32];
    int64_t left = most_counted_bytes, lines = 0;
    s->written = -1;
    for (int32_t i = 0; i < s->shards; i++) {
        if (s->shards > 1)
            snprintf(part, sizeof part, "%s.%05d-of-%05d", s->output, (int)i, (int)s->shards);
        else
            snprintf(part, sizeof part, "%s", s->output);
        if (!count_lines(part, &left, &lines))
            return;
    }
    s->written = lines;
}

void sw_started_read(const char *folder, struct sw_started *out, char note[256])
{
    char *path = sw_path_join(folder, "job.json"), *text = NULL;
    char *ends = sw_path_join(folder, "job.ended");
    size_t bytes = 0;
    const char *wrong = NULL;
    *out = (struct sw_started){.failed_task = -1};
    note[0] = '\0';
    if (path == NULL || ends == NULL)
        snprintf(note, 256, "out of memory");
    else if (sw_file_read(path, true, FILE_BYTES_MAX, &text, &bytes, NULL) == 0)
        wrong = sw_started_parse(text, bytes, out);
    else if (errno != ENOENT)
        snprintf(note, 256, "cannot read it: %.200s", strerror(errno));
    if (wrong != NULL)
        snprintf(note, 256, "%s", wrong);
    free(text);
    text = NULL;
    if (out->type[0] != '\0' && ends != NULL &&
        sw_file_read(ends, true, ENDS_BYTES_MAX, &text, &bytes, NULL) == 0)
        sw_started_parse_ends(text, out);
    if (out->output[0] != '\0')
        count_written(out);
    free(text);
    free(path);
    free(ends);
}
