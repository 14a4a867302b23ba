#include "planner/fit/table.h"

#include "core/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHOWN = 40 }; /* most bytes of a value in a message */

/* ---- Lines ---- */

int sw_fit_read_line(const char *path, FILE *in, int32_t line, char text[SW_FIT_LINE_BYTES],
                     struct sw_error *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    errno = 0;
    if (fgets(text, SW_FIT_LINE_BYTES, in) == NULL)
        return !ferror(in) ? 0
                           : sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                                        "cannot read it: %s", strerror(errno));
    if (line > 0 || strncmp(text, mark, sizeof mark - 1) != 0)
        return 1;
    const size_t bytes = strlen(text) - (sizeof mark - 1);
    memmove(text, text + sizeof mark - 1, bytes + 1);
    if (strchr(text, '\n') == NULL) /* the rest of a line that filled the buffer */
        (void)fgets(text + bytes, (int)(SW_FIT_LINE_BYTES - bytes), in);
    return 1;
}

/* Reads a line without its end: 1; 0: end of file; -1: too long, or no text. */
static int read_line(struct sw_fit_table *t, char text[SW_FIT_LINE_BYTES], struct sw_error *err)
{
    const int read = t->ended ? 0 : sw_fit_read_line(t->path, t->in, t->line, text, err);
    t->ended = read <= 0;
    if (t->ended)
        return read;
    t->line++;
    const size_t bytes = strlen(text);
    const bool cut = bytes == SW_FIT_LINE_BYTES - 1 && text[bytes - 1] != '\n';
    int next = cut ? getc(t->in) : EOF;
    if (next == EOF && (cut || feof(t->in) || (bytes > 0 && text[bytes - 1] == '\n'))) {
        text[strcspn(text, "\r\n")] = '\0';
        return 1;
    }
    while (cut && next != '\n' && next != EOF)
        next = getc(t->in);
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){t->path, t->line, 1},
                      cut ? "a line of %d bytes and more; is it a table?"
                          : "a line with a byte 0; is it a table?",
                      SW_FIT_LINE_BYTES);
}

/* Reads the next line with cells. */
static int next_line(struct sw_fit_table *t, char text[SW_FIT_LINE_BYTES], struct sw_error *err)
{
    int read;
    do {
        read = read_line(t, text, err);
    } while (read > 0 && (text[strspn(text, " \t")] == '\0' || text[0] == '#'));
    return read;
}

/* Splits a line at its commas, in place. Returns the number of cells, -1: too many or an open
 * quote. */
static int32_t split(char *text, char *out[SW_FIT_COLUMNS], int32_t column[SW_FIT_COLUMNS])
{
    int32_t count = 0;
    char *to = text, *from = text;
    for (;;) {
        if (count == SW_FIT_COLUMNS)
            return -1;
        while (*from == ' ' || *from == '\t')
            from++;
        column[count] = (int32_t)(from - text) + 1;
        char *begin = out[count++] = to;
        bool quoted = false;
        for (; *from != '\0' && (quoted || *from != ','); from++) {
            if (*from == '"' && quoted && from[1] == '"')
                *to++ = *++from, quoted = true;
            else if (*from == '"')
                quoted = !quoted;
            else
                *to++ = *from;
        }
        if (quoted)
            return -1;
        while (to > begin && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        const bool last = *from == '\0';
        from++;
        *to++ = '\0';
        if (last)
            return count;
    }
}

/* ---- The table ---- */

int sw_fit_fail_row(const struct sw_fit_table *t, struct sw_error *err, const char *what)
{
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){t->path, t->line > 0 ? t->line : 1, 1},
                      "%s", what);
}

/* Rejects two columns of one name. Columns without a name are ignored. */
static int check_names(const struct sw_fit_table *t, struct sw_error *err)
{
    char shown[MOST_SHOWN + 4];
    for (int32_t i = 1; i < t->columns; i++)
        for (int32_t k = 0; k < i; k++)
            if (t->name[i][0] != '\0' && strcmp(t->name[i], t->name[k]) == 0)
                return sw_fail_at(err, SW_BAD_INPUT,
                                  (struct sw_place){t->path, t->line, t->column[i]},
                                  "the columns %d and %d are both named '%s'; rename or remove one",
                                  k + 1, i + 1, sw_text_shown(t->name[i], MOST_SHOWN, shown));
    return 0;
}

