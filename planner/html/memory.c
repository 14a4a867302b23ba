/* Draws live memory at every op, stacked by kind, against the accelerator's. */
#include "core/base/text.h"
#include "planner/html/draw.h"

#include "planner/command/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 74, RIGHT = 940, TOP = 26, BOTTOM = 330, LEAST_WIDTH = 62, LEGEND = 392 };

struct chart {
    const struct sw_explain *x;
    double top_bytes;                     /* at TOP */
    double edge[SW_COST_MAX_REGIONS + 1]; /* ends of regions */
};

static double y_of(const struct chart *c, double bytes)
{
    return BOTTOM - bytes / c->top_bytes * (BOTTOM - TOP);
}

/* Makes every region wide enough for its name; the rest is divided by time. */
static void lay_out_regions(struct chart *c)
{
    const struct sw_cost *cost = &c->x->c.cost;
    const struct sw_program *p = c->x->program;
    double seconds[SW_COST_MAX_REGIONS], sum = 0;
    for (int32_t r = 0; r < p->region_count; r++) {
        seconds[r] = cost->region[r].seconds;
        if (p->regions[r].phase != SW_PHASE_UPDATE)
            seconds[r] /= p->accumulation_steps;
        sum += seconds[r];
    }
    const double spare = RIGHT - LEFT - (double)LEAST_WIDTH * p->region_count;
    c->edge[0] = LEFT;
    for (int32_t r = 0; r < p->region_count; r++)
        c->edge[r + 1] = c->edge[r] + LEAST_WIDTH + (sum > 0 ? spare * seconds[r] / sum : 0);
}

/* x of each op's start in its region: by compute time, with a small share for other ops. */
static void lay_out_ops(const struct chart *c, double *start /* [op_count + 1] */)
{
    const struct sw_program *p = c->x->program;
    for (int32_t r = 0; r < p->region_count; r++) {
        const struct sw_region *region = &p->regions[r];
        const int32_t end = region->first_op + region->op_count;
        double sum = 0;
        for (int32_t i = region->first_op; i < end; i++) {
            const bool computes =
                !sw_op_is_collective(p->ops[i].kind) && !sw_op_is_wait(p->ops[i].kind);
            start[i] =
                computes ? sw_cost_compute_seconds(p, &p->ops[i], &c->x->run->cluster, NULL) : 0;
            sum += start[i];
        }
        const double least = (sum > 0 ? sum : 1) * 0.25 / (region->op_count + 1);
        sum += least * region->op_count;
        double at = c->edge[r];
        for (int32_t i = region->first_op; i < end; i++) {
            const double width = (c->edge[r + 1] - c->edge[r]) * (start[i] + least) / sum;
            start[i] = at;
            at += width;
        }
    }
    start[p->op_count] = c->edge[p->region_count];
}

/* Draws the area of one kind on those below it. `below` is [op_count] and grows. */
static void draw_kind(FILE *out, const struct chart *c, const double *start, double *below,
                      int32_t kind, const char *name)
{
    const struct sw_memory_profile *m = &c->x->memory;
    char bytes[SW_FORMAT_BYTES];
    double last = -1;
    fprintf(out, "<path class=\"k%d edge\" d=\"M%.1f %.1f", kind, start[0], y_of(c, below[0]));
    for (int32_t i = 0; i < m->op_count; i++) {
        const double y =
            y_of(c, below[i] + (double)m->live[(int64_t)i * SW_MEMORY_KIND_COUNT + kind]);
        if (fabs(y - last) > 0.05)
            fprintf(out, "V%.1f", y);
        fprintf(out, "H%.1f", start[i + 1]);
        last = y;
    }
    for (int32_t i = m->op_count - 1; i >= 0; i--)
        fprintf(out, "V%.1fH%.1f", y_of(c, below[i]), start[i]);
    fputs("Z\"><title>", out);
    sw_text_write_html(out, name);
    fprintf(out, ": at most %s</title></path>\n", sw_format_bytes((double)m->most[kind], bytes));
    for (int32_t i = 0; i < m->op_count; i++)
        below[i] += (double)m->live[(int64_t)i * SW_MEMORY_KIND_COUNT + kind];
}

