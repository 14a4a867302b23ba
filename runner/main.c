/* The runner tool: executes a plan on the ranks it was started with. */
#include "runner/calibrate/calibrate.h"
#include "runner/train/dataset.h"
#include "runner/train/train.h"
#include "runner/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: runner train NAME.plan.yaml [OPTIONS]\n"
    "trains what a plan says; started by srun --mpi=pmix, mpirun or, for one rank, alone\n"
    "\n"
    "  --steps N                stop after N steps instead of the plan's optimizer.total_steps\n"
    "\n"
    "usage: runner tokenize --bytes IN OUT.bin\n"
    "writes the bytes of a file as tokens, in llm.c's form\n"
    "\n"
    "usage: runner calibrate -o ACCELERATOR.yaml [OPTIONS]\n"
    "measures this machine, or the nodes of the job it runs in, and writes the YAML for 'plan'\n"
    "\n"
    "  -o ACCELERATOR.yaml      the accelerator file to write\n"
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
    "Exit codes: 0 done, 1 cannot be met, 2 bad input, 3 the environment failed, 130 stopped by a "
    "signal\n"
    "after finishing the step at hand.\n";

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

static int parse_steps(const char *text, int64_t *steps)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 1)
        return -1;
    *steps = value;
    return 0;
}

static int train(int argc, char **argv)
{
    const char *path = NULL;
    struct sw_train_options options = {0};
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--steps") == 0) {
            if (i + 1 == argc || parse_steps(argv[++i], &options.steps) != 0)
                return usage("--steps needs a positive number", "");
        } else if (argv[i][0] == '-') {
            return usage("unknown option ", argv[i]);
        } else if (path != NULL) {
            return usage("one plan at a time, not also ", argv[i]);
        } else {
            path = argv[i];
        }
    }
    options.plan_path = path;
    if (path == NULL || *path == '\0')
        return usage("train needs a plan file", "");
    struct sw_launch launch;
    struct sw_error err = {0};
    if (sw_launch_begin(&launch, &err) != 0) {
        if (launch.rank == 0)
            sw_launch_print_error(&err);
        return (int)err.status;
    }
    struct sw_plan plan;
    const int read = sw_plan_read(path, &plan, &err);
    int status = (int)sw_launch_agree(&launch, read == 0 ? NULL : &err);
    if (status == SW_OK)
        status = sw_train(&launch, &plan, &options);
    if (read == 0)
        sw_plan_free(&plan);
    sw_launch_end(&launch);
    return status;
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
            options.accelerator_path = argv[++i];
        else if (takes_path)
            options.cluster_path = argv[++i];
        else if (strcmp(argv[i], "--quick") == 0)
            options.seconds = SW_CALIBRATE_QUICK_SECONDS;
        else
            return usage(argv[i][0] == '-' ? "unknown option " : "unexpected argument ", argv[i]);
    }
    if (options.accelerator_path == NULL)
        return usage("calibrate needs -o ACCELERATOR.yaml", "");
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

int main(int argc, char **argv)
{
    char text[512];
    if (argc < 2)
        return usage("no command", "");
    if (argc == 3 && strcmp(argv[2], "--help") == 0)
        return show(help);
    if (strcmp(argv[1], "train") == 0)
        return train(argc, argv);
    if (strcmp(argv[1], "calibrate") == 0)
        return calibrate(argc, argv);
    if (strcmp(argv[1], "tokenize") == 0)
        return tokenize(argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return show(help);
    if (strcmp(argv[1], "--version") == 0)
        return show(sw_version_text(text, sizeof text));
    return usage("unknown command ", argv[1]);
}
