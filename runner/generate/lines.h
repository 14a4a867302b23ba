/* A file of lines of JSON that a command writes one after the other, and that the same command goes
 * on with after it was ended: the file itself is the record of what is done. Each line is written
 * at once; half of one, which is all that a killed process leaves, is cut off when the file is
 * opened again. Owns the open file; rank 0 alone has one. */
#ifndef SW_LINES_H
#define SW_LINES_H

#include "core/base/file.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct sw_lines {
    FILE *out;    /* NULL: not open */
    int64_t done; /* lines that were there already */
};

/* What is wrong with the number-th line (from 0) that was there, in text [160]; 0: nothing. */
typedef int (*sw_lines_check)(void *context, int64_t number, const json_t *line, char text[160]);

/* Begins the file anew, beside what stands there until it is committed. from, and_from: what its
 * lines are made of ("-": standard input; NULL: nothing more), which it may not replace. Errors
 * (SW_BAD_INPUT): it would, or one may not write there; (SW_ENVIRONMENT). */
int sw_lines_begin(struct sw_new_file *file, const char *path, const char *from,
                   const char *and_from, struct sw_error *err);
/* Opens or makes the file, cuts off what is no whole line at its end, and lets `check` see every
 * line. The file is locked against another process that would write it. Errors (SW_BAD_INPUT): it
 * holds something else, and is left as it is, or is no file that one may write; (SW_ENVIRONMENT):
 * it cannot be opened or cut, or another process has it. */
int sw_lines_open(struct sw_lines *lines, const char *path, sw_lines_check check, void *context,
                  struct sw_error *err);
/* After each line: hands it to the system. Errors: sw_lines_close tells. */
void sw_lines_flush(struct sw_lines *lines);
/* Puts all of it on the disk. Errors (SW_ENVIRONMENT): something could not be written. */
int sw_lines_close(struct sw_lines *lines, const char *path, struct sw_error *err);
/* As it is, after an error; may be closed already. */
void sw_lines_abandon(struct sw_lines *lines);

/* Part `part` of `parts` (from 0) of `count` things in order: the first of it. Part `parts` begins
 * behind the last. */
int64_t sw_lines_part(int64_t count, int64_t part, int64_t parts);
/* "2/8": part 2 of 8. Returns 0, or -1: it is none. */
int sw_lines_parse_part(const char *text, int64_t *part, int64_t *parts);

#endif
