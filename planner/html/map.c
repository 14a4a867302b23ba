/* Draws every mesh of the cluster: fitting ones by step time and memory, the others at the
 * border. */
#include "core/base/text.h"
#include "planner/html/draw.h"

#include "planner/command/format.h"

#include <math.h>
#include <string.h>

enum {
    LEFT = 74,
    RIGHT = 780,
    BORDER_LEFT = 800, /* strip of meshes that lack memory: they have no time */
    BORDER_RIGHT = 940,
    TOP = 40,
    BOTTOM = 380,
    REASONS_TOP = 452,
    REASON_ROW = 20,
    DOTS_IN_ROW = 56
};

struct map {
    const struct sw_explain *x;
    double low, high; /* logarithms of step seconds */
    double top_bytes;
};

static double x_of(const struct map *m, double seconds)
{
    return LEFT + 20 + (log(seconds) - m->low) / (m->high - m->low) * (RIGHT - LEFT - 40);
}

/* Meshes that need far more memory than available are at the upper border. */
static double y_of(const struct map *m, double bytes)
{
    const double share = bytes / m->top_bytes;
    return BOTTOM - (share < 1 ? share : 1) * (BOTTOM - TOP);
}

static void measure(struct map *m)
{
    const struct sw_search *s = m->x->all;
    double least = m->x->c.cost.step_seconds, most = least;
    for (int32_t i = 0; i < s->feasible; i++) {
        const double t = s->mesh[i].cost.step_seconds;
        least = t < least ? t : least;
        most = t > most ? t : most;
    }
    if (most < least * 1.2) {
        least /= 1.1;
        most *= 1.1;
    }
    m->low = log(least);
    m->high = log(most);
    m->top_bytes = (double)m->x->c.memory.limit * 1.5;
}

static void draw_axes(FILE *out, const struct map *m)
{
    static const double steps[] = {1, 1.5, 2, 3, 5, 7};
    char text[SW_FORMAT_BYTES];
    const double limit = (double)m->x->c.memory.limit;
    for (int32_t i = 0; i <= 6; i++) {
        const double bytes = limit * i / 4, y = y_of(m, bytes);
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y, BORDER_RIGHT);
        sw_html_label(out, LEFT - 8, y + 4, "end", "d", sw_format_bytes(bytes, text));
    }
    fprintf(out, "<path class=\"limit\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(m, limit), BORDER_RIGHT);
    sw_html_label(out, RIGHT - 4, y_of(m, limit) - 6, "end", "warn b", "limit");
    if (m->x->c.memory.headroom > 0)
        fprintf(out, "<path class=\"headroom\" d=\"M%d %.1fH%d\"><title>headroom</title></path>\n",
                LEFT, y_of(m, limit - (double)m->x->c.memory.headroom), BORDER_RIGHT);
    double last = -100;
    for (double power = pow(10, floor(m->low / log(10))); log(power) <= m->high; power *= 10)
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            const double seconds = power * steps[i];
            if (log(seconds) < m->low || log(seconds) > m->high || x_of(m, seconds) - last < 62)
                continue;
            last = x_of(m, seconds);
            fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", last, TOP, BOTTOM + 5);
            sw_html_label(out, last, BOTTOM + 20, "middle", "d", sw_format_seconds(seconds, text));
        }
    sw_html_label(out, (LEFT + RIGHT) / 2.0, BOTTOM + 40, "middle", "",
                  "time of a step (logarithmic)");
    sw_html_label(out, LEFT - 66, TOP - 18, "start", "", "memory per accelerator");
    sw_html_label(out, (BORDER_LEFT + BORDER_RIGHT) / 2.0, TOP - 18, "middle", "warn b",
                  "does not fit");
    sw_html_label(out, (BORDER_LEFT + BORDER_RIGHT) / 2.0, BOTTOM + 20, "middle", "d",
                  "smallest options");
    fprintf(out, "<path class=\"axisline\" d=\"M%d %dV%d\"/>\n", (RIGHT + BORDER_LEFT) / 2, TOP,
            BOTTOM);
}

static void point(FILE *out, const char *css, double x, double y, double r,
                  const struct sw_candidate *c)
{
    char mesh[64], a[SW_FORMAT_BYTES];
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>%s", css, x, y, r,
            sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    if (c->reason == SW_FITS) {
        fprintf(out, ", %s: %s", c->sharding.name, sw_format_seconds(c->cost.step_seconds, a));
        fprintf(out, ", %s", sw_format_bytes((double)c->memory.total, a));
    } else {
        fputs(": ", out);
        sw_text_write_html(out, c->detail);
    }
    fputs("</title></circle>\n", out);
}

