/* Words of a command; failures are reported once, at the end. */
#ifndef SW_COMMAND_ARGV_H
#define SW_COMMAND_ARGV_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_argv {
    char **item; /* [count], malloc'ed, followed by NULL; NULL: none was added */
    int32_t count, room;
    bool failed; /* true once out of memory: words are missing */
};

/* Adds one formatted word. */
void sw_argv_add(struct sw_argv *argv, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds copies of all words of another list. */
void sw_argv_add_all(struct sw_argv *argv, const struct sw_argv *other);
/* Errors (SW_ENVIRONMENT): memory ran out. */
int sw_argv_check(const struct sw_argv *argv, struct sw_error *err);
void sw_argv_free(struct sw_argv *argv);

#endif
