/* The runner tool: executes a plan on the ranks it was started with. */
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
#include "runner/train/train.h"
#include "runner/rank/watch.h"
#include "runner/rank/version.h"

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
    "  --quiet                  say only what is wrong, and why a run ended before its last step; "
    "steps\n"
    "                           stand in metrics.jsonl\n"
    "  --overwrite              with --resume none: delete the run's checkpoints\n"
    "  --digest HEX             refuse another plan than the one of that digest; job scripts say "
    "it\n"
    "\n"
    "usage: runner evaluate NAME.plan.yaml --checkpoint DIR [--json]\n"
    "the loss of a checkpoint or a Hugging Face model directory on the data that the run holds out "
    "(on\n"
    "all of it when it holds nothing out), on any mesh; started like train\n"
    "\n"
    "usage: runner generate NAME.plan.yaml --checkpoint DIR --prompt TEXT | --prompts FILE "
    "[OPTIONS]\n"
    "completes prompts, on the plan's mesh, with the weights of a checkpoint or a Hugging Face "
    "model\n"
    "directory; started like train\n"
    "\n"
    "  --prompt TEXT            the text to go on with\n"
    "  --prompts FILE           lines of {\"prompt\": TEXT} or {\"tokens\": [1, 2]}, with the "
    "options "
    "below\n"
    "                           as keys (max_new_tokens, stop, ...) where they differ; - is stdin\n"
    "  -o OUT.jsonl             a line for each text, in the order of the prompts (default: "
    "stdout)\n"
    "  --resume                 go on with OUT.jsonl as a run that was ended left it: lines that "
    "are there\n"
    "                           are not made again, half of one is cut off; texts are those of "
    "one go\n"
    "  --shard I/N              part I of N of the prompts, from 0: as one of N jobs\n"
    "  --max-new-tokens N       at most (default: 128)\n"
    "  --temperature T          0: greedy (the default); above 0: sampling, 1 leaves the "
    "distribution as it is\n"
    "  --top-k K, --top-p P, --min-p P\n"
    "                           sample from the K most probable tokens; from the smallest set "
    "whose\n"
    "                           probabilities add up to P; from tokens at least P times as "
    "probable as the best\n"
    "  --repetition-penalty R   divides the logits of tokens that were there before (default: 1)\n"
    "  --presence-penalty P, --frequency-penalty F\n"
    "                           taken off the logit of a token that the text made: P once, F each "
    "time\n"
    "  --min-new-tokens N       nothing ends a text before it has N new tokens (default: 0)\n"
    "  --stop TEXT              ends a text, which does not get it; may be given several times\n"
    "  --bytes                  each byte of a text is a token; without it a model with no "
    "tokenizer\n"
    "                           takes texts only where its vocab_size is 256 or its run has "
    "data.format: bytes\n"
    "  --seed N, --n N          seed of the sampler; completions per prompt\n"
    "  --logprobs               each token's log-probability, as the model has it\n"
    "  --top-logprobs N         the N most probable tokens in each one's place, and theirs; up to "
    "20\n"
    "\n"
    "usage: runner score NAME.plan.yaml --checkpoint DIR [--json] FILE...\n"
    "       runner score NAME.plan.yaml --checkpoint DIR --texts FILE.jsonl [OPTIONS]\n"
    "how probable the model finds the text of files, or of lines of {\"text\": TEXT} or "
    "{\"tokens\": [1, 2]};\n"
    "started like train\n"
    "\n"
    "  -o OUT.jsonl, --resume, --shard I/N\n"
    "                           of lines, as of generate\n"
    "  --logprobs               of lines: each token's log-probability, too\n"
    "  --against FILE           of lines: how far they are, on average and at most, from those "
    "that\n"
    "                           score --logprobs wrote to FILE, of other weights or another "
    "precision\n"
    "  --bytes                  each byte of a text is a token, as of generate\n"
    "\n"
    "usage: runner serve NAME.plan.yaml --checkpoint DIR [OPTIONS]\n"
    "answers with that model over HTTP, as OpenAI's API has it; started like train. TERM or INT "
    "ends it\n"
    "when what it took is answered; a second one at once\n"
    "\n"
    "  --listen ADDRESS         HOST:PORT, PORT or unix:PATH (default: 127.0.0.1:8000; port 0: a "
    "free one)\n"
    "  --token-file FILE        its first line is what clients must show; needed where other "
    "machines reach\n"
    "                           the address\n"
    "  --model NAME             by which clients call it (default: the run's name)\n"
    "  --chat-template NAME     llama-3, chatml or mistral (default: the model's own; without one, "
    "by its\n"
    "                           special tokens)\n"
    "  --bytes                  each byte of a text is a token, as of generate\n"
    "  --queue N                texts that may wait, half of them one client's; more are told to "
    "come\n"
    "                           again (default: 512)\n"
    "  --deadline S             from a request to the whole answer, else 504 (default: 0, none)\n"
    "  --connections N          at a time (default: 256)\n"
    "  --client-timeout S       for a request to arrive (default: 30)\n"
    "  --drain S                from TERM to when what is not done is cut off (default: 30)\n"
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
    "usage: runner tokenize --bytes IN... OUT.bin\n"
    "       runner tokenize --tokenizer TOKENIZER.json [OPTIONS] IN... OUT.bin\n"
    "writes files as tokens to train on, in llm.c's form\n"
    "\n"
    "  --bytes                  each byte is a token\n"
    "  --tokenizer FILE|DIR     a tokenizer.json, or the folder of a model that has one; a file is "
    "a\n"
    "                           document, of NAME.jsonl each line, {\"text\": \"...\"}\n"
    "  --end TOKEN|none         the token behind each document (default: the one that ends a text "
    "by\n"
    "                           generation_config.json or tokenizer_config.json beside the "
    "tokenizer)\n"
    "  --parse-special          special tokens that stand in a text are tokens, not plain text\n"
    "\n"
    "usage: runner calibrate -o PROFILE.yaml [OPTIONS]\n"
    "measures this machine, or the nodes of the job it runs in, and writes the YAML for 'plan'\n"
    "\n"
    "  -o PROFILE.yaml          the profile to write; a cluster NAME.yaml takes NAME.profile.yaml "
    "beside it\n"
    "  --cluster CLUSTER.yaml   measure the links too, and write a cluster file in the same "
    "folder\n"
    "  --device cpu|cuda        the cores of the CPU (the default), or the GPUs\n"
    "  --quick                  measure for 8 seconds instead of 55\n"
    "  --force                  write what cannot be believed, too, with a band that is as wide\n"
    "\n"
    "usage: runner preflight NAME.plan.yaml [--full] [--digest HEX]\n"
    "tries on every node what the plan wants of it: layers of its shapes, messages between nodes, "
    "the\n"
    "plan's collectives, memory, disk, GPUs; started like train. Exit code 76: a node is out of "
    "its "
    "band,\n"
    "and named in attempt.json\n"
    "\n"
    "  --full                   for about a minute instead of ten seconds\n"
    "\n"
    "usage: runner next RUNDIR [--status N --before N] [OPTIONS]\n"
    "what a job script does next, for scripts: 'go', 'end', 'again' or 'requeue', an exit code, "
    "and "
    "the\n"
    "nodes that the run does without (RUNDIR/excluded_nodes.jsonl)\n"
    "\n"
    "  --status N               the ranks ended with it; without, they are yet to be started\n"
    "  --before N               number of the attempt in attempt.json before they were started\n"
    "  --continue none|requeue|chain, --max-attempts N\n"
    "                           slurm.continue and slurm.max_attempts of the run\n"
    "  --link                   the job was queued by another job of the run\n"
    "  --starts N, --restarts N starts of this job that began nothing; SLURM_RESTART_COUNT\n"
    "  --launcher FILE, --launcher-before FILE\n"
    "                           what the launcher said, and in the start before\n"
    "  --dead N,N               nodes that do not answer\n"
    "  --nodes N, --plans N-N   nodes that the ranks were started on, numbers of nodes with a "
    "plan\n"
    "  --hosts N,N,N, --ranks-per-node N\n"
    "                           the nodes that the ranks were started on, in order\n"
    "  --checkpoints DIR        of the run (default: RUNDIR/checkpoints)\n"
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
    "1 cannot be met, or the loss or the gradient norm is zero or not finite, 2 bad input, 3 the "
    "environment failed;\n"
    "a training also: 75 stopped by USR1, to go on in another job, 76 as 3, and the node is "
    "broken, "
    "93 as\n"
    "75, but no step was gained, 130 stopped by INT, 143 stopped by TERM. attempt.json in the "
    "run's "
    "folder\n"
    "says it too, with the cause, before any rank leaves.\n";

