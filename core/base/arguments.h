/* Command lines: rows of options, from which parsing, did-you-mean and help come. Owns nothing:
 * texts are argv's. */
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

/* Type of an option's member: SW_ARGUMENT_TO chooses it by the member's type. */
enum sw_argument_kind {
    SW_ARGUMENT_FLAG,  /* bool: true; takes no value */
    SW_ARGUMENT_TEXT,  /* const char *: the value unchanged */
    SW_ARGUMENT_INT32, /* a whole number from least to most */
    SW_ARGUMENT_INT64,
    SW_ARGUMENT_WORDS, /* struct sw_arguments_words: a number, and that many words behind it */
    SW_ARGUMENT_OTHER  /* an enum by `words`, or the result of `take` */
};

/* Meaning of an empty value. */
enum sw_argument_empty {
    SW_EMPTY_REFUSED, /* same as a missing one */
    SW_EMPTY_TAKEN,
    SW_EMPTY_SKIPPED /* same as if the option was not given */
};

struct sw_argument {
    const char *name;  /* "--top-k"; or a field's name, top_k; '_' and '-' are the same. NULL
                          ends a list */
    const char *other; /* a second spelling: "-o"; NULL: none */
    const char *value; /* name of its value in messages and help; NULL: no value; "[NAME]":
                          optional, behind '=' or as a word unlike a file; "a|b|c" is written
                          "a, b or c" */
    const char *about; /* text of the help; NULL: not in the help */
    enum sw_argument_kind kind;
    size_t at; /* offset of the member in sw_command_line.to */
    enum sw_argument_empty empty;
    bool is_choice;              /* true if a text must be one of those in `value` */
    const struct sw_word *words; /* an enum by these words; NULL: none */
    int64_t least, most;         /* most 0: any */
    /* Takes a value by a function of its own; value NULL: "[NAME]" without one. -1: *err has the
     * reason, or if unset, the message is made from `value`. NULL: by `kind`. */
    int (*take)(const struct sw_argument *row, void *to, const char *value, struct sw_error *err);
    uint32_t bit; /* bits of the commands that have it; 0: all */
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
    const struct sw_argument *options; /* ends with a NULL name */
    uint32_t accepted;                 /* bits of rows that this command has; 0: all */
    void *to;                          /* struct that the rows fill */
    const char **plan;                 /* set to the first file, which is required; NULL: none is */
    int32_t most_files;                /* besides the plan */
    struct sw_arguments_words *rest;   /* set to the arguments behind "--"; NULL: these are files */
    /* set by parsing: arguments in argv that are no options, without the plan */
    char **files; /* [file_count] */
    int32_t file_count;
};

/* Parses argv[0..argc), the arguments behind the command's name, and reorders it so that files
 * stand together; with a row of words there may be a plan, and no other file. "--x V" and "--x=V"
 * are the same; of a repeated option the last counts, unless it collects; "-" is a file. Returns 0,
 * or -1 and *err; for --help and -h, which stop parsing, -1 with *err unchanged. Errors
 * (SW_BAD_INPUT, the first one): an unknown option with the nearest name, another command's option,
 * a missing or wrong value, too many or too few files. */
int sw_arguments_parse(int argc, char **argv, struct sw_command_line *line, struct sw_error *err);
/* True if an argument, which may have a value behind '=', spells the option of this name. */
bool sw_arguments_is(const char *argument, const char *name);
/* Appends "; see 'runner train --help'" to a message without advice. Returns -1. */
int sw_arguments_hint(const char *tool, const char *command, struct sw_error *err);

/* Writes a line of help: spelling and meaning, wrapped into further lines if long. */
void sw_arguments_help_line(FILE *out, const char *spelling, const char *about);
/* Writes such a line for every accepted row with a text (accepted 0: all). */
void sw_arguments_help(FILE *out, const struct sw_argument *options, uint32_t accepted);

/* The whole text as a number; NAN: not one. */
double sw_arguments_number(const char *text);
/* Parses "3-4", or "4"; -1: not such a range from 1 on. */
int sw_arguments_range(const char *text, int32_t *least, int32_t *most);

/* --digest: of the plan that a script was written for. */
struct sw_meant {
    bool given;
    uint64_t digest;
};
/* `take` of its row. */
int sw_arguments_take_digest(const struct sw_argument *row, void *to, const char *value,
                             struct sw_error *err);
#define SW_ARGUMENT_DIGEST(type, member)                                                           \
    {                                                                                              \
        .name = "--digest", .value = "HEX",                                                        \
        .about = "refuse any plan but the one with this digest; job scripts pass it",              \
        .take = sw_arguments_take_digest, SW_ARGUMENT_TO(type, member)                             \
    }

#endif
