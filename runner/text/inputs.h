/* Files and pipes that a conversion reads in order, by blocks or lines, with progress on a
 * terminal. One thread. Errors name the file. */
#ifndef SW_INPUTS_H
#define SW_INPUTS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_inputs {
    const char *const *path; /* [count], borrowed */
    int32_t count;
    bool tells; /* true to write progress to standard error */
    /* the open input */
    const char *from;
    int64_t line; /* number of the latest line, from 1 */
    /* private */
    int file; /* -1: none */
    bool ended, has_total;
    char *buffer;
    size_t begin, end, room;
    int64_t total_bytes, read_bytes;
    double told_at;
};

/* Checks all inputs before reading: each exists and is readable, none is a folder or the file `to`
 * or `and_to`; `to`, if it exists, is a regular file. Does not open pipes. Errors: SW_BAD_INPUT;
 * SW_ENVIRONMENT. */
int sw_inputs_begin(struct sw_inputs *inputs, const char *const *path, int32_t count,
                    const char *to, const char *and_to, struct sw_error *err);
/* Opens input i and closes the previous one. */
int sw_inputs_open(struct sw_inputs *inputs, int32_t i, struct sw_error *err);
/* Next bytes of the open input, valid until the next call; *bytes 0: the end. */
int sw_inputs_block(struct sw_inputs *inputs, const char **data, size_t *bytes,
                    struct sw_error *err);
/* Next line without its line break, valid until the next call; *line NULL: the end. Skips a byte
 * order mark at the start. Errors: SW_BAD_INPUT: more than 2^31 - 1 bytes. */
int sw_inputs_line(struct sw_inputs *inputs, const char **line, size_t *bytes,
                   struct sw_error *err);
/* Place of the latest line, at column `column`. */
struct sw_place sw_inputs_place(const struct sw_inputs *inputs, int32_t column);
/* Writes a progress line, at most ten times a second. */
void sw_inputs_tell(struct sw_inputs *inputs, int64_t documents, int64_t tokens);
/* Closes the open input and clears the progress line. */
void sw_inputs_end(struct sw_inputs *inputs);

#endif
