/* What the ranks and their launcher print, line by line: the ranks' own words go to the log; what
 * their launcher and Open MPI say around the end of a rank goes to a file of its own, which tells
 * how they ended (core/run/launcher.h). */
#ifndef SW_SUPERVISE_OUTPUT_H
#define SW_SUPERVISE_OUTPUT_H

#include "core/base/error.h"
#include "core/run/launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_output_route {
    SW_OUTPUT_LOG,
    SW_OUTPUT_ASIDE,
    SW_OUTPUT_BOTH /* a rank's own error: both need it */
};

/* Zero at the beginning of a start of the ranks. */
struct sw_output_lines {
    const struct sw_launcher_lines *launcher; /* how its own are told; NULL: none is */
    bool is_block;                            /* between two rulers of Open MPI */
    int32_t block_lines;
    bool waited; /* a rank said that it waited in vain for others: the next say nothing new */
};

/* Where a line goes, without its newline. */
enum sw_output_route sw_output_route(struct sw_output_lines *lines, const char *line);

/* Reads what is written to *in by a thread of its own, until everybody has closed it. aside: the
 * file, made when there is something to write; launcher: as above. Errors: SW_ENVIRONMENT. */
struct sw_output;
struct sw_output *sw_output_begin(const char *aside, const struct sw_launcher_lines *launcher,
                                  int *in, struct sw_error *err);
/* Waits for the end, and frees it; the caller has closed its *in. NULL: nothing. */
void sw_output_end(struct sw_output *output);

/* Prints an error as `plan` does; returns its exit code. */
int sw_supervise_fail(const struct sw_error *err);

#endif
