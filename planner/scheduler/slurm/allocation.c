/* A Slurm job seen from within: its batch step asks and orders with Slurm's own commands. */
#include "planner/scheduler/slurm/row.h"

#include "core/base/clock.h"
#include "planner/scheduler/slurm/arrange.h"
#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/settings.h"
#include "planner/scheduler/slurm/srun/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A busy controller may take minutes over a requeue; a node answers at once or not at all. A
 * controller that was just restarted refuses steps until the nodes have registered: 22.05 on four
 * nodes for about 20 s. */
enum { ANSWER_SECONDS = 120, ORDER_SECONDS = 300, NODE_SECONDS = 20, REFUSED_SECONDS = 30 };
/* Numbers by which ranks receive TERM and INT: runner/rank/life.h. */
enum { PASSED_TERM = 40, PASSED_INT = 41 };

static int64_t number_of(const char *variable, int64_t usual)
{
    const char *text = getenv(variable);
    return text != NULL && *text != '\0' ? strtoll(text, NULL, 10) : usual;
}

static int find(struct sw_allocation *out, struct sw_error *err)
{
    *out = (struct sw_allocation){.id = getenv("SLURM_JOB_ID")};
    if (out->id == NULL || *out->id == '\0')
        return sw_fail(err, SW_BAD_INPUT,
                       "this is not a job of Slurm: submit the script that 'plan emit' wrote");
    (void)unsetenv("SLURM_CLUSTERS"); /* set in a profile: the job belongs to the cluster that
                                         it runs on */
    out->array_id = getenv("SLURM_ARRAY_JOB_ID");
    if (out->array_id == NULL || *out->array_id == '\0')
        out->array_id = out->id;
    out->task = number_of("SLURM_ARRAY_TASK_ID", 0);
    if (out->array_id != out->id)
        snprintf(out->itself, sizeof out->itself, "%.40s_%" PRId64, out->array_id, out->task);
    else
        snprintf(out->itself, sizeof out->itself, "%.60s", out->id);
    out->restarts = number_of("SLURM_RESTART_COUNT", 0);
    out->node_list = getenv("SLURM_JOB_NODELIST");
    if (out->node_list != NULL && sw_hosts_expand(out->node_list, &out->hosts, err) != 0)
        return -1;
    out->node_count = (int32_t)number_of("SLURM_JOB_NUM_NODES", out->hosts.count);
    return 0;
}

void sw_allocation_free(struct sw_allocation *job)
{
    sw_hosts_free(&job->hosts);
}

static const char *starter(const char *mpi)
{
    return sw_slurm_is_mpirun(mpi) ? "mpirun" : "srun";
}

/* Writes a line for each rank, for srun's --distribution=arbitrary (srun(1), SLURM_HOSTFILE) and
 * mpirun's --map-by seq (mpirun(1)). */
static bool write_order(const struct sw_allocation_start *s)
{
    FILE *file = fopen(s->order, "we");
    if (file == NULL) {
        fprintf(stderr, "cannot write %s, so ranks are started in Slurm's order: %s\n", s->order,
                strerror(errno));
        return false;
    }
    for (int32_t i = 0; i < s->used->count; i++)
        for (int32_t k = 0; k < s->ranks_per_node; k++)
            fprintf(file, "%s\n", s->used->item[i]);
    return fclose(file) == 0;
}

/* mpirun starts a daemon of its own on each node of the allocation, by srun, and the ranks from
 * there: ranks inherit the daemon's settings, so srun must give it this job's. */
