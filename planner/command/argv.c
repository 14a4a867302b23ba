#include "planner/command/argv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void sw_argv_add(struct sw_argv *a, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    if (a->count + 2 > a->room) {
        const int32_t room = 2 * a->room + 16;
        char **grown = realloc(a->item, (size_t)room * sizeof *grown);
        if (grown == NULL) {
            a->failed = true;
            return;
        }
        a->item = grown;
        a->room = room;
    }
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
        a->failed = true;
    }
    va_end(arguments);
    if (text != NULL)
        a->item[a->count++] = text;
    a->item[a->count] = NULL;
}

void sw_argv_add_all(struct sw_argv *a, const struct sw_argv *other)
{
    a->failed = a->failed || other->failed;
    for (int32_t i = 0; i < other->count; i++)
        sw_argv_add(a, "%s", other->item[i]);
}

int sw_argv_check(const struct sw_argv *a, struct sw_error *err)
{
    return a->failed ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the words of a command") : 0;
}

void sw_argv_free(struct sw_argv *a)
{
    for (int32_t i = 0; i < a->count; i++)
        free(a->item[i]);
    free(a->item);
    *a = (struct sw_argv){0};
}
