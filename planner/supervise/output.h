/* Output of the ranks and their launcher, line by line: the ranks' own lines go to the log; lines
 * of the launcher and Open MPI about the end of a rank go to a file, which shows how they ended
 * (core/run/launcher.h). */
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
    SW_OUTPUT_BOTH /* a rank's own error: needed in both */
};

/* Zero at each start of the ranks. */
struct sw_output_lines {
    const struct sw_launcher_lines *launcher; /* recognizes its own lines; NULL: none */
    bool is_block;                            /* true between two rulers of Open MPI */
    int32_t block_lines;
    bool waited; /* true once a rank reported waiting in vain for others: later reports add
                    nothing */
};

/* Destination of a line, given without its newline. */
enum sw_output_route sw_output_route(struct sw_output_lines *lines, const char *line);

/* Starts a thread that reads *in until all writers have closed it. aside: the file, made when a
 * line goes there; launcher: as above. Errors: SW_ENVIRONMENT. */
struct sw_output;
struct sw_output *sw_output_begin(const char *aside, const struct sw_launcher_lines *launcher,
                                  int *in, struct sw_error *err);
/* Waits for the end, and frees it; the caller has closed its *in. NULL: no effect. */
void sw_output_end(struct sw_output *output);

/* Prints an error as `plan` does; returns its exit code. */
int sw_supervise_fail(const struct sw_error *err);

#endif
