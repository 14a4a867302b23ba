/* Tables of measurements: lines of cells separated by commas, the first with the columns' names. A
 * cell may be in double quotes; blanks around it, empty lines and lines that begin with '#' do not
 * count.
 *
 * Owns its lines and, if it opened it, its file. All texts are valid until the next row. */
#ifndef SW_PLANNER_FIT_TABLE_H
#define SW_PLANNER_FIT_TABLE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdio.h>

enum { SW_FIT_COLUMNS = 64, SW_FIT_LINE_BYTES = 4096 };

struct sw_fit_table {
    const char *path; /* the caller's */
    FILE *in;
    bool borrowed, ended;          /* true if the file is the caller's; true after its end */
    int32_t line, columns, fields; /* line number; numbers of names, and of the row's fields */
    char *name[SW_FIT_COLUMNS];
    char *field[SW_FIT_COLUMNS];
    int32_t column[SW_FIT_COLUMNS]; /* column of each field's begin in the line, from 1 */
    char header[SW_FIT_LINE_BYTES], text[SW_FIT_LINE_BYTES];
};

/* Reads the next line of a file after `line` lines, with its end, without the mark that some
 * programs put before UTF-8: 1; 0: end of file; -1: unreadable (SW_BAD_INPUT). */
int sw_fit_read_line(const char *path, FILE *in, int32_t line, char text[SW_FIT_LINE_BYTES],
                     struct sw_error *err);

/* Opens a table and reads the names of its columns, at least two, all different. Errors:
 * SW_BAD_INPUT with the position, SW_ENVIRONMENT. Free with sw_fit_table_close, which accepts
 * NULL. */
struct sw_fit_table *sw_fit_table_open(const char *path, struct sw_error *err);
/* The same for an open file whose line `line`, with the columns' names, was just read. The file
 * stays the caller's. */
struct sw_fit_table *sw_fit_table_go_on(const char *path, FILE *in, int32_t line, const char *names,
                                        struct sw_error *err);
void sw_fit_table_close(struct sw_fit_table *table);

/* Reads the next row: 1; 0: none; -1: no valid row (SW_BAD_INPUT with the position), after which
 * others may follow. */
int sw_fit_table_next(struct sw_fit_table *table, struct sw_error *err);

bool sw_fit_table_has(const struct sw_fit_table *table, const char *name);
/* The row's cell, "" if the table lacks it or it is empty. */
const char *sw_fit_cell(const struct sw_fit_table *table, const char *name);
/* Position of a cell in the file; of the row if it is missing. */
struct sw_place sw_fit_place(const struct sw_fit_table *table, const char *name);

/* Fails with SW_BAD_INPUT at the row, or at the names before the first. */
int sw_fit_fail_row(const struct sw_fit_table *table, struct sw_error *err, const char *what);
/* Fails with SW_BAD_INPUT: the value is not a "number" or other type of the column; text is
 * untrusted. */
int sw_fit_refuse(struct sw_place place, const char *name, const char *wanted, const char *text,
                  struct sw_error *err);
/* The number in a cell with nothing else. Errors: SW_BAD_INPUT with its position. */
int sw_fit_number(const struct sw_fit_table *table, const char *name, double *out,
                  struct sw_error *err);
/* True if `bytes` of a text, except blanks around, are a finite number. */
bool sw_fit_parse(const char *text, size_t bytes, double *out);
/* Error for a table without rows. */
int sw_fit_no_rows(const struct sw_fit_table *table, struct sw_error *err);

/* Makes room for one more than `count` in `rows` of `bytes` each: returns the new address; NULL: no
 * memory, and the old one stays valid. The caller owns them. */
void *sw_fit_room(void *rows, int32_t count, int32_t *capacity, size_t bytes, struct sw_error *err);

#endif
