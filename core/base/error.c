#include "core/base/error.h"

#include "core/base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int fail(struct sw_error *err, enum sw_status status, struct sw_place at, const char *format,
                va_list args)
{
    if (err == NULL || err->status != SW_OK)
        return -1;
    err->status = status;
    vsnprintf(err->message, sizeof err->message, format, args);
    sw_text_show(err->message); /* it may quote any text */
    err->file[0] = '\0';
    return sw_fail_place(err, at);
}

int sw_fail(struct sw_error *err, enum sw_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(err, status, (struct sw_place){.file = NULL}, format, args);
    va_end(args);
    return -1;
}

int sw_fail_at(struct sw_error *err, enum sw_status status, struct sw_place at, const char *format,
               ...)
{
    va_list args;
    va_start(args, format);
    fail(err, status, at, format, args);
    va_end(args);
    return -1;
}

int sw_fail_as(struct sw_error *err, const struct sw_error *from)
{
    if (err != NULL && err->status == SW_OK)
        *err = *from;
    return -1;
}

int sw_fail_context(struct sw_error *err, const char *format, ...)
{
    if (err == NULL)
        return -1;
    char context[256];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    char message[sizeof err->message];
    snprintf(message, sizeof message, "%s: %.*s", context,
             (int)(sizeof message - sizeof context - 3), err->message);
    memcpy(err->message, sw_text_show(message), sizeof message);
    if (err->status == SW_OK)
        err->status = SW_ENVIRONMENT;
    return -1;
}

int sw_fail_place(struct sw_error *err, struct sw_place at)
{
    if (err == NULL || err->file[0] != '\0' || at.file == NULL)
        return -1;
    snprintf(err->file, sizeof err->file, "%s", at.file);
    err->line = at.line;
    err->column = at.column;
    return -1;
}

char *sw_error_format(const struct sw_error *err, const char *program,
                      char buffer[SW_ERROR_TEXT_BYTES])
{
    char place[32] = "";
    const char *before = err->file[0] != '\0' ? err->file : program;
    if (err->file[0] != '\0' && err->line > 0)
        snprintf(place, sizeof place, ":%" PRId32 ":%" PRId32, err->line, err->column);
    snprintf(buffer, SW_ERROR_TEXT_BYTES, "%s%s%serror: %s", before != NULL ? before : "", place,
             before != NULL ? ": " : "", err->message);
    return sw_text_show(buffer); /* it contains file names and texts of others */
}
