/* Shared by the parser's two files: expressions (parse.c), tags (tags.c). */
#ifndef SW_JINJA_PARSE_H
#define SW_JINJA_PARSE_H

#include "runner/text/jinja/internal.h"

struct jinja_parsing {
    struct sw_jinja *jinja;
    const struct jinja_token *token; /* the next one */
    int32_t depth, loops;
    bool failed; /* true after a failure: nodes are meaningless */
    struct jinja_node nowhere;
    struct sw_error *err;
};

/* Fails with the three strings concatenated; shown (may be NULL): quoted from the template. Returns
 * -1. */
int sw_jinja_parse_fail(struct jinja_parsing *p, size_t position, const char *what,
                        const char *shown, const char *then);
/* Creates a node at the next token; never NULL. */
struct jinja_node *sw_jinja_node(struct jinja_parsing *p, enum jinja_node_kind kind);
void sw_jinja_append(struct jinja_parsing *p, struct jinja_nodes *list, struct jinja_node *node);
bool sw_jinja_is(const struct jinja_parsing *p, enum jinja_token_kind kind, const char *text);
bool sw_jinja_take_if(struct jinja_parsing *p, enum jinja_token_kind kind, const char *text);
void sw_jinja_expect(struct jinja_parsing *p, const char *op);
const char *sw_jinja_expect_name(struct jinja_parsing *p); /* "" if there is none */

struct jinja_node *sw_jinja_expression(struct jinja_parsing *p);  /* with if b else c */
struct jinja_node *sw_jinja_disjunction(struct jinja_parsing *p); /* without it */
/* Parses an expression, or several separated by commas as a tuple. */
struct jinja_node *sw_jinja_tuple(struct jinja_parsing *p, bool conditions);
/* Parses a filter and its arguments, after "|". */
struct jinja_node *sw_jinja_filters(struct jinja_parsing *p, struct jinja_node *of);

#endif
