#include "planner/scheduler/slurm/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long names of short options. */
static const char *long_name(char letter)
{
    static const struct {
        char letter;
        const char *name;
    } names[] = {{'A', "account"}, {'C', "constraint"},    {'J', "job-name"},   {'L', "licenses"},
                 {'N', "nodes"},   {'c', "cpus-per-task"}, {'d', "dependency"}, {'e', "error"},
                 {'n', "ntasks"},  {'o', "output"},        {'p', "partition"},  {'q', "qos"},
                 {'t', "time"},    {'w', "nodelist"},      {'x', "exclude"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].letter == letter)
            return names[i].name;
    return NULL;
}

/* Reads one argument of a line, without its quotes, into out; returns the rest, NULL: none. */
static const char *read_argument(const char *p, char *out, size_t bytes)
{
    size_t used = 0;
    char quote = '\0';
    p += strspn(p, " \t");
    if (*p == '\0' || *p == '\n' || *p == '#')
        return NULL;
    for (; *p != '\0' && *p != '\n' && (quote != '\0' || (*p != ' ' && *p != '\t')); p++) {
        if (quote == '\0' && (*p == '"' || *p == '\'')) {
            quote = *p;
            continue;
        }
        if (*p == quote) {
            quote = '\0';
            continue;
        }
        if (*p == '\\' && p[1] != '\0' && p[1] != '\n')
            p++;
        if (used + 1 < bytes)
            out[used++] = *p;
    }
    out[used] = '\0';
    return p;
}

static int read_line(const char *p, struct sw_job_request *out, struct sw_error *err)
{
    char argument[8192], next[8192];
    while ((p = read_argument(p, argument, sizeof argument)) != NULL) {
        const char *name = NULL, *value = "";
        if (argument[0] == '-' && argument[1] == '-') {
            char *equals = strchr(argument, '=');
            name = argument + 2;
            if (equals != NULL) {
                *equals = '\0';
                value = equals + 1;
            }
        } else if (argument[0] == '-') {
            name = long_name(argument[1]);
            value = argument + 2;
            if (*value == '\0' && name != NULL) {
                p = read_argument(p, next, sizeof next);
                value = next;
            }
        }
        if (name != NULL && p != NULL && sw_job_request_add(out, name, value, err) != 0)
            return -1;
        if (p == NULL)
            return 0;
    }
    return 0;
}

int sw_slurm_request_read(const char *script, struct sw_job_request *out, struct sw_error *err)
{
    for (const char *line = script; *line != '\0';) {
        if (strncmp(line, "#SBATCH", 7) == 0 && (line[7] == ' ' || line[7] == '\t')) {
            if (read_line(line + 7, out, err) != 0)
                return -1;
        } else if (line[0] != '#' && line[strspn(line, " \t")] != '\n') {
            break; /* the first command */
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return 0;
}
