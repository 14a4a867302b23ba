/* The page of `plan search --nodes LIST --html FILE`: ends against accelerator-hours, and the table
 * of all numbers of nodes. */
#include "core/base/text.h"
#include "planner/command/page.h"
#include "planner/search/frontier.h"
#include "planner/search/run_cost.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LEFT = 92, RIGHT = 936, TOP = 44, BOTTOM = 420, HEIGHT = 486 };

struct chart {
    const struct sw_run_config *run;
    const struct sw_frontier *f;
    double hours_low, hours_high; /* ends of the axis */
    double end_low, end_high;     /* logarithms of seconds */
};

static bool is_drawn(const struct sw_frontier_row *row)
{
    return row->fits && isfinite(row->end_s) && isfinite(row->hours);
}

static double x_of(const struct chart *c, double hours)
{
    return LEFT + (hours - c->hours_low) / (c->hours_high - c->hours_low) * (RIGHT - LEFT);
}

static double y_of(const struct chart *c, double end_s)
{
    return BOTTOM - (log(end_s) - c->end_low) / (c->end_high - c->end_low) * (BOTTOM - TOP);
}

/* Widens a range by a share on both sides; an empty one to a least width. */
static void widen(double *low, double *high, double share, double least)
{
    const double width = *high - *low > least ? *high - *low : least;
    const double middle = (*low + *high) / 2;
    *low = middle - width * (0.5 + share);
    *high = middle + width * (0.5 + share);
}

/* Finds the ranges of the rows in the chart. False: no rows. */
static bool measure(struct chart *c)
{
    bool any = false;
    for (int32_t i = 0; i < c->f->count; i++) {
        const struct sw_frontier_row *row = &c->f->row[i];
        if (!is_drawn(row))
            continue;
        const double end = log(row->end_s);
        c->hours_low = !any || row->hours < c->hours_low ? row->hours : c->hours_low;
        c->hours_high = !any || row->hours > c->hours_high ? row->hours : c->hours_high;
        c->end_low = !any || end < c->end_low ? end : c->end_low;
        c->end_high = !any || end > c->end_high ? end : c->end_high;
        any = true;
    }
    widen(&c->hours_low, &c->hours_high, 0.06, c->hours_high * 0.02);
    widen(&c->end_low, &c->end_high, 0.06, 0.2);
    c->hours_low = c->hours_low > 0 ? c->hours_low : 0;
    return any;
}

/* Round step of an axis that divides it into about four to nine parts. */
static double round_step(double width)
{
    static const double steps[] = {1, 2, 5, 10};
    const double least = width / 9, power = pow(10, floor(log10(least)));
    int32_t i = 0;
    while (i < 3 && steps[i] * power < least)
        i++;
    return steps[i] * power;
}

static void draw_hours(FILE *out, const struct chart *c)
{
    char text[SW_FORMAT_RATE];
    const double step = round_step(c->hours_high - c->hours_low);
    for (double hours = ceil(c->hours_low / step) * step; hours <= c->hours_high; hours += step) {
        const double x = x_of(c, hours);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", x, TOP, BOTTOM + 5);
        if (step >= 1)
            sw_format_count(hours, text);
        else
            snprintf(text, sizeof text, "%.3g", hours);
        sw_html_label(out, x, BOTTOM + 20, "middle", "d", text);
    }
    if (c->f->whole_run && c->run->cluster.price_per_hour > 0)
        snprintf(text, sizeof text, "accelerator-hours at %.4g %s", c->run->cluster.price_per_hour,
                 sw_run_unit_of_price(c->run));
    else
        snprintf(text, sizeof text, "accelerator-hours%s",
                 c->f->whole_run ? "" : " of 1,000 steps");
    sw_html_label(out, (LEFT + RIGHT) / 2.0, BOTTOM + 42, "middle", "", text);
}

