/* The command line of `plan supervise`, written by scripts and rarely by people. */
#include "planner/supervise/supervise.h"

#include "core/base/arguments.h"
#include "planner/command/command.h"
#include "planner/scheduler/scheduler.h"

#include <stdio.h>
#include <string.h>

static int take_plans(const struct sw_argument *row, void *to, const char *value,
                      struct sw_error *err)
{
    struct sw_supervise_settings *out = to;
    (void)row;
    (void)err;
    return sw_arguments_range(value, &out->least, &out->most);
}

/* Reads "yes" into a bool. */
static int take_yes(const struct sw_argument *row, void *to, const char *value,
                    struct sw_error *err)
{
    (void)row;
    (void)err;
    *(bool *)to = true;
    return strcmp(value, "yes") == 0 ? 0 : -1;
}

#define INTO(member) SW_ARGUMENT_TO(struct sw_supervise_settings, member)
static const struct sw_argument options[] = {
    {"--digests", NULL, "N:DIGEST,...", "digest of the plan for each number of nodes",
     INTO(digests), .empty = SW_EMPTY_SKIPPED},
    {"--stages", NULL, "STAGES",
     "stages that the job trains, NAME/STEPS/DIGESTS each; PLAN is the first's", INTO(stages),
     .empty = SW_EMPTY_SKIPPED},
    {"--next", NULL, "SCRIPT", "script of the stages behind these, on other nodes", INTO(next),
     .empty = SW_EMPTY_SKIPPED},
    {"--plans", NULL, "LEAST-MOST", "numbers of nodes that there are plans for", .take = take_plans,
     .kind = SW_ARGUMENT_OTHER, .empty = SW_EMPTY_SKIPPED},
    {"--elastic", NULL, "yes|''", "PLAN is NAME.MOST.plan.yaml, and there is one for each number",
     .take = take_yes, INTO(elastic), .empty = SW_EMPTY_SKIPPED},
    {"--ranks-per-node", NULL, "N", "ranks of one node", INTO(ranks_per_node),
     .empty = SW_EMPTY_SKIPPED},
    {"--directory", NULL, "DIR", "the run's folder for metrics and logs", INTO(folder),
     .empty = SW_EMPTY_SKIPPED},
    {"--checkpoints", NULL, "DIR",
     "folder of checkpoints; for generate, score and serve the checkpoint to use",
     INTO(checkpoints), .empty = SW_EMPTY_SKIPPED},
    {"--runner", NULL, "PATH", "the runner on the nodes", INTO(runner), .empty = SW_EMPTY_SKIPPED},
    {"--container-runner", NULL, "PATH", "the runner in a container's image, instead",
     INTO(container_runner), .empty = SW_EMPTY_SKIPPED},
    {"--script", NULL, "FILE", "the job's script, for the next link of a chain", INTO(script),
     .empty = SW_EMPTY_SKIPPED},
    {"--link", NULL, NULL, "another job of the run queued this one, to continue it", INTO(link)},
    {"--continue", NULL, "none|requeue|chain", "how the run resumes in another job", INTO(how),
     .words = sw_words_continue, .empty = SW_EMPTY_SKIPPED},
    {"--max-attempts", NULL, "N", "attempts after which the run is not resumed", INTO(max_attempts),
     .empty = SW_EMPTY_SKIPPED},
    {"--preflight", NULL, "off|quick|full", "test of the nodes before the start", INTO(preflight),
     .is_choice = true, .empty = SW_EMPTY_SKIPPED},
    {"--signal", NULL, "NAME@SECONDS", "signal to the ranks, and seconds before the limit",
     INTO(signal), .empty = SW_EMPTY_SKIPPED},
    {"--shrink-limit", NULL, "yes|''", "lower the job's own limit when its speed is known",
     .take = take_yes, INTO(shrink_limit), .empty = SW_EMPTY_SKIPPED},
    {"--exclude", NULL, "NODES", "nodes that no job of the run may get, with commas", INTO(exclude),
     .empty = SW_EMPTY_SKIPPED},
    {"--mpi", NULL, "NAME", "srun's way to start MPI, or mpirun instead of srun; default pmix",
     INTO(mpi), .empty = SW_EMPTY_SKIPPED},
    {"--topology", NULL, "block|tree", "start ranks block by block, or leaf switch by leaf switch",
     INTO(topology), .is_choice = true, .empty = SW_EMPTY_SKIPPED},
    {"--options", NULL, "N WORD...", "N words for the launcher", INTO(options)},
    {"--container", NULL, "N WORD...", "N words before the runner", INTO(container)},
    {"--job", NULL, "train|generate|score|serve", "work of the ranks, default train", INTO(job),
     .is_choice = true, .empty = SW_EMPTY_SKIPPED},
    {"--input", NULL, "FILE", "prompts or texts", INTO(input), .empty = SW_EMPTY_SKIPPED},
    {"--output", NULL, "FILE", "file for the results", INTO(output), .empty = SW_EMPTY_SKIPPED},
    {"--shards", NULL, "N", "tasks of the array", INTO(shards), .empty = SW_EMPTY_SKIPPED},
    {"--host", NULL, "ADDRESS", "where a server listens", INTO(host), .empty = SW_EMPTY_SKIPPED},
    {"--port", NULL, "N", "default: one that follows from the job's number", INTO(port),
     .empty = SW_EMPTY_SKIPPED},
    {"--token-file", NULL, "FILE", "the token of its requests", INTO(token_file),
     .empty = SW_EMPTY_SKIPPED},
    {.name = NULL}};
#undef INTO

void sw_supervise_help(void)
{
    printf("usage: plan supervise PLAN OPTIONS [-- ARGUMENTS]\n"
           "the job's own process: picks nodes and plan, starts the ranks, decides what comes "
           "next\n\n");
    sw_arguments_help(stdout, options, 0);
    sw_arguments_help_line(stdout, "-h, --help", "this help");
    printf("\nA script that 'plan emit' wrote ends with it. ARGUMENTS go to the runner, but not to "
           "its\npreflight. A value that is '' counts as not given.\n");
}

/* Checks the options that a script must give. */
static int check(const struct sw_supervise_settings *s, struct sw_error *err)
{
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
                                          .stages = "",
                                          .next = "",
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
                                          .topology = "",
                                          .job = "train",
                                          .input = "",
                                          .output = "",
                                          .host = "",
                                          .port = "",
                                          .token_file = "",
                                          .shards = 1};
    struct sw_command_line line = {.tool = "plan",
                                   .command = "supervise",
                                   .options = options,
                                   .to = out,
                                   .plan = &out->plan,
                                   .rest = &out->arguments};
    return sw_arguments_parse(argc, argv, &line, err) == 0 ? check(out, err) : -1;
}

int sw_command_supervise(int argc, char **argv)
{
    struct sw_supervise_settings settings;
    struct sw_error err = {0};
    if (sw_supervise_parse(argc, argv, &settings, &err) != 0) {
        if (err.status != SW_OK)
            return sw_command_fail(&err);
        sw_supervise_help();
        return SW_OK;
    }
    const struct sw_scheduler *row = sw_scheduler_of_script(settings.script);
    if (row->allocation == NULL) {
        sw_fail(&err, SW_UNMET, "plan supervises no jobs of %s; start the ranks in the script",
                row->title);
        return sw_command_fail(&err);
    }
    return sw_supervise(&settings, row->allocation);
}
