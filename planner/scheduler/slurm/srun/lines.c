#include "planner/scheduler/slurm/srun/lines.h"

#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 1024 };

static bool begins(const char **at, const char *with)
{
    const size_t length = strlen(with);
    if (strncmp(*at, with, length) != 0)
        return false;
    *at += length;
    return true;
}

/* "srun: ...", "slurmstepd-n3: ..." */
static bool is_own(const char *line)
{
    const char *p = line;
    if (begins(&p, "srun: "))
        return true;
    if (!begins(&p, "slurmstepd"))
        return false;
    p = strchr(p, ':');
    return p != NULL && p[1] == ' ';
}

/* "slurmstepd-n3: error: Detected 1 oom-kill event(s) in ..." */
static bool take_memory(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    if (!begins(&p, "slurmstepd") || strstr(p, "oom-kill event") == NULL)
        return false;
    const size_t length = *p == '-' ? strcspn(++p, ":") : 0;
    sw_launcher_word_set(
        out, p, length,
        "the kernel ended it: the node's memory, or the job's share of it, ran out");
    return true;
}

/* "srun: error: Node failure on n3" */
static bool take_node(const char *line, struct sw_launcher_word *out)
{
    const char *p = line;
    if (!begins(&p, "srun: error: Node failure on "))
        return false;
    sw_launcher_word_set(out, p, strcspn(p, " \t,"), "Slurm says that the node failed");
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
    /* ended because another one had */
    if (strncmp(what, "Terminated", 10) == 0 || strcmp(what, "Exited with exit code 143") == 0)
        return false;
    const bool cannot = strcmp(what, "Exited with exit code 127") == 0 ||
                        strcmp(what, "Exited with exit code 126") == 0;
    snprintf(text, sizeof text, "task%.*s (host %.*s): %s", (int)strcspn(task, ":"), task,
             (int)length, host,
             cannot ? "the runner does not start there: a library is missing, or the file itself"
                    : what);
    sw_launcher_word_set(out, host, length, text);
    out->cannot_start = cannot;
    out->by_itself = !cannot && strstr(what, "Exited with exit code") != NULL;
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
    sw_launcher_word_set(out, "", 0, p);
    out->no_step = true;
    return true;
}

static enum sw_launcher_tells read_line(const char *line, struct sw_launcher_word *out)
{
    if (take_memory(line, out))
        return SW_LAUNCHER_MEMORY;
    if (take_node(line, out))
        return SW_LAUNCHER_NODE;
    if (take_task(line, out))
        return SW_LAUNCHER_TASK;
    return take_step(line, out) ? SW_LAUNCHER_STEP : SW_LAUNCHER_NOTHING;
}

/* "srun: error: n1: tasks 0-1: Exited with exit code 3", "srun: error: n3: task 5: ..." */
static size_t host_of(const char *line, const char **host, bool *first)
{
    const char *p = line;
    if (!begins(&p, "srun: error: "))
        return 0;
    *host = p;
    const size_t length = strcspn(p, ": \n");
    p += length;
    if (!begins(&p, ": task"))
        return 0;
    p += *p == 's';
    *first = begins(&p, " 0") && (*p == ':' || *p == '-' || *p == ',');
    return length;
}

bool sw_srun_is_refused(const char *text)
{
    /* the job is over, or the node is down */
    static const char *const lasting[] = {"already completing", "Invalid job id", "expired",
                                          "not available (down"};
    /* when srun is ended, a waiting step is refused for that reason */
    if (strstr(text, "srun: Cancelled pending job step") != NULL)
        return true;
    bool refused = strstr(text, "srun: error: Unable to create step") != NULL ||
                   strstr(text, "srun: error: Unable to confirm allocation") != NULL;
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        refused = refused && strstr(text, lasting[i]) == NULL;
    return refused;
}

const struct sw_launcher_lines sw_srun_lines = {
    .is_own = is_own, .read = read_line, .host_of = host_of};
