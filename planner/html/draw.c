/* What every picture of the page is drawn with. */
#include "planner/html/draw.h"

#include "core/base/text.h"

#include <string.h>

void sw_html_svg_open(FILE *out, const char *id, int32_t height, const char *title,
                      const char *description)
{
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n"
            "<title id=\"%s-t\">",
            SW_HTML_WIDTH, height, id, id, id);
    sw_text_write_html(out, title);
    fprintf(out, "</title>\n<desc id=\"%s-d\">", id);
    sw_text_write_html(out, description);
    fputs("</desc>\n", out);
}

void sw_html_label(FILE *out, double x, double y, const char *anchor, const char *css,
                   const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"", x, y, anchor);
    if (css[0] != '\0')
        fprintf(out, " class=\"%s\"", css);
    fputc('>', out);
    sw_text_write_html(out, text);
    fputs("</text>\n", out);
}

/* 12 units high: 7 wide on average in the fonts that browsers have. */
bool sw_html_fits(const char *text, double width)
{
    return (double)strlen(text) * 7 + 6 <= width;
}

const char *sw_html_axis_class(struct sw_axes axes)
{
    static const char *const classes[] = {"dp", "fsdp", "tp", "sp"};
    return axes.count > 0 ? classes[axes.axis[0]] : "none";
}
