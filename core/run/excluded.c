#include "core/run/excluded.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXCLUDED_BYTES_MAX = 1 << 20 };

static char *path_of(const char *folder, struct sw_error *err)
{
    char *path = sw_path_join(folder, "excluded_nodes.jsonl");
    if (path == NULL)
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for the path of the excluded nodes");
    return path;
}

bool sw_excluded_is_name(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return text[0] != '\0' && text[0] != '-' && strspn(text, allowed) == strlen(text);
}

bool sw_excluded_has(const struct sw_excluded *excluded, const char *node)
{
    for (int32_t i = 0; i < excluded->count; i++)
        if (strcmp(excluded->node[i].node, node) == 0)
            return true;
    return false;
}

static void copy_text(const json_t *root, const char *key, char *out, size_t bytes)
{
    const char *text = json_string_value(json_object_get(root, key));
    snprintf(out, bytes, "%s", text == NULL ? "" : text);
}

static void take_line(const char *line, size_t bytes, struct sw_excluded *out)
{
    struct sw_excluded_node n = {.attempt = 0};
    json_t *root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    copy_text(root, "node", n.node, sizeof n.node);
    copy_text(root, "job", n.job, sizeof n.job);
    copy_text(root, "date", n.date, sizeof n.date);
    copy_text(root, "reason", n.reason, sizeof n.reason);
    n.attempt = json_integer_value(json_object_get(root, "attempt"));
    json_decref(root);
    if (!sw_excluded_is_name(n.node) || sw_excluded_has(out, n.node))
        return;
    if (out->count == SW_EXCLUDED_NODES)
        memmove(&out->node[0], &out->node[1], (size_t)--out->count * sizeof out->node[0]);
    out->node[out->count++] = n;
}

int sw_excluded_read(const char *folder, struct sw_excluded *out, struct sw_error *err)
{
    char *text = NULL, *path = path_of(folder, err);
    size_t bytes = 0;
    out->count = 0;
    if (path == NULL)
        return -1;
    const int read = sw_file_read(path, true, EXCLUDED_BYTES_MAX, &text, &bytes, NULL);
    const int reason = errno;
    for (char *p = text; read == 0 && p < text + bytes;) {
        const size_t length = strcspn(p, "\n");
        take_line(p, length, out);
        p += length + 1;
    }
    free(text);
    if (read != 0 && reason != ENOENT && reason != ENOTDIR)
        (void)sw_fail(err, SW_ENVIRONMENT, "cannot read %s: %s", path, strerror(reason));
    free(path);
    return read == 0 || reason == ENOENT || reason == ENOTDIR ? 0 : -1;
}

static void now(char out[32])
{
    const time_t seconds = time(NULL);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        out[0] = '\0';
}

int sw_excluded_add(const char *folder, struct sw_excluded_node *node, struct sw_error *err)
{
    char *line = NULL, *path = path_of(folder, err);
    size_t bytes = 0;
    int result = -1, handle = -1;
    FILE *memory = path == NULL ? NULL : open_memstream(&line, &bytes);
    if (memory == NULL)
        goto out;
    now(node->date);
    struct sw_json j = {.out = memory, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    sw_json_text(&j, "node", node->node);
    sw_json_integer(&j, "attempt", node->attempt);
    sw_json_text(&j, "job", node->job);
    sw_json_text(&j, "date", node->date);
    sw_json_text(&j, "reason", node->reason);
    sw_json_end(&j);
    fputc('\n', memory);
    if (fclose(memory) != 0)
        goto out;
    handle = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (handle >= 0 && write(handle, line, bytes) == (ssize_t)bytes && fsync(handle) == 0)
        result = 0;
    else
        (void)sw_fail(err, SW_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
out:
    if (result != 0)
        (void)sw_fail(err, SW_ENVIRONMENT, "out of memory for the excluded nodes");
    if (handle >= 0)
        (void)close(handle);
    free(line);
    free(path);
    return result;
}
