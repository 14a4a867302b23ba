#include "core/run/launcher.h"

#include "core/base/file.h"
#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCHER_BYTES_MAX = 4 << 20, LINE_BYTES = 1024 };

static bool begins(const char **at, const char *with)
{
    const size_t length = strlen(with);
    if (strncmp(*at, with, length) != 0)
        return false;
    *at += length;
    return true;
}

void sw_launcher_word_set(struct sw_launcher_word *out, const char *host, size_t host_bytes,
                          const char *text)
{
    char shown[400];
    *out = (struct sw_launcher_word){.cannot_start = false};
    snprintf(out->host, sizeof out->host, "%.*s", (int)host_bytes, host);
    snprintf(out->text, sizeof out->text, "%s", sw_text_shown(text, 380, shown));
}

/* "rank 5 (host n3): error: ended by ..." */
static bool take_rank(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    char text[LINE_BYTES + 32];
    if (!begins(&p, "rank "))
        return false;
    const size_t digits = strspn(p, "0123456789");
    const char *host = p + digits;
    if (digits == 0 || !begins(&host, " (host "))
        return false;
    const size_t length = strcspn(host, ")");
    const char *rest = host + length;
    if (!begins(&rest, "): error: "))
        return false;
    snprintf(text, sizeof text, "rank %.*s (host %.*s): %s", (int)digits, p, (int)length, host,
             rest);
    sw_launcher_word_set(out, host, length, text);
    out->hung = begins(&rest, "MPI does not start for ") ||
                strstr(rest, " does not answer: nothing from ") != NULL;
    return true;
}

/* Recognizes rank 0's errors about itself, which lack a rank number (sw_launch_agree): "runner:
 * error: cannot ...", "runner train: error: ...", or about a file "/r/x.plan.yaml:3:10: error: the
 * plan was changed ...". They say more than the launcher's lines about exit codes. Returns the
 * start of the cause; NULL: another line. */
static const char *error_of_rank_0(const char *line, const struct sw_launcher_lines *lines)
{
    static const char mark[] = ": error: ", runner[] = "runner";
    const char *end = strstr(line, mark), *name = line;
    if (end == NULL || (lines != NULL && lines->is_own(line)))
        return NULL;
    if (begins(&name, runner) && name + strspn(name, "abcdefghijklmnopqrstuvwxyz- ") >= end)
        return end + sizeof mark - 1;
    while (end > line && ((end[-1] >= '0' && end[-1] <= '9') || end[-1] == ':'))
        end--;
    static const char yaml[] = ".yaml";
    const size_t length = (size_t)(end - line), tail = sizeof yaml - 1;
    return length > tail && strncmp(end - tail, yaml, tail) == 0 ? line : NULL;
}

static void set_error(struct sw_launcher_word *out, const char *error, const char *host)
{
    char text[LINE_BYTES + 300];
    if (host[0] != '\0')
        snprintf(text, sizeof text, "rank 0 (host %s): %s", host, error);
    else
        snprintf(text, sizeof text, "rank 0: %s", error);
    sw_launcher_word_set(out, host, strlen(host), text);
}

static enum sw_launcher_tells take(const char *line, const struct sw_launcher_lines *lines,
                                   struct sw_launcher_word *out)
{
    if (take_rank(line, out))
        return SW_LAUNCHER_RANK;
    return lines != NULL ? lines->read(line, out) : SW_LAUNCHER_NOTHING;
}

static void take_first_host(const char *line, const struct sw_launcher_lines *lines, char out[256])
{
    const char *host = NULL;
    bool first = false;
    const size_t bytes = lines != NULL ? lines->host_of(line, &host, &first) : 0;
    if (bytes > 0 && first)
        snprintf(out, 256, "%.*s", (int)bytes, host);
}

