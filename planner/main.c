/* `plan`: the table of its commands. */
#include "core/base/commit.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "planner/command/command.h"
#include "planner/scheduler/scheduler.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Names and meanings of the columns in a table of runs. */
static const char diff_details[] =
    "\nWith one RUN: compare it before and after --set. With two, --set changes both.\n";
static const char fit_details[] =
    "\nMEASUREMENTS: a metrics.jsonl of 'runner train' (its plan file before it), the output of "
    "nccl-tests,\n"
    "or a CSV file; in its lines '#' begins a comment, and a field with a comma stands in double "
    "quotes.\n"
    "FILE.yaml: the clusters that the runs used, and the models that the rows have no sizes of, or "
    "a run\n"
    "that has both. What it prints is a profile for each software and accelerator, or the links of "
    "a\n"
    "cluster; comments say where to put it.\n"
    "\n"
    "columns of runs (needed: n_gpus, seq_len, micro_batch, tok_s_gpu, and gpu or cluster)\n"
    "  tok_s_gpu          tokens per second and accelerator, measured\n"
    "  n_gpus             number of accelerators\n"
    "  seq_len            tokens of a sequence\n"
    "  micro_batch        sequences per data-parallel rank and micro-step (also: "
    "local_batch_seqs)\n"
    "  grad_accum         micro-steps of a step; default 1\n"
    "  dp fsdp tp sp_cp   sizes of the mesh; default of fsdp: what is left, of the others 1\n"
    "  zero_stage         1: weights and gradients are whole, 2: weights are; what is split is "
    "over\n"
    "                     fsdp, or over dp where fsdp is 1; default 3: all is split\n"
    "  pp                 pipeline stages; rows with more than 1 are not used\n"
    "  gpu                picks the cluster by its accelerator's name: h100_80gb is h100-sxm-80gb\n"
    "  cluster            name of the cluster, instead\n"
    "  software           name of the profile; rows of each are fitted by themselves\n"
    "  model              name of a model's file; all rows of one are left out together\n"
    "  d_model n_layers n_heads n_kv_heads d_ff vocab tied_embeddings mlp   its sizes, where no "
    "file\n"
    "                     has them; mlp: gated (three matrices) or plain (two)\n"
    "  act_ckpt           True or full; selective; else nothing is computed again\n"
    "  precision          rows with fp8 are not used (also: a column fp8)\n"
    "  reduce             bf16: gradients are summed in it; default fp32\n"
    "  residual_seq       sp+tp: the residual stream is split over tp, too\n"
    "  skip               why the row is not used; empty: it is\n"
    "columns of collectives (all needed)\n"
    "  collective         all_reduce, all_gather, reduce_scatter or alltoall\n"
    "  payload_bytes      size as nccl-tests counts it\n"
    "  gpus               number of ranks\n"
    "  busbw_GBps         bus bandwidth\n"
    "or, of those with a time (accelerator may be left out)\n"
    "  op message_bytes accelerators latency_us   as above; latency_us: microseconds of one\n"
    "  accelerator        name: only the rows of a cluster's own are used\n"
    "columns of matrix products in bf16, [m, k] x [k, n], a full grid (accelerator may be left "
    "out)\n"
    "  m n k latency_us accelerator   as above: 'products' of the accelerator's file\n";

static const char emit_details[] =
    "\nThe next emit overwrites every change of a script, and a plan's digest finds it: edit the "
    "run file\n"
    "and emit again.\n";

static const char submit_details[] =
    "\nPlan, script and submission.json are written to the run's directory, where never more than "
    "one job\n"
    "waits or runs. With a plan file, the script beside it is submitted.\n";

static const char status_details[] = "\nDIR: the run's directory; default the working directory. "
                                     "--watch ends with the run, and its\n"
                                     "exit code is then the run's verdict: 0 done, else as of "
                                     "'runner train'. The scheduler is asked "
                                     "at\n"
                                     "most every 10 s. Exit code 3 when it does not answer; what "
                                     "the directory says is shown all the "
                                     "same.\n";

static const char cancel_details[] =
    "\nA job that trains gets INT: it ends after the current step with a checkpoint, and is not "
    "started\n"
    "again. One that waits or has not begun to train is cancelled. Returns when it is over.\n";

