/* The runner tool: executes a plan on the ranks it was started with. */
#include "runner/calibrate/calibrate.h"
#include "runner/checkpoint/checkpoint_command.h"
#include "runner/checkpoint/export_command.h"
#include "runner/train/arguments.h"
#include "runner/train/dataset.h"
#include "runner/train/train.h"
#include "runner/version.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char help[] =
    "usage: runner train NAME.plan.yaml [OPTIONS]\n"
    "trains what a plan says; started by srun --mpi=pmix, mpirun or, for one rank, alone\n"
    "\n"
    "  --steps N                stop after N steps instead of the plan's optimizer.total_steps\n"
    "  --resume auto|DIR|none   go on from the newest checkpoint of the run where there is one "
    "(auto,\n"
    "                           the default), from that one, or start over\n"
    "  --overwrite              with --resume none: delete the run's checkpoints\n"
    "  --digest HEX             refuse another plan than the one of that digest; job scripts say "
    "it\n"
    "\n"
    "usage: runner evaluate NAME.plan.yaml --checkpoint DIR [--json]\n"
    "the loss of a checkpoint or a Hugging Face model directory on the data that the run holds out "
    "(on\n"
    "all of it when it holds nothing out), on any mesh; started like train\n"
    "\n"
    "usage: runner checkpoint ls DIR [--json] | verify DIR... | diff DIR DIR\n"
    "lists checkpoints, reads them and compares every checksum, or says how far two are apart\n"
    "\n"
    "  DIR is a checkpoint, a folder of them, or a run's folder with such a folder inside.\n"
    "  ls looks at manifests and sizes of files; verify reads every byte. diff compares each "
    "tensor, "
    "and\n"
    "  takes any Hugging Face directory; of a folder, its newest checkpoint. Exit code 4: they "
    "differ.\n"
    "\n"
    "usage: runner export [--dtype bf16|fp16|fp32] CHECKPOINT OUT\n"
    "copies the model of a checkpoint, or of any Hugging Face directory, with its tokenizer\n"
    "\n"
    "  --dtype bf16|fp16|fp32   of the copy's numbers (default: of the model that the run started "
    "from,\n"
    "                           else as they are)\n"
    "\n"
    "usage: runner tokenize --bytes IN OUT.bin\n"
    "writes the bytes of a file as tokens, in llm.c's form\n"
    "\n"
    "usage: runner calibrate -o PROFILE.yaml [OPTIONS]\n"
    "measures this machine, or the nodes of the job it runs in, and writes the YAML for 'plan'\n"
    "\n"
    "  -o PROFILE.yaml          the profile to write; a cluster NAME.yaml takes NAME.profile.yaml "
    "beside it\n"
    "  --cluster CLUSTER.yaml   measure the links too, and write a cluster file in the same "
    "folder\n"
    "  --device cpu|cuda        the cores of the CPU (the default), or the GPUs\n"
    "  --quick                  measure for 6 seconds instead of 45\n"
    "\n"
    "  runner --version | --help\n"
    "\n"
    "A plan is written by 'plan emit RUN.yaml'. The number of ranks must be the product of its "
    "mesh.\n"
    "OMP_NUM_THREADS sets the threads of a rank (default: its share of the node's cores).\n"
    "SHARDWRIGHT_STALL_SECONDS sets how long a rank waits for one that gives no sign of life "
    "(default: "
    "20\n"
    "predicted steps, at least 60 s and at most 240 s, or 4 steps where these are longer).\n"
    "Signals act after the step at hand; a second INT or TERM ends the run at once. Exit codes: 0 "
    "done,\n"
    "1 cannot be met, or the loss or the gradient norm is no use, 2 bad input, 3 the environment "
    "failed;\n"
    "a training also: 75 stopped by USR1, to go on in another job, 76 as 3, and the node is "
    "broken, "
    "93 as\n"
    "75, but no step was gained, 130 stopped by INT, 143 stopped by TERM. attempt.json in the "
    "run's "
    "folder\n"
    "says it too, with the cause, before any rank leaves.\n";

static int usage(const char *what, const char *which)
{
    if (sw_launch_number() == 0)
        fprintf(stderr, "error: %s%s; see 'runner --help'\n", what, which);
    return SW_BAD_INPUT;
}

/* Writes text that the user asked for, and says when it did not arrive. */
static int show(const char *text)
{
    if (fputs(text, stdout) != EOF && fflush(stdout) == 0)
        return SW_OK;
    fprintf(stderr, "error: cannot write the output: %s\n", strerror(errno));
    return SW_ENVIRONMENT;
}

/* A core of every rank would fill the folder the job was started from. SHARDWRIGHT_CORE in the
 * environment, not empty: as the system has it, and Open MPI's stack traces too. */
static void forbid_core_dumps(void)
{
    const char *wanted = getenv("SHARDWRIGHT_CORE");
    const struct rlimit none = {0, 0};
    if (wanted != NULL && *wanted != '\0')
        return;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setenv("OMPI_MCA_opal_signal", "", 0); /* the watcher says it in one line */
}

