#include "runner/next_command.h"

#include "core/run/decide.h"
#include "planner/scheduler/slurm/srun/lines.h"
#include "runner/rank/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct sw_decide_request decide;
    char *dead; /* the lists' own copies, cut into names */
    char *hosts;
    const char *dead_name[SW_ATTEMPT_NODES];
    const char **host_name;
    int32_t status; /* -1: not given */
    int32_t before, starts, restarts, max_attempts, nodes, ranks_per_node;
};

/* "3-4", or "4" */
static int take_plans(const struct sw_argument *row, void *to, const char *text,
                      struct sw_error *err)
{
    struct sw_next_facts *facts = to;
    (void)row;
    (void)err;
    return sw_arguments_range(text, &facts->least, &facts->most);
}

/* "n3,n4" */
static int take_dead(const struct sw_argument *row, void *to, const char *text,
                     struct sw_error *err)
{
    struct request *r = to;
    char *saved = NULL;
    (void)row;
    (void)err;
    free(r->dead);
    r->dead = strdup(text);
    r->decide.facts.dead_count = 0;
    if (r->dead == NULL)
        return -1;
    for (char *name = strtok_r(r->dead, ", ", &saved); name != NULL;
         name = strtok_r(NULL, ", ", &saved))
        if (r->decide.facts.dead_count < SW_ATTEMPT_NODES)
            r->dead_name[r->decide.facts.dead_count++] = name;
    r->decide.facts.dead = r->dead_name;
    return 0;
}

/* "n1,n2,n3", however many */
static int take_hosts(const struct sw_argument *row, void *to, const char *text,
                      struct sw_error *err)
{
    struct request *r = to;
    char *saved = NULL;
    (void)row;
    (void)err;
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
    for (char *name = strtok_r(r->hosts, ",", &saved); name != NULL;
         name = strtok_r(NULL, ",", &saved))
        r->host_name[r->decide.facts.host_count++] = name;
    r->decide.facts.hosts = r->host_name;
    return 0;
}

#define INTO(member) SW_ARGUMENT_TO(struct request, member)
#define NUMBER(option, member, what)                                                               \
    {                                                                                              \
        .name = (option), .value = "N", .about = (what), .most = INT32_MAX, INTO(member)           \
    }
const struct sw_argument sw_next_rows[] = {
    NUMBER("--status", status, "exit code of the ranks; left out: they are not started yet"),
    NUMBER("--before", before, "number of the attempt in attempt.json before they were started"),
    NUMBER("--starts", starts, "starts of this job that began nothing"),
    NUMBER("--restarts", restarts, "how often the scheduler restarted the job"),
    NUMBER("--max-attempts", max_attempts, "slurm.max_attempts of the run (default: 100)"),
    NUMBER("--nodes", nodes, "nodes that the ranks were started on"),
    NUMBER("--ranks-per-node", ranks_per_node, "ranks of one node"),
    {"--continue", NULL, "none|requeue|chain", "slurm.continue of the run",
     .words = sw_words_continue, INTO(decide.facts.how)},
    {"--plans", NULL, "N|N-M", "fewest and most nodes with a plan", .take = take_plans,
     INTO(decide.facts)},
    {"--dead", NULL, "N,N", "nodes that do not answer", .take = take_dead, .empty = SW_EMPTY_TAKEN},
    {"--hosts", NULL, "N,N,N", "the nodes that the ranks were started on, in order",
     .take = take_hosts, .empty = SW_EMPTY_TAKEN},
    {"--launcher", NULL, "FILE", "the launcher's output", INTO(decide.launcher),
     .empty = SW_EMPTY_TAKEN},
    {"--launcher-before", NULL, "FILE", "the launcher's output in the start before",
     INTO(decide.launcher_before), .empty = SW_EMPTY_TAKEN},
    {"--checkpoints", NULL, "DIR", "checkpoints of the run (default: RUNDIR/checkpoints)",
     INTO(decide.checkpoints), .empty = SW_EMPTY_TAKEN},
    {"--link", NULL, NULL, "the job was queued by another job of the run", INTO(decide.facts.link)},
    {.name = NULL}};
#undef NUMBER
#undef INTO

static int parse(int argc, char **argv, struct request *r, struct sw_error *err)
{
    struct sw_command_line line = {.tool = "runner",
                                   .command = "next",
                                   .options = sw_next_rows,
                                   .to = r,
                                   .most_files = INT32_MAX};
    if (sw_arguments_parse(argc, argv, &line, err) != 0)
        return -1;
    if (line.file_count > 1)
        return sw_fail(err, SW_BAD_INPUT, "one run at a time, not also '%.200s'", line.files[1]);
    if (line.file_count == 0 || *line.files[0] == '\0')
        return sw_fail(err, SW_BAD_INPUT, "next needs the run's folder");
    r->decide.folder = line.files[0];
    return 0;
}

static void take_numbers(struct request *r)
{
    struct sw_next_facts *f = &r->decide.facts;
    r->decide.after = r->status >= 0;
    f->restarts = r->restarts;
    f->max_attempts = r->max_attempts;
    f->attempt_before = r->before;
    f->status = r->decide.after ? r->status : 0;
    f->starts = r->starts;
    f->nodes = r->nodes;
    f->ranks_per_node = r->ranks_per_node;
    r->decide.job = sw_launch_job();
}

int sw_next_command(int argc, char **argv, struct sw_error *mistake)
{
    /* only Slurm's scripts call this */
    struct request r = {.decide = {.lines = &sw_srun_lines, .facts = {.how_key = "slurm.continue"}},
                        .status = -1,
                        .starts = 1,
                        .max_attempts = 100};
    struct sw_next next;
    struct sw_error err = {0}, trouble;
    struct sw_excluded *excluded = calloc(1, sizeof *excluded);
    int status = excluded == NULL ? SW_ENVIRONMENT : parse(argc, argv, &r, mistake);
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
