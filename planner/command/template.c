#include "planner/command/template.h"

#include "core/base/shell.h"
#include "core/base/text.h"
#include "planner/command/command.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum line_kind { LINE_DIRECTIVE, LINE_COMMENT, LINE_SHELL };

struct filling {
    const char *file, *text;
    const struct sw_template_value *values;
    struct sw_shell_scan scan; /* scan of the template, with a word in place of each placeholder */
    const struct sw_template_dialect *dialect;
    bool has_command; /* true once a command stands before this line: no directives follow */
    struct sw_error *err;
};

static int fail_at(const struct filling *f, const char *at, const char *what)
{
    int line = 1, column = 1;
    for (const char *p = f->text; p < at; p++) {
        line += *p == '\n';
        column = *p == '\n' ? 1 : column + 1;
    }
    return sw_fail_at(f->err, SW_BAD_INPUT, (struct sw_place){f->file, line, column}, "%s", what);
}

void sw_template_write_word(FILE *out, const char *value)
{
    sw_shell_write_word(out, value);
}

/* Appends all names, as far as they fit. */
static void append_names(const struct filling *f, char *text, size_t room)
{
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, room - used, "; there are:");
    for (const struct sw_template_value *v = f->values; v->name != NULL; v++) {
        const size_t wants = strlen(v->name) + 6;
        if (used + wants >= room) {
            snprintf(text + used, room - used, " ...");
            return;
        }
        used +=
            (size_t)snprintf(text + used, room - used, "%s %s", v == f->values ? "" : ",", v->name);
    }
}

static const struct sw_template_value *find(const struct filling *f, const char *at, size_t length)
{
    char name[64], what[SW_ERROR_BYTES];
    const char *names[128];
    int32_t count = 0;
    for (const struct sw_template_value *v = f->values; v->name != NULL; v++) {
        if (strlen(v->name) == length && memcmp(v->name, at, length) == 0)
            return v;
        if (count < 128)
            names[count++] = v->name;
    }
    snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), at);
    for (char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            *p = '?';
    const char *near = sw_text_nearest(name, names, count);
    snprintf(what, sizeof what, "unknown placeholder '{{%s}}'%s%s%s", name,
             near != NULL ? "; did you mean '{{" : "", near != NULL ? near : "",
             near != NULL ? "}}'?" : "");
    append_names(f, what, sizeof what);
    fail_at(f, at, what);
    return NULL;
}

/* True if `at`, in the directive that begins at `from`, is in quotes. */
static bool is_quoted(const char *from, const char *at)
{
    char quote = '\0';
    for (; from < at; from++) {
        if (*from == '\\' && quote != '\'') {
            if (++from == at)
                return true;
        } else if (quote != '\0') {
            quote = *from == quote ? '\0' : quote;
        } else if (*from == '"' || *from == '\'') {
            quote = *from;
        }
    }
    return quote != '\0';
}

/* Checks that the value may stand here: outside of quotes, as one word. */
static int check_place(struct filling *f, const struct sw_template_value *v, enum line_kind kind,
                       const char *from, const char *at, const char *end)
{
    char what[256];
    sw_shell_scan_to(&f->scan, at);
    const enum sw_shell_context context = sw_shell_scan_context(&f->scan);
    sw_shell_scan_word(&f->scan, end);
    if (kind == LINE_DIRECTIVE && is_quoted(from, at))
        snprintf(what, sizeof what,
                 "'{{%.40s}}' stands in quotes or behind a backslash; values are quoted for %s "
                 "where they need it: leave yours out",
                 v->name, f->dialect->reader);
    else if (kind == LINE_SHELL && context != SW_SHELL_WORD && context != SW_SHELL_COMMENT)
        snprintf(what, sizeof what,
                 "'{{%.40s}}' stands in %s, where its value could be read as code; give it to a "
                 "variable, name={{%.40s}}, and use \"$name\"",
                 v->name, sw_shell_context_name(context), v->name);
    else if (v->kind != SW_TEMPLATE_TEXT && kind != LINE_SHELL)
        snprintf(what, sizeof what, "'{{%.40s}}' cannot stand in a comment or an %s line", v->name,
                 f->dialect->directive);
    else
        return 0;
    return fail_at(f, at, what);
}

/* Like check_place, for values of whole lines. */
static int check_lines(const struct filling *f, const struct sw_template_value *v, const char *from,
                       const char *at, const char *end)
{
    char what[256];
    const bool alone = from + strspn(from, " \t") == at &&
                       (end[strspn(end, " \t\r")] == '\n' || end[strspn(end, " \t\r")] == '\0');
    if (!alone)
        snprintf(what, sizeof what,
                 "'{{%.40s}}' stands for whole lines: put it in a line of its "
                 "own",
                 v->name);
    else if (v->kind == SW_TEMPLATE_DIRECTIVES && f->has_command)
        snprintf(what, sizeof what,
                 "'{{%.40s}}' stands behind the first command, where %s reads no directives",
                 v->name, f->dialect->reader);
    else
        return 0;
    return fail_at(f, at, what);
}

static int check_characters(const struct filling *f, const struct sw_template_value *v,
                            const char *at)
{
    char what[128];
    const bool lines = v->kind == SW_TEMPLATE_LINES || v->kind == SW_TEMPLATE_DIRECTIVES;
    for (const char *c = v->value == NULL ? "" : v->value; *c != '\0'; c++)
        if (((unsigned char)*c < 0x20 && !(lines && (*c == '\n' || *c == '\t'))) || *c == 0x7f) {
            snprintf(what, sizeof what,
                     "the value of '{{%.40s}}' has a control character; rename the file or folder "
                     "that has it",
                     v->name);
            return fail_at(f, at, what);
        }
    return 0;
}