/* Reads the plan and does what `work` makes of it, on every rank. */
static int on_plan(struct sw_launch *launch, const char *path,
                   int (*work)(const struct sw_launch *launch, const struct sw_plan *plan,
                               void *options),
                   void *options)
{
    struct sw_plan plan;
    struct sw_error err = {0};
    if (sw_launch_begin(launch, &err) != 0) {
        if (launch->rank == 0)
            sw_launch_print_error(&err);
        return (int)err.status;
    }
    const int read = sw_plan_read(path, &plan, &err);
    int status = (int)sw_launch_agree(launch, read == 0 ? NULL : &err);
    if (status == SW_OK)
        status = work(launch, &plan, options);
    if (read == 0)
        sw_plan_free(&plan);
    sw_launch_end(launch);
    return status;
}

static int train_plan(const struct sw_launch *launch, const struct sw_plan *plan, void *options)
{
    struct sw_train_options *o = options;
    struct sw_error err = {0};
    if (o->wants_digest && plan->digest != o->digest)
        sw_fail_at(&err, SW_BAD_INPUT, (struct sw_place){.file = o->plan_path},
                   "it has digest %016" PRIx64
                   ", the script that starts it was written for %016" PRIx64
                   ": the run was emitted again since; use the script that is there now",
                   plan->digest, o->digest);
    const enum sw_status status = sw_launch_agree(launch, err.status == SW_OK ? NULL : &err);
    if (status != SW_OK)
        return (int)status;
    sw_life_set_checkpoint_signal(o->life, plan->run->checkpoint_signal);
    return sw_train(launch, plan, o);
}

static int evaluate_plan(const struct sw_launch *launch, const struct sw_plan *plan, void *options)
{
    return sw_evaluate(launch, plan, options);
}

static int train(int argc, char **argv)
{
    struct sw_train_options options = {0};
    struct sw_launch launch = {0};
    struct sw_error err = {0};
    struct sw_watch_board own = {0};
    const char *problem = NULL, *which = "";
    if (sw_train_arguments(argc, argv, &options, &problem, &which) != 0)
        return usage(problem, which);
    /* before anything starts threads: first the process that trains, then its signals */
    forbid_core_dumps();
    options.board = sw_watch_begin();
    if (options.board == NULL)
        options.board = &own;
    if (sw_life_begin(&options.life, &err) != 0) {
        sw_launch_print_error(&err);
        return (int)err.status;
    }
    const int status = on_plan(&launch, options.plan_path, train_plan, &options);
    sw_life_end(options.life);
    return status;
}

static int evaluate(int argc, char **argv)
{
    struct sw_evaluate_options options = {0};
    struct sw_launch launch = {0};
    const char *problem = NULL, *which = "";
    if (sw_evaluate_arguments(argc, argv, &options, &problem, &which) != 0)
        return usage(problem, which);
    return on_plan(&launch, options.plan_path, evaluate_plan, &options);
}

static int tokenize(int argc, char **argv)
{
    struct sw_error err = {0};
    if (argc != 5 || strcmp(argv[2], "--bytes") != 0 || *argv[3] == '\0' || *argv[4] == '\0')
        return usage("tokenize takes --bytes IN OUT.bin", "");
    if (sw_tokenize_bytes(argv[3], argv[4], &err) == 0)
        return SW_OK;
    sw_launch_print_error(&err);
    return (int)err.status;
}

static int export(int argc, char **argv)
{
    struct sw_error err = {0};
    if (sw_export_command(argc, argv, &err) == 0)
        return SW_OK;
    sw_launch_print_error(&err);
    return (int)err.status;
}

static int parse_device(const char *text, enum sw_device_kind *kind)
{
    for (const struct sw_word *word = sw_words_device; word->text != NULL; word++)
        if (strcmp(text, word->text) == 0) {
            *kind = (enum sw_device_kind)word->value;
            return 0;
        }
    return -1;
}

static int calibrate(int argc, char **argv)
{
    struct sw_calibrate_options options = {.seconds = SW_CALIBRATE_SECONDS};
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0) {
            if (i + 1 == argc || parse_device(argv[++i], &options.device) != 0)
                return usage("--device needs cpu or cuda", "");
            continue;
        }
        const bool takes_path = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--cluster") == 0;
        if (takes_path && (i + 1 == argc || argv[i + 1][0] == '\0'))
            return usage(argv[i], " needs a file name");
        if (strcmp(argv[i], "-o") == 0)
            options.profile_path = argv[++i];
        else if (takes_path)
            options.cluster_path = argv[++i];
        else if (strcmp(argv[i], "--quick") == 0)
            options.seconds = SW_CALIBRATE_QUICK_SECONDS;
        else
            return usage(argv[i][0] == '-' ? "unknown option " : "unexpected argument ", argv[i]);
    }
    if (options.profile_path == NULL)
        return usage("calibrate needs -o PROFILE.yaml", "");
    struct sw_launch launch;
    struct sw_error err = {0};
    if (sw_launch_begin(&launch, &err) != 0) {
        if (launch.rank == 0)
            sw_launch_print_error(&err);
        return (int)err.status;
    }
    const int status = sw_calibrate(&launch, &options);
    sw_launch_end(&launch);
    return status;
}

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", train},         {"evaluate", evaluate},
    {"export", export},       {"checkpoint", sw_checkpoint_command},
    {"calibrate", calibrate}, {"tokenize", tokenize},
};

int main(int argc, char **argv)
{
    char text[512];
    if (argc < 2)
        return usage("no command", "");
    if (argc == 3 && strcmp(argv[2], "--help") == 0)
        return show(help);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return show(help);
    if (strcmp(argv[1], "--version") == 0)
        return show(sw_version_text(text, sizeof text));
    return usage("unknown command ", argv[1]);
}
