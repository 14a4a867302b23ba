/* Chat templates in Jinja: a sandboxed subset of Jinja2 with `transformers`' settings (trim_blocks,
 * lstrip_blocks, loop controls, lenient undefined values, immutable lists and dicts).
 *
 * Implements, after Jinja's "Template Designer Documentation": expressions with Python's rules, if,
 * for (else, filter, recursive, break, continue), set (also as a block, and of a namespace's
 * attribute), macro, call, filter, with, raw, and `transformers`' generation, which renders its
 * body and reports its position. Other tags, filters, tests and methods are refused at parsing,
 * with their place. Rendering is bounded in steps, depth and memory.
 *
 * A parsed template is immutable: any number of threads may render it. */
#ifndef SW_JINJA_H
#define SW_JINJA_H

#include "runner/text/tokenizer/tokenizer.h"

#include <jansson.h>

struct sw_jinja;

/* Limits of a rendering. */
struct sw_jinja_limits {
    int64_t steps;       /* one per node evaluated and per 64 bytes examined */
    size_t memory_bytes; /* for all values and the text */
};
#define SW_JINJA_USUAL_LIMITS ((struct sw_jinja_limits){20000000, (size_t)256 << 20})

/* file: name in messages, copied. Errors: SW_BAD_INPUT, with file, line and column: no Jinja, or
 * beyond the subset; SW_ENVIRONMENT: no memory. */
int sw_jinja_parse(const char *file, const char *text, size_t bytes, struct sw_jinja **out,
                   struct sw_error *err);
void sw_jinja_free(struct sw_jinja *jinja); /* may be NULL */
/* True if the template has a generation block, even an unused one. */
bool sw_jinja_has_generation(const struct sw_jinja *jinja);
/* True if the template names this as a variable, an attribute or a text in an expression. */
bool sw_jinja_mentions(const struct sw_jinja *jinja, const char *word);

/* A variable of the template. */
struct sw_jinja_variable {
    const char *name;
    const json_t *value;
    /* True if its texts are foreign: *foreign gets their positions in the result. A "role" of one
     * word counts as the template's own. */
    bool is_foreign;
};

/* Appends the rendered text to *text; *foreign (may be NULL) gets the positions of foreign texts,
 * *generated (may be NULL) those of generation blocks: sorted, disjoint, freed by the caller. now:
 * time of strftime_now, seconds since 1970, shown in local time. Errors (*text unchanged):
 * SW_BAD_INPUT: raise_exception's message, without a place; any other failure, with file, line and
 * column; SW_ENVIRONMENT: no memory. */
int sw_jinja_render(const struct sw_jinja *jinja, const struct sw_jinja_variable *variable,
                    size_t count, const struct sw_jinja_limits *limits, int64_t now,
                    struct sw_chars *text, struct sw_text_spans *foreign,
                    struct sw_text_spans *generated, struct sw_error *err);

#endif