static void draw_ends(FILE *out, const struct chart *c)
{
    static const double times[] = {1,
                                   2,
                                   5,
                                   10,
                                   30,
                                   60,
                                   120,
                                   300,
                                   600,
                                   1800,
                                   3600,
                                   7200,
                                   4 * 3600.,
                                   8 * 3600.,
                                   86400,
                                   2 * 86400.,
                                   4 * 86400.,
                                   8 * 86400.,
                                   16 * 86400.,
                                   32 * 86400.,
                                   64 * 86400.,
                                   128 * 86400.,
                                   256 * 86400.,
                                   512 * 86400.,
                                   1024 * 86400.,
                                   2048 * 86400.,
                                   4096 * 86400.,
                                   8192 * 86400.};
    /* a range below a factor of two gets round parts of its own */
    const double low = exp(c->end_low), high = exp(c->end_high);
    const bool narrow = high < 3 * low;
    const double step = round_step((high - low) / 86400) * 86400;
    char text[SW_FORMAT_BYTES];
    double last = 1e9;
    for (int32_t i = 0; i < 64; i++) {
        const bool more = narrow || i < (int32_t)(sizeof times / sizeof times[0]);
        const double at = narrow ? (ceil(low / step) + i) * step : more ? times[i] : 0;
        if (!more || at > high)
            break;
        const double y = at < low ? last : y_of(c, at);
        if (at < low || last - y < 18)
            continue;
        last = y;
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT - 5, y, RIGHT);
        sw_html_label(out, LEFT - 10, y + 4, "end", "d", sw_format_duration(at, text));
    }
    sw_html_label(out, LEFT - 84, TOP - 18, "start", "",
                  c->f->whole_run ? "end of the run (logarithmic)"
                                  : "time of 1,000 steps (logarithmic)");
}

/* Draws limits on the two axes; limits of money and energy correspond to hours. */
static void draw_limits(FILE *out, const struct chart *c)
{
    for (int32_t i = 0; i < c->f->limits.count; i++) {
        const struct sw_cost_limit *limit = &c->f->limits.limit[i];
        const struct sw_frontier_row *any = &c->f->row[c->f->best_hours];
        const double mine = sw_cost_of_kind(c->run, &any->cost, limit->kind);
        if (limit->kind == SW_COST_TIME && log(limit->most) > c->end_low &&
            log(limit->most) < c->end_high) {
            const double y = y_of(c, limit->most);
            fprintf(out, "<path class=\"limit\" d=\"M%d %.1fH%d\"/>\n", LEFT, y, RIGHT);
            sw_html_label(out, RIGHT - 4, y - 6, "end", "warn b", limit->text);
            continue;
        }
        const double hours = any->hours * limit->most / mine;
        if (limit->kind == SW_COST_TIME || !(hours > c->hours_low && hours < c->hours_high))
            continue;
        const double x = x_of(c, hours);
        fprintf(out, "<path class=\"limit\" d=\"M%.1f %dV%d\"/>\n", x, TOP, BOTTOM);
        sw_html_label(out, x + 6, TOP + 12, "start", "warn b", limit->text);
    }
}

/* Draws the line through the undominated rows. */
static void draw_line(FILE *out, const struct chart *c)
{
    double last = -INFINITY;
    fputs("<path class=\"lead\" d=\"", out);
    for (bool first = true;; first = false) {
        const struct sw_frontier_row *next = NULL;
        for (int32_t i = 0; i < c->f->count; i++) {
            const struct sw_frontier_row *row = &c->f->row[i];
            if (is_drawn(row) && row->undominated && row->hours > last &&
                (next == NULL || row->hours < next->hours))
                next = row;
        }
        if (next == NULL)
            break;
        last = next->hours;
        fprintf(out, "%s%.1f %.1f", first ? "M" : "L", x_of(c, next->hours), y_of(c, next->end_s));
    }
    fputs("\"/>\n", out);
}

static void draw_point(FILE *out, const struct chart *c, const struct sw_frontier_row *row)
{
    char mesh[64], hours[SW_FORMAT_RATE], end[SW_FORMAT_BYTES];
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%d nodes, ",
            row->undominated ? "fit" : "other", x_of(c, row->hours), y_of(c, row->end_s),
            row->undominated ? 5 : 4, (int)row->nodes);
    fprintf(out, "%s: %s, %s", sw_mesh_format(&row->mesh, mesh, sizeof mesh),
            sw_format_duration(row->end_s, end), sw_format_accelerator_hours(row->hours, hours));
    fputs("</title></circle>\n", out);
}

/* Labels placed so far: none may overlap another. */
struct placed {
    double x, y, width;
};

