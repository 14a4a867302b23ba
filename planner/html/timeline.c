/* Draws the two streams of a layer in both directions, and the whole step. */
#include "core/base/text.h"
#include "planner/html/draw.h"

#include "planner/command/format.h"

#include <string.h>

enum { LEFT = 128, RIGHT = 940, LANE = 30, GAP = 6, BLOCK = 2 * LANE + GAP + 58 };

static const char *class_of(const struct sw_program *p, const struct sw_op *op)
{
    switch (sw_op_info((enum sw_op_kind)op->kind)->cost_class) {
    case SW_CLASS_MATMUL:
        return "matmul";
    case SW_CLASS_ATTENTION:
        return "attention";
    case SW_CLASS_COLLECTIVE:
        return sw_html_axis_class(sw_axes_effective(&p->mesh, op->axes));
    default:
        return "memory";
    }
}

/* Draws an event, unless shorter than a tenth of a unit. */
static void draw_event(FILE *out, const struct sw_explain *x, const struct sw_cost_event *e,
                       const struct sw_window *w, double scale, double y)
{
    const struct sw_op *op = &x->program->ops[e->op];
    const char *name = sw_op_info((enum sw_op_kind)op->kind)->name;
    const double from = e->start > w->start ? e->start : w->start;
    const double to = e->end < w->end ? e->end : w->end;
    const double left = LEFT + (from - w->start) * scale, width = (to - from) * scale;
    const bool wait = e->stream == SW_STREAM_WAIT;
    char text[128], axes[64], a[SW_FORMAT_BYTES];
    if (width < 0.1)
        return;
    const double at = y + (e->stream == SW_STREAM_COMMUNICATION ? LANE + GAP : 0);
    fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>",
            wait ? "wait" : class_of(x->program, op), left + (width > 3 ? 0.4 : 0), at,
            width > 3 ? width - 0.8 : width, LANE);
    sw_text_write_html(out, wait ? "waiting" : name);
    if (e->stream == SW_STREAM_COMMUNICATION)
        fprintf(out, " over %s",
                sw_axes_format(sw_axes_effective(&x->program->mesh, op->axes), axes, sizeof axes));
    fprintf(out, ", %s</title></rect>\n", sw_format_seconds(e->end - e->start, a));
    snprintf(text, sizeof text, "%s", wait ? "waiting" : name);
    if (sw_html_fits(text, width))
        sw_html_label(out, left + width / 2, at + LANE / 2.0 + 4, "middle", wait ? "d" : "on",
                      text);
}

static void draw_window(FILE *out, const struct sw_explain *x, const struct sw_window *w,
                        double scale, double y)
{
    char text[160], a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], c[SW_FORMAT_BYTES];
    if (w->region < 0)
        return;
    snprintf(text, sizeof text, "%s: %s, of it %s waiting; %s of communication",
             x->program->regions[w->region].name, sw_format_seconds(w->end - w->start, a),
             sw_format_seconds(w->waiting_seconds, b),
             sw_format_seconds(w->communication_seconds, c));
    sw_html_label(out, LEFT, y - 8, "start", "b", text);
    sw_html_label(out, LEFT - 10, y + 19, "end", "", "compute");
    sw_html_label(out, LEFT - 10, y + LANE + GAP + 19, "end", "", "communication");
    fprintf(out,
            "<rect class=\"frame\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n"
            "<rect class=\"frame\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n",
            LEFT, y, (w->end - w->start) * scale, LANE, LEFT, y + LANE + GAP,
            (w->end - w->start) * scale, LANE);
    for (int32_t i = 0; i < x->timeline.count; i++) {
        const struct sw_cost_event *e = &x->timeline.event[i];
        if (e->end > w->start && e->start < w->end)
            draw_event(out, x, e, w, scale, y);
    }
}

static double legend_entry(FILE *out, double x, double y, const char *css, const char *text)
{
    fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"13\" height=\"13\"/>\n", css, x,
            y);
    sw_html_label(out, x + 19, y + 11, "start", "", text);
    return x + 40 + 7 * (double)strlen(text);
}

static void draw_legend(FILE *out, const struct sw_explain *x, double y)
{
    double at = legend_entry(out, LEFT, y, "matmul", "matrix products");
    at = legend_entry(out, at, y, "attention", "attention");
    at = legend_entry(out, at, y, "memory", "memory-bound");
    at = legend_entry(out, at, y, "wait", "waiting");
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        if (x->program->mesh.size[a] > 1)
            at = legend_entry(out, at, y, sw_axis_name((enum sw_axis)a),
                              sw_axis_name((enum sw_axis)a));
}

/* Draws the step: regions in a row, to scale; waits hatched at their ends. */
static void draw_step(FILE *out, const struct sw_explain *x)
{
    const struct sw_cost *cost = &x->c.cost;
    char text[128], a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES];
    double at = LEFT;
    const double y = 30, scale = (RIGHT - LEFT) / cost->step_seconds;
    snprintf(text, sizeof text, "the step: %s in %d micro-step%s and the update",
             sw_format_seconds(cost->step_seconds, a), x->program->accumulation_steps,
             x->program->accumulation_steps == 1 ? "" : "s");
    sw_html_label(out, LEFT, y - 8, "start", "b", text);
    sw_html_label(out, LEFT - 10, y + 19, "end", "", "regions");
    for (int32_t r = 0; r < cost->region_count; r++) {
        const struct sw_region_cost *region = &cost->region[r];
        const double width = region->seconds * scale;
        const double waits = region->exposed_seconds * scale;
        fprintf(out,
                "<rect class=\"%s edge\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\">"
                "<title>",
                r % 2 == 0 ? "k0" : "k2", at, y, width - waits > 0 ? width - waits : 0, LANE);
        sw_text_write_html(out, region->name);
        fprintf(out, ": %s, of it %s waiting</title></rect>\n",
                sw_format_seconds(region->seconds, a),
                sw_format_seconds(region->exposed_seconds, b));
        if (waits > 2)
            fprintf(out,
                    "<rect class=\"wait\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"/>\n",
                    at + width - waits + 1, y + 1, waits - 2, LANE - 2);
        if (sw_html_fits(region->name, width - waits))
            sw_html_label(out, at + (width - waits) / 2, y + 19, "middle", "on", region->name);
        at += width;
    }
}

void sw_html_timeline(FILE *out, const struct sw_explain *x)
{
    const struct sw_window *f = &x->forward, *b = &x->backward;
    char description[200], s[SW_FORMAT_BYTES], t[SW_FORMAT_BYTES];
    double longest = f->end - f->start;
    if (b->region >= 0 && b->end - b->start > longest)
        longest = b->end - b->start;
    snprintf(description, sizeof description,
             "Compute and communication of a layer forward, %s, and backward, %s, on one time "
             "scale, below the regions of the whole step.",
             sw_format_seconds(f->end - f->start, s), sw_format_seconds(b->end - b->start, t));
    sw_html_svg_open(out, "timeline", 96 + 2 * BLOCK, "The two streams of a step", description);
    draw_step(out, x);
    if (longest > 0) {
        const double scale = (RIGHT - LEFT) / longest;
        draw_window(out, x, f, scale, 100);
        draw_window(out, x, b, scale, 100 + BLOCK);
    }
    draw_legend(out, x, 80 + 2 * BLOCK - 8);
    fputs("</svg>\n<p class=\"dim\">The second layer of the last micro-step; a collective may "
          "belong to the next layer (prefetch) or the one before. A ring inside attention is part "
          "of its block. Waiting is communication that does not overlap with compute.</p>\n",
          out);
}
