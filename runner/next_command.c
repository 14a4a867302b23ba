#include "runner/next_command.h"

#include "core/run/decide.h"
#include "planner/scheduler/slurm/srun/lines.h"
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
    double status; /* -1: not given */
    double before, starts, restarts, max_attempts, nodes, ranks_per_node;
};

static int take_how(void *to, const char *text, struct sw_problem *problem)
{
    (void)problem;
    for (const struct sw_word *word = sw_words_continue; word->text != NULL; word++)
        if (strcmp(word->text, text) == 0) {
            *(enum sw_continue *)to = (enum sw_continue)word->value;
            return 0;
        }
    return -1;
}

/* "3-4", or "4" */
static int take_plans(void *to, const char *text, struct sw_problem *problem)
{
    struct sw_next_facts *facts = to;
    char *end;
    (void)problem;
    const long a = strtol(text, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
    if (end == text || *end != '\0' || a < 1 || b < a || b > INT32_MAX)
        return -1;
    facts->least = (int32_t)a;
    facts->most = (int32_t)b;
    return 0;
}

/* "n3,n4" */
static int take_dead(void *to, const char *text, struct sw_problem *problem)
{
    struct request *r = to;
    char *place = NULL;
    (void)problem;
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
static int take_hosts(void *to, const char *text, struct sw_problem *problem)
{
    struct request *r = to;
    char *place = NULL;
    (void)problem;
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

static int parse(int argc, char **argv, struct request *r, struct sw_problem *problem)
{
    struct sw_decide_request *d = &r->decide;
    char **folder = calloc((size_t)argc, sizeof *folder);
    int32_t count = 0;
#define NUMBER(option, to, what)                                                                   \
    {                                                                                              \
        .name = (option), .value = "N", .about = (what), .needs = " needs a whole number",         \
        .number = (to), .most = INT32_MAX                                                          \
    }
    const struct sw_argument options[] = {
        NUMBER("--status", &r->status,
               "the ranks ended with it; without, they are yet to be started"),
        NUMBER("--before", &r->before,
               "number of the attempt in attempt.json before they were started"),
        NUMBER("--starts", &r->starts, "starts of this job that began nothing"),
        NUMBER("--restarts", &r->restarts, "how often the scheduler restarted the job"),
        NUMBER("--max-attempts", &r->max_attempts, "of the run's settings (default: 100)"),
        NUMBER("--nodes", &r->nodes, "nodes that the ranks were started on"),
        NUMBER("--ranks-per-node", &r->ranks_per_node, "ranks of one node"),
        {.name = "--continue",
         .value = "none|requeue|chain",
         .about = "how the run goes on, of its settings",
         .needs = " needs none, requeue or chain",
         .take = take_how,
         .to = &d->facts.how},
        {.name = "--plans",
         .value = "N-N",
         .about = "fewest and most nodes with a plan",
         .needs = " needs N or N-M",
         .take = take_plans,
         .to = &d->facts},
        {.name = "--dead",
         .value = "N,N",
         .about = "nodes that do not answer",
         .take = take_dead,
         .to = r,
         .may_be_empty = true},
        {.name = "--hosts",
         .value = "N,N,N",
         .about = "the nodes that the ranks were started on, in order",
         .take = take_hosts,
         .to = r,
         .may_be_empty = true},
        {.name = "--launcher",
         .value = "FILE",
         .about = "what the launcher said",
         .text = &d->launcher,
         .may_be_empty = true},
        {.name = "--launcher-before",
         .value = "FILE",
         .about = "and in the start before",
         .text = &d->launcher_before,
         .may_be_empty = true},
        {.name = "--checkpoints",
         .value = "DIR",
         .about = "of the run (default: RUNDIR/checkpoints)",
         .text = &d->checkpoints,
         .may_be_empty = true},
        {.name = "--link",
         .about = "the job was queued by another job of the run",
         .flag = &d->facts.link},
        {.name = NULL}};
#undef NUMBER
    if (folder == NULL)
        return sw_problem_is(problem, "out of memory", "");
    int status = sw_arguments_parse(argc, argv, options, NULL, folder, &count, problem);
    if (status == 0 && count > 1)
        status = sw_problem_is(problem, "one run at a time, not also ", folder[1]);
    else if (status == 0 && (count == 0 || *folder[0] == '\0'))
        status = sw_problem_is(problem, "next needs the run's folder", "");
    else
        d->folder = folder[0];
    free(folder);
    return status;
}

static void take_numbers(struct request *r)
{
    struct sw_next_facts *f = &r->decide.facts;
    r->decide.after = r->status >= 0;
    f->restarts = (int64_t)r->restarts;
    f->max_attempts = (int64_t)r->max_attempts;
    f->attempt_before = (int64_t)r->before;
    f->status = r->decide.after ? (int32_t)r->status : 0;
    f->starts = (int32_t)r->starts;
    f->nodes = (int32_t)r->nodes;
    f->ranks_per_node = (int32_t)r->ranks_per_node;
    r->decide.job = sw_launch_job();
}

int sw_next_command(int argc, char **argv, struct sw_problem *problem)
{
    /* only Slurm's scripts ask */
    struct request r = {.decide = {.lines = &sw_srun_lines, .facts = {.how_key = "slurm.continue"}},
                        .status = -1,
                        .starts = 1,
                        .max_attempts = 100};
    struct sw_next next;
    struct sw_error err = {0}, trouble;
    struct sw_excluded *excluded = calloc(1, sizeof *excluded);
    *problem = (struct sw_problem){.which = ""};
    int status = excluded == NULL ? SW_ENVIRONMENT : parse(argc, argv, &r, problem);
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
