/* Tables of measurements: lines of cells between commas, the first of which names the columns. A
 * cell may stand in double quotes; blanks around it, empty lines and those that begin with '#' do
 * not count.
 *
 * Owns its lines and, where it opened it, its file. All texts are valid until the next row. */
#ifndef SW_PLANNER_FIT_TABLE_H
#define SW_PLANNER_FIT_TABLE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdio.h>

enum { SW_FIT_COLUMNS = 64, SW_FIT_LINE_BYTES = 4096 };

struct sw_fit_table {
    const char *path; /* the caller's */
    FILE *in;
    bool borrowed, ended;          /* the file is the caller's; nothing more is read from it */
    int32_t line, columns, fields; /* of the file; of the names; of the row */
    char *name[SW_FIT_COLUMNS];
    char *field[SW_FIT_COLUMNS];
    int32_t column[SW_FIT_COLUMNS]; /* where each field begins in the line, from 1 */
    char header[SW_FIT_LINE_BYTES], text[SW_FIT_LINE_BYTES];
};

/* The next line of a file of which `line` were read, with its end, without the mark that some
 * programs begin a text in UTF-8 with: 1; 0: the file has ended; -1: it cannot be read
 * (SW_BAD_INPUT). */
int sw_fit_read_line(const char *path, FILE *in, int32_t line, char text[SW_FIT_LINE_BYTES],
                     struct sw_error *err);

/* Opens a table and reads the names of its columns, two at least, no two alike. Errors:
 * SW_BAD_INPUT with the place, SW_ENVIRONMENT. Free with sw_fit_table_close, which accepts NULL. */
struct sw_fit_table *sw_fit_table_open(const char *path, struct sw_error *err);
/* The same of a file of which line `line`, which names the columns, was read. It stays the caller's
 * and open. */
struct sw_fit_table *sw_fit_table_go_on(const char *path, FILE *in, int32_t line, const char *names,
                                        struct sw_error *err);
void sw_fit_table_close(struct sw_fit_table *table);

/* The next row: 1; 0: there is none; -1: it is none of a table's (SW_BAD_INPUT with the place),
 * after which others may be. */
int sw_fit_table_next(struct sw_fit_table *table, struct sw_error *err);

bool sw_fit_table_has(const struct sw_fit_table *table, const char *name);
/* The row's cell, "" where the table has none or the row leaves it empty. */
const char *sw_fit_cell(const struct sw_fit_table *table, const char *name);
/* Where it stands in the file; the row where it does not. */
struct sw_place sw_fit_place(const struct sw_fit_table *table, const char *name);

/* SW_BAD_INPUT at the row, or at the names before the first. */
int sw_fit_fail_row(const struct sw_fit_table *table, struct sw_error *err, const char *what);
/* SW_BAD_INPUT: a value that is not what its column holds, "number"; text is anybody's. */
int sw_fit_refuse(struct sw_place place, const char *name, const char *wanted, const char *text,
                  struct sw_error *err);
/* The number that is all that stands in a cell. Errors: SW_BAD_INPUT with its place. */
int sw_fit_number(const struct sw_fit_table *table, const char *name, double *out,
                  struct sw_error *err);
/* Whether `bytes` of a text, blanks around it aside, are a finite number. */
bool sw_fit_parse(const char *text, size_t bytes, double *out);
/* The error of a table that ends with its column names. */
int sw_fit_no_rows(const struct sw_fit_table *table, struct sw_error *err);

/* `rows` of `bytes` each, with room for one more than `count`: returns where they are now; NULL: no
 * memory, and they are where they were. The caller owns them. */
void *sw_fit_room(void *rows, int32_t count, int32_t *capacity, size_t bytes, struct sw_error *err);

#endif