static bool is_free(const struct placed *placed, int32_t count, double x, double y, double width)
{
    for (int32_t i = 0; i < count; i++)
        if (fabs(placed[i].y - y) < 14 && x < placed[i].x + placed[i].width &&
            placed[i].x < x + width)
            return false;
    return true;
}

/* Writes the number of nodes beside an undominated point, if there is room; a marked point has its
 * reason. */
static void label_point(FILE *out, const struct chart *c, int32_t i, const char *word,
                        struct placed *placed, int32_t *count, int32_t most)
{
    static const double turns[][2] = {{10, -8},  {10, 16}, {-10, -8},
                                      {-10, 16}, {10, 32}, {-10, -24}};
    const struct sw_frontier_row *row = &c->f->row[i];
    char text[128];
    snprintf(text, sizeof text, "%d%s%s", (int)row->nodes, word[0] != '\0' ? " nodes: " : "", word);
    const double width = 7 * (double)strlen(text) + 4;
    for (size_t k = 0; k < sizeof turns / sizeof turns[0] && *count < most; k++) {
        const bool left = turns[k][0] < 0;
        const double at = x_of(c, row->hours) + turns[k][0], y = y_of(c, row->end_s) + turns[k][1];
        const double x = left ? at - width : at;
        if (x < LEFT || x + width > RIGHT || y < TOP || y > BOTTOM ||
            !is_free(placed, *count, x, y, width))
            continue;
        placed[(*count)++] = (struct placed){.x = x, .y = y, .width = width};
        sw_html_label(out, at, y, left ? "end" : "start", word[0] != '\0' ? "b" : "d", text);
        return;
    }
}

/* Mark of a point. Returns buffer; "": it has no mark. */
static const char *say_mark(const struct sw_frontier *f, int32_t i, char *buffer, size_t bytes)
{
    const struct {
        int32_t at;
        const char *word;
    } marks[] = {{f->by != SW_CHOICE_BY_RUN ? f->chosen : -1, "chosen"},
                 {f->own, "the run's own"},
                 {f->best_hours, "fewest hours"},
                 {f->best_end, "ends first"}};
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t k = 0; k < sizeof marks / sizeof marks[0] && used < bytes; k++)
        if (marks[k].at == i)
            used += (size_t)snprintf(buffer + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                     marks[k].word);
    return buffer;
}

static void draw_labels(FILE *out, const struct chart *c)
{
    enum { MOST = 2 * SW_MOST_NODE_COUNTS };
    const struct sw_frontier *f = c->f;
    struct placed placed[MOST];
    char word[96];
    int32_t count = 0;
    for (int32_t i = 0; i < f->count; i++) /* no text may cover a point of the line */
        if (is_drawn(&f->row[i]) && f->row[i].undominated)
            placed[count++] = (struct placed){
                .x = x_of(c, f->row[i].hours) - 6, .y = y_of(c, f->row[i].end_s) + 4, .width = 12};
    for (int32_t pass = 0; pass < 2; pass++) /* marks first */
        for (int32_t i = 0; i < f->count; i++) {
            const struct sw_frontier_row *row = &f->row[i];
            const bool marked = say_mark(f, i, word, sizeof word)[0] != '\0';
            if (!is_drawn(row) || marked != (pass == 0) || (!marked && !row->undominated))
                continue;
            if (marked)
                fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"9\"/>\n",
                        i == f->chosen ? "chosen" : "fastest", x_of(c, row->hours),
                        y_of(c, row->end_s));
            label_point(out, c, i, word, placed, &count, MOST);
        }
}

static void draw(FILE *out, struct chart *c)
{
    char text[256];
    if (!measure(c)) {
        fputs("<p class=\"bad\">No mesh fits on any of these numbers of nodes.</p>\n", out);
        return;
    }
    snprintf(
        text, sizeof text,
        "%d numbers of nodes by accelerator-hours and end: %d of the %d that fit end earlier or "
        "cost less than every other; their points are filled and joined.",
        (int)c->f->count, (int)c->f->undominated, (int)c->f->fitting);
    sw_html_svg_open(out, "frontier", HEIGHT, "End against accelerator-hours", text);
    draw_hours(out, c);
    draw_ends(out, c);
    draw_limits(out, c);
    draw_line(out, c);
    for (int32_t i = 0; i < c->f->count; i++)
        if (is_drawn(&c->f->row[i]))
            draw_point(out, c, &c->f->row[i]);
    draw_labels(out, c);
    sw_html_label(out, LEFT, HEIGHT - 6, "start", "d",
                  "filled: undominated; hollow: another number ends no later for no more hours");
    fputs("</svg>\n", out);
}

