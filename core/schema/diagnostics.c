/* Collects, sorts and prints the mistakes. */
#include "core/base/text.h"
#include "core/schema/internal.h"

#include <stdlib.h>
#include <string.h>

enum { SOURCE_LINE_CHARACTERS = 200 };

enum level { LEVEL_ERROR, LEVEL_WARNING, LEVEL_NOTE };

static void store(struct sw_config *c, const struct source *source, int32_t line, int32_t column,
                  const char *message, const char *help, enum level level)
{
    const bool is_note = level != LEVEL_ERROR;
    if (c->stored_count == SW_MAX_STORED_DIAGNOSTICS) {
        c->dropped_errors += !is_note;
        return;
    }
    if (c->stored_count == c->stored_capacity) {
        int32_t capacity = c->stored_capacity == 0 ? 64 : c->stored_capacity * 2;
        struct stored_diagnostic *grown = realloc(c->stored, (size_t)capacity * sizeof *c->stored);
        if (grown == NULL) {
            c->failed = true;
            return;
        }
        c->stored = grown;
        c->stored_capacity = capacity;
    }
    c->stored[c->stored_count] = (struct stored_diagnostic){.source = source,
                                                            .line = line,
                                                            .column = column,
                                                            .order = c->stored_count,
                                                            .message = message,
                                                            .help = help,
                                                            .is_note = is_note,
                                                            .is_warning = level == LEVEL_WARNING};
    c->stored_count++;
}

void sw_config_error(struct sw_config *c, const struct source *source, int32_t line, int32_t column,
                     const char *message, const char *help)
{
    store(c, source, line, column, message, help, LEVEL_ERROR);
}

void sw_config_error_at(struct sw_config *c, const struct node *node, const char *message,
                        const char *help)
{
    store(c, node->source, node->line, node->column, message, help, LEVEL_ERROR);
}

void sw_config_warn_at(struct sw_config *c, const struct node *node, const char *message,
                       const char *help)
{
    if (!c->generated)
        store(c, node->source, node->line, node->column, message, help, LEVEL_WARNING);
}

void sw_config_note_at(struct sw_config *c, const struct node *node, const char *message)
{
    store(c, node->source, node->line, node->column, message, NULL, LEVEL_NOTE);
}

void sw_config_take_message(struct sw_config *c, const struct stored_diagnostic *other,
                            const char *message)
{
    store(c, other->source, other->line, other->column, message, other->help,
          other->is_warning ? LEVEL_WARNING
          : other->is_note  ? LEVEL_NOTE
                            : LEVEL_ERROR);
}

static int compare(const void *left, const void *right)
{
    const struct stored_diagnostic *a = left, *b = right;
    if (a->source->index != b->source->index)
        return a->source->index < b->source->index ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Bytes of the line break at p by libyaml's rules (CR LF, CR, LF, NEL, LS, PS); 0: none. */
static size_t line_break(const char *p, const char *end)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] == '\r')
        return p + 1 < end && u[1] == '\n' ? 2 : 1;
    if (u[0] == '\n')
        return 1;
    if (end - p >= 2 && u[0] == 0xc2 && u[1] == 0x85)
        return 2;
    if (end - p >= 3 && u[0] == 0xe2 && u[1] == 0x80 && (u[2] == 0xa8 || u[2] == 0xa9))
        return 3;
    return 0;
}

/* The text of a line, safe for a terminal; every character keeps one column, so that the caret is
 * right. */