static const struct command {
    const char *name, *arguments, *about;
    uint32_t options;
    int (*run)(const struct sw_options *options); /* NULL: it reads its own command line */
    const char *details;                          /* after the options; NULL: none */
} commands[] = {
    {"check", "FILE...", "validate YAML files of every kind",
     SW_OPTION_SET | SW_OPTION_FORMAT | SW_OPTION_JSON, sw_command_check, NULL},
    {"search", "RUN.yaml", "predict memory and time of every mesh, best first",
     SW_OPTION_JSON | SW_OPTION_TOP | SW_OPTION_REJECTED | SW_OPTION_FRONTIER | SW_OPTION_HTML |
         SW_OPTION_FOR | SW_OPTION_PREFER | SW_OPTION_MESH_DIM | SW_OPTION_STAGE | SW_OPTION_SET,
     sw_command_search, NULL},
    {"explain", "RUN.yaml", "show where the memory and the time of one mesh go",
     SW_OPTION_JSON | SW_OPTION_PROGRAM | SW_OPTION_SOURCES | SW_OPTION_HTML | SW_OPTION_REJECTED |
         SW_OPTION_FOR | SW_OPTION_PREFER | SW_OPTION_MESH_DIM | SW_OPTION_STAGE | SW_OPTION_SET,
     sw_command_explain, NULL},
    {"emit", "RUN.yaml", "write NAME.plan.yaml and the script that starts it",
     SW_OPTION_OUTPUT | SW_OPTION_TEMPLATE | SW_OPTION_PREFER | SW_OPTION_MESH_DIM | SW_OPTION_SET |
         SW_OPTION_JSON,
     sw_command_emit, emit_details},
    {"submit", "RUN.yaml|NAME.plan.yaml", "plan a run, submit its job, print the job's number",
     SW_OPTION_DRY_RUN | SW_OPTION_SOONEST | SW_OPTION_FORCE | SW_OPTION_TEMPLATE |
         SW_OPTION_PREFER | SW_OPTION_MESH_DIM | SW_OPTION_SET | SW_OPTION_JSON,
     sw_command_submit, submit_details},
    {"status", "[RUN.yaml|JOB|DIR]", "show a run's state: its job, steps, how it ended",
     SW_OPTION_WATCH | SW_OPTION_JSON | SW_OPTION_REPORT | SW_OPTION_SET, sw_command_status,
     status_details},
    {"logs", "[RUN.yaml|JOB|DIR]", "show what a run's job printed",
     SW_OPTION_FOLLOW | SW_OPTION_LINES | SW_OPTION_SET, sw_command_logs, NULL},
    {"cancel", "[RUN.yaml|JOB|DIR]", "end a run's job after a checkpoint",
     SW_OPTION_NOW | SW_OPTION_SET, sw_command_cancel, cancel_details},
    {"runs", "[DIR]", "list the runs in a folder and below it", SW_OPTION_WATCH | SW_OPTION_JSON,
     sw_command_runs, NULL},
    {"fit", "MEASUREMENTS FILE.yaml...", "fit profiles, or a cluster's links, to measurements",
     SW_OPTION_COLLECTIVE, sw_command_fit, fit_details},
    {"diff", "OLD NEW | RUN --set KEY=VALUE", "compare two runs, plans or folders of them",
     SW_OPTION_JSON | SW_OPTION_MARKDOWN | SW_OPTION_FAIL_IF | SW_OPTION_FAIL_ALL | SW_OPTION_SET,
     sw_command_diff, diff_details},
    {"import-cluster", "[--partition NAME] [--into FILE]",
     "write a cluster file from what the scheduler says",
     SW_OPTION_PARTITION | SW_OPTION_INTO | SW_OPTION_ACCELERATOR | SW_OPTION_OUTPUT_FILE,
     sw_command_import_cluster, NULL},
    {"schema", "model|accelerator|profile|curve|fabric|cluster|run|plan|template",
     "JSON Schema of a file, for editors", SW_OPTION_MARKDOWN, sw_command_schema, NULL},
    {"supervise", "PLAN OPTIONS [-- ARGUMENTS]",
     "run a job; the scripts of 'plan emit' end with it", 0, NULL, NULL},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    enum { ABOUT_COLUMN = 49 };
    printf("usage: plan COMMAND ARGUMENTS\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const int length = printf("  plan %s %s", commands[i].name, commands[i].arguments);
        printf("%s%*s%s\n", length > ABOUT_COLUMN - 1 ? "\n" : "",
               length > ABOUT_COLUMN - 1 ? ABOUT_COLUMN : ABOUT_COLUMN - length, "",
               commands[i].about);
    }
    printf(
        "\n  plan COMMAND --help      the options of a command; also: COMMAND -h or help COMMAND\n"
        "  plan --version [--json]\n\n"
        "RUN.yaml may be -, standard input: its paths are seen from the working directory\n"
        "exit codes: 0 done, 1 no mesh fits, or the named one does not, 2 bad input, 3 the "
        "environment\nfailed; diff: 4 differs; 141 the reader of the output went away, as with "
        "'| head'\n");
}

static void print_command_help(const struct command *command)
{
    printf("usage: plan %s %s [OPTIONS]\n%s\n\n", command->name, command->arguments,
           command->about);
    sw_options_help(stdout, command->options);
    if (command->details != NULL)
        fputs(command->details, stdout);
}