/* ---- The table ---- */

static void cell(FILE *out, const char *css, const char *text)
{
    fprintf(out, "<td class=\"%s\">", css);
    sw_text_write_html(out, text);
    fputs("</td>", out);
}

static void write_estimate(FILE *out, const struct sw_run_config *run, enum sw_cost_kind kind,
                           const struct sw_run_estimate *of)
{
    char value[SW_FORMAT_RATE], low[SW_FORMAT_RATE], high[SW_FORMAT_RATE], text[256];
    if (isnan(of->value)) {
        cell(out, "n", "");
        return;
    }
    sw_cost_format(run, kind, of->low, low);
    low[strcspn(low, " ")] = '\0';
    snprintf(text, sizeof text, "%s (%s to %s)", sw_cost_format(run, kind, of->value, value),
             kind == SW_COST_TIME ? sw_cost_format(run, kind, of->low, low) : low,
             sw_cost_format(run, kind, of->high, high));
    cell(out, "n", text);
}

static void write_row(FILE *out, const struct sw_run_config *run, const struct sw_frontier *f,
                      int32_t i)
{
    const struct sw_frontier_row *row = &f->row[i];
    char text[SW_FRONTIER_NOTE], mesh[64];
    fprintf(out, "<tr%s><td class=\"n\">%d</td>", row->undominated ? " class=\"sum\"" : "",
            (int)row->nodes);
    cell(out, "m", row->fits ? sw_mesh_format(&row->mesh, mesh, sizeof mesh) : "");
    cell(out, "n", row->fits ? sw_format_seconds(row->step_seconds, text) : "");
    if (row->fits && f->whole_run) {
        write_estimate(out, run, SW_COST_TIME, &row->cost.wall_s);
        write_estimate(out, run, SW_COST_ACCELERATOR_HOURS, &row->cost.accelerator_hours);
        write_estimate(out, run, SW_COST_ENERGY, &row->cost.energy_joules);
        write_estimate(out, run, SW_COST_MONEY, &row->cost.money);
    } else {
        fputs("<td></td><td></td><td></td><td></td>", out);
    }
    cell(out, "", sw_frontier_note(run, f, i, text));
    fputs("</tr>\n", out);
}

void sw_frontier_page(FILE *out, const struct sw_run_config *run, const struct sw_frontier *f)
{
    char title[SW_HTML_TITLE], why[SW_FRONTIER_NOTE], count[SW_FORMAT_RATE];
    struct chart chart = {.run = run, .f = f};
    snprintf(title, sizeof title, "%.*s: numbers of nodes", SW_HTML_TITLE - 24, run->name);
    sw_html_begin(out, title);
    fputs("<h1>", out);
    sw_text_write_html(out, run->name);
    fputs("</h1>\n<p class=\"dim\">", out);
    fprintf(out, "Nodes of %s of ",
            sw_format_counted(run->cluster.accelerators_per_node, "accelerator", count));
    sw_text_write_html(out, run->cluster.name);
    if (f->whole_run)
        fprintf(out, "; %s with saves, evaluations, starts and what failures repeat",
                sw_format_counted((double)run->optimizer.total_steps, "step", count));
    fputs(".</p>\n", out);
    if (f->chosen >= 0) {
        fprintf(out, "<p>Chosen: %s, ", sw_format_counted(f->row[f->chosen].nodes, "node", count));
        sw_text_write_html(out, sw_frontier_why(run, f, why, sizeof why));
        fputs(".</p>\n", out);
    }
    draw(out, &chart);
    fputs(
        "<h2>All numbers of nodes</h2>\n<div class=\"scroll\"><table>\n<tr><th "
        "class=\"n\">nodes</th><th>mesh_dim</th><th class=\"n\">step</th><th "
        "class=\"n\">end</th><th class=\"n\">accelerator-hours</th><th class=\"n\">energy</th><th "
        "class=\"n\">money</th><th></th></tr>\n",
        out);
    for (int32_t i = 0; i < f->count; i++)
        write_row(out, run, f, i);
    fputs("</table></div>\n", out);
    sw_html_end(out);
}
