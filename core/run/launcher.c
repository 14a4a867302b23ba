#include "core/run/launcher.h"

#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCHER_BYTES_MAX = 4 << 20, LINE_BYTES = 1024 };

/* In the order of what tells more. */
enum teller { TELLS_NOTHING, TELLS_STEP, TELLS_TASK, TELLS_NODE, TELLS_MEMORY, TELLS_RANK };

static bool begins(const char **at, const char *with)
{
    const size_t length = strlen(with);
    if (strncmp(*at, with, length) != 0)
        return false;
    *at += length;
    return true;
}

static void set(struct sw_launcher_word *out, const char *host, size_t host_bytes, const char *text)
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
    set(out, host, length, text);
    out->hung = begins(&rest, "MPI does not start for ") ||
                strstr(rest, " does not answer: nothing from ") != NULL;
    return true;
}

/* "slurmstepd-n3: error: Detected 1 oom-kill event(s) in ..." */
static bool take_memory(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    if (!begins(&p, "slurmstepd") || strstr(p, "oom-kill event") == NULL)
        return false;
    const size_t length = *p == '-' ? strcspn(++p, ":") : 0;
    set(out, p, length,
        "the kernel ended it: the node's memory, or the job's share of it, ran out");
    return true;
}

/* "srun: error: Node failure on n3" */
static bool take_node(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    if (!begins(&p, "srun: error: Node failure on "))
        return false;
    set(out, p, strcspn(p, " \t,"), "Slurm says that the node failed");
    out->gone = true;
    return true;
}

/* "srun: error: n3: task 5: Killed", "srun: error: n3: tasks 4-5: Exited with exit code 127" */
static bool take_task(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    char text[LINE_BYTES + 320];
    if (!begins(&p, "srun: error: "))
        return false;
    const char *host = p;
    const size_t length = strcspn(p, ":");
    const char *task = p + length;
    if (!begins(&task, ": task"))
        return false;
    const char *what = strchr(task, ':');
    if ((strncmp(task, " ", 1) != 0 && strncmp(task, "s ", 2) != 0) || what == NULL)
        return false;
    what += strspn(what, ": ");
    /* these were told to end because another one had */
    if (strncmp(what, "Terminated", 10) == 0 || strcmp(what, "Exited with exit code 143") == 0)
        return false;
    const bool cannot = strcmp(what, "Exited with exit code 127") == 0 ||
                        strcmp(what, "Exited with exit code 126") == 0;
    snprintf(text, sizeof text, "task%.*s (host %.*s): %s", (int)strcspn(task, ":"), task,
             (int)length, host,
             cannot ? "the runner does not start there: a library is missing, or the file itself"
                    : what);
    set(out, host, length, text);
    out->cannot_start = cannot;
    return true;
}

/* "srun: error: Unable to create step for job 7: ...", "srun: error: Task launch for StepId=7.0
 * failed on node n2: ..." */
static bool take_step(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    if (!begins(&p, "srun: error: ") ||
        (strncmp(p, "Unable to ", 10) != 0 && strncmp(p, "Task launch ", 12) != 0))
        return false;
    set(out, "", 0, p);
    out->no_step = true;
    return true;
}

/* "srun: error: n1: tasks 0-1: Exited with exit code 3": the host of rank 0. */
static void take_first_host(const char *line, char host[256])
{
    const char *p = line;
    if (!begins(&p, "srun: error: "))
        return;
    const size_t length = strcspn(p, ":");
    const char *task = p + length;
    if (!begins(&task, ": task 0") && !begins(&task, ": tasks 0"))
        return;
    if (*task == ':' || *task == '-' || *task == ',')
        snprintf(host, 256, "%.*s", (int)length, p);
}

/* What rank 0 says of itself bears no rank (sw_launch_agree): "runner: error: cannot ...". It tells
 * more than srun, for which the ranks left with an exit code. */
static const char of_rank_0[] = "runner: error: ";
enum { OF_RANK_0_BYTES = sizeof of_rank_0 - 1 };