/* Draws a marked mesh with its name on a side with room. */
static void mark(FILE *out, const struct map *m, const struct sw_candidate *c, const char *css,
                 const char *word, double dy)
{
    char text[128], mesh[64];
    const bool priced = c->reason == SW_FITS;
    const double x = priced ? x_of(m, c->cost.step_seconds) : BORDER_LEFT + 12;
    const double y = y_of(m, (double)c->memory.total);
    const bool left = x > (LEFT + RIGHT) / 2.0;
    double at = y + dy;
    at = at < TOP + 10 ? TOP + 10 : at > BOTTOM - 6 ? BOTTOM - 6 : at;
    const double beside = x + (left ? -26 : 26);
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>\n", css, x, y,
            css[0] == 'c' ? 8 : 11);
    fprintf(out, "<path class=\"lead\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x + (left ? -8 : 8), y,
            beside, at - 4);
    snprintf(text, sizeof text, "%s %s", word,
             sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
    const double width = 6.6 * (double)strlen(text) + 8;
    fprintf(out,
            "<rect class=\"cell\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"18\" rx=\"3\"/>\n",
            left ? beside - width : beside, at - 13, width);
    sw_html_label(out, beside + (left ? -4 : 4), at, left ? "end" : "start", "b", text);
}

/* Draws the strip, by memory of the smallest options, side by side in the search's order. */
static void draw_memory_rejects(FILE *out, const struct map *m)
{
    const struct sw_search *s = m->x->all;
    int32_t shown = 0;
    for (int32_t i = s->feasible; i < s->count; i++) {
        const struct sw_candidate *c = &s->mesh[i];
        if (c->reason != SW_REJECT_MEMORY)
            continue;
        const int32_t column = shown++ % 12;
        point(out, "reject", BORDER_LEFT + 8 + column * 11, y_of(m, (double)c->memory.total), 4, c);
    }
}

/* Returns the number of rows. */
static int32_t draw_reasons(FILE *out, const struct map *m)
{
    const struct sw_search *s = m->x->all;
    int32_t row = 0;
    for (int32_t reason = SW_REJECT_PRODUCT; reason < SW_REJECT_MEMORY; reason++) {
        int32_t count = 0;
        char text[64];
        const double y = REASONS_TOP + row * REASON_ROW;
        for (int32_t i = s->feasible; i < s->count; i++) {
            if (s->mesh[i].reason != (enum sw_reject)reason)
                continue;
            if (count++ < DOTS_IN_ROW)
                point(out, "other", LEFT + 130 + (count - 1) * 13, y - 4, 4, &s->mesh[i]);
        }
        if (count == 0)
            continue;
        snprintf(text, sizeof text, "%s: %d", sw_reject_name((enum sw_reject)reason), count);
        sw_html_label(out, LEFT + 114, y, "end", "", text);
        if (count > DOTS_IN_ROW)
            sw_html_label(out, LEFT + 130 + DOTS_IN_ROW * 13, y, "start", "d", "...");
        row++;
    }
    return row;
}

static int32_t count_reasons(const struct sw_search *s)
{
    uint32_t seen = 0;
    int32_t rows = 0;
    for (int32_t i = s->feasible; i < s->count; i++)
        if (s->mesh[i].reason != SW_REJECT_MEMORY && !(seen >> s->mesh[i].reason & 1)) {
            seen |= 1u << s->mesh[i].reason;
            rows++;
        }
    return rows;
}

void sw_html_map(FILE *out, const struct sw_explain *x)
{
    const struct sw_search *s = x->all;
    struct map m = {.x = x};
    char text[200];
    measure(&m);
    snprintf(text, sizeof text,
             "%d meshes by step time and memory: %d fit, %d do not and stand at the border with "
             "their reason.",
             s->count, s->feasible, s->count - s->feasible);
    const int32_t rows = count_reasons(s);
    sw_html_svg_open(out, "map", REASONS_TOP + rows * REASON_ROW + 4, "All meshes", text);
    draw_axes(out, &m);
    for (int32_t i = 0; i < s->feasible; i++)
        point(out, "fit", x_of(&m, s->mesh[i].cost.step_seconds),
              y_of(&m, (double)s->mesh[i].memory.total), 4, &s->mesh[i]);
    draw_memory_rejects(out, &m);
    if (rows > 0)
        sw_html_label(out, LEFT - 66, REASONS_TOP - 20, "start", "", "does not divide");
    draw_reasons(out, &m);
    if (s->fastest >= 0 && s->fastest != x->at)
        mark(out, &m, &s->mesh[s->fastest], "fastest", "fastest", 26);
    mark(out, &m, &x->c, "chosen", x->requested ? "this" : "chosen", -18);
    fputs("</svg>\n", out);
}
