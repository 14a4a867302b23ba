/* The command line after the command's name. Owns the table of options. */
#ifndef SW_COMMAND_OPTIONS_H
#define SW_COMMAND_OPTIONS_H

#include "core/config/config.h"

enum { SW_MAX_OVERRIDES = 64, SW_MAX_FAIL_IF = 16, SW_MAX_BUDGETS = 4 };

/* Bits of options, to select those that a command accepts. */
enum sw_option_bit {
    SW_OPTION_JSON = 1 << 0,
    SW_OPTION_TOP = 1 << 1,
    SW_OPTION_REJECTED = 1 << 2,
    SW_OPTION_PREFER = 1 << 3,
    SW_OPTION_MESH_DIM = 1 << 4,
    SW_OPTION_PROGRAM = 1 << 5,
    SW_OPTION_OUTPUT = 1 << 6,
    SW_OPTION_TEMPLATE = 1 << 7,
    SW_OPTION_SET = 1 << 8,
    SW_OPTION_FRONTIER = 1 << 9, /* --nodes, --budget, --deadline */
    SW_OPTION_MARKDOWN = 1 << 10,
    SW_OPTION_FAIL_IF = 1 << 11,
    SW_OPTION_FORMAT = 1 << 12,
    SW_OPTION_HTML = 1 << 13,
    SW_OPTION_FAIL_ALL = 1 << 14,
    SW_OPTION_COLLECTIVE = 1 << 15,
    SW_OPTION_DRY_RUN = 1 << 16,
    SW_OPTION_SOONEST = 1 << 17,
    SW_OPTION_PARTITION = 1 << 18,
    SW_OPTION_INTO = 1 << 19,
    SW_OPTION_FOR = 1 << 20,
    SW_OPTION_SOURCES = 1 << 21,
    SW_OPTION_OUTPUT_FILE = 1 << 22, /* -o as the name of a file */
    SW_OPTION_ACCELERATOR = 1 << 23,
    SW_OPTION_WATCH = 1 << 24,
    SW_OPTION_FOLLOW = 1 << 25,
    SW_OPTION_LINES = 1 << 26,
    SW_OPTION_NOW = 1 << 27,
    SW_OPTION_FORCE = 1 << 28,
    SW_OPTION_REPORT = 1 << 30,
    SW_OPTION_STAGE = 1 << 9
};

struct sw_json;

/* nccl-tests' and other names of collectives. */
extern const struct sw_word sw_collective_words[];

struct sw_options {
    bool json, rejected, program, sources;
    enum sw_program_kind program_kind; /* if `program` */
    int64_t top;                       /* -1: not given */
    const char *prefer;                /* one of sw_prefer_words; NULL: the run file's */
    const char *mesh_dim;              /* NULL: the run file's */
    const char *output;                /* -o; NULL: "." */
    const char *template_path;
    const char *stage;                  /* NULL: all stages of the run */
    const char *html;                   /* NULL: no page */
    int32_t collective;                 /* enum sw_collective; -1: by the file */
    const char *partition;              /* NULL: not given */
    const char *into;                   /* NULL: not given */
    const char *accelerator;            /* NULL: not given */
    const char *nodes;                  /* NULL: not given */
    const char *budget[SW_MAX_BUDGETS]; /* [budget_count] */
    const char *deadline;               /* NULL: not given */
    int32_t budget_count;
    bool dry_run, soonest, force;
    const char *purpose; /* --for: "train", "serve"; NULL: by `job` of the run */
    struct sw_override override[SW_MAX_OVERRIDES];
    int32_t override_count;
    bool markdown;
    bool github;              /* --format github: workflow annotations */
    struct sw_json *messages; /* open array of messages for check --json; NULL: messages are text */
    const char *fail_if[SW_MAX_FAIL_IF];
    int32_t fail_if_count;
    bool fail_all; /* true to test conditions on unchanged runs, too */
    bool watch, follow, now;
    bool report;                          /* true to report the run's hours */
    int64_t lines;                        /* -1: not given */
    const struct sw_launchers *launchers; /* launchers for descriptions; set by main */
    const char *commit;                   /* commit of this program; set by main; "": unknown */
    char **files; /* the arguments that are no options, in the caller's argv */
    int32_t file_count;
};

/* Like sw_arguments_parse; accepted: sw_option_bit. */
int sw_options_parse(const char *command, int argc, char **argv, uint32_t accepted,
                     struct sw_options *out, struct sw_error *err);

/* Writes help for the accepted options. */
void sw_options_help(FILE *out, uint32_t accepted);

#endif
