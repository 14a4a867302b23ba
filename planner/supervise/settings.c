/* The command line of `plan supervise`, which a script writes and seldom a person. */
#include "planner/supervise/supervise.h"

#include "core/base/arguments.h"
#include "core/base/text.h"
#include "planner/command/command.h"
#include "planner/scheduler/scheduler.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, COUNT, BIG, CONTINUES, PLANS, YES, FLAG, WORDS };

static const struct option {
    const char *name, *value; /* value: what the help calls it */
    enum kind kind;
    size_t offset;
    const char *about;
} options[] = {
#define AT(member) offsetof(struct sw_supervise_settings, member)
    {"--digests", "N:DIGEST,...", TEXT, AT(digests), "of the plan for each number of nodes"},
    {"--plans", "LEAST-MOST", PLANS, AT(least), "numbers of nodes that there are plans for"},
    {"--elastic", "yes|''", YES, AT(elastic),
     "PLAN is NAME.MOST.plan.yaml, and there is one for each number"},
    {"--ranks-per-node", "N", COUNT, AT(ranks_per_node), "ranks of one node"},
    {"--directory", "DIR", TEXT, AT(folder), "the run's, for metrics and logs"},
    {"--checkpoints", "DIR", TEXT, AT(checkpoints),
     "checkpoints; of texts the one to make them with"},
    {"--runner", "PATH", TEXT, AT(runner), "the runner on the nodes"},
    {"--container-runner", "PATH", TEXT, AT(container_runner),
     "in place of it, in a container's image"},
    {"--script", "FILE", TEXT, AT(script), "the job's script, for the next link of a chain"},
    {"--link", NULL, FLAG, AT(link), "another job of the run queued this one, to go on with it"},
    {"--continue", "none|requeue|chain", CONTINUES, AT(how), "how the run goes on in another job"},
    {"--max-attempts", "N", BIG, AT(max_attempts), "attempts after which the run goes on no more"},
    {"--preflight", "off|quick|full", TEXT, AT(preflight), "what is tried of the nodes first"},
    {"--signal", "NAME@SECONDS", TEXT, AT(signal), "what the ranks get so long before the limit"},
    {"--exclude", "NODES", TEXT, AT(exclude), "nodes that no job of the run may get, with commas"},
    {"--mpi", "NAME", TEXT, AT(mpi), "how the launcher starts MPI, default pmix"},
    {"--options", "N WORD...", WORDS, AT(options), "N words for the launcher"},
    {"--container", "N WORD...", WORDS, AT(container), "N words before the runner"},
    {"--job", "train|generate|score|serve", TEXT, AT(job), "what the ranks do, default train"},
    {"--input", "FILE", TEXT, AT(input), "prompts or texts"},
    {"--output", "FILE", TEXT, AT(output), "what is made of them"},
    {"--shards", "N", COUNT, AT(shards), "tasks of the array"},
    {"--host", "ADDRESS", TEXT, AT(host), "where a server listens"},
    {"--port", "N", TEXT, AT(port), "default: one that follows from the job's number"},
    {"--token-file", "FILE", TEXT, AT(token_file), "the token of its requests"},
#undef AT
};
enum { OPTIONS = sizeof options / sizeof *options };

void sw_supervise_help(void)
{
    printf("usage: plan supervise PLAN OPTIONS [-- ARGUMENTS]\n"
           "the job's own process: picks nodes and plan, starts the ranks, decides what comes "
           "next\n\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        char spelling[64];
        snprintf(spelling, sizeof spelling, "%s%s%s", options[i].name,
                 options[i].value != NULL ? " " : "",
                 options[i].value != NULL ? options[i].value : "");
        sw_arguments_help_line(stdout, spelling, options[i].about);
    }
    sw_arguments_help_line(stdout, "--help, -h", "this help");
    printf("\nA script that 'plan emit' wrote ends with it. ARGUMENTS go to the runner when it "
           "trains. A value\nthat is '' counts as not given.\n");
}

static int wrong(struct sw_error *err, const struct option *o, const char *value)
{
    return sw_fail(err, SW_BAD_INPUT, "%s is %s, not '%.60s'", o->name, o->value, value);
}

static int read_count(const char *text, int64_t most, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end == text || *end != '\0' || errno != 0 || *out < 0 || *out > most ? -1 : 0;
}