static void write_value(const struct filling *f, const struct sw_template_value *v,
                        enum line_kind kind, FILE *out)
{
    const char *value = v->value == NULL ? "" : v->value;
    if (v->kind != SW_TEMPLATE_TEXT || kind == LINE_COMMENT)
        fputs(value, out);
    else if (kind == LINE_DIRECTIVE)
        f->dialect->write(out, value);
    else
        sw_template_write_word(out, value);
}

/* True if the line ends the directives. */
static bool is_command(const char *from, const char *end)
{
    from += strspn(from, " \t\r\v\f");
    return from < end && *from != '\n' && *from != '#';
}

static bool is_directive(const struct filling *f, const char *text)
{
    return strncmp(text, f->dialect->directive, strlen(f->dialect->directive)) == 0;
}

/* Kind of the line; *from moves behind the indentation of a directive. */
static enum line_kind line_kind(struct filling *f, const char **from)
{
    const char *text = *from + strspn(*from, " \t");
    if (is_directive(f, text) && !f->has_command) {
        *from = text;
        return LINE_DIRECTIVE;
    }
    /* inside a here-document or multi-line quotes, # does not begin a comment */
    sw_shell_scan_to(&f->scan, *from);
    return **from == '#' && sw_shell_scan_context(&f->scan) == SW_SHELL_WORD ? LINE_COMMENT
                                                                             : LINE_SHELL;
}

static int check_directive(struct filling *f, const char *from)
{
    const char *text = from + strspn(from, " \t");
    sw_shell_scan_to(&f->scan, from);
    if (!f->has_command || !is_directive(f, text) ||
        sw_shell_scan_context(&f->scan) != SW_SHELL_WORD)
        return 0;
    char what[128];
    snprintf(what, sizeof what, "%s reads no '%s' behind the first command; put it further up",
             f->dialect->reader, f->dialect->directive);
    return fail_at(f, text, what);
}

/* Fills one placeholder at p; *p moves behind it. *keep: false if the line is dropped. */
static int fill_one(struct filling *f, enum line_kind kind, const char *from, const char **p,
                    const char *end, bool *keep, FILE *out)
{
    const char *stop = *p + 2;
    while (stop + 1 < end && (stop[0] != '}' || stop[1] != '}'))
        stop++;
    if (stop + 1 >= end)
        return fail_at(f, *p, "'{{' without '}}'");
    const struct sw_template_value *v = find(f, *p + 2, (size_t)(stop - *p - 2));
    const char *next = stop + 2;
    if (v == NULL || check_place(f, v, kind, from, *p, next) != 0 ||
        check_characters(f, v, *p) != 0)
        return -1;
    const bool lines = v->kind == SW_TEMPLATE_LINES || v->kind == SW_TEMPLATE_DIRECTIVES;
    const bool empty = v->value == NULL || v->value[0] == '\0';
    if (lines && check_lines(f, v, from, *p, next) != 0)
        return -1;
    *keep = *keep && !(kind == LINE_DIRECTIVE && v->value == NULL) && !(lines && empty);
    write_value(f, v, kind, out);
    *p = next;
    if (lines) /* it has its own end of line */
        *p = end;
    else if (v->kind == SW_TEMPLATE_WORDS && empty && **p == ' ')
        ++*p;
    return 0;
}

/* Writes one line (with its end) unless a required value is not set. */
static int fill_line(struct filling *f, const char *from, const char *end, FILE *out)
{
    int status = check_directive(f, from);
    char *line = NULL;
    size_t bytes = 0;
    bool keep = true;
    const enum line_kind kind = line_kind(f, &from);
    FILE *memory = status == 0 ? open_memstream(&line, &bytes) : NULL;
    if (memory == NULL)
        return status != 0
                   ? status
                   : sw_fail(f->err, SW_ENVIRONMENT, "out of memory while filling a template");
    for (const char *p = from; p < end && status == 0;)
        if (p[0] == '{' && p + 1 < end && p[1] == '{')
            status = fill_one(f, kind, from, &p, end, &keep, memory);
        else
            fputc(*p++, memory);
    if (fclose(memory) != 0 && status == 0)
        status = sw_fail(f->err, SW_ENVIRONMENT, "out of memory while filling a template");
    if (status == 0 && keep)
        fwrite(line, 1, bytes, out);
    free(line);
    /* lines of {{directives}} are not commands */
    f->has_command = f->has_command || (is_command(from, end) &&
                                        strncmp(from + strspn(from, " \t"), "{{directives}}", 14));
    return status;
}

char *sw_template_fill(const char *file, const char *text, const struct sw_template_value *values,
                       const struct sw_template_dialect *dialect, struct sw_error *err)
{
    struct filling f = {
        .file = file, .text = text, .values = values, .dialect = dialect, .err = err};
    char *result = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&result, &bytes);
    int status = 0;
    if (out == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while filling a template");
        return NULL;
    }
    f.scan.text = text;
    for (const char *p = text; *p != '\0' && status == 0;) {
        const char *newline = strchr(p, '\n');
        const char *end = newline == NULL ? p + strlen(p) : newline + 1;
        status = fill_line(&f, p, end, out);
        p = end;
    }
    if (fclose(out) != 0 && status == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory while filling a template");
    if (status == 0)
        return result;
    free(result);
    return NULL;
}
