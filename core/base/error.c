#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int sw_fail(struct sw_error *err, enum sw_status status, const char *format, ...)
{
    if (err == NULL || err->status != SW_OK)
        return -1;
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
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
    memcpy(err->message, message, sizeof message);
    if (err->status == SW_OK)
        err->status = SW_ENVIRONMENT;
    return -1;
}