/* What is wrong with the arguments of a command. */
static int usage(const char *command, const struct sw_problem *problem)
{
    char text[SW_PROBLEM_BYTES];
    if (sw_launch_number() == 0)
        fprintf(stderr, "runner %s: error: %s\n", command, sw_problem_text(problem, command, text));
    return SW_BAD_INPUT;
}

/* Writes text that the user asked for, and says when it did not arrive. */
static int show(const char *text)
{
    if (fputs(text, stdout) != EOF && fflush(stdout) == 0)
        return SW_OK;
    fprintf(stderr, "runner: error: cannot write the output: %s\n", strerror(errno));
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

static int train(int argc, char **argv)
{
    struct sw_train_options options = {0};
    struct sw_error err = {0};
    struct sw_watch_board own = {0};
    struct sw_problem problem;
    if (sw_train_arguments(argc, argv, &options, &problem) != 0)
        return usage(argv[1], &problem);
    /* before anything starts threads: first the process that trains, then its signals */
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
    struct sw_problem problem;
    if (sw_preflight_arguments(argc, argv, &options, &problem) != 0)
        return usage(argv[1], &problem);
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
    struct sw_problem problem;
    if (sw_evaluate_arguments(argc, argv, &options, &problem) != 0)
        return usage(argv[1], &problem);
    return sw_rank_run(&(struct sw_rank_command){
        .plan_path = options.plan_path, .run = sw_evaluate, .options = &options});
}

static int generate(int argc, char **argv)
{
    struct sw_generate_options options;
    struct sw_problem problem;
    const bool good = sw_generate_arguments(argc, argv, &options, &problem) == 0;
    const struct sw_rank_command command = {
        .plan_path = options.plan_path, .run = sw_generate, .options = &options};
    const int status = good ? sw_rank_run(&command) : usage(argv[1], &problem);
    sw_stops_free(&options.stops);
    return status;
}

static int score(int argc, char **argv)
{
    struct sw_score_options options;
    struct sw_problem problem;
    char **files = calloc((size_t)argc + 1, sizeof *files);
    if (files == NULL)
        return SW_ENVIRONMENT;
    const bool good = sw_score_arguments(argc, argv, &options, files, &problem) == 0;
    const struct sw_rank_command command = {
        .plan_path = options.plan_path, .run = sw_score, .options = &options};
    const int status = good ? sw_rank_run(&command) : usage(argv[1], &problem);
    free(files);
    return status;
}

static int serve(int argc, char **argv)
{
    struct sw_serve_options options;
    struct sw_error err = {0};
    struct sw_problem problem;
    if (sw_serve_arguments(argc, argv, &options, &problem) != 0)
        return usage(argv[1], &problem);
    /* as for train; a board that never says that it runs is no attempt's */
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

static int tokenize(int argc, char **argv)
{
    struct sw_error err = {0};
    if (sw_tokenize_command(argc, argv, &err) == 0)
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

static int checkpoint(int argc, char **argv)
{
    struct sw_problem problem;
    const int status = sw_checkpoint_command(argc, argv, &problem);
    return status < 0 ? usage(argv[1], &problem) : status;
}

static int next(int argc, char **argv)
{
    struct sw_problem problem;
    const int status = sw_next_command(argc, argv, &problem);
    return status < 0 ? usage(argv[1], &problem) : status;
}

static int take_device(void *to, const char *value, struct sw_problem *problem)
{
    (void)problem;
    for (const struct sw_word *word = sw_words_device; word->text != NULL; word++)
        if (strcmp(value, word->text) == 0) {
            *(enum sw_device_kind *)to = (enum sw_device_kind)word->value;
            return 0;
        }
    return -1;
}

static int calibrate(int argc, char **argv)
{
    struct sw_calibrate_options options = {.seconds = SW_CALIBRATE_SECONDS};
    bool quick = false;
    const struct sw_argument rows[] = {
        {.name = "--device",
         .needs = "--device needs cpu or cuda",
         .take = take_device,
         .to = &options.device},
        {.name = "-o", .needs = " needs a file name", .text = &options.profile_path},
        {.name = "--cluster", .needs = " needs a file name", .text = &options.cluster_path},
        {.name = "--quick", .flag = &quick},
        {.name = "--force", .flag = &options.force},
        {.name = NULL}};
    struct sw_problem problem;
    if (sw_arguments_parse(argc, argv, rows, NULL, NULL, NULL, &problem) != 0)
        return usage(argv[1], &problem);
    if (options.profile_path == NULL)
        return usage(argv[1],
                     &(struct sw_problem){.what = "calibrate needs -o PROFILE.yaml", .which = ""});
    if (quick)
        options.seconds = SW_CALIBRATE_QUICK_SECONDS;
    return sw_rank_run(
        &(struct sw_rank_command){.starts_itself = true, .run = sw_calibrate, .options = &options});
}

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", train},           {"evaluate", evaluate},   {"export", export},
    {"checkpoint", checkpoint}, {"calibrate", calibrate}, {"tokenize", tokenize},
    {"generate", generate},     {"score", score},         {"next", next},
    {"preflight", preflight},   {"serve", serve},
};

static int wrong_command(const char *what, const char *name)
{
    enum { COMMANDS = sizeof commands / sizeof commands[0] };
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = name != NULL ? sw_text_nearest(name, names, COMMANDS) : NULL;
    if (sw_launch_number() == 0)
        fprintf(stderr, "runner: error: %s%s; %s%s%s\n", what, name != NULL ? name : "",
                near != NULL ? "did you mean " : "see 'runner --help'", near != NULL ? near : "",
                near != NULL ? "?" : "");
    return SW_BAD_INPUT;
}

/* Where a command's "usage: runner COMMAND" begins in the help; *bytes: up to the next one's. NULL:
 * it is no command. */
static const char *section_of(const char *command, size_t *bytes)
{
    static const char first[] = "usage: runner ", next_one[] = "\n\nusage: ";
    const size_t length = strlen(command);
    for (const char *at = strstr(help, first); at != NULL; at = strstr(at + 1, first)) {
        const char *name = at + sizeof first - 1;
        if (strncmp(name, command, length) != 0 || (name[length] != ' ' && name[length] != '\n'))
            continue;
        const char *end = strstr(at, next_one), *last = strstr(at, "\n\n  runner --version");
        end = end != NULL ? end : last != NULL ? last : at + strlen(at);
        *bytes = (size_t)(end - at);
        return at;
    }
    return NULL;
}

/* The part that is about a command, and where the rest is. */
static int show_help(const char *command)
{
    char text[4096];
    size_t bytes = 0;
    const char *section = section_of(command, &bytes);
    if (section == NULL)
        return show(help);
    snprintf(text, sizeof text,
             "%.*s\n\nExit codes, signals and the environment: 'runner --help'.\n", (int)bytes,
             section);
    return show(text);
}

static int show_version(void)
{
    char http[256], text[2048];
    struct sw_error err = {0};
    if (sw_http_is_there(&err))
        snprintf(http, sizeof http, "libmicrohttpd %.200s", sw_http_version());
    else
        snprintf(http, sizeof http, "none (%.200s)", err.message);
    return show(sw_version_text(http, text, sizeof text));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return wrong_command("no command", NULL);
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return show_help(argv[1]);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return show(help);
    if (strcmp(argv[1], "--version") == 0)
        return show_version();
    return wrong_command("unknown command ", argv[1]);
}