static void start_mpirun(const struct sw_allocation_start *s, struct sw_argv *out)
{
    /* with it, a step of one task gets only so many processors */
    (void)unsetenv("SRUN_CPUS_PER_TASK");
    (void)unsetenv("SLURM_CPUS_PER_TASK");
    /* earlier ranks may still be on the nodes */
    (void)setenv("SLURM_OVERLAP", "1", 1);
    char forward[32];
    snprintf(forward, sizeof forward, "%d,%d", PASSED_TERM, PASSED_INT);
    sw_argv_add(out, "mpirun");
    sw_argv_add(out, "--quiet");
    if (geteuid() == 0)
        sw_argv_add(out, "--allow-run-as-root");
    sw_argv_add(out, "--mca");
    sw_argv_add(out, "ess_base_forward_signals");
    sw_argv_add(out, "%s", forward);
    sw_argv_add(out, "-np");
    sw_argv_add(out, "%d", (int)(s->nodes * s->ranks_per_node));
    /* by default it takes Slurm's order, not that of --host */
    const bool ordered = s->order != NULL && write_order(s);
    if (ordered) {
        sw_argv_add(out, "--hostfile");
        sw_argv_add(out, "%s", s->order);
    }
    for (int32_t i = 0; i < s->used->count && !ordered; i++) {
        sw_argv_add(out, "--host");
        sw_argv_add(out, "%s:%d", s->used->item[i], (int)s->ranks_per_node);
    }
    sw_argv_add(out, "--oversubscribe");
    sw_argv_add(out, "--map-by");
    if (ordered)
        sw_argv_add(out, "seq");
    else
        sw_argv_add(out, "ppr:%d:node", (int)s->ranks_per_node);
    sw_argv_add(out, "--bind-to");
    sw_argv_add(out, "none");
}

/* Signals that Slurm sends to steps would end its daemons, so all go to the job's process alone.
 * mpirun itself turns INT into TERM, and into KILL a second later; it leaves these two numbers
 * alone. */
static int passed(const char *mpi, int heard)
{
    if (!sw_slurm_is_mpirun(mpi))
        return 0;
    switch (heard) {
    case SIGUSR1:
    case SIGUSR2:
        return heard;
    case SIGINT:
        return PASSED_INT;
    case SIGTERM:
    case SIGHUP:
        return PASSED_TERM;
    default:
        return 0;
    }
}

static void start(const struct sw_allocation_start *s, struct sw_argv *out)
{
    (void)unsetenv("SLURM_HOSTFILE");
    if (sw_slurm_is_mpirun(s->mpi)) {
        start_mpirun(s, out);
        return;
    }
    sw_argv_add(out, "srun");
    sw_argv_add(out, "--mpi=%s", s->mpi);
    sw_argv_add(out, "--nodes=%d", (int)s->nodes);
    sw_argv_add(out, "--ntasks=%d", (int)(s->nodes * s->ranks_per_node));
    const bool ordered = s->order != NULL && write_order(s);
    if (ordered)
        (void)setenv("SLURM_HOSTFILE", s->order, 1);
    else if (s->without[0] != '\0')
        sw_argv_add(out, "--exclude=%s", s->without);
    if (s->again)
        sw_argv_add(out, "--overlap");
    sw_argv_add(out, "--kill-on-bad-exit=1");
    sw_argv_add(out, "--wait=60");
    sw_argv_add(out, ordered ? "--distribution=arbitrary" : "--distribution=block:block");
}

/* The value of "FIELD=" in scontrol's output, at the beginning of a word. */
static bool field(const char *text, const char *name, char *out, size_t bytes)
{
    const size_t length = strlen(name);
    for (const char *p = text; (p = strstr(p, name)) != NULL; p += length) {
        if ((p > text && p[-1] != ' ' && p[-1] != '\n' && p[-1] != '\t') || p[length] != '=')
            continue;
        const char *value = p + length + 1;
        snprintf(out, bytes, "%.*s", (int)strcspn(value, " \n"), value);
        return *out != '\0';
    }
    return false;
}

/* "": no answer */
static void show(const char *job, const char *name, char out[SW_ALLOCATION_WORD_BYTES])
{
    const char *const argv[] = {"scontrol", "show", "job", job, NULL};
    struct sw_process_result result = {0};
    if (sw_slurm_process(argv, NULL, ANSWER_SECONDS, &result, NULL) != 0 || result.out == NULL ||
        !field(result.out, name, out, SW_ALLOCATION_WORD_BYTES))
        out[0] = '\0';
    sw_process_free(&result);
}

/* SIGNALING: Slurm is delivering a signal, such as that before the limit, and has not heard from
 * every node. */
