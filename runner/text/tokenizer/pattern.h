/* Patterns of tokenizer.json: a plain text, or a regular expression as Oniguruma has them, matched
 * by PCRE2. What the two would read differently is rewritten or refused. */
#ifndef SW_PATTERN_H
#define SW_PATTERN_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { SW_PATTERN_BYTES = 16384 }; /* longest expression */

struct sw_pattern {
    char *text; /* plain, [bytes]; NULL: an expression */
    size_t bytes;
    pcre2_code *code;
    bool jit;
};

/* What matching needs beside the pattern; one thread at a time. */
struct sw_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Errors: SW_BAD_INPUT, at the file: the expression is wrong or not one that can be matched the
 * same; SW_ENVIRONMENT: no memory. */
int sw_pattern_compile(const char *file, const char *expression, size_t bytes,
                       struct sw_pattern *out, struct sw_error *err);
int sw_pattern_plain(const char *text, size_t bytes, struct sw_pattern *out);
void sw_pattern_free(struct sw_pattern *pattern);

int sw_matcher_make(struct sw_matcher *out);
void sw_matcher_free(struct sw_matcher *matcher);

/* The first match in valid UTF-8 that begins at `from` or later. Returns 1, 0: there is none, -1:
 * it takes too long, or no memory. */
int sw_pattern_find(const struct sw_pattern *pattern, const struct sw_matcher *matcher,
                    const char *text, size_t bytes, size_t from, size_t *begin, size_t *end);

/* All matches, none of which touches the one before it and is empty. */
struct sw_matches {
    const struct sw_pattern *pattern;
    const struct sw_matcher *matcher;
    const char *text;
    size_t bytes, from, last_end; /* last_end SIZE_MAX: there was none */
};
static inline struct sw_matches sw_matches_of(const struct sw_pattern *pattern,
                                              const struct sw_matcher *matcher, const char *text,
                                              size_t bytes)
{
    return (struct sw_matches){pattern, matcher, text, bytes, 0, SIZE_MAX};
}
/* As sw_pattern_find. */
int sw_matches_next(struct sw_matches *matches, size_t *begin, size_t *end);

#endif
