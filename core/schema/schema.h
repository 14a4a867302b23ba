/* The engine of field tables: parses YAML and JSON into trees, trees into structs by tables of
 * rows, and writes them back; mistakes with their position; the JSON Schema of a table. It knows no
 * key of any file: core/config has the keys. */
#ifndef SW_SCHEMA_H
#define SW_SCHEMA_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Mistake found in a file. They are sorted by position; at most 64 are kept, the rest counted. */
struct sw_diagnostic {
    const char *file;        /* in the config's arena */
    int32_t line, column;    /* 0,0: the file as a whole (cannot open) */
    const char *message;     /* "unknown key 'hiden_size'; did you mean 'hidden_size'?" */
    const char *help;        /* may be NULL */
    const char *source_line; /* text of the line, may be NULL; at most 200 characters */
    bool is_note;            /* true if no error: ignored keys, old words, doubtful choices */
    bool is_warning;         /* true for a note that the result is probably not what was meant */
};
/* "error", "warning" or "note". */
const char *sw_diagnostic_level(const struct sw_diagnostic *diagnostic);

struct sw_config; /* opaque: arena + one description + diagnostics */

/* Writes one diagnostic in the house form: "file:line:col: error: message" + source line + caret +
 * "help: ..."; in colour if requested. */
void sw_diagnostic_print(FILE *out, const struct sw_diagnostic *diagnostic, bool colour);

/* Parses a quantity: "80 GB", "2.5 TB/s", "3 us", "989 TFLOP/s", bare number. dimension: 'B' bytes,
 * 'b' bytes/s, 's' seconds, 'f' FLOP/s, '%' a share ("5 %" is 0.05). Returns 0, or -1 with the
 * reason in err. */
int sw_quantity_parse(const char *text, char dimension, double *out, struct sw_error *err);

/* Called for a setting as written: "PREFIX.key.key", and its value. */
typedef void (*sw_config_visitor)(void *context, const char *path, const char *value);

#endif