static enum sw_allocation_answer ask(const char *job, char word[SW_ALLOCATION_WORD_BYTES])
{
    show(job, "JobState", word);
    if (word[0] == '\0')
        return SW_ALLOCATION_SILENT;
    if (strcmp(word, "RUNNING") == 0 || strcmp(word, "SIGNALING") == 0)
        return SW_ALLOCATION_RUNS;
    return strcmp(word, "CANCELLED") == 0 ? SW_ALLOCATION_CANCELLED : SW_ALLOCATION_OTHER;
}

static bool ends_at(const char *job, time_t *out)
{
    char text[SW_ALLOCATION_WORD_BYTES];
    struct tm when = {.tm_isdst = -1};
    show(job, "EndTime", text);
    *out = 0;
    if (strcmp(text, "Unknown") == 0)
        return true;
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &when);
    *out = end != NULL && *end == '\0' ? mktime(&when) : -1;
    return *out > 0;
}

/* "down", "down*", "idle*", "failing": a star marks a node that does not answer. */
static void find_gone(const struct sw_allocation *job, struct sw_hosts *out)
{
    const char *const argv[] = {"sinfo",        "-a", "-h",    "-N", "-n",
                                job->node_list, "-o", "%N %T", NULL};
    struct sw_process_result result = {0};
    char *saved = NULL;
    if (job->node_list == NULL)
        return;
    if (sw_slurm_process(argv, NULL, ANSWER_SECONDS, &result, NULL) == 0 && result.exit_code == 0 &&
        result.out != NULL)
        for (char *line = strtok_r(result.out, "\n", &saved); line != NULL;
             line = strtok_r(NULL, "\n", &saved)) {
            char *state = strchr(line, ' ');
            if (state == NULL)
                continue;
            *state++ = '\0';
            const size_t length = strlen(state);
            if (strncmp(state, "down", 4) == 0 || strncmp(state, "fail", 4) == 0 ||
                (length > 0 && state[length - 1] == '*'))
                (void)sw_hosts_add(out, line, NULL);
        }
    sw_process_free(&result);
}

/* Starts a step on the node. Prints the reason if that fails; refused: the reason is the
 * controller's, not the node's. */
static bool start_step(const char *node, bool *refused)
{
    char where[300];
    snprintf(where, sizeof where, "--nodelist=%.256s", node);
    const char *const argv[] = {"srun",       "--overlap", "--quiet", "--nodes=1",
                                "--ntasks=1", where,       "true",    NULL};
    struct sw_process_result result = {0};
    const bool ran = sw_process_run_within(argv, NODE_SECONDS, &result, NULL) == 0;
    const bool there = ran && result.exit_code == 0 && !result.timed_out;
    const char *said = result.diagnostics != NULL ? result.diagnostics : "";
    *refused = ran && sw_srun_is_refused(said);
    if (!there && said[0] != '\0')
        fprintf(stderr, "a step on %s: %.*s\n", node, (int)strcspn(said, "\n"), said);
    else if (!there)
        fprintf(stderr, "a step on %s did not run within %d s\n", node, NODE_SECONDS);
    sw_process_free(&result);
    return there;
}

