#include "runner/next_command.h"

#include "core/run/decide.h"
#include "runner/rank/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct sw_decide_request decide;
    char *dead; /* the lists' own copies; their names are cut out of them */
    char *hosts;
    const char *dead_name[SW_ATTEMPT_NODES];
    const char **host_name;
    int64_t number[8];
};

/* Options whose value is a number, and where it goes. */
enum { STATUS, BEFORE, STARTS, RESTARTS, MAX_ATTEMPTS, NODES, RANKS_PER_NODE, NUMBERS };
static const struct {
    const char *option;
    int64_t usual;
} numbers[NUMBERS] = {[STATUS] = {"--status", 0},
                      [BEFORE] = {"--before", 0},
                      [STARTS] = {"--starts", 1},
                      [RESTARTS] = {"--restarts", 0},
                      [MAX_ATTEMPTS] = {"--max-attempts", 100},
                      [NODES] = {"--nodes", 0},
                      [RANKS_PER_NODE] = {"--ranks-per-node", 0}};

static int usage(const char *what, const char *which)
{
    fprintf(stderr, "runner next: error: %s%s; see 'runner next --help'\n", what, which);
    return SW_BAD_INPUT;
}

static int parse_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end == text || *end != '\0' || errno != 0 || *out < 0 || *out > INT32_MAX ? -1 : 0;
}

static int parse_how(const char *text, enum sw_continue *how)
{
    for (const struct sw_word *word = sw_words_continue; word->text != NULL; word++)
        if (strcmp(word->text, text) == 0) {
            *how = (enum sw_continue)word->value;
            return 0;
        }
    return -1;
}

/* "3-4", or "4" */
static int parse_range(const char *text, int32_t *least, int32_t *most)
{
    char *end;
    const long a = strtol(text, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
    if (end == text || *end != '\0' || a < 1 || b < a || b > INT32_MAX)
        return -1;
    *least = (int32_t)a;
    *most = (int32_t)b;
    return 0;
}

/* "n3,n4" */
static int parse_dead(struct request *r, const char *text)
{
    char *place = NULL;
    free(r->dead);
    r->dead = strdup(text);
    r->decide.facts.dead_count = 0;
    if (r->dead == NULL)
        return -1;
    for (char *name = strtok_r(r->dead, ", ", &place); name != NULL;
         name = strtok_r(NULL, ", ", &place))
        if (r->decide.facts.dead_count < SW_ATTEMPT_NODES)
            r->dead_name[r->decide.facts.dead_count++] = name;
    r->decide.facts.dead = r->dead_name;
    return 0;
}

/* "n1,n2,n3", however many */
static int parse_hosts(struct request *r, const char *text)
{
    char *place = NULL;
    size_t most = 1;
    for (const char *p = text; *p != '\0'; p++)
        most += *p == ',';
    free(r->hosts);
    free(r->host_name);
    r->hosts = strdup(text);
    r->host_name = calloc(most, sizeof *r->host_name);
    r->decide.facts.host_count = 0;
    if (r->hosts == NULL || r->host_name == NULL || most > INT32_MAX)
        return -1;
    for (char *name = strtok_r(r->hosts, ",", &place); name != NULL;
         name = strtok_r(NULL, ",", &place))
        r->host_name[r->decide.facts.host_count++] = name;
    r->decide.facts.hosts = r->host_name;
    return 0;
}

static int parse_value(struct request *r, const char *option, const char *value)
{
    for (int i = 0; i < NUMBERS; i++)
        if (strcmp(option, numbers[i].option) == 0) {
            r->decide.after = r->decide.after || i == STATUS;
            return parse_number(value, &r->number[i]);
        }
    if (strcmp(option, "--continue") == 0)
        return parse_how(value, &r->decide.facts.how);
    if (strcmp(option, "--plans") == 0)
        return parse_range(value, &r->decide.facts.least, &r->decide.facts.most);
    if (strcmp(option, "--dead") == 0)
        return parse_dead(r, value);
    if (strcmp(option, "--hosts") == 0)
        return parse_hosts(r, value);
    if (strcmp(option, "--launcher") == 0)
        r->decide.launcher = value;
    else if (strcmp(option, "--launcher-before") == 0)
        r->decide.launcher_before = value;
    else if (strcmp(option, "--checkpoints") == 0)
        r->decide.checkpoints = value;
    else
        return 1;
    return 0;
}

static int parse(int argc, char **argv, struct request *r)
{
    for (int i = 0; i < NUMBERS; i++)
        r->number[i] = numbers[i].usual;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--link") == 0) {
            r->decide.facts.link = true;
        } else if (argv[i][0] == '-') {
            const int known = i + 1 < argc ? parse_value(r, argv[i], argv[i + 1]) : -1;
            if (known > 0)
                return usage("unknown option ", argv[i]);
            if (known < 0)
                return usage("no good value after ", argv[i]);
            i++;
        } else if (r->decide.folder != NULL) {
            return usage("one run at a time, not also ", argv[i]);
        } else {
            r->decide.folder = argv[i];
        }
    }
    return r->decide.folder != NULL && r->decide.folder[0] != '\0'
               ? SW_OK
               : usage("next needs the run's folder", "");
}

static void take_numbers(struct request *r)
{
    struct sw_next_facts *f = &r->decide.facts;
    f->restarts = r->number[RESTARTS];
    f->max_attempts = r->number[MAX_ATTEMPTS];
    f->attempt_before = r->number[BEFORE];
    f->status = (int32_t)r->number[STATUS];
    f->starts = (int32_t)r->number[STARTS];
    f->nodes = (int32_t)r->number[NODES];
    f->ranks_per_node = (int32_t)r->number[RANKS_PER_NODE];
    r->decide.job = sw_launch_job();
}

int sw_next_command(int argc, char **argv)
{
    struct request r = {0};
    struct sw_next next;
    struct sw_error err = {0}, trouble;
    struct sw_excluded *excluded = calloc(1, sizeof *excluded);
    int status = excluded == NULL ? SW_ENVIRONMENT : parse(argc, argv, &r);
    if (status != SW_OK)
        goto out;
    take_numbers(&r);
    if (sw_decide(&r.decide, &next, excluded, &trouble, &err) != 0) {
        sw_launch_print_error(&err);
        status = (int)err.status;
        goto out;
    }
    if (trouble.status != SW_OK)
        sw_launch_print_error(&trouble);
    printf("%s %d", sw_next_word(next.action), (int)next.code);
    for (int32_t i = 0; i < excluded->count; i++)
        printf("%c%s", i == 0 ? ' ' : ',', excluded->node[i].node);
    putchar('\n');
    if (next.reason[0] != '\0')
        fprintf(stderr, "%s\n", next.reason);
    if (fflush(stdout) != 0)
        status = SW_ENVIRONMENT;
out:
    free(r.dead);
    free(r.hosts);
    free(r.host_name);
    free(excluded);
    return status;
}
