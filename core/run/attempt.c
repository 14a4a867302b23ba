#include "core/run/attempt.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ATTEMPT_BYTES_MAX = 1 << 16 };
static const char schema[] = "shardwright.attempt/1";

static int fail_path(const char *folder, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the path of %s/attempt.json", folder);
}

/* ---- Reading ---- */

static bool get_text(const json_t *root, const char *key, char *out, size_t bytes)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_string(value) || json_string_length(value) >= bytes)
        return false;
    snprintf(out, bytes, "%s", json_string_value(value));
    return true;
}

static bool get_integer(const json_t *root, const char *key, int64_t least, int64_t *out)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value) || json_integer_value(value) < least)
        return false;
    *out = json_integer_value(value);
    return true;
}

static bool get_nodes(const json_t *root, struct sw_attempt *out)
{
    const json_t *nodes = json_object_get(root, "nodes");
    if (!json_is_array(nodes) || json_array_size(nodes) > SW_ATTEMPT_NODES)
        return false;
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        if (!json_is_string(node) || json_string_length(node) >= sizeof out->node[0])
            return false;
        snprintf(out->node[out->node_count++], sizeof out->node[0], "%s", json_string_value(node));
    }
    return true;
}

/* Returns the mistake in it, NULL: none. */
static const char *parse(const json_t *root, struct sw_attempt *out)
{
    char name[64];
    int64_t verdict = SW_VERDICT_RUNNING;
    if (!json_is_object(root) || !get_text(root, "schema", name, sizeof name))
        return "it names no schema";
    if (strcmp(name, schema) != 0)
        return "its schema is not shardwright.attempt/1";
    if (!get_integer(root, "attempt", 1, &out->attempt))
        return "'attempt' is not a number from 1";
    if (!json_is_null(json_object_get(root, "verdict")) &&
        (!get_integer(root, "verdict", 0, &verdict) || verdict > 255))
        return "'verdict' is neither null nor an exit code";
    out->verdict = (int32_t)verdict;
    if (!get_integer(root, "step", 0, &out->step) ||
        !get_integer(root, "first_step", 0, &out->first_step))
        return "'step' and 'first_step' are not numbers from 0";
    if (!get_nodes(root, out))
        return "'nodes' is not a list of at most 8 names";
    if (!get_text(root, "job", out->job, sizeof out->job) ||
        !get_text(root, "cause", out->cause, sizeof out->cause))
        return "'job' and 'cause' are no short texts";
    if (json_object_get(root, "idle_jobs") != NULL &&
        !get_integer(root, "idle_jobs", 0, &out->idle_jobs))
        return "'idle_jobs' is not a number from 0";
    return NULL;
}

int sw_attempt_read(const char *folder, struct sw_attempt *out, char note[256],
                    struct sw_error *err)
{
    char *text = NULL, *path = sw_path_join(folder, "attempt.json");
    size_t bytes = 0;
    json_t *root = NULL;
    json_error_t where;
    int result = 0;
    *out = (struct sw_attempt){.verdict = SW_VERDICT_RUNNING};
    note[0] = '\0';
    if (path == NULL)
        return fail_path(folder, err);
    if (sw_file_read(path, true, ATTEMPT_BYTES_MAX, &text, &bytes, NULL) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            goto out;
        if (errno != EFBIG && errno != ESPIPE) {
            result = sw_fail(err, SW_ENVIRONMENT, "cannot read %s: %s", path, strerror(errno));
            goto out;
        }
        snprintf(note, 256, "it is not a file of at most %d bytes", ATTEMPT_BYTES_MAX);
        goto out;
    }
    root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    const char *wrong = root == NULL ? NULL : parse(root, out);
    if (root == NULL)
        snprintf(note, 256, "line %d: %.200s", where.line, where.text);
    else if (wrong != NULL)
        snprintf(note, 256, "%s", wrong);
    if (note[0] != '\0')
        *out = (struct sw_attempt){.verdict = SW_VERDICT_RUNNING};
out:
    json_decref(root);
    free(text);
    free(path);
    return result;
}

/* ---- Writing ---- */

