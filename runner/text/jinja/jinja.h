/* Chat templates in Jinja: a sandboxed subset of Jinja2, written as `transformers` sets it
 * (trim_blocks, lstrip_blocks, loop controls, lenient undefined values, nothing that changes a list
 * or a dict).
 *
 * What is there follows Jinja's "Template Designer Documentation": expressions with Python's rules,
 * if, for (else, filter, recursive, break, continue), set (also as a block, and of a namespace's
 * attribute), macro, call, filter, with, raw, and generation of `transformers`, which writes its
 * body and says where it stands. Tags, filters, tests and methods that are not there are refused
 * when a template is parsed, at their place. Rendering is bounded in steps, depth and memory.
 *
 * A parsed template does not change: any number of threads may render it. */
#ifndef SW_JINJA_H
#define SW_JINJA_H

#include "runner/text/tokenizer/tokenizer.h"

#include <jansson.h>

struct sw_jinja;

/* What a rendering may use. */
struct sw_jinja_limits {
    int64_t steps;       /* nodes evaluated, and 64 bytes looked at are one */
    size_t memory_bytes; /* of all values and of the text */
};
#define SW_JINJA_USUAL_LIMITS ((struct sw_jinja_limits){20000000, (size_t)256 << 20})

/* file: its name in messages, copied. Errors: SW_BAD_INPUT, with file, line and column: no Jinja,
 * or beyond the subset; SW_ENVIRONMENT: no memory. */
int sw_jinja_parse(const char *file, const char *text, size_t bytes, struct sw_jinja **out,
                   struct sw_error *err);
void sw_jinja_free(struct sw_jinja *jinja); /* may be NULL */
/* true if the template has a generation block, perhaps one that nothing is written in. */
bool sw_jinja_has_generation(const struct sw_jinja *jinja);
/* Whether the template names this: a variable, an attribute or a text in an expression. */
bool sw_jinja_mentions(const struct sw_jinja *jinja, const char *word);

/* A variable of the template. */
struct sw_jinja_variable {
    const char *name;
    const json_t *value;
    /* Others wrote its texts: *foreign says where they stand in what is rendered. A "role" that is
     * one word counts as the template's. */
    bool is_foreign;
};

/* Adds the rendered text to *text; *foreign (may be NULL) receives where foreign texts stand in it,
 * *generated (may be NULL) what generation blocks wrote: sorted, apart from each other, the
 * caller's. now: what strftime_now shows, seconds since 1970, in local time. Errors (*text is then
 * as before): SW_BAD_INPUT: without a place, what raise_exception says; with file, line and column,
 * any other failure of the template; SW_ENVIRONMENT: no memory. */
int sw_jinja_render(const struct sw_jinja *jinja, const struct sw_jinja_variable *variable,
                    size_t count, const struct sw_jinja_limits *limits, int64_t now,
                    struct sw_chars *text, struct sw_text_spans *foreign,
                    struct sw_text_spans *generated, struct sw_error *err);

#endif