static const char *source_line(struct sw_config *c, const struct source *source, int32_t line)
{
    if (line < 1 || source->text == NULL)
        return NULL;
    const char *p = source->text, *end = source->text + source->bytes;
    for (int32_t at = 1; at < line && p < end;) {
        size_t step = line_break(p, end);
        at += step > 0;
        p += step > 0 ? step : 1;
    }
    char shown[SOURCE_LINE_CHARACTERS * 4 + 4];
    size_t used = 0;
    for (int32_t characters = 0; p < end && characters < SOURCE_LINE_CHARACTERS; characters++) {
        if (line_break(p, end) > 0)
            break;
        unsigned char first = (unsigned char)*p;
        size_t length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        bool whole = (size_t)(end - p) >= length && first < 0xf8 && (first < 0x80 || first >= 0xc2);
        for (size_t i = 1; whole && i < length; i++)
            whole = ((unsigned char)p[i] & 0xc0) == 0x80;
        if (first == '\t') {
            shown[used++] = ' ';
        } else if (!whole || sw_text_hidden(p) > 0) {
            shown[used++] = '?';
        } else {
            memcpy(shown + used, p, length);
            used += length;
        }
        p += whole ? length : 1;
    }
    while (used > 0 && shown[used - 1] == ' ')
        used--;
    return sw_config_copy(c, shown, used);
}

void sw_config_finish_diagnostics(struct sw_config *c)
{
    if (c->stored_count > 0)
        qsort(c->stored, (size_t)c->stored_count, sizeof *c->stored, compare);
    c->diagnostics = sw_config_alloc(c, SW_MAX_DIAGNOSTICS * sizeof *c->diagnostics);
    if (c->diagnostics == NULL)
        return;
    c->error_count = c->dropped_errors;
    for (int32_t i = 0; i < c->stored_count; i++) {
        const struct stored_diagnostic *d = &c->stored[i], *before = i > 0 ? d - 1 : NULL;
        if (before != NULL && before->source == d->source && before->line == d->line &&
            before->column == d->column && strcmp(before->message, d->message) == 0)
            continue;
        c->error_count += !d->is_note;
        if (c->diagnostic_count == SW_MAX_DIAGNOSTICS)
            continue;
        c->diagnostics[c->diagnostic_count++] =
            (struct sw_diagnostic){.file = sw_config_shown_path(c, d->source->file),
                                   .line = d->line,
                                   .column = d->column,
                                   .message = d->message,
                                   .help = d->help,
                                   .source_line = source_line(c, d->source, d->line),
                                   .is_note = d->is_note,
                                   .is_warning = d->is_warning};
    }
    free(c->stored);
    c->stored = NULL;
    c->stored_count = c->stored_capacity = 0;
}

const char *sw_diagnostic_level(const struct sw_diagnostic *diagnostic)
{
    return diagnostic->is_warning ? "warning" : diagnostic->is_note ? "note" : "error";
}

void sw_diagnostic_print(FILE *out, const struct sw_diagnostic *diagnostic, bool colour)
{
    const char *bold = colour ? "\033[1m" : "", *reset = colour ? "\033[0m" : "";
    const char *tint = !colour                  ? ""
                       : diagnostic->is_warning ? "\033[1;35m"
                       : diagnostic->is_note    ? "\033[1;36m"
                                                : "\033[1;31m";
    fprintf(out, "%s%s", bold, diagnostic->file);
    if (diagnostic->line > 0)
        fprintf(out, ":%d:%d", (int)diagnostic->line, (int)diagnostic->column);
    fprintf(out, ":%s %s%s:%s %s\n", reset, tint, sw_diagnostic_level(diagnostic), reset,
            diagnostic->message);
    if (diagnostic->source_line != NULL && diagnostic->source_line[0] != 0) {
        int32_t characters = 0;
        for (const char *p = diagnostic->source_line; *p != 0; p++)
            characters += ((unsigned char)*p & 0xc0) != 0x80;
        fprintf(out, "    %s\n", diagnostic->source_line);
        if (diagnostic->column >= 1 && diagnostic->column <= characters + 1)
            fprintf(out, "    %*s%s^%s\n", (int)diagnostic->column - 1, "", tint, reset);
    }
    if (diagnostic->help != NULL)
        fprintf(out, "    help: %s\n", diagnostic->help);
}
