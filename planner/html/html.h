/* `plan explain --html`. */
#ifndef SW_HTML_HTML_H
#define SW_HTML_HTML_H

#include "planner/breakdown/data.h"

/* One self-contained page. */
void sw_html_page(FILE *out, const struct sw_explain *x);

#endif
