/* `plan explain` for people and as JSON; HTML is in planner/html. */
#ifndef SW_EXPLAIN_EXPLAIN_H
#define SW_EXPLAIN_EXPLAIN_H

#include "planner/breakdown/data.h"

/* text.c; rejected: true to list all of them. */
void sw_explain_text(FILE *out, const struct sw_explain *x, bool rejected);
/* json.c: one object and a newline. */
void sw_explain_print_json(FILE *out, const struct sw_explain *x, bool rejected);

#endif