static bool answers(const char *node)
{
    const struct timespec pause = {.tv_sec = 5};
    const double until = sw_clock_now() + REFUSED_SECONDS;
    bool refused = false;
    while (!start_step(node, &refused)) {
        if (!refused || sw_clock_now() > until)
            return refused;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Runs an order, and prints complaints; out: NULL, or its output, the caller's to free. */
static bool order(const char *const *argv, char **out)
{
    struct sw_process_result result = {0};
    struct sw_error err = {0};
    char text[SW_ERROR_TEXT_BYTES];
    bool taken = sw_slurm_process(argv, NULL, ORDER_SECONDS, &result, &err) == 0;
    if (!taken)
        fprintf(stderr, "%s\n", sw_error_format(&err, NULL, text));
    else if (result.diagnostics != NULL && result.diagnostics[0] != '\0')
        fputs(result.diagnostics, stderr);
    if (taken && result.timed_out)
        fprintf(stderr, "'%s' did not end within %d s\n", argv[0], ORDER_SECONDS);
    taken = taken && result.exit_code == 0 && !result.timed_out;
    if (taken && out != NULL) {
        *out = result.out;
        result.out = NULL;
    }
    sw_process_free(&result);
    return taken;
}

/* incomplete: scontrol would also requeue a job that is over. */
static bool requeue(const char *job, bool hold)
{
    const char *const argv[] = {"scontrol", hold ? "requeuehold" : "requeue", "incomplete", job,
                                NULL};
    return order(argv, NULL);
}

static bool release(const char *job)
{
    const char *const argv[] = {"scontrol", "release", job, NULL};
    return order(argv, NULL);
}

/* A requeued job keeps the number of tasks that it ran with, even if it asks for 3 to 4 nodes: with
 * too few nodes for them 22.05 holds it with BadConstraints. Slurm still gives it all nodes it asks
 * for when they are free. */
static bool exclude(const char *job, const char *nodes, int32_t tasks)
{
    char which[80], fewest[32], *without = NULL;
    snprintf(which, sizeof which, "JobId=%s", job);
    snprintf(fewest, sizeof fewest, "NumTasks=%d", (int)tasks);
    if (asprintf(&without, "ExcNodeList=%s", nodes) < 0)
        return false;
    const char *const argv[] = {"scontrol", "update", which, without, tasks > 0 ? fewest : NULL,
                                NULL};
    const bool taken = order(argv, NULL);
    free(without);
    return taken;
}

static bool cancel(const char *job)
{
    const char *const argv[] = {"scancel", job, NULL};
    return order(argv, NULL);
}

/* Slurm counts whole minutes, and accepts no fewer from a user than used. */
static bool shorten(const char *job, int64_t minutes)
{
    char limit[SW_ALLOCATION_WORD_BYTES], which[80], lower[48];
    show(job, "TimeLimit", limit);
    const double now = limit[0] != '\0' ? sw_slurm_time_seconds(limit) / 60 : INFINITY;
    if (!(now > (double)minutes && now < 1e9))
        return false;
    snprintf(which, sizeof which, "JobId=%s", job);
    snprintf(lower, sizeof lower, "TimeLimit=%" PRId64, (int64_t)ceil(now) - minutes);
    const char *const argv[] = {"scontrol", "update", which, lower, NULL};
    return order(argv, NULL);
}

static bool end_ranks(const char *job)
{
    const char *const argv[] = {"scancel", "--signal=TERM", job, NULL};
    return order(argv, NULL);
}

static bool submit(const char *script, const struct sw_arguments_words *arguments, const char *job,
                   const char *without, char number[SW_ALLOCATION_WORD_BYTES])
{
    struct sw_argv argv = {0};
    char *said = NULL;
    sw_argv_add(&argv, "sbatch");
    sw_argv_add(&argv, "--parsable");
    sw_argv_add(&argv, "--kill-on-invalid-dep=yes");
    sw_argv_add(&argv, "--dependency=afterany:%s", job);
    if (without[0] != '\0')
        sw_argv_add(&argv, "--exclude=%s", without);
    sw_argv_add(&argv, "%s", script);
    sw_argv_add(&argv, "--link");
    if (arguments->count > 0) /* an older script passes all its words to 'plan supervise' */
        sw_argv_add(&argv, "--");
    for (int32_t i = 0; i < arguments->count; i++)
        sw_argv_add(&argv, "%s", arguments->word[i]);
    const bool taken = !argv.failed && order((const char *const *)argv.item, &said);
    number[0] = '\0';
    if (taken && said != NULL) /* "42", "42;cluster" */
        snprintf(number, SW_ALLOCATION_WORD_BYTES, "%.*s", (int)strcspn(said, ";\n"), said);
    free(said);
    sw_argv_free(&argv);
    return taken && number[0] != '\0';
}

const struct sw_allocation_ops sw_slurm_allocation_ops = {
    .title = "Slurm",
    .starter = starter,
    .lines = &sw_srun_lines,
    .continue_key = "slurm.continue",
    .find = find,
    .arrange = sw_slurm_arrange,
    .start = start,
    .ask = ask,
    .ends_at = ends_at,
    .find_gone = find_gone,
    .passed = passed,
    .answers = answers,
    .requeue = requeue,
    .release = release,
    .exclude = exclude,
    .cancel = cancel,
    .shorten = shorten,
    .end_ranks = end_ranks,
    .submit = submit,
};