static void set_error(struct sw_launcher_word *out, const char *error, const char *host)
{
    char text[LINE_BYTES + 300];
    if (host[0] != '\0')
        snprintf(text, sizeof text, "rank 0 (host %s): %s", host, error + OF_RANK_0_BYTES);
    else
        snprintf(text, sizeof text, "rank 0: %s", error + OF_RANK_0_BYTES);
    set(out, host, strlen(host), text);
}

static enum teller take(const char *line, struct sw_launcher_word *out)
{
    if (take_rank(line, out))
        return TELLS_RANK;
    if (take_memory(line, out))
        return TELLS_MEMORY;
    if (take_node(line, out))
        return TELLS_NODE;
    if (take_task(line, out))
        return TELLS_TASK;
    return take_step(line, out) ? TELLS_STEP : TELLS_NOTHING;
}

void sw_launcher_parse(const char *text, struct sw_launcher_word *out)
{
    enum teller best = TELLS_NOTHING;
    bool everywhere = false;
    char error[LINE_BYTES] = "", first_host[256] = "";
    *out = (struct sw_launcher_word){.cannot_start = false};
    for (const char *p = text; *p != '\0';) {
        const size_t length = strcspn(p, "\n");
        struct sw_launcher_word word = {.cannot_start = false};
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1),
                 p);
        const enum teller teller = take(line, &word);
        take_first_host(line, first_host);
        if (strncmp(line, of_rank_0, OF_RANK_0_BYTES) == 0)
            memcpy(error, line, sizeof error);
        if (best == TELLS_TASK && word.cannot_start && strcmp(word.host, out->host) != 0)
            everywhere = true;
        if (teller > best) {
            *out = word;
            best = teller;
        }
        p += length + (p[length] == '\n');
    }
    if (everywhere)
        out->cannot_start = false;
    if (error[0] != '\0' && best <= TELLS_TASK && best != TELLS_STEP && !out->cannot_start &&
        (best == TELLS_NOTHING || strstr(out->text, "Exited with exit code") != NULL))
        set_error(out, error, first_host);
}

/* ---- Nodes that nothing was heard of ---- */

/* The host that a line bears witness of: "rank 5 (host n3): ...", "srun: error: n3: task 5: ...".
 * Its length; 0: none. */
static size_t witness(const char *line, const char **host)
{
    const char *p = line;
    if (begins(&p, "rank ")) {
        p += strspn(p, "0123456789");
        if (!begins(&p, " (host "))
            return 0;
        *host = p;
        return strcspn(p, ").\n");
    }
    if (!begins(&p, "srun: error: "))
        return 0;
    *host = p;
    const size_t length = strcspn(p, ": \n");
    return strncmp(p + length, ": task", 6) == 0 ? strcspn(p, ".:") : 0;
}

bool sw_launcher_is_heard_of(const char *text, const char *name)
{
    const size_t length = strcspn(name, ".");
    for (const char *line = text, *host = NULL; *line != '\0';) {
        if (witness(line, &host) == length && length > 0 && strncmp(host, name, length) == 0)
            return true;
        const char *end = strchr(line, '\n');
        if (end == NULL)
            return false;
        line = end + 1;
    }
    return false;
}

void sw_launcher_find_missing(const char *text, const char *const *hosts, int32_t count,
                              struct sw_launcher_missing *out)
{
    out->count = 0;
    for (int32_t i = 0; i < count; i++) {
        if (sw_launcher_is_heard_of(text, hosts[i]))
            continue;
        if (out->count == SW_LAUNCHER_MISSING || 2 * (out->count + 1) > count) {
            out->count = 0;
            return;
        }
        out->host[out->count++] = i;
    }
}

void sw_launcher_read(const char *path, const char *const *hosts, int32_t count,
                      struct sw_launcher_word *out, struct sw_launcher_missing *missing)
{
    *out = (struct sw_launcher_word){.cannot_start = false};
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    char *text = file == NULL ? NULL : malloc(LAUNCHER_BYTES_MAX + 1);
    if (text != NULL) {
        const size_t bytes = fread(text, 1, LAUNCHER_BYTES_MAX, file);
        text[bytes] = '\0';
        sw_launcher_parse(text, out);
        if (missing != NULL && out->hung)
            sw_launcher_find_missing(text, hosts, count, missing);
    }
    free(text);
    if (file != NULL)
        (void)fclose(file);
}