static void draw_grid(FILE *out, const struct chart *c)
{
    char text[SW_FORMAT_BYTES];
    const double raw = c->top_bytes / 5, power = pow(10, floor(log10(raw)));
    const double unit = raw / power, step = power * (unit < 1.5 ? 1 : unit < 3.5 ? 2 : 5);
    for (double at = 0; at <= c->top_bytes; at += step) {
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(c, at), RIGHT);
        sw_html_label(out, LEFT - 8, y_of(c, at) + 4, "end", "d", sw_format_bytes(at, text));
    }
}

static void draw_regions(FILE *out, const struct chart *c)
{
    const struct sw_program *p = c->x->program;
    for (int32_t r = 0; r < p->region_count; r++) {
        const double middle = (c->edge[r] + c->edge[r + 1]) / 2;
        char word[SW_NAME_BYTES], times[24];
        double y = BOTTOM + 16;
        fprintf(out, "<path class=\"axisline\" d=\"M%.1f %dV%d\"/>\n", c->edge[r + 1], BOTTOM,
                BOTTOM + 6);
        /* one word a line */
        for (const char *at = p->regions[r].name; *at != '\0';) {
            const size_t n = strcspn(at, " ");
            snprintf(word, sizeof word, "%.*s", (int)n, at);
            sw_html_label(out, middle, y, "middle", "", word);
            y += 14;
            at += n + (at[n] == ' ');
        }
        snprintf(times, sizeof times, "× %d", p->regions[r].repeat);
        if (p->regions[r].repeat > 1)
            sw_html_label(out, middle, y, "middle", "d", times);
    }
}

static void draw_limit(FILE *out, const struct chart *c)
{
    char text[80], a[SW_FORMAT_BYTES];
    const struct sw_memory *m = &c->x->c.memory;
    const double y = y_of(c, (double)m->limit);
    if ((double)m->limit > c->top_bytes) {
        snprintf(text, sizeof text, "limit %s, %.1f times the total, is above the picture",
                 sw_format_bytes((double)m->limit, a), (double)m->limit / (double)m->total);
        sw_html_label(out, RIGHT, TOP - 8, "end", "warn b", text);
        return;
    }
    fprintf(out, "<path class=\"limit\" d=\"M%d %.1fH%d\"/>\n", LEFT, y, RIGHT);
    snprintf(text, sizeof text, "limit %s", sw_format_bytes((double)m->limit, a));
    sw_html_label(out, RIGHT, y - 6, "end", "warn b", text);
    if (m->headroom > 0)
        fprintf(out,
                "<path class=\"headroom\" d=\"M%d %.1fH%d\"><title>headroom %s</title></path>\n",
                LEFT, y_of(c, (double)(m->limit - m->headroom)), RIGHT,
                sw_format_bytes((double)m->headroom, a));
}

static void draw_peak(FILE *out, const struct chart *c, const double *start)
{
    const struct sw_memory_profile *m = &c->x->memory;
    char text[80], a[SW_FORMAT_BYTES];
    const double x = (start[m->peak_op] + start[m->peak_op + 1]) / 2;
    const double y = y_of(c, (double)(m->peak_bytes + c->x->c.memory.reserved));
    const double limit = y_of(c, (double)c->x->c.memory.limit);
    snprintf(text, sizeof text, "peak %s + reserved", sw_format_bytes((double)m->peak_bytes, a));
    fprintf(out, "<circle class=\"chosen\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", x, y);
    /* beside the peak, or above it if the limit's line leaves no room */
    const bool near = fabs(y - limit) < 30;
    const bool right = x > (LEFT + RIGHT) / 2.0;
    if (near)
        sw_html_label(out, LEFT + 4, (y < limit ? y : limit) - 6, "start", "b", text);
    else
        sw_html_label(out, x + (right ? -9 : 9), y - 7, right ? "end" : "start", "b", text);
}

