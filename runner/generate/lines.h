/* A file of JSON lines that a command writes in order and, after an interruption, continues: the
 * file itself records the work done. Each line is written at once; opening cuts off a killed
 * process's partial line. Owns the open file; only rank 0 has one. */
#ifndef SW_LINES_H
#define SW_LINES_H

#include "core/base/file.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct sw_lines {
    FILE *out;    /* NULL: not open */
    int64_t done; /* lines found at opening */
};

/* Checks line `number` (from 0) found in the file. Nonzero: a mistake, described in text [160]. */
typedef int (*sw_lines_check)(void *context, int64_t number, const json_t *line, char text[160]);

/* Begins a new file beside the old one, which stays until the commit. from, and_from: its sources
 * ("-": standard input; NULL: none), which it must not replace. Errors (SW_BAD_INPUT): it would, or
 * is not writable; (SW_ENVIRONMENT). */
int sw_lines_begin(struct sw_new_file *file, const char *path, const char *from,
                   const char *and_from, struct sw_error *err);
/* Opens or creates the file, cuts off a partial line, and calls `check` for every line. Locks it
 * against other writers. Errors (SW_BAD_INPUT): it holds something else and stays unchanged, or is
 * not writable; (SW_ENVIRONMENT): it cannot be opened or cut, or another process has it. */
int sw_lines_open(struct sw_lines *lines, const char *path, sw_lines_check check, void *context,
                  struct sw_error *err);
/* Hands the line to the system; call after each. Errors: reported by sw_lines_close. */
void sw_lines_flush(struct sw_lines *lines);
/* Syncs to disk. Errors (SW_ENVIRONMENT): some data could not be written. */
int sw_lines_close(struct sw_lines *lines, const char *path, struct sw_error *err);
/* Closes without checks, after an error; may be closed already. */
void sw_lines_abandon(struct sw_lines *lines);

/* First of part `part` (from 0) of `count` things in `parts` parts; part `parts` begins after the
 * last. */
int64_t sw_lines_part(int64_t count, int64_t part, int64_t parts);
/* Parses "2/8", part 2 of 8. Returns 0, or -1 on a mistake. */
int sw_lines_parse_part(const char *text, int64_t *part, int64_t *parts);

#endif
