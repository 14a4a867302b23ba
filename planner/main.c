/* `plan`: the table of its commands. */
#include "core/base/text.h"
#include "planner/command.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name, *arguments, *about;
    uint32_t options;
    int (*run)(const struct sw_options *options);
} commands[] = {
    {"check", "FILE...", "validate YAML: models, accelerators, clusters, runs, plans",
     SW_OPTION_SET | SW_OPTION_FORMAT | SW_OPTION_HELP, sw_command_check},
    {"search", "RUN.yaml", "every mesh with its memory and time, best first",
     SW_OPTION_JSON | SW_OPTION_TOP | SW_OPTION_REJECTED | SW_OPTION_PREFER | SW_OPTION_MESH_DIM |
         SW_OPTION_SET | SW_OPTION_HELP,
     sw_command_search},
    {"explain", "RUN.yaml", "where the memory and the time of one mesh go",
     SW_OPTION_JSON | SW_OPTION_PROGRAM | SW_OPTION_HTML | SW_OPTION_REJECTED | SW_OPTION_PREFER |
         SW_OPTION_MESH_DIM | SW_OPTION_SET | SW_OPTION_HELP,
     sw_command_explain},
    {"emit", "RUN.yaml", "write NAME.plan.yaml and the script that starts it",
     SW_OPTION_OUTPUT | SW_OPTION_TEMPLATE | SW_OPTION_PREFER | SW_OPTION_MESH_DIM | SW_OPTION_SET |
         SW_OPTION_HELP,
     sw_command_emit},
    {"fit", "MEASUREMENTS FILE.yaml...", "constants of accelerators and links from measurements",
     SW_OPTION_HELP, sw_command_fit},
    {"diff", "OLD NEW", "what two runs, plans or folders of them differ in, and what that costs",
     SW_OPTION_JSON | SW_OPTION_MARKDOWN | SW_OPTION_FAIL_IF | SW_OPTION_FAIL_ALL | SW_OPTION_HELP,
     sw_command_diff},
    {"schema", "model|accelerator|cluster|run|plan", "JSON Schema of a file, for editors",
     SW_OPTION_MARKDOWN | SW_OPTION_HELP, sw_command_schema},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    printf("usage: plan COMMAND ARGUMENTS\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", commands[i].name, commands[i].arguments);
        printf("  plan %-41s %s\n", usage, commands[i].about);
    }
    printf("\n  plan COMMAND --help      the options of a command\n"
           "  plan --version\n\n"
           "RUN.yaml may be -, standard input: its paths are seen from the working directory\n"
           "exit codes: 0 done, 1 no mesh fits, 2 bad input, 3 the environment failed; diff: 4 "
           "differs;\n141 the reader of the output went away, as with '| head'\n");
}

static void print_command_help(const struct command *command)
{
    printf("usage: plan %s %s [OPTIONS]\n%s\n\n", command->name, command->arguments,
           command->about);
    sw_options_help(stdout, command->options);
}

static int unknown_command(const char *name)
{
    struct sw_error err = {0};
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = sw_text_nearest(name, names, COMMANDS);
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
        sw_fail(&err, SW_BAD_INPUT, "which command? see 'plan --help'");
        return sw_command_fail(&err);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return SW_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("plan %s\ncuda: no\nlibslurm: no\n", sw_version());
        return SW_OK;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        struct sw_options options;
        struct sw_error err = {0};
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        if (sw_options_parse(commands[i].name, argc - 2, argv + 2, commands[i].options, &options,
                             &err) != 0)
            return sw_command_fail(&err);
        if (!options.help)
            return commands[i].run(&options);
        print_command_help(&commands[i]);
        return SW_OK;
    }
    return unknown_command(argv[1]);
}

/* What a shell says of a program that SIGPIPE ended: 128 + 13. */
enum { EXIT_PIPE = 141 };

/* Whether stdout is a pipe that nobody reads any more. An earlier write may have met the end, so
 * that errno is no longer there to tell. */
static bool reader_left(int error)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return error == EPIPE || (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0);
}

int main(int argc, char **argv)
{
    /* A search compiles hundreds of programs: keep their memory instead of giving it back to the
     * system each time, which takes as long as the compiling. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 8 << 20);
    /* a reader that goes away ends nothing half-way: files are written first */
    signal(SIGPIPE, SIG_IGN);
    int status = run(argc, argv);
    errno = 0;
    const bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    if (lost && reader_left(errno)) {
        /* nobody wants to hear more, as with '| head'; a verdict stays one */
        return status == SW_OK ? EXIT_PIPE : status;
    }
    if (lost && status != SW_ENVIRONMENT) {
        fprintf(stderr, "plan: error: cannot write the output%s%s\n", errno != 0 ? ": " : "",
                errno != 0 ? strerror(errno) : "");
        status = SW_ENVIRONMENT;
    }
    return status;
}
