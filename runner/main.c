/* The runner tool: executes a plan on the launched ranks. */
#include "core/base/commit.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runner/calibrate/calibrate.h"
#include "runner/checkpoint/checkpoint_command.h"
#include "runner/checkpoint/export_command.h"
#include "runner/generate/arguments.h"
#include "runner/next_command.h"
#include "runner/preflight/preflight.h"
#include "runner/serve/http.h"
#include "runner/serve/serve.h"
#include "runner/text/tokenize_command.h"
#include "runner/train/arguments.h"
#include "runner/data_command.h"
#include "runner/train/train.h"
#include "runner/rank/watch.h"
#include "runner/rank/version.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Text after the list of all commands. */
static const char environment[] =
    "\n  runner COMMAND --help    the options of a command; also: COMMAND -h or help COMMAND\n"
    "  runner --version [--json]\n\n"
    "A plan is written by 'plan emit RUN.yaml'. The number of ranks must be the product of its "
    "mesh.\n"
    "OMP_NUM_THREADS sets the threads of a rank (default: its share of the node's cores).\n"
    "SHARDWRIGHT_STALL_SECONDS sets how long a rank waits for one that gives no sign of life\n"
    "(default: 20 predicted steps, at least 60 s and at most 240 s, or 4 steps where these are "
    "longer).\n"
    "Signals act after the current step; a second INT or TERM ends the run at once.\n"
    "Exit codes: 0 done, 1 cannot be met, or the loss or the gradient norm is zero or not finite,\n"
    "2 bad input, 3 the environment failed; a training also: 75 stopped by USR1, to resume in "
    "another\n"
    "job, 76 as 3, and the node is broken, 93 as 75, but no step was gained, 130 stopped by INT,\n"
    "143 stopped by TERM. attempt.json in the run's folder says it too, with the cause, before any "
    "rank\n"
    "leaves.\n";

static int show_help(const char *name);

/* Reports a mistake in a command's arguments, or its help. */
static int usage(const char *command, struct sw_error *err)
{
    if (err->status == SW_OK)
        return show_help(command);
    (void)sw_arguments_hint("runner", command, err);
    if (sw_launch_number() == 0)
        fprintf(stderr, "runner %s: error: %s\n", command, err->message);
    return SW_BAD_INPUT;
}

/* Writes requested text; reports if that fails. */
static int show(const char *text)
{
    if (fputs(text, stdout) != EOF && fflush(stdout) == 0)
        return SW_OK;
    fprintf(stderr, "runner: error: cannot write the output: %s\n", strerror(errno));
    return SW_ENVIRONMENT;
}

/* Disables core dumps: every rank's would fill the job's folder. SHARDWRIGHT_CORE in the
 * environment, not empty: keeps the system's setting and Open MPI's stack traces. */
static void forbid_core_dumps(void)
{
    const char *wanted = getenv("SHARDWRIGHT_CORE");
    const struct rlimit none = {0, 0};
    if (wanted != NULL && *wanted != '\0')
        return;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setenv("OMPI_MCA_opal_signal", "", 0); /* the watcher reports in one line */
}

static int train(int argc, char **argv)
{
    struct sw_train_options options = {0};
    struct sw_error err = {0};
    struct sw_watch_board own = {0};
    if (sw_train_arguments(argc, argv, &options, &err) != 0)
        return usage("train", &err);
    /* before any thread starts: first the training process, then its signals */
    forbid_core_dumps();
    const struct sw_watch_board *watched = options.board = sw_watch_begin();
    if (options.board == NULL)
        options.board = &own;
    if (sw_life_begin(&options.life, &err) != 0) {
        sw_launch_print_error(&err);
        return (int)err.status;
    }
    const struct sw_rank_command command = {.plan_path = options.plan_path,
                                            .digest =
                                                options.meant.given ? &options.meant.digest : NULL,
                                            .starts_itself = true,
                                            .run = sw_train,
                                            .options = &options};
    const int status = sw_rank_run(&command);
    sw_life_end(options.life);
    sw_watch_end(watched);
    return status;
}

static int preflight(int argc, char **argv)
{
    struct sw_preflight_options options = {.full = false};
    struct sw_error err = {0};
    if (sw_preflight_arguments(argc, argv, &options, &err) != 0)
        return usage("preflight", &err);
    forbid_core_dumps();
    return sw_rank_run(
        &(struct sw_rank_command){.plan_path = options.plan_path,
                                  .digest = options.meant.given ? &options.meant.digest : NULL,
                                  .run = sw_preflight,
                                  .options = &options});
}

