/* Pictures and tables of the page of `plan explain --html`. Included only in planner/html. */
#ifndef SW_HTML_DRAW_H
#define SW_HTML_DRAW_H

#include "planner/breakdown/data.h"
#include "planner/command/page.h"

/* One file each. */
void sw_html_memory(FILE *out, const struct sw_explain *x);
void sw_html_timeline(FILE *out, const struct sw_explain *x);
void sw_html_mesh(FILE *out, const struct sw_explain *x);
void sw_html_map(FILE *out, const struct sw_explain *x);
void sw_html_tables(FILE *out, const struct sw_explain *x);

#endif