/* Version of each library that a scheduler uses. */
static void write_libraries(struct sw_json *json)
{
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++)
        if (sw_schedulers[i]->queue != NULL && sw_schedulers[i]->queue->write_version != NULL)
            sw_schedulers[i]->queue->write_version(stdout, json);
}

/* `plan --version`, in the form of `runner --version`, where devices are listed; or with --json. */
static int print_version(int32_t count, char **arguments)
{
    struct sw_json json = {.out = stdout, .style = SW_JSON_SPACES};
    if (count > 1 || (count == 1 && strcmp(arguments[0], "--json") != 0)) {
        struct sw_error err = {0};
        sw_fail(&err, SW_BAD_INPUT, "unknown argument '%.40s' of --version; it takes --json",
                arguments[strcmp(arguments[0], "--json") == 0]);
        return sw_command_fail(&err);
    }
    if (count == 0) {
        printf("plan %s\n  devices: none, it only plans; see 'runner --version'\n", sw_version());
        write_libraries(NULL);
        return SW_OK;
    }
    sw_json_object(&json, NULL);
    sw_json_text(&json, "schema", "shardwright.version/1");
    sw_json_text(&json, "program", "plan");
    sw_json_text(&json, "version", sw_version());
    sw_json_text(&json, "commit", sw_commit());
    write_libraries(&json);
    sw_json_end(&json);
    printf("\n");
    return SW_OK;
}

static int unknown_command(const char *name)
{
    struct sw_error err = {0};
    const char *names[COMMANDS + 2];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    names[COMMANDS] = "--version";
    names[COMMANDS + 1] = "--help";
    const char *near = sw_text_nearest(name, names, COMMANDS + 2);
    if (near != NULL)
        sw_fail(&err, SW_BAD_INPUT, "unknown command '%.40s'; did you mean '%s'?", name, near);
    else
        sw_fail(&err, SW_BAD_INPUT, "unknown command '%.40s'; see 'plan --help'", name);
    return sw_command_fail(&err);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        struct sw_error err = {0};
        sw_fail(&err, SW_BAD_INPUT, "give a command; see 'plan --help'");
        return sw_command_fail(&err);
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) {
        char help[] = "--help", *asked[] = {argv[0], argv[2], help, NULL};
        return run(3, asked);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return SW_OK;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version(argc - 2, argv + 2);
    for (size_t i = 0; i < COMMANDS; i++) {
        struct sw_options options;
        struct sw_error err = {0};
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        if (commands[i].run == NULL)
            return sw_command_supervise(argc - 2, argv + 2);
        if (sw_options_parse(commands[i].name, argc - 2, argv + 2, commands[i].options, &options,
                             &err) == 0) {
            options.launchers = &sw_launchers;
            options.commit = sw_commit() != NULL ? sw_commit() : "";
            return commands[i].run(&options);
        }
        if (err.status != SW_OK)
            return sw_command_fail(&err);
        print_command_help(&commands[i]);
        return SW_OK;
    }
    return unknown_command(argv[1]);
}

/* Exit code of a shell for a program that SIGPIPE ended: 128 + 13. */
enum { EXIT_PIPE = 141 };

/* True if stdout is a pipe without a reader. An earlier write may have noticed, so that errno is
 * lost. */
static bool reader_left(int error)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return error == EPIPE || (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0);
}

/* Keeps freed memory: a search compiles hundreds of programs, and returning memory to the system
 * takes as long as compiling. Uses large pages if available: otherwise a small search would spend a
 * third of its time on getting 20 MB in small ones. */
static void keep_memory(void)
{
    const size_t first = (size_t)24 << 20, large_page = (size_t)2 << 20;
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 8 << 20);
    char *heap = malloc(first); /* never touched */
    const size_t ahead = large_page - (uintptr_t)heap % large_page;
    if (heap != NULL)
        madvise(heap + ahead, first - 2 * large_page, MADV_HUGEPAGE);
    free(heap);
}

int main(int argc, char **argv)
{
    sw_file_hold_streams();
    keep_memory();
    /* a vanished reader does not stop the command: files are written first */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file above the limit is a failed write, as on a full disk */
    int status = run(argc, argv);
    errno = 0;
    const bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (lost && reader_left(errno)) {
        /* the reader wants no more output, as with '| head'; an error status stays */
        return status == SW_OK ? EXIT_PIPE : status;
    }
    if (lost && status != SW_ENVIRONMENT) {
        fprintf(stderr, "plan: error: cannot write the output%s%s\n", errno != 0 ? ": " : "",
                errno != 0 ? strerror(errno) : "");
        status = SW_ENVIRONMENT;
    }
    return status;
}
