#include "core/run/submission.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 18 };
static const char schema[] = "shardwright.submission/1";

/* Every member but `schema`, `state` and `jobs`, in the order of the file. */
static const struct member {
    const char *key;
    enum { TEXT, DIGEST, NUMBER32, NUMBER64, SECONDS } kind;
    size_t offset, bytes; /* bytes: size of a text */
} members[] = {
#define MEMBER(key, kind, field)                                                                   \
    {                                                                                              \
        key, kind, offsetof(struct sw_submission, field), sizeof((struct sw_submission *)0)->field \
    }
    MEMBER("token", TEXT, token),
    MEMBER("run", TEXT, run),
    MEMBER("attempt", NUMBER64, attempt),
    MEMBER("plan_digest", DIGEST, plan_digest),
    MEMBER("plan", TEXT, plan),
    MEMBER("script_digest", DIGEST, script_digest),
    MEMBER("script", TEXT, script),
    MEMBER("log", TEXT, log),
    MEMBER("checkpoints", TEXT, checkpoints),
    MEMBER("submitted_at", TEXT, submitted_at),
    MEMBER("cluster", TEXT, cluster),
    MEMBER("mesh_dim", TEXT, mesh),
    MEMBER("nodes", NUMBER32, nodes),
    MEMBER("ranks", NUMBER32, ranks),
    MEMBER("steps", NUMBER64, steps),
    MEMBER("predicted_step_seconds", SECONDS, step_seconds),
    MEMBER("band_low_seconds", SECONDS, low_seconds),
    MEMBER("band_high_seconds", SECONDS, high_seconds),
    MEMBER("predicted_run_seconds", SECONDS, run_seconds),
#undef MEMBER
};
enum { MEMBERS = sizeof members / sizeof members[0] };

bool sw_job_id_is_valid(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 10 || text[0] == '0')
        return false;
    if (text[digits] == '\0')
        return true;
    const size_t index = strspn(text + digits + 1, "0123456789");
    return text[digits] == '_' && index > 0 && index <= 10 && text[digits + 1 + index] == '\0';
}

bool sw_job_id_is_of(const char *id, const char *job)
{
    const size_t length = strlen(job);
    return length > 0 && strncmp(id, job, length) == 0 && (id[length] == '\0' || id[length] == '_');
}

/* ---- Reading ---- */

/* True without control characters: the text is shown, and passed to other programs. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

static bool get_member(const json_t *root, const struct member *m, struct sw_submission *out)
{
    char *at = (char *)out + m->offset;
    const json_t *value = json_object_get(root, m->key);
    const char *text = json_string_value(value);
    switch (m->kind) {
    case TEXT:
        if (text == NULL || json_string_length(value) >= m->bytes || !is_plain(text) ||
            strlen(text) != json_string_length(value))
            return false;
        memcpy(at, text, strlen(text) + 1);
        return true;
    case DIGEST: {
        char *stop = NULL;
        if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
            return false;
        *(uint64_t *)(void *)at = strtoull(text, &stop, 16);
        return true;
    }
    case NUMBER32:
    case NUMBER64: {
        const json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 0 || (m->kind == NUMBER32 && number > INT32_MAX))
            return false;
        if (m->kind == NUMBER32)
            *(int32_t *)(void *)at = (int32_t)number;
        else
            *(int64_t *)(void *)at = number;
        return true;
    }
    default:
        if (json_is_null(value))
            return true;
        if (!json_is_number(value) || !(json_number_value(value) >= 0))
            return false;
        *(double *)(void *)at = json_number_value(value);
        return true;
    }
}

static const char *get_jobs(const json_t *root, struct sw_submission *out)
{
    const json_t *jobs = json_object_get(root, "jobs");
    if (!json_is_array(jobs) || json_array_size(jobs) > SW_SUBMISSION_JOBS)
        return "'jobs' is not a list of at most 64 job ids";
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const char *id = json_string_value(json_array_get(jobs, i));
        if (id == NULL || !sw_job_id_is_valid(id))
            return "'jobs' is not a list of at most 64 job ids";
        snprintf(out->job[out->job_count++], SW_JOB_ID_BYTES, "%.30s", id);
    }
    return NULL;
}

const char *sw_submission_parse(const char *text, size_t bytes, struct sw_submission *out,
                                char note[256])
{
    json_error_t where;
    *out = (struct sw_submission){0};
    note[0] = '\0';
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL) {
        snprintf(note, 256, "line %d: %.200s", where.line, where.text);
        return note;
    }
    const char *named = json_string_value(json_object_get(root, "schema"));
    const char *state = json_string_value(json_object_get(root, "state"));
    const char *wrong = NULL;
    if (named == NULL || strcmp(named, schema) != 0)
        wrong = "its schema is not shardwright.submission/1";
    else if (state == NULL || (strcmp(state, "submitted") != 0 && strcmp(state, "submitting") != 0))
        wrong = "'state' is neither submitting nor submitted";
    else
        wrong = get_jobs(root, out);
    for (size_t i = 0; wrong == NULL && i < MEMBERS; i++) {
        if (get_member(root, &members[i], out))
            continue;
        snprintf(note, 256, "'%s' is missing or wrong", members[i].key);
        wrong = note;
    }
    if (wrong == NULL) {
        out->submitted = strcmp(state, "submitted") == 0;
        if (out->token[0] == '\0' || out->submitted != (out->job_count > 0))
            wrong = "'state', 'token' and 'jobs' do not go together";
    }
    json_decref(root);
    if (wrong == NULL)
        return NULL;
    *out = (struct sw_submission){0};
    if (wrong != note)
        snprintf(note, 256, "%s", wrong);
    return note;
}

static void add_job(struct sw_submission *s, const char *id)
{
    for (int32_t i = 0; i < s->job_count; i++)
        if (strcmp(s->job[i], id) == 0)
            return;
    if (s->job_count == SW_SUBMISSION_JOBS)
        memmove(s->job[0], s->job[1], sizeof s->job - sizeof s->job[0]);
    else
        s->job_count++;
    snprintf(s->job[s->job_count - 1], SW_JOB_ID_BYTES, "%.31s", id);
}

/* Reads links; skips lines that are no number: incomplete, or not ours. */
static void read_links(const char *folder, struct sw_submission *out)
{
    char *text = NULL, *path = sw_path_join(folder, "submission.jobs"), *rest = NULL;
    size_t bytes = 0;
    if (path != NULL && sw_file_read(path, true, BYTES_MAX, &text, &bytes, NULL) == 0)
        for (char *id = strtok_r(text, "\n", &rest); id != NULL; id = strtok_r(NULL, "\n", &rest))
            if (sw_job_id_is_valid(id))
                add_job(out, id);
    free(text);
    free(path);
}

