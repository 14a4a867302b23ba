#include "planner/command/annotate.h"

#include "core/base/json.h"
#include "planner/command/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A value in an annotation of GitHub's workflows; a property also escapes ':' and ','. */
static void put_escaped(const char *text, bool property)
{
    for (const char *p = text; *p != '\0'; p++)
        if (*p == '%' || *p == '\r' || *p == '\n' || (property && (*p == ':' || *p == ',')))
            printf("%%%02X", (unsigned)*p);
        else
            putchar(*p);
}

bool sw_annotates(const struct sw_options *options)
{
    return options->github || options->messages != NULL;
}

static void write_message(struct sw_json *j, const char *level, const char *file, int32_t line,
                          int32_t column, const char *message, const char *help)
{
    sw_json_object(j, NULL);
    sw_json_text(j, "level", strcmp(level, "notice") == 0 ? "note" : level);
    sw_json_text(j, "file", file);
    sw_json_integer(j, "line", line);
    sw_json_integer(j, "column", line > 0 ? column : 0);
    sw_json_text(j, "message", message);
    sw_json_text(j, "help", help != NULL && help[0] != '\0' ? help : NULL);
    sw_json_end(j);
}

void sw_annotate(const struct sw_options *options, const char *level, const char *file,
                 int32_t line, int32_t column, const char *message, const char *help)
{
    if (options->messages != NULL) {
        write_message(options->messages, level, file, line, column, message, help);
        return;
    }
    printf("::%s file=", level);
    put_escaped(file, true);
    if (line > 0)
        printf(",line=%" PRId32, line);
    if (line > 0 && column > 0)
        printf(",col=%" PRId32, column);
    printf("::");
    put_escaped(message, false);
    if (help != NULL && help[0] != '\0') {
        printf("; ");
        put_escaped(help, false);
    }
    printf("\n");
}

void sw_warn_at(const struct sw_options *options, const char *path, const struct sw_place *at,
                const char *message)
{
    const bool placed = at->file != NULL;
    if (sw_annotates(options))
        sw_annotate(options, "warning", placed ? at->file : sw_command_shown(path),
                    placed ? at->line : 0, at->column, message, NULL);
    else if (placed)
        fprintf(stderr, "%s:%" PRId32 ":%" PRId32 ": warning: %s\n", at->file, at->line, at->column,
                message);
    else
        fprintf(stderr, "%s: warning: %s\n", sw_command_shown(path), message);
}
