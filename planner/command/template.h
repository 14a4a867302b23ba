/* Fills {{name}} placeholders of script templates. Owns nothing.
 *
 * The form of a value depends on its line, so that a template cannot quote wrongly:
 *   a directive   quoted for its scheduler where needed; a value that is not set removes the line
 *   # ...         unquoted
 *   any other     as one word of the shell, in single quotes where needed; '' when not set
 * A placeholder where no word can stand (in quotes, in a here-document) is refused. */
#ifndef SW_COMMAND_TEMPLATE_H
#define SW_COMMAND_TEMPLATE_H

#include "core/base/error.h"

#include <stdio.h>

enum sw_template_kind {
    SW_TEMPLATE_TEXT,       /* one value, as above */
    SW_TEMPLATE_WORDS,      /* any number of complete words of the shell; not in comments */
    SW_TEMPLATE_LINES,      /* any number of complete lines of the shell; alone in its line */
    SW_TEMPLATE_DIRECTIVES, /* the same for directives: before the first command */
};

struct sw_template_value {
    const char *name;
    const char *value; /* NULL: not set */
    enum sw_template_kind kind;
};

/* Form of a script's job requests. */
struct sw_template_dialect {
    const char *directive;                       /* beginning of such a line: "#PBS" */
    const char *reader;                          /* program that reads them, up to the first
                                                    command: "qsub" */
    void (*write)(FILE *out, const char *value); /* writes a value that the reader reads back */
};

/* The filled template in memory that the caller frees, or NULL. file: for messages; values end with
 * a NULL name. Removes the indentation of directives, which their reader would not accept. Errors
 * (SW_BAD_INPUT): unknown placeholder (with all known ones), '{{' without '}}', one in quotes or a
 * here-document, a control character in a value, a directive behind the first command. */
char *sw_template_fill(const char *file, const char *text, const struct sw_template_value *values,
                       const struct sw_template_dialect *dialect, struct sw_error *err);

/* Writes a value as one word of a POSIX shell. */
void sw_template_write_word(FILE *out, const char *value);
#endif