int sw_submission_read(const char *folder, struct sw_submission *out, char note[256],
                       struct sw_error *err)
{
    char *text = NULL, *path = sw_path_join(folder, "submission.json");
    size_t bytes = 0;
    int result = 0;
    *out = (struct sw_submission){0};
    note[0] = '\0';
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path of %s/submission.json",
                       folder);
    if (sw_file_read(path, true, BYTES_MAX, &text, &bytes, NULL) == 0) {
        (void)sw_submission_parse(text, bytes, out, note);
        if (out->submitted)
            read_links(folder, out);
    } else if (errno == EFBIG || errno == ESPIPE || errno == EISDIR) {
        snprintf(note, 256, "it is not a file of at most %d bytes", BYTES_MAX);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        result = sw_fail(err, SW_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
    }
    free(text);
    free(path);
    return result;
}

/* ---- Writing ---- */

static void write_member(struct sw_json *j, const struct member *m, const struct sw_submission *s)
{
    const char *at = (const char *)s + m->offset;
    char text[20];
    switch (m->kind) {
    case TEXT:
        sw_json_text(j, m->key, at);
        break;
    case DIGEST:
        snprintf(text, sizeof text, "%016" PRIx64, *(const uint64_t *)(const void *)at);
        sw_json_text(j, m->key, text);
        break;
    case NUMBER32:
        sw_json_integer(j, m->key, *(const int32_t *)(const void *)at);
        break;
    case NUMBER64:
        sw_json_integer(j, m->key, *(const int64_t *)(const void *)at);
        break;
    default:
        if (*(const double *)(const void *)at > 0)
            sw_json_digits(j, m->key, *(const double *)(const void *)at, 6);
        else
            sw_json_null(j, m->key);
    }
}

void sw_submission_write_json(struct sw_json *j, const struct sw_submission *s)
{
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", schema);
    sw_json_text(j, "state", s->submitted ? "submitted" : "submitting");
    sw_json_array(j, "jobs");
    for (int32_t i = 0; i < s->job_count; i++)
        sw_json_text(j, NULL, s->job[i]);
    sw_json_end(j);
    for (size_t i = 0; i < MEMBERS; i++)
        write_member(j, &members[i], s);
    sw_json_end(j);
}

int sw_submission_write(const char *folder, const struct sw_submission *s, struct sw_error *err)
{
    struct sw_new_file file;
    char *path = sw_path_join(folder, "submission.json");
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path of %s/submission.json",
                       folder);
    int result = sw_file_begin(&file, path, 0666, err);
    if (result == 0) {
        struct sw_json j = {.out = file.out, .style = SW_JSON_SPACES};
        sw_submission_write_json(&j, s);
        fputc('\n', file.out);
        result = sw_file_commit(&file, err);
    }
    if (result == 0 && sw_file_sync_folder(folder) != 0)
        result = sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    free(path);
    return result;
}

int sw_submission_begin_links(const char *folder, struct sw_error *err)
{
    char *path = sw_path_join(folder, "submission.jobs");
    int result = 0;
    if (path == NULL || (unlink(path) != 0 && errno != ENOENT))
        result = sw_fail(err, SW_ENVIRONMENT, "cannot remove %s/submission.jobs: %s", folder,
                         strerror(errno));
    free(path);
    return result;
}

void sw_submission_forget(const char *folder)
{
    char *path = sw_path_join(folder, "submission.json");
    if (path != NULL && unlink(path) == 0)
        (void)sw_file_sync_folder(folder);
    free(path);
}
