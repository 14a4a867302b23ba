#include "planner/template.h"

#include "core/base/text.h"
#include "planner/command.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum line_kind { LINE_SBATCH, LINE_COMMENT, LINE_SHELL };

struct filling {
    const char *file, *text;
    const struct sw_template_value *values;
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

static bool is_plain(const char *value, const char *more)
{
    for (const char *p = value; *p != '\0'; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr(more, *p) != NULL))
            return false;
    return *value != '\0';
}

void sw_template_write_word(FILE *out, const char *value)
{
    if (is_plain(value, "_-./:,=+@%")) {
        fputs(value, out);
        return;
    }
    fputc('\'', out);
    for (const char *p = value; *p != '\0'; p++)
        if (*p == '\'')
            fputs("'\\''", out);
        else
            fputc(*p, out);
    fputc('\'', out);
}

/* sbatch splits its lines at spaces, starts comments at #, and takes quotes off. */
static void write_sbatch(FILE *out, const char *value)
{
    if (value[0] == '\0' || is_plain(value, "_-./:,=+@%&|*[]()")) {
        fputs(value, out);
        return;
    }
    fputc('"', out);
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc(*p, out);
    }
    fputc('"', out);
}

static const struct sw_template_value *find(const struct filling *f, const char *at, size_t length)
{
    char name[64], what[256];
    const char *names[64];
    int32_t count = 0;
    for (const struct sw_template_value *v = f->values; v->name != NULL; v++) {
        if (strlen(v->name) == length && memcmp(v->name, at, length) == 0)
            return v;
        if (count < 64)
            names[count++] = v->name;
    }
    snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), at);
    for (char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            *p = '?';
    const char *near = sw_text_nearest(name, names, count);
    if (near != NULL)
        snprintf(what, sizeof what, "unknown placeholder '{{%s}}'; did you mean '{{%s}}'?", name,
                 near);
    else
        snprintf(what, sizeof what, "unknown placeholder '{{%s}}'", name);
    fail_at(f, at, what);
    return NULL;
}

/* Writes one line (with its end) unless a value that it needs is not set. */
static int fill_line(const struct filling *f, const char *from, const char *end, FILE *out)
{
    const enum line_kind kind = strncmp(from, "#SBATCH", 7) == 0 ? LINE_SBATCH
                                : *from == '#'                   ? LINE_COMMENT
                                                                 : LINE_SHELL;
    int status = -1;
    char *line = NULL;
    size_t bytes = 0;
    bool keep = true;
    FILE *memory = open_memstream(&line, &bytes);
    if (memory == NULL)
        return sw_fail(f->err, SW_ENVIRONMENT, "out of memory while filling a template");
    for (const char *p = from; p < end;) {
        if (p[0] != '{' || p + 1 >= end || p[1] != '{') {
            fputc(*p++, memory);
            continue;
        }
        const char *stop = p + 2;
        while (stop + 1 < end && (stop[0] != '}' || stop[1] != '}'))
            stop++;
        if (stop + 1 >= end) {
            fail_at(f, p, "'{{' without '}}'");
            goto out;
        }
        const struct sw_template_value *v = find(f, p + 2, (size_t)(stop - p - 2));
        if (v == NULL)
            goto out;
        const char *value = v->value == NULL ? "" : v->value;
        for (const char *c = value; *c != '\0'; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f) {
                char what[128];
                snprintf(what, sizeof what, "the value of '{{%.40s}}' has a control character",
                         v->name);
                fail_at(f, p, what);
                goto out;
            }
        keep = keep && (kind != LINE_SBATCH || v->value != NULL);
        if (kind == LINE_SBATCH)
            write_sbatch(memory, value);
        else if (kind == LINE_COMMENT)
            fputs(value, memory);
        else
            sw_template_write_word(memory, value);
        p = stop + 2;
    }
    status = 0;
out:
    if (fclose(memory) != 0 && status == 0)
        status = sw_fail(f->err, SW_ENVIRONMENT, "out of memory while filling a template");
    if (status == 0 && keep)
        fwrite(line, 1, bytes, out);
    free(line);
    return status;
}

char *sw_template_fill(const char *file, const char *text, const struct sw_template_value *values,
                       struct sw_error *err)
{
    const struct filling f = {file, text, values, err};
    char *result = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&result, &bytes);
    int status = 0;
    if (out == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while filling a template");
        return NULL;
    }
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
