/* Patterns of tokenizer.json: a plain text, or an Oniguruma regular expression, matched by PCRE2.
 * Syntax with a different meaning in PCRE2 is rewritten or refused. */
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
    char *text; /* plain, [bytes]; NULL: it is an expression */
    size_t bytes;
    pcre2_code *code;
    bool jit;
};

/* Match state beside the pattern; one thread at a time. */
struct sw_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Errors: SW_BAD_INPUT, at the file: the expression is invalid or has no equivalent;
 * SW_ENVIRONMENT: no memory. */
int sw_pattern_compile(const char *file, const char *expression, size_t bytes,
                       struct sw_pattern *out, struct sw_error *err);
int sw_pattern_plain(const char *text, size_t bytes, struct sw_pattern *out);
void sw_pattern_free(struct sw_pattern *pattern);

int sw_matcher_make(struct sw_matcher *out);
void sw_matcher_free(struct sw_matcher *matcher);

/* Finds the first match at or after `from` in valid UTF-8. Returns 1, 0: none, -1: too slow, or no
 * memory. */
int sw_pattern_find(const struct sw_pattern *pattern, const struct sw_matcher *matcher,
                    const char *text, size_t bytes, size_t from, size_t *begin, size_t *end);

/* All matches; an empty one must not touch the previous one. */
struct sw_matches {
    const struct sw_pattern *pattern;
    const struct sw_matcher *matcher;
    const char *text;
    size_t bytes, from, last_end; /* last_end SIZE_MAX: no match yet */
};
static inline struct sw_matches sw_matches_of(const struct sw_pattern *pattern,
                                              const struct sw_matcher *matcher, const char *text,
                                              size_t bytes)
{
    return (struct sw_matches){pattern, matcher, text, bytes, 0, SIZE_MAX};
}
/* Returns as sw_pattern_find. */
int sw_matches_next(struct sw_matches *matches, size_t *begin, size_t *end);

#endif