void sw_launcher_parse(const char *text, const struct sw_launcher_lines *lines,
                       struct sw_launcher_word *out)
{
    enum sw_launcher_tells best = SW_LAUNCHER_NOTHING;
    bool everywhere = false;
    char error[LINE_BYTES] = "", first_host[256] = "";
    *out = (struct sw_launcher_word){.cannot_start = false};
    for (const char *p = text; *p != '\0';) {
        const size_t length = strcspn(p, "\n");
        struct sw_launcher_word word = {.cannot_start = false};
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1),
                 p);
        const enum sw_launcher_tells tells = take(line, lines, &word);
        take_first_host(line, lines, first_host);
        const char *of_rank_0 = error_of_rank_0(line, lines);
        if (of_rank_0 != NULL)
            snprintf(error, sizeof error, "%s", of_rank_0);
        if (best == SW_LAUNCHER_TASK && word.cannot_start && strcmp(word.host, out->host) != 0)
            everywhere = true;
        if (tells > best) {
            *out = word;
            best = tells;
        }
        p += length + (p[length] == '\n');
    }
    if (everywhere)
        out->cannot_start = false;
    if (error[0] != '\0' && (best == SW_LAUNCHER_NOTHING ||
                             (best == SW_LAUNCHER_TASK && out->by_itself && !out->cannot_start)))
        set_error(out, error, first_host);
}

/* ---- Nodes without a line ---- */

/* The host that a line comes from: "rank 5 (host n3): ...", or a line of the launcher. Length up to
 * its first dot; 0: none. */
static size_t witness(const char *line, const struct sw_launcher_lines *lines, const char **host)
{
    const char *p = line;
    size_t length = 0;
    bool first;
    if (begins(&p, "rank ")) {
        p += strspn(p, "0123456789");
        if (!begins(&p, " (host "))
            return 0;
        *host = p;
        return strcspn(p, ").\n");
    }
    if (lines != NULL)
        length = lines->host_of(line, host, &first);
    for (size_t i = 0; i < length; i++)
        if ((*host)[i] == '.')
            return i;
    return length;
}

bool sw_launcher_is_heard_of(const char *text, const struct sw_launcher_lines *lines,
                             const char *name)
{
    const size_t length = strcspn(name, ".");
    for (const char *line = text, *host = NULL; *line != '\0';) {
        if (witness(line, lines, &host) == length && length > 0 && strncmp(host, name, length) == 0)
            return true;
        const char *end = strchr(line, '\n');
        if (end == NULL)
            return false;
        line = end + 1;
    }
    return false;
}

void sw_launcher_find_missing(const char *text, const struct sw_launcher_lines *lines,
                              const char *const *hosts, int32_t count,
                              struct sw_launcher_missing *out)
{
    out->count = 0;
    for (int32_t i = 0; i < count; i++) {
        if (sw_launcher_is_heard_of(text, lines, hosts[i]))
            continue;
        if (out->count == SW_LAUNCHER_MISSING || 2 * (out->count + 1) > count) {
            out->count = 0;
            return;
        }
        out->host[out->count++] = i;
    }
}

static void blame_disk(const char *path, struct sw_launcher_word *out)
{
    char text[LINE_BYTES];
    char *folder = sw_path_folder(path);
    if (folder != NULL && sw_file_disk_is_full(folder)) {
        snprintf(text, sizeof text, "no room is left in %.300s", folder);
        sw_launcher_word_set(out, "", 0, text);
    }
    free(folder);
}

void sw_launcher_read(const char *path, const struct sw_launcher_lines *lines,
                      const char *const *hosts, int32_t count, struct sw_launcher_word *out,
                      struct sw_launcher_missing *missing)
{
    *out = (struct sw_launcher_word){.cannot_start = false};
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    char *text = file == NULL ? NULL : malloc(LAUNCHER_BYTES_MAX + 1);
    if (text != NULL) {
        const size_t bytes = fread(text, 1, LAUNCHER_BYTES_MAX, file);
        text[bytes] = '\0';
        sw_launcher_parse(text, lines, out);
        if (missing != NULL && out->hung)
            sw_launcher_find_missing(text, lines, hosts, count, missing);
    }
    free(text);
    if (file != NULL)
        (void)fclose(file);
    if (path != NULL && (out->text[0] == '\0' || out->by_itself))
        blame_disk(path, out);
}
