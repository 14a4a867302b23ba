/* Shared by the parser's two files: expressions (parse.c), tags (tags.c). */
#ifndef SW_JINJA_PARSE_H
#define SW_JINJA_PARSE_H

#include "runner/text/jinja/internal.h"

struct jinja_parsing {
    struct sw_jinja *jinja;
    const struct jinja_token *token; /* the next one */
    int32_t depth, loops;
    bool failed; /* then nodes mean nothing */
    struct jinja_node nowhere;
    struct sw_error *err;
};

/* Fails with the three behind each other; shown (may be NULL): the template's words. Returns -1. */
int sw_jinja_parse_fail(struct jinja_parsing *p, size_t position, const char *what,
                        const char *shown, const char *then);
/* A node at the next token; never NULL. */
struct jinja_node *sw_jinja_node(struct jinja_parsing *p, enum jinja_node_kind kind);
void sw_jinja_append(struct jinja_parsing *p, struct jinja_nodes *list, struct jinja_node *node);
bool sw_jinja_is(const struct jinja_parsing *p, enum jinja_token_kind kind, const char *text);
bool sw_jinja_take_if(struct jinja_parsing *p, enum jinja_token_kind kind, const char *text);
void sw_jinja_expect(struct jinja_parsing *p, const char *op);
const char *sw_jinja_expect_name(struct jinja_parsing *p); /* "" when there is none */

struct jinja_node *sw_jinja_expression(struct jinja_parsing *p);  /* with a if b else c */
struct jinja_node *sw_jinja_disjunction(struct jinja_parsing *p); /* without */
/* One expression, or several behind commas as a tuple. */
struct jinja_node *sw_jinja_tuple(struct jinja_parsing *p, bool conditions);
/* A filter and its arguments, behind "|". */
struct jinja_node *sw_jinja_filters(struct jinja_parsing *p, struct jinja_node *of);

#endif