/* "3-4", or "4" */
static int read_plans(const char *text, struct sw_supervise_settings *out)
{
    char *end;
    const long a = strtol(text, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
    if (end == text || *end != '\0' || a < 1 || b < a || b > INT32_MAX)
        return -1;
    out->least = (int32_t)a;
    out->most = (int32_t)b;
    return 0;
}

static int read_continue(const char *text, enum sw_continue *out)
{
    for (const struct sw_word *word = sw_words_continue; word->text != NULL; word++)
        if (strcmp(word->text, text) == 0) {
            *out = (enum sw_continue)word->value;
            return 0;
        }
    return -1;
}

/* Its value is argv[0]; returns how many words of argv it took, -1: it is none. */
static int store(const struct option *o, int argc, char **argv, struct sw_supervise_settings *out,
                 struct sw_error *err)
{
    char *const to = (char *)out + o->offset;
    int64_t number = 0;
    int status = 0;
    if (o->kind == FLAG) {
        *(bool *)to = true;
        return 0;
    }
    if (argc < 1)
        return sw_fail(err, SW_BAD_INPUT, "%s needs a value: %s", o->name, o->value);
    if (o->kind != WORDS && argv[0][0] == '\0')
        return 1; /* as if it was not given */
    switch (o->kind) {
    case TEXT:
        *(const char **)to = argv[0];
        break;
    case COUNT:
        status = read_count(argv[0], INT32_MAX, &number);
        *(int32_t *)to = (int32_t)number;
        break;
    case BIG:
        status = read_count(argv[0], INT64_MAX, &number);
        *(int64_t *)to = number;
        break;
    case CONTINUES:
        status = read_continue(argv[0], (enum sw_continue *)to);
        break;
    case PLANS:
        status = read_plans(argv[0], out);
        break;
    case YES:
        *(bool *)to = strcmp(argv[0], "yes") == 0;
        status = *(bool *)to || argv[0][0] == '\0' ? 0 : -1;
        break;
    default:
        if (read_count(argv[0], argc - 1, &number) != 0)
            return sw_fail(err, SW_BAD_INPUT, "%s needs a number of words, and these, not '%.60s'",
                           o->name, argv[0]);
        *(struct sw_supervise_words *)to = (struct sw_supervise_words){
            .word = (const char *const *)argv + 1, .count = (int32_t)number};
        return 1 + (int)number;
    }
    return status != 0 ? wrong(err, o, argv[0]) : 1;
}

static int unknown(const char *argument, struct sw_error *err)
{
    const char *names[OPTIONS];
    for (size_t i = 0; i < OPTIONS; i++)
        names[i] = options[i].name;
    const char *near = sw_text_nearest(argument, names, OPTIONS);
    if (near != NULL)
        return sw_fail(err, SW_BAD_INPUT, "unknown option '%.60s'; did you mean '%s'?", argument,
                       near);
    return sw_fail(err, SW_BAD_INPUT, "unknown option '%.60s'; see 'plan supervise --help'",
                   argument);
}

/* What a script must have said. */
static int check(const struct sw_supervise_settings *s, struct sw_error *err)
{
    static const char *const jobs[] = {"train", "generate", "score", "serve"};
    static const char *const preflights[] = {"off", "quick", "full"};
    bool known = false, tries = false;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        known = known || strcmp(s->job, jobs[i]) == 0;
    for (size_t i = 0; i < sizeof preflights / sizeof *preflights; i++)
        tries = tries || strcmp(s->preflight, preflights[i]) == 0;
    if (!known)
        return sw_fail(err, SW_BAD_INPUT, "--job is train, generate, score or serve, not '%.60s'",
                       s->job);
    if (!tries)
        return sw_fail(err, SW_BAD_INPUT, "--preflight is off, quick or full, not '%.60s'",
                       s->preflight);
    if (s->plan == NULL)
        return sw_fail(err, SW_BAD_INPUT, "which plan? see 'plan supervise --help'");
    if ((s->runner[0] == '\0' && s->container_runner[0] == '\0') || s->digests[0] == '\0' ||
        s->folder[0] == '\0' || s->checkpoints[0] == '\0' || s->least < 1 || s->ranks_per_node < 1)
        return sw_fail(err, SW_BAD_INPUT,
                       "--digests, --plans, --ranks-per-node, --directory, --checkpoints and "
                       "--runner are needed, as a script that 'plan emit' wrote has them");
    return 0;
}

int sw_supervise_parse(int argc, char **argv, struct sw_supervise_settings *out,
                       struct sw_error *err)
{
    *out = (struct sw_supervise_settings){.digests = "",
                                          .folder = "",
                                          .checkpoints = "",
                                          .runner = "",
                                          .container_runner = "",
                                          .script = "",
                                          .max_attempts = 100,
                                          .preflight = "off",
                                          .signal = "",
                                          .exclude = "",
                                          .mpi = "pmix",
                                          .job = "train",
                                          .input = "",
                                          .output = "",
                                          .host = "",
                                          .port = "",
                                          .token_file = "",
                                          .shards = 1};
    for (int i = 0; i < argc; i++) {
        const struct option *o = NULL;
        if (strcmp(argv[i], "--") == 0) {
            out->arguments = (struct sw_supervise_words){.word = (const char *const *)argv + i + 1,
                                                         .count = argc - i - 1};
            break;
        }
        if (argv[i][0] != '-') {
            if (out->plan != NULL)
                return sw_fail(err, SW_BAD_INPUT, "one plan at a time, not also '%.60s'", argv[i]);
            out->plan = argv[i];
            continue;
        }
        for (size_t k = 0; k < OPTIONS && o == NULL; k++)
            if (strcmp(argv[i], options[k].name) == 0)
                o = &options[k];
        if (o == NULL)
            return unknown(argv[i], err);
        const int taken = store(o, argc - i - 1, argv + i + 1, out, err);
        if (taken < 0)
            return -1;
        i += taken;
    }
    return check(out, err);
}

int sw_command_supervise(int argc, char **argv)
{
    struct sw_supervise_settings settings;
    struct sw_error err = {0};
    /* only there: words for the launcher may be like it */
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        sw_supervise_help();
        return SW_OK;
    }
    if (sw_supervise_parse(argc, argv, &settings, &err) != 0)
        return sw_command_fail(&err);
    const struct sw_scheduler *row = sw_scheduler_of_script(settings.script);
    if (row->within == NULL) {
        sw_fail(&err, SW_UNMET, "plan supervises no jobs of %s; start the ranks in the script",
                row->title);
        return sw_command_fail(&err);
    }
    return sw_supervise(&settings, row->within);
}
