/* Tables of measurements, line by line: where a column's cell stands, and what number it is. */
#include "core/base/text.h"
#include "planner/fit/fit.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHOWN = 40 }; /* bytes of a value in a message */

int32_t sw_fit_column(const char *header, const char *name)
{
    const size_t bytes = strlen(name);
    int32_t column = 0;
    for (const char *at = header;; column++) {
        const size_t length = strcspn(at, ",\r\n");
        if (length == bytes && strncmp(at, name, bytes) == 0)
            return column;
        if (at[length] != ',')
            return -1;
        at += length + 1;
    }
}

const char *sw_fit_cell(const char *line, int32_t column)
{
    while (column-- > 0) {
        line += strcspn(line, ",");
        line += *line == ',';
    }
    return line;
}

bool sw_fit_parse(const char *text, size_t bytes, double *out)
{
    char cell[64], *end;
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        bytes--;
    if (bytes == 0 || bytes >= sizeof cell)
        return false;
    memcpy(cell, text, bytes);
    cell[bytes] = '\0';
    *out = strtod(cell, &end);
    return *end == '\0' && isfinite(*out);
}

struct sw_place sw_fit_place(const struct sw_fit_line *at, const char *name)
{
    const char *cell = sw_fit_cell(at->text, sw_fit_column(at->header, name));
    return (struct sw_place){at->path, at->line, (int32_t)(cell - at->text) + 1};
}

int sw_fit_refuse(struct sw_place place, const char *name, const char *wanted, const char *text,
                  struct sw_error *err)
{
    char shown[MOST_SHOWN + 4];
    return sw_fail_at(err, SW_BAD_INPUT, place, "'%s' must be a %s, not '%s'", name, wanted,
                      sw_text_shown(text, MOST_SHOWN, shown));
}

int sw_fit_number(const struct sw_fit_line *at, const char *name, double *out, struct sw_error *err)
{
    const char *cell = sw_fit_cell(at->text, sw_fit_column(at->header, name));
    const size_t bytes = strcspn(cell, ",\r\n");
    if (sw_fit_parse(cell, bytes, out))
        return 0;
    char copy[MOST_SHOWN + 2];
    snprintf(copy, sizeof copy, "%.*s", (int)(bytes <= MOST_SHOWN ? bytes : MOST_SHOWN + 1), cell);
    return sw_fit_refuse(sw_fit_place(at, name), name, "number", copy, err);
}

int sw_fit_no_rows(const char *path, int32_t line, struct sw_error *err)
{
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, line, 1},
                      "no rows below the names of the columns");
}

void *sw_fit_room(void *rows, int32_t count, int32_t *capacity, size_t bytes, struct sw_error *err)
{
    if (count < *capacity)
        return rows;
    const int32_t more = *capacity == 0 ? 256 : 2 * *capacity;
    void *grown = realloc(rows, (size_t)more * bytes);
    if (grown == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a table");
    else
        *capacity = more;
    return grown;
}
