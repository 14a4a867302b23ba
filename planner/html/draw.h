/* The page of `plan explain --html`: its pictures, each an inline SVG with a title and a text
 * alternative. No scripts, nothing loaded from elsewhere; all text is escaped. Nothing outside
 * planner/html includes this. */
#ifndef SW_HTML_DRAW_H
#define SW_HTML_DRAW_H

#include "planner/breakdown/data.h"

enum { SW_HTML_WIDTH = 960 }; /* of every picture, in its own units */

/* draw.c */
/* <svg ...><title>...</title><desc>...</desc>; id is unique on the page. */
void sw_html_svg_open(FILE *out, const char *id, int32_t height, const char *title,
                      const char *description);
/* text at x, y; anchor: "start", "middle", "end"; css: a class or "" */
void sw_html_label(FILE *out, double x, double y, const char *anchor, const char *css,
                   const char *text);
/* Whether a label of the usual size fits in so many units. */
bool sw_html_fits(const char *text, double width);
/* "dp", ... of the axes' first: the class that colours them. */
const char *sw_html_axis_class(struct sw_axes axes);

/* One file each. */
void sw_html_memory(FILE *out, const struct sw_explain *x);
void sw_html_timeline(FILE *out, const struct sw_explain *x);
void sw_html_mesh(FILE *out, const struct sw_explain *x);
void sw_html_map(FILE *out, const struct sw_explain *x);
void sw_html_tables(FILE *out, const struct sw_explain *x);

#endif
