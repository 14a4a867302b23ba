/* Command lines: options by their rows, from which parsing, did-you-mean and help come. */
#ifndef SW_BASE_ARGUMENTS_H
#define SW_BASE_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What is wrong with a command line: what, followed by which; static, argv's, or in text. */
struct sw_problem {
    const char *what, *which;
    char
        near[64]; /* the option that an unknown one was probably meant to be; "": none is like it */
    char text[160];
    bool help; /* nothing is wrong: the help was asked for, and printed */
};
/* Returns -1. */
int sw_problem_is(struct sw_problem *problem, const char *what, const char *which);
enum { SW_PROBLEM_BYTES = 768 };
/* All of it, with what to do: the near option, or the help of that command. Returns buffer. */
const char *sw_problem_text(const struct sw_problem *problem, const char *command,
                            char buffer[SW_PROBLEM_BYTES]);

/* One of flag, text, number and take says what an option is. */
struct sw_argument {
    const char *name;  /* "--top-k"; or a field's, top_k; NULL ends a list of options */
    const char *value; /* what the help calls its value; NULL: it takes none */
    const char *about; /* what the help says of it; NULL: the help leaves it out */
    const char *needs; /* of a value that is missing or wrong; begins with ' ': behind the name;
                          NULL: " needs a value" */
    bool *flag;        /* takes no value */
    const char **text; /* takes a value as it is */
    double *number;    /* takes a whole number of these bounds */
    double least, most;
    /* Takes a value in its own way; -1: *problem says why, or nothing: then `needs` does. */
    int (*take)(void *to, const char *value, struct sw_problem *problem);
    void *to;
    bool may_be_empty; /* the value; else that is like a missing one */
};

/* Goes through argv from [2] on; argv[1] is the command. plan: NULL: it has none. more [argc]: what
 * stands behind the plan, or without one all that is no option, *more_count of them; NULL: nothing
 * may. Returns 0, or -1 and *problem. Where argv[2] is --help it prints the rows' help. */
int sw_arguments_parse(int argc, char **argv, const struct sw_argument *options, const char **plan,
                       char **more, int32_t *more_count, struct sw_problem *problem);

/* A line of help: what is written, and what it does, which goes on in further lines where it is
 * long. */
void sw_arguments_help_line(FILE *out, const char *spelling, const char *about);
/* Such a line for every row that has one. */
void sw_arguments_help(FILE *out, const struct sw_argument *options);

/* The whole text as a number; NAN: it is none. */
double sw_arguments_number(const char *text);

/* --digest: of the plan that a script was written for. */
struct sw_meant {
    bool given;
    uint64_t digest;
};
struct sw_argument sw_argument_digest(struct sw_meant *meant);

#endif