static int evaluate(int argc, char **argv)
{
    struct sw_evaluate_options options = {0};
    struct sw_error err = {0};
    if (sw_evaluate_arguments(argc, argv, &options, &err) != 0)
        return usage("evaluate", &err);
    return sw_rank_run(&(struct sw_rank_command){
        .plan_path = options.plan_path, .run = sw_evaluate, .options = &options});
}

static int generate(int argc, char **argv)
{
    struct sw_generate_options options;
    struct sw_error err = {0};
    const bool good = sw_generate_arguments(argc, argv, &options, &err) == 0;
    const struct sw_rank_command command = {
        .plan_path = options.plan_path, .run = sw_generate, .options = &options};
    const int status = good ? sw_rank_run(&command) : usage("generate", &err);
    sw_stops_free(&options.stops);
    return status;
}

static int score(int argc, char **argv)
{
    struct sw_score_options options;
    struct sw_error err = {0};
    if (sw_score_arguments(argc, argv, &options, &err) != 0)
        return usage("score", &err);
    return sw_rank_run(&(struct sw_rank_command){
        .plan_path = options.plan_path, .run = sw_score, .options = &options});
}

static int serve(int argc, char **argv)
{
    struct sw_serve_options options;
    struct sw_error err = {0};
    if (sw_serve_arguments(argc, argv, &options, &err) != 0)
        return usage("serve", &err);
    /* like train; a board that never says `running` records no attempt */
    forbid_core_dumps();
    const struct sw_watch_board *watched = sw_watch_begin();
    if (sw_life_begin(&options.life, &err) != 0) {
        sw_launch_print_error(&err);
        return (int)err.status;
    }
    const struct sw_rank_command command = {
        .plan_path = options.plan_path, .run = sw_serve, .options = &options};
    const int status = sw_rank_run(&command);
    sw_life_end(options.life);
    sw_watch_end(watched);
    return status;
}

/* Reports a mistake, or help, of a command without a plan. */
static int report(const char *command, struct sw_error *err)
{
    if (err->status == SW_OK)
        return show_help(command);
    sw_launch_print_error(err);
    return (int)err->status;
}

static int tokenize(int argc, char **argv)
{
    struct sw_error err = {0};
    return sw_tokenize_command(argc, argv, &err) == 0 ? SW_OK : report("tokenize", &err);
}

static int data(int argc, char **argv)
{
    struct sw_error err = {0};
    const int status = sw_data_command(argc, argv, &err);
    return status < 0 ? report("data", &err) : status;
}

static int export(int argc, char **argv)
{
    struct sw_error err = {0};
    return sw_export_command(argc, argv, &err) == 0 ? SW_OK : report("export", &err);
}

static int checkpoint(int argc, char **argv)
{
    struct sw_error err = {0};
    const int status = sw_checkpoint_command(argc, argv, &err);
    return status < 0 ? usage("checkpoint", &err) : status;
}

static int next(int argc, char **argv)
{
    struct sw_error err = {0};
    const int status = sw_next_command(argc, argv, &err);
    return status < 0 ? usage("next", &err) : status;
}

#define INTO(member) SW_ARGUMENT_TO(struct sw_calibrate_options, member)
static const struct sw_argument calibrate_rows[] = {
    {"--device", NULL, "cpu|cuda", "the cores of the CPU (the default), or the GPUs",
     .words = sw_words_device, INTO(device)},
    {"-o", NULL, "PROFILE.yaml",
     "the profile to write; a cluster NAME.yaml takes NAME.profile.yaml beside it",
     INTO(profile_path)},
    {"--cluster", NULL, "CLUSTER.yaml",
     "measure the links too, and write a cluster file in the same folder", INTO(cluster_path)},
    {"--plan", NULL, "NAME.plan.yaml",
     "end with a step of this plan, predicted and measured, instead of one of a small model",
     INTO(plan_path)},
    {"--quick", NULL, NULL, "measure for 8 seconds instead of 55", INTO(quick)},
    {"--force", NULL, NULL, "write unreliable results, too, with a band that is as wide",
     INTO(force)},
    {.name = NULL}};
#undef INTO

