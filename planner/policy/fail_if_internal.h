/* Shared by the files of the conditions: fail_if.c reads and compares numbers, fail_if_words.c
 * words, and both scan with fail_if_scan.c. Included nowhere else. */
#ifndef SW_POLICY_FAIL_IF_INTERNAL_H
#define SW_POLICY_FAIL_IF_INTERNAL_H

#include "planner/policy/fail_if.h"

struct sw_fail_if_parser {
    struct sw_fail_if *out;
    const char *at; /* in out->text */
    int32_t depth;
    struct sw_error *err;
};

/* fail_if_scan.c. From 1. */
int32_t sw_fail_if_column(const struct sw_fail_if_parser *p, const char *at);
/* Fills p->err with the position; returns -1. */
int sw_fail_if_mistake(const struct sw_fail_if_parser *p, int32_t column, const char *what,
                       const char *help);
void sw_fail_if_skip_spaces(struct sw_fail_if_parser *p);
int sw_fail_if_parse_comparison(struct sw_fail_if_parser *p);

/* fail_if_words.c. Fails, at `at`, if the condition is about one plan alone. */
int sw_fail_if_refuse_before(struct sw_fail_if_parser *p, const char *at);
/* Parses a whole condition on words or `rejected`. 1: it was one; 0: it is none, and only spaces
 * were read; -1: failed. */
int sw_fail_if_parse_words(struct sw_fail_if_parser *p);
/* Like sw_fail_if_test, for a comparison of words. */
enum sw_fail_if_verdict sw_fail_if_test_words(const struct sw_fail_if *condition,
                                              const struct sw_measures *was,
                                              const struct sw_measures *is, char *detail,
                                              size_t detail_bytes);

#endif