static void print(FILE *out, const struct sw_attempt *a)
{
    struct sw_json j = {.out = out, .style = SW_JSON_SPACES};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", schema);
    sw_json_integer(&j, "attempt", a->attempt);
    if (a->verdict == SW_VERDICT_RUNNING)
        sw_json_null(&j, "verdict");
    else
        sw_json_integer(&j, "verdict", a->verdict);
    sw_json_array(&j, "nodes");
    for (int32_t i = 0; i < a->node_count; i++)
        sw_json_text(&j, NULL, a->node[i]);
    sw_json_end(&j);
    sw_json_text(&j, "cause", a->cause);
    sw_json_integer(&j, "first_step", a->first_step);
    sw_json_integer(&j, "step", a->step);
    sw_json_text(&j, "job", a->job);
    sw_json_integer(&j, "idle_jobs", a->idle_jobs);
    sw_json_end(&j);
    fputc('\n', out);
}

/* Writes over the old file's block where nothing new can be written, so that a full disk does not
 * hide why a run ended. A reader treats a torn file as missing. */
static int write_over(const char *path, const struct sw_attempt *attempt)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL)
        return -1;
    print(memory, attempt);
    const int handle =
        fclose(memory) == 0 ? open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    int result = -1;
    if (handle >= 0 && pwrite(handle, text, bytes, 0) == (ssize_t)bytes &&
        ftruncate(handle, (off_t)bytes) == 0 && fsync(handle) == 0)
        result = 0;
    if (handle >= 0)
        (void)close(handle);
    free(text);
    return result;
}

int sw_attempt_write(const char *folder, const struct sw_attempt *attempt, struct sw_error *err)
{
    struct sw_new_file file;
    struct sw_error beside = {0};
    char *path = sw_path_join(folder, "attempt.json");
    if (path == NULL)
        return fail_path(folder, err);
    int result = sw_file_begin(&file, path, 0666, &beside);
    if (result == 0) {
        print(file.out, attempt);
        result = sw_file_commit(&file, &beside);
    }
    if (result != 0)
        result = write_over(path, attempt) == 0 ? 0 : sw_fail_as(err, &beside);
    if (result == 0 && sw_file_sync_folder(folder) != 0)
        result = sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    free(path);
    return result;
}

void sw_attempt_add_node(struct sw_attempt *a, const char *node)
{
    if (node == NULL || node[0] == '\0' || a->node_count == SW_ATTEMPT_NODES)
        return;
    for (int32_t i = 0; i < a->node_count; i++)
        if (strcmp(a->node[i], node) == 0)
            return;
    snprintf(a->node[a->node_count++], sizeof a->node[0], "%s", node);
}

int32_t sw_attempt_verdict(const struct sw_error *err)
{
    /* words of CUDA and its driver: uncorrectable ECC and NVLink errors, a GPU off the bus */
    static const char *const broken[] = {"ncorrectable", "hardware error", "fallen off the bus",
                                         "GPU is lost"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        if (strstr(err->message, broken[i]) != NULL)
            return SW_VERDICT_BAD_NODE;
    return (int32_t)err->status;
}

/* ---- Claims ---- */

static char *claim_path(const char *folder, int64_t attempt)
{
    char name[48];
    snprintf(name, sizeof name, ".attempt-%" PRId64 ".ended", attempt);
    return sw_path_join(folder, name);
}

bool sw_attempt_claim(const char *folder, int64_t attempt)
{
    struct sw_attempt newer;
    char note[256];
    /* a rank that was cut off may find out long after the others went on */
    if (sw_attempt_read(folder, &newer, note, NULL) == 0 && newer.attempt > attempt)
        return false;
    char *path = claim_path(folder, attempt);
    const int handle =
        path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool first = handle >= 0 || path == NULL || errno != EEXIST;
    if (handle >= 0)
        (void)close(handle);
    free(path);
    return first;
}

bool sw_attempt_is_claimed(const char *folder, int64_t attempt)
{
    char *path = claim_path(folder, attempt);
    const bool there = path != NULL && access(path, F_OK) == 0;
    free(path);
    return there;
}

void sw_attempt_unclaim(const char *folder, int64_t attempt)
{
    char *path = claim_path(folder, attempt);
    if (path != NULL)
        (void)unlink(path);
    free(path);
}