/* Reads the names in the header; read: false if there was no such line. */
static struct sw_fit_table *begin(struct sw_fit_table *t, bool read, struct sw_error *err)
{
    const bool others = strpbrk(t->header, ";\t") != NULL;
    t->columns = read ? split(t->header, t->name, t->column) : 0;
    if (t->columns >= 2)
        return check_names(t, err) == 0 ? t : NULL;
    sw_fit_fail_row(t, err,
                    others ? "not a CSV file: put commas between its columns"
                           : "not a CSV file with a line of column names");
    return NULL;
}

struct sw_fit_table *sw_fit_table_open(const char *path, struct sw_error *err)
{
    struct sw_fit_table *t = calloc(1, sizeof *t);
    FILE *in = fopen(path, "r");
    if (t == NULL || in == NULL) {
        sw_fail_at(err, t == NULL ? SW_ENVIRONMENT : SW_BAD_INPUT, (struct sw_place){.file = path},
                   "cannot read it: %s", strerror(errno));
        if (in != NULL)
            fclose(in);
        free(t);
        return NULL;
    }
    t->path = path;
    t->in = in;
    const int read = next_line(t, t->header, err);
    if (read >= 0 && begin(t, read > 0, err) != NULL)
        return t;
    sw_fit_table_close(t);
    return NULL;
}

struct sw_fit_table *sw_fit_table_go_on(const char *path, FILE *in, int32_t line, const char *names,
                                        struct sw_error *err)
{
    struct sw_fit_table *t = calloc(1, sizeof *t);
    if (t == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while reading a table");
        return NULL;
    }
    t->path = path;
    t->line = line;
    snprintf(t->header, sizeof t->header, "%.*s", (int)strcspn(names, "\r\n"), names);
    if (begin(t, true, err) == NULL) {
        free(t);
        return NULL;
    }
    t->in = in;
    t->borrowed = true;
    return t;
}

void sw_fit_table_close(struct sw_fit_table *t)
{
    if (t != NULL && !t->borrowed)
        fclose(t->in);
    free(t);
}

/* Rejects extra cells, as from 9,000 for 9000, which shift all cells behind. */
static int check_fields(struct sw_fit_table *t, struct sw_error *err)
{
    int32_t at = t->columns;
    while (at < t->fields && t->field[at][0] == '\0')
        at++;
    if (at >= t->fields)
        return 1;
    const struct sw_place place = {t->path, t->line, t->column[at]};
    t->fields = 0;
    return sw_fail_at(err, SW_BAD_INPUT, place,
                      "more cells than the %d columns; put one that has a comma in quotes",
                      t->columns);
}

int sw_fit_table_next(struct sw_fit_table *t, struct sw_error *err)
{
    const int read = next_line(t, t->text, err);
    t->fields = 0;
    if (read <= 0)
        return read;
    t->fields = split(t->text, t->field, t->column);
    if (t->fields >= 0)
        return check_fields(t, err);
    t->fields = 0;
    return sw_fit_fail_row(t, err, "an open quote, or too many columns");
}

/* ---- Cells ---- */

bool sw_fit_table_has(const struct sw_fit_table *t, const char *name)
{
    for (int32_t i = 0; i < t->columns; i++)
        if (strcmp(t->name[i], name) == 0)
            return true;
    return false;
}

/* Index of a column's field; -1: not in the table, or the row is shorter. */
static int32_t index_of(const struct sw_fit_table *t, const char *name)
{
    for (int32_t i = 0; i < t->columns && i < t->fields; i++)
        if (strcmp(t->name[i], name) == 0)
            return i;
    return -1;
}

const char *sw_fit_cell(const struct sw_fit_table *t, const char *name)
{
    const int32_t i = index_of(t, name);
    return i < 0 ? "" : t->field[i];
}

struct sw_place sw_fit_place(const struct sw_fit_table *t, const char *name)
{
    const int32_t i = index_of(t, name);
    return (struct sw_place){t->path, t->line, i < 0 ? 1 : t->column[i]};
}

int sw_fit_refuse(struct sw_place place, const char *name, const char *wanted, const char *text,
                  struct sw_error *err)
{
    char shown[MOST_SHOWN + 4];
    return sw_fail_at(err, SW_BAD_INPUT, place, "'%s' must be a %s, not '%s'", name, wanted,
                      sw_text_shown(text, MOST_SHOWN, shown));
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

int sw_fit_number(const struct sw_fit_table *t, const char *name, double *out, struct sw_error *err)
{
    const char *text = sw_fit_cell(t, name);
    if (sw_fit_parse(text, strlen(text), out))
        return 0;
    return sw_fit_refuse(sw_fit_place(t, name), name, "number", text, err);
}

int sw_fit_no_rows(const struct sw_fit_table *t, struct sw_error *err)
{
    return sw_fit_fail_row(t, err, "no rows below the names of the columns");
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
