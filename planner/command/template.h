/* Fills {{name}} placeholders of script templates. Owns nothing.
 *
 * How a value is written depends on its line, so that a template cannot quote wrongly:
 *   a directive   quoted for its scheduler where needed; a value that is not set removes the line
 *   # ...         as it is
 *   any other     as one word of the shell, in single quotes where needed; '' when not set
 * A placeholder where such a word would be no word (in quotes, in a here-document) is refused. */
#ifndef SW_COMMAND_TEMPLATE_H
#define SW_COMMAND_TEMPLATE_H

#include "core/base/error.h"

#include <stdio.h>

enum sw_template_kind {
    SW_TEMPLATE_TEXT,       /* one value, as above */
    SW_TEMPLATE_WORDS,      /* none, one or several words of the shell, ready; not in comments */
    SW_TEMPLATE_LINES,      /* none, one or several lines of the shell, ready; alone in its line */
    SW_TEMPLATE_DIRECTIVES, /* the same of directives: before the first command */
};

struct sw_template_value {
    const char *name;
    const char *value; /* NULL: not set */
    enum sw_template_kind kind;
};

/* How a script tells whoever takes it what the job needs. */
struct sw_template_dialect {
    const char *directive;                       /* how such a line begins: "#PBS" */
    const char *reader;                          /* who reads it, up to the first command: "qsub" */
    void (*write)(FILE *out, const char *value); /* so that the reader reads it back */
};

/* The filled template in memory that the caller frees, or NULL. file: for messages; values end with
 * a NULL name. An indented directive, which its reader would not read, loses its indentation.
 * Errors (SW_BAD_INPUT): unknown placeholder (with all that there are), '{{' without '}}', one in
 * quotes or a here-document, a control character in a value, a directive behind the first command.
 */
char *sw_template_fill(const char *file, const char *text, const struct sw_template_value *values,
                       const struct sw_template_dialect *dialect, struct sw_error *err);

/* Writes a value as one word of a POSIX shell. */
void sw_template_write_word(FILE *out, const char *value);
#endif
