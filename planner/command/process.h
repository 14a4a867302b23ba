/* A program that plan asks something of, as of a scheduler: started without a shell, with a time
 * limit, and everything that it prints in memory. plan answers within seconds, whatever a program
 * waits for. */
#ifndef SW_COMMAND_PROCESS_H
#define SW_COMMAND_PROCESS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sw_process_result {
    int exit_code;  /* 128 + signal where one ended it; 127: it could not be started */
    bool started;   /* it ran, so that it may have done what it is for, also after an error */
    bool timed_out; /* it was killed after the limit, with all that it had started */
    char *out;      /* standard output, ended by a 0 that out_bytes does not count */
    size_t out_bytes;
    char *diagnostics; /* standard error, likewise; at most 64 KiB of it are kept */
    size_t diagnostics_bytes;
};

/* Whose program it is: what its environment must not have, and has. Names end with '='; others are
 * beginnings of names. */
struct sw_process_client {
    const char *const *kept;    /* of those that are dropped; ends with NULL */
    const char *const *dropped; /* ends with NULL */
    const char *set;            /* "NAME=VALUE" */
    const char *where;          /* what to do where the program is not in PATH */
};

/* Runs argv (argv[0] is looked for in PATH; NULL ends it) with `input` (NULL: nothing) as standard
 * input. The environment is plan's own without PMI* and OMPI_* of a surrounding job and without
 * POSIXLY_CORRECT, which changes how options are read, with LC_ALL=C, and as the client (NULL:
 * nobody's) has it. *out is to be freed with sw_process_free, also after
 * an error. A program that ends with a failure or runs out of time is no error here: look at *out.
 * Errors (SW_ENVIRONMENT): no memory, no process, more than 256 MiB of output; a program that is
 * not in PATH, with what to do. */
int sw_process_run(const struct sw_process_client *client, const char *const *argv,
                   const char *input, double limit_seconds, struct sw_process_result *out,
                   struct sw_error *err);
/* The same within a job: with this process's environment as it is, without input, and told to end
 * (TERM) five seconds before it is killed. */
int sw_process_run_within(const char *const *argv, double limit_seconds,
                          struct sw_process_result *out, struct sw_error *err);
void sw_process_free(struct sw_process_result *result);

/* Starts argv in this process's group and environment, without input; out: its standard output and
 * error, -1: this process's own. Nothing waits for it: *child is the caller's to wait for, and what
 * is not there to be started ends with 127 and a line. Errors: SW_ENVIRONMENT: no process. */
int sw_process_start(const char *const *argv, int out, pid_t *child, struct sw_error *err);
/* The exit code of what waitpid(2) said: 128 + signal where one ended it. */
int sw_process_code(int status);

/* The last line of its standard error without the "PROGRAM: error: " before it; "" where it said
 * nothing. Points into the result, which it changes. */
const char *sw_process_complaint(struct sw_process_result *result);
/* All lines of its standard error, joined by "; ", each without "PROGRAM: error: " before it; what
 * does not fit ends with "...", and nothing in it steers a terminal. Returns buffer. */
char *sw_process_words(const struct sw_process_result *result, char *buffer, size_t bytes);

/* Whether a program of this name can be started from PATH. */
bool sw_process_exists(const char *program);

#endif
