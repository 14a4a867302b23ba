/* Files and pipes that a conversion reads one after the other, in blocks or by lines, with its
 * progress on a terminal. One thread. Errors have the file as their place. */
#ifndef SW_INPUTS_H
#define SW_INPUTS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_inputs {
    const char *const *path; /* [count], borrowed */
    int32_t count;
    bool tells; /* progress goes to standard error */
    /* what is open */
    const char *from;
    int64_t line; /* number of the last line, from 1 */
    /* its own */
    int file; /* -1: none */
    bool ended, has_total;
    char *buffer;
    size_t begin, end, room;
    int64_t total_bytes, read_bytes;
    double told_at;
};

/* Looks at all inputs before one is read: each is there and can be read, none is a folder or one of
 * the files `to` and `and_to`, and `to`, if it is there, is a regular file. Pipes are not opened.
 * Errors: SW_BAD_INPUT; SW_ENVIRONMENT. */
int sw_inputs_begin(struct sw_inputs *inputs, const char *const *path, int32_t count,
                    const char *to, const char *and_to, struct sw_error *err);
/* Opens input i; the one before is closed. */
int sw_inputs_open(struct sw_inputs *inputs, int32_t i, struct sw_error *err);
/* The next bytes of what is open, in memory of the inputs until the next call; *bytes 0: the end.
 */
int sw_inputs_block(struct sw_inputs *inputs, const char **data, size_t *bytes,
                    struct sw_error *err);
/* The next line without its break, the same way; *line NULL: the end. A byte order mark before the
 * first one is left out. Errors: SW_BAD_INPUT: more than 2^31 - 1 bytes. */
int sw_inputs_line(struct sw_inputs *inputs, const char **line, size_t *bytes,
                   struct sw_error *err);
/* Place of the last line that was read, at column `column`. */
struct sw_place sw_inputs_place(const struct sw_inputs *inputs, int32_t column);
/* At most ten times a second a line about how far it is. */
void sw_inputs_tell(struct sw_inputs *inputs, int64_t documents, int64_t tokens);
/* Closes what is open, and clears that line. */
void sw_inputs_end(struct sw_inputs *inputs);

#endif