static int calibrate(int argc, char **argv)
{
    struct sw_calibrate_options options = {.seconds = SW_CALIBRATE_SECONDS};
    struct sw_command_line line = {
        .tool = "runner", .command = "calibrate", .options = calibrate_rows, .to = &options};
    struct sw_error err = {0};
    if (sw_arguments_parse(argc, argv, &line, &err) != 0)
        return usage("calibrate", &err);
    if (options.profile_path == NULL) {
        sw_fail(&err, SW_BAD_INPUT, "calibrate needs -o PROFILE.yaml");
        return usage("calibrate", &err);
    }
    if (options.quick)
        options.seconds = SW_CALIBRATE_QUICK_SECONDS;
    return sw_rank_run(&(struct sw_rank_command){.plan_path = options.plan_path,
                                                 .starts_itself = true,
                                                 .run = sw_calibrate,
                                                 .options = &options});
}

static const struct command {
    const char *name, *about;          /* about: one line in the list of all commands */
    int (*run)(int argc, char **argv); /* arguments after the name */
    const struct sw_argument *options; /* NULL: listed in details */
    const char *usage;                 /* usage lines and description */
    const char *details;               /* after the options; NULL: none */
} commands[] = {
    {"train", "train what a plan says", train, sw_train_rows,
     "usage: runner train NAME.plan.yaml [OPTIONS]\n"
     "trains what a plan says; started by srun --mpi=pmix, mpirun or, for one rank, alone\n",
     NULL},
    {"evaluate", "compute a checkpoint's loss on held-out data", evaluate, sw_evaluate_rows,
     "usage: runner evaluate NAME.plan.yaml --checkpoint DIR [--json]\n"
     "the loss of a checkpoint or a Hugging Face model directory on the data that the run holds "
     "out (on\n"
     "all of it when it holds nothing out), on any mesh; started like train\n",
     NULL},
    {"generate", "complete prompts", generate, sw_generate_rows,
     "usage: runner generate NAME.plan.yaml --checkpoint DIR --prompt TEXT | --prompts FILE "
     "[OPTIONS]\n"
     "completes prompts, on the plan's mesh, with the weights of a checkpoint or a Hugging Face "
     "model\n"
     "directory; started like train\n",
     NULL},
    {"score", "print how probable the model finds texts", score, sw_score_rows,
     "usage: runner score NAME.plan.yaml --checkpoint DIR [--json] FILE...\n"
     "       runner score NAME.plan.yaml --checkpoint DIR --texts FILE.jsonl [OPTIONS]\n"
     "prints how probable the model finds the text of files, or of lines of {\"text\": TEXT} or\n"
     "{\"tokens\": [1, 2]}; started like train\n",
     NULL},
    {"serve", "serve the model over HTTP, with OpenAI's API", serve, sw_serve_rows,
     "usage: runner serve NAME.plan.yaml --checkpoint DIR [OPTIONS]\n"
     "serves the model over HTTP, with OpenAI's API; started like train. TERM or INT ends it\n"
     "after all current requests; a second one at once\n",
     NULL},
    {"checkpoint", "list, verify or compare checkpoints", checkpoint, NULL,
     "usage: runner checkpoint ls DIR [--json] | verify DIR... | diff DIR DIR\n"
     "lists checkpoints, reads them and compares every checksum, or says how far two are apart\n",
     "  DIR is a checkpoint, a folder of them, or a run's folder with such a folder inside.\n"
     "  ls looks at manifests and sizes of files; verify reads every byte. diff compares each "
     "tensor, "
     "and\n"
     "  takes any Hugging Face directory; of a folder, its newest checkpoint. Exit code 4: they "
     "differ.\n"},
    {"export", "copy the model of a checkpoint; merge adapters; change its number format", export,
     sw_export_rows,
     "usage: runner export [--dtype bf16|fp16|fp32] [--base DIR | --unmerged] CHECKPOINT OUT\n"
     "copies the model of a checkpoint, or of any Hugging Face directory, with its tokenizer; "
     "adapters\n"
     "are merged into the model that they stand on\n",
     NULL},
    {"tokenize", "write texts and conversations as tokens to train on", tokenize, sw_tokenize_rows,
     "usage: runner tokenize --bytes IN... OUT.bin\n"
     "       runner tokenize --tokenizer TOKENIZER.json|DIR [OPTIONS] IN... OUT.bin\n"
     "writes files as tokens to train on, in llm.c's form, and beside them OUT.bin.index: their "
     "documents,\n"
     "and which labels count\n",
     NULL},
    {"data", "show what a step of a run is trained on", data, sw_data_rows,
     "usage: runner data RUN.yaml|NAME.plan.yaml [--step N] [--rows N] [--set KEY=VALUE] [--json]\n"
     "shows the files of a run's data, the lengths of documents, how full packed rows are, how "
     "many\n"
     "labels of a step count, and its first rows as text, with what counts marked\n",
     NULL},
    {"calibrate", "measure this machine's speed, for better predictions", calibrate, calibrate_rows,
     "usage: runner calibrate -o PROFILE.yaml [OPTIONS]\n"
     "measures this machine, or the nodes of the job it runs in, and writes the YAML for 'plan'\n",
     NULL},
    {"preflight", "test the nodes before a training", preflight, sw_preflight_rows,
     "usage: runner preflight NAME.plan.yaml [--full] [--digest HEX]\n"
     "tests every node as the plan will use it: layers of its shapes, messages between nodes, "
     "the\n"
     "plan's collectives, memory, disk, GPUs; started like train. Exit code 76: a node is slow or "
     "broken,\n"
     "and named in attempt.json\n",
     NULL},
    {"next", "tell a job script what to do after a run ended", next, sw_next_rows,
     "usage: runner next RUNDIR [--status N --before N] [OPTIONS]\n"
     "what a job script does next, for scripts: 'go', 'end', 'again' or 'requeue', an exit code, "
     "and "
     "the\n"
     "nodes that the run does without (RUNDIR/excluded_nodes.jsonl)\n",
     NULL},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int no_command(const char *name)
{
    const char *names[COMMANDS + 2];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    names[COMMANDS] = "--version";
    names[COMMANDS + 1] = "--help";
    const char *near = name != NULL ? sw_text_nearest(name, names, COMMANDS + 2) : NULL;
    if (sw_launch_number() != 0)
        return SW_BAD_INPUT;
    if (name == NULL)
        fputs("runner: error: give a command; see 'runner --help'\n", stderr);
    else if (near != NULL)
        fprintf(stderr, "runner: error: unknown command '%.40s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "runner: error: unknown command '%.40s'; see 'runner --help'\n", name);
    return SW_BAD_INPUT;
}

static void print_command(const struct command *command)
{
    printf("%s\n", command->usage);
    if (command->options != NULL)
        sw_arguments_help(stdout, command->options, 0);
    if (command->details != NULL)
        fputs(command->details, stdout);
}

/* Prints a command's help; unknown command: a line for each. */
static int show_help(const char *name)
{
    for (size_t i = 0; name != NULL && i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) {
            print_command(&commands[i]);
            return show("\nExit codes, signals and the environment: 'runner --help'.\n");
        }
    printf("usage: runner COMMAND ARGUMENTS\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  runner %-12s %s\n", commands[i].name, commands[i].about);
    return show(environment);
}

static int show_version(int count, char **arguments)
{
    char text[2048];
    struct sw_error err = {0};
    const bool served = sw_http_is_there(&err);
    const struct sw_version_parts parts = {
        .commit = sw_commit(), .http = served ? sw_http_version() : NULL, .no_http = err.message};
    if (count == 0)
        return show(sw_version_text(&parts, text, sizeof text));
    if (count == 1 && strcmp(arguments[0], "--json") == 0)
        return show(sw_version_document(&parts, text, sizeof text));
    fprintf(stderr, "runner: error: unknown argument '%.40s' of --version; it takes --json\n",
            arguments[strcmp(arguments[0], "--json") == 0]);
    return SW_BAD_INPUT;
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return no_command(NULL);
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 2, argv + 2);
    if (strcmp(argv[1], "help") == 0 && argc > 2) {
        char help[] = "--help", *asked[] = {argv[0], argv[2], help, NULL};
        return run(3, asked);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return show_help(NULL);
    if (strcmp(argv[1], "--version") == 0)
        return show_version(argc - 2, argv + 2);
    return no_command(argv[1]);
}

int main(int argc, char **argv)
{
    sw_file_hold_streams();
    (void)signal(SIGXFSZ, SIG_IGN); /* exceeding the size limit fails writes, like a full disk */
    return run(argc, argv);
}
