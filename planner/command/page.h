/* Pages that `plan` writes for a browser, and elements of their pictures: each picture is an inline
 * SVG with a title and a text alternative. No scripts, nothing loaded from elsewhere; all text is
 * escaped. */
#ifndef SW_COMMAND_PAGE_H
#define SW_COMMAND_PAGE_H

#include "core/sharding/mesh.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SW_HTML_WIDTH = 960 /* width of every picture, in its own units */, SW_HTML_TITLE = 160 };

/* Writes a page's part before its content, and the part after. */
void sw_html_begin(FILE *out, const char *title);
void sw_html_end(FILE *out);
/* <svg ...><title>...</title><desc>...</desc>; id is unique on the page. */
void sw_html_svg_open(FILE *out, const char *id, int32_t height, const char *title,
                      const char *description);
/* text at x, y; anchor: "start", "middle", "end"; css: a class or "" */
void sw_html_label(FILE *out, double x, double y, const char *anchor, const char *css,
                   const char *text);
/* True if a label of the usual size fits into that width. */
bool sw_html_fits(const char *text, double width);
/* Class that colours the first of the axes: "dp", ... */
const char *sw_html_axis_class(struct sw_axes axes);

#endif
