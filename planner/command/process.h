/* Programs that plan asks, such as a scheduler's: started without a shell, with a time limit, and
 * all output in memory. plan answers within seconds, whatever a program waits for. */
#ifndef SW_COMMAND_PROCESS_H
#define SW_COMMAND_PROCESS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sw_process_result {
    int exit_code;  /* 128 + signal if one ended it; 127: it could not be started */
    bool started;   /* true if it ran, so that it may have had an effect, also after an error */
    bool timed_out; /* true if killed at the limit, with its children */
    char *out;      /* standard output, followed by a 0 that out_bytes does not count */
    size_t out_bytes;
    char *diagnostics; /* standard error, likewise; at most 64 KiB are kept */
    size_t diagnostics_bytes;
};

/* Owner of a program: variables that its environment must not have, and one that it has. Names end
 * with '='; other texts are prefixes. */
struct sw_process_client {
    const char *const *kept;    /* exceptions from dropped; ends with NULL */
    const char *const *dropped; /* ends with NULL */
    const char *set;            /* "NAME=VALUE" */
    const char *where;          /* help if the program is not in PATH */
};

/* Runs argv (argv[0] is looked up in PATH; ends with NULL) with `input` (NULL: empty) as standard
 * input. The environment is plan's own without PMI* and OMPI_* of a surrounding job and without
 * POSIXLY_CORRECT, which changes how options are read, with LC_ALL=C, and with the client's changes
 * (NULL: none). Free *out with sw_process_free, also after an error. A program that fails or runs
 * out of time is no error here: see *out. Errors (SW_ENVIRONMENT): no memory, no process, more than
 * 256 MiB of output; a program that is not in PATH, with help. */
int sw_process_run(const struct sw_process_client *client, const char *const *argv,
                   const char *input, double limit_seconds, struct sw_process_result *out,
                   struct sw_error *err);
/* The same inside a job: with this process's environment unchanged, without input, and with TERM
 * five seconds before KILL. */
int sw_process_run_within(const char *const *argv, double limit_seconds,
                          struct sw_process_result *out, struct sw_error *err);
void sw_process_free(struct sw_process_result *result);

/* Starts argv in this process's group and environment, without input; out: its standard output and
 * error, -1: this process's own. Does not wait: the caller waits for *child; a missing program ends
 * with 127 and a line. Errors: SW_ENVIRONMENT: no process. */
int sw_process_start(const char *const *argv, int out, pid_t *child, struct sw_error *err);
/* Exit code from waitpid(2)'s status: 128 + signal if one ended it. */
int sw_process_code(int status);

/* The last line of its standard error without a leading "PROGRAM: error: "; "": none. Points into
 * the result, which it changes. */
const char *sw_process_complaint(struct sw_process_result *result);
/* All lines of its standard error, joined by "; ", each without a leading "PROGRAM: error: "; a cut
 * ends with "...", and characters that control a terminal are replaced. Returns buffer. */
char *sw_process_words(const struct sw_process_result *result, char *buffer, size_t bytes);

/* True if a program of this name is in PATH. */
bool sw_process_exists(const char *program);

#endif