static void draw_legend(FILE *out, const struct chart *c)
{
    const struct sw_memory_profile *m = &c->x->memory;
    int32_t shown = 0;
    for (int32_t k = 0; k <= SW_MEMORY_KIND_COUNT; k++) {
        char text[96], a[SW_FORMAT_BYTES];
        const bool reserved = k == SW_MEMORY_KIND_COUNT;
        const int64_t bytes = reserved ? c->x->c.memory.reserved : m->most[k];
        if (bytes == 0)
            continue;
        const double x = LEFT + shown % 3 * 290, y = LEGEND + shown / 3 * 20;
        fprintf(out, "<rect class=\"k%d\" x=\"%.1f\" y=\"%.1f\" width=\"13\" height=\"13\"/>\n", k,
                x, y);
        snprintf(text, sizeof text, "%s, %s",
                 reserved ? "reserved" : sw_memory_kind_name((enum sw_memory_kind)k),
                 sw_format_bytes((double)bytes, a));
        sw_html_label(out, x + 19, y + 11, "start", "", text);
        shown++;
    }
}

void sw_html_memory(FILE *out, const struct sw_explain *x)
{
    const struct sw_memory_profile *m = &x->memory;
    const struct sw_memory *memory = &x->c.memory;
    char description[256], a[SW_FORMAT_BYTES], b[SW_FORMAT_BYTES], d[SW_FORMAT_BYTES];
    struct chart chart = {.x = x};
    double *start = calloc((size_t)m->op_count + 1, sizeof *start);
    double *below = calloc((size_t)m->op_count + 1, sizeof *below);
    const int64_t most = memory->total > memory->limit ? memory->total : memory->limit;
    /* a small model on a large machine would be a line at the bottom: then the limit is not drawn,
     * and a note says so */
    const bool small = memory->total < memory->limit / 4;
    chart.top_bytes = small ? (double)memory->total * 1.3 : (double)most * 1.06;
    if (start == NULL || below == NULL || m->op_count == 0) {
        fputs("<p>There is no memory left to draw this.</p>\n", out);
        goto out;
    }
    lay_out_regions(&chart);
    lay_out_ops(&chart, start);
    snprintf(description, sizeof description,
             "Stacked areas by kind over the regions of the step: at most %s and %s reserved, of "
             "%s.",
             sw_format_bytes((double)m->peak_bytes, a),
             sw_format_bytes((double)memory->reserved, b),
             sw_format_bytes((double)memory->limit, d));
    sw_html_svg_open(out, "memory", 456, "Memory of one accelerator over the step", description);
    draw_grid(out, &chart);
    const double reserved = (double)memory->reserved;
    fprintf(out,
            "<rect class=\"k%d\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\">"
            "<title>reserved</title></rect>\n",
            SW_MEMORY_KIND_COUNT, LEFT, y_of(&chart, reserved), RIGHT - LEFT,
            BOTTOM - y_of(&chart, reserved));
    for (int32_t i = 0; i < m->op_count; i++)
        below[i] = reserved;
    for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++)
        if (m->most[k] > 0)
            draw_kind(out, &chart, start, below, k, sw_memory_kind_name((enum sw_memory_kind)k));
    draw_limit(out, &chart);
    draw_peak(out, &chart, start);
    draw_regions(out, &chart);
    draw_legend(out, &chart);
    fputs("</svg>\n", out);
    fprintf(
        out,
        "<p class=\"dim\">One micro-step and the update; a loop over layers is drawn once, "
        "since memory is the same in each iteration. Wider regions take longer, but none is "
        "narrower than its name. The arena has %s: the peak, and %s lost between buffers.</p>\n",
        sw_format_bytes((double)m->arena_bytes, a), sw_format_bytes((double)m->lost_bytes, b));
out:
    free(start);
    free(below);
}
