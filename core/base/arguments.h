/* Command lines: options by their rows, from which parsing, did-you-mean and help come. Owns
 * nothing: texts are argv's. */
#ifndef SW_BASE_ARGUMENTS_H
#define SW_BASE_ARGUMENTS_H

#include "core/base/error.h"
#include "core/base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Words of a command line. */
struct sw_arguments_words {
    const char *const *word; /* [count], argv's */
    int32_t count;
};

/* What an option puts into its member: SW_ARGUMENT_TO says it by the member's type. */
enum sw_argument_kind {
    SW_ARGUMENT_FLAG,  /* bool: true; takes no value */
    SW_ARGUMENT_TEXT,  /* const char *: the value as it is */
    SW_ARGUMENT_INT32, /* a whole number from least to most */
    SW_ARGUMENT_INT64,
    SW_ARGUMENT_WORDS, /* struct sw_arguments_words: a number, and so many words behind it */
    SW_ARGUMENT_OTHER  /* an enum by `words`, or what `take` makes of it */
};

/* What an empty value is. */
enum sw_argument_empty {
    SW_EMPTY_REFUSED, /* like one that is missing */
    SW_EMPTY_TAKEN,
    SW_EMPTY_SKIPPED /* as if the option was not given */
};

struct sw_argument {
    const char *name;  /* "--top-k"; or a field's, top_k; '_' and '-' are one. NULL ends a list */
    const char *other; /* a second spelling: "-o"; NULL: none */
    const char *value; /* what messages and help call its value; NULL: it takes none; "[NAME]": it
                          may have one, behind '=' or as a word that is like no file; "a|b|c" is
                          said as "a, b or c" */
    const char *about; /* what the help says of it; NULL: the help leaves it out */
    enum sw_argument_kind kind;
    size_t at; /* the member's offset in sw_command_line.to */
    enum sw_argument_empty empty;
    bool is_choice;              /* a text that must be one of those in `value` */
    const struct sw_word *words; /* an enum by these words; NULL: none */
    int64_t least, most;         /* most 0: any */
    /* Takes a value in its own way; value NULL: "[NAME]" has none. -1: *err says why, or nothing:
     * then it is said what `value` is. NULL: by `kind`. */
    int (*take)(const struct sw_argument *row, void *to, const char *value, struct sw_error *err);
    uint32_t bit; /* of the commands that have it; 0: all have */
};

/* .kind and .at of a row that fills a member of the struct `type`. */
#define SW_ARGUMENT_TO(type, member)                                                               \
    .kind = _Generic(((type *)0)->member, bool                                                     \
                     : SW_ARGUMENT_FLAG, const char *                                              \
                     : SW_ARGUMENT_TEXT, int32_t                                                   \
                     : SW_ARGUMENT_INT32, int64_t                                                  \
                     : SW_ARGUMENT_INT64, struct sw_arguments_words                                \
                     : SW_ARGUMENT_WORDS, default                                                  \
                     : SW_ARGUMENT_OTHER),                                                         \
    .at = offsetof(type, member)

struct sw_command_line {
    const char *tool, *command;        /* "runner", "train" */
    const struct sw_argument *options; /* ends with a name that is NULL */
    uint32_t accepted;                 /* bits of rows that this command has; 0: all */
    void *to;                          /* the struct that the rows fill */
    const char **plan;                 /* gets the first file, which is needed; NULL: none is */
    int32_t most_files;                /* besides it */
    struct sw_arguments_words *rest;   /* gets what stands behind "--"; NULL: these are files */
    /* filled in: the arguments that are no options, in argv, without the plan */
    char **files; /* [file_count] */
    int32_t file_count;
};

/* Goes through argv[0..argc), which stands behind the command's name, and reorders it so that files
 * stand together; with a row of words there may be a plan, and no other file. "--x V" and "--x=V"
 * are the same; of an option that is repeated, the last counts, unless it collects; "-" is a file.
 * Returns 0, or -1 and *err; of --help and -h, behind which nothing is looked at, -1 with *err as
 * it was. Errors (SW_BAD_INPUT, the first one): an unknown option with the nearest name, another
 * command's option, a value that is missing or wrong, more files than the command takes or fewer.
 */
int sw_arguments_parse(int argc, char **argv, struct sw_command_line *line, struct sw_error *err);
/* Whether an argument, which may have a value behind '=', spells the option of this name. */
bool sw_arguments_is(const char *argument, const char *name);
/* Puts "; see 'runner train --help'" behind a mistake that does not say what to do. Returns -1. */
int sw_arguments_hint(const char *tool, const char *command, struct sw_error *err);

/* A line of help: what is written, and what it does, which goes on in further lines where it is
 * long. */
void sw_arguments_help_line(FILE *out, const char *spelling, const char *about);
/* Such a line for every row that has one, of the accepted ones (0: all). */
void sw_arguments_help(FILE *out, const struct sw_argument *options, uint32_t accepted);

/* The whole text as a number; NAN: it is none. */
double sw_arguments_number(const char *text);
/* "3-4", or "4": returns -1 when it is no such thing from 1 on. */
int sw_arguments_range(const char *text, int32_t *least, int32_t *most);

/* --digest: of the plan that a script was written for. */
struct sw_meant {
    bool given;
    uint64_t digest;
};
/* A row's `take`. */
int sw_arguments_take_digest(const struct sw_argument *row, void *to, const char *value,
                             struct sw_error *err);
#define SW_ARGUMENT_DIGEST(type, member)                                                           \
    {                                                                                              \
        .name = "--digest", .value = "HEX",                                                        \
        .about = "refuse any plan but the one with this digest; job scripts pass it",              \
        .take = sw_arguments_take_digest, SW_ARGUMENT_TO(type, member)                             \
    }

#endif
