/* Tables with the numbers of the pictures, and their sources. */
#include "core/base/text.h"
#include "planner/html/draw.h"

#include "planner/command/format.h"
#include "core/cost/links.h"

#include <string.h>

enum { MOST_ROWS = 200 };

/* Heads are separated by '|'; one that starts with '#' is for numbers. */
static void open_table(FILE *out, const char *title, const char *heads)
{
    fputs("<h3>", out);
    sw_text_write_html(out, title);
    fputs("</h3>\n<div class=\"scroll\"><table><thead><tr>", out);
    while (*heads != '\0') {
        const size_t n = strcspn(heads, "|");
        const bool number = heads[0] == '#';
        fprintf(out, "<th scope=\"col\"%s>%.*s</th>", number ? " class=\"n\"" : "", (int)n - number,
                heads + number);
        heads += n + (heads[n] == '|');
    }
    fputs("</tr></thead><tbody>\n", out);
}

static void close_table(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}

static void cell(FILE *out, const char *css, const char *text)
{
    fprintf(out, css[0] != '\0' ? "<td class=\"%s\">" : "<td>", css);
    sw_text_write_html(out, text);
    fputs("</td>", out);
}

static void bytes_cell(FILE *out, double bytes)
{
    char text[SW_FORMAT_BYTES];
    cell(out, "n", sw_format_bytes(bytes, text));
}

static void seconds_cell(FILE *out, double seconds)
{
    char text[SW_FORMAT_BYTES];
    cell(out, "n", sw_format_seconds(seconds, text));
}

static void count_cell(FILE *out, double count)
{
    char text[SW_FORMAT_BYTES];
    cell(out, "n", sw_format_count(count, text));
}

static void memory_tables(FILE *out, const struct sw_explain *x)
{
    const struct sw_memory_profile *m = &x->memory;
    char name[40];
    open_table(out, "Memory by kind", "kind|#at the peak|#at most");
    for (int32_t k = 0; k < SW_MEMORY_KIND_COUNT; k++) {
        if (m->most[k] == 0)
            continue;
        fputs("<tr>", out);
        cell(out, "", sw_memory_kind_name((enum sw_memory_kind)k));
        bytes_cell(out, (double)m->at_peak[k]);
        bytes_cell(out, (double)m->most[k]);
        fputs("</tr>\n", out);
    }
    fputs("<tr>", out);
    cell(out, "", "between buffers");
    bytes_cell(out, (double)m->lost_bytes);
    fputs("<td></td></tr>\n<tr class=\"sum\">", out);
    cell(out, "", "arena");
    bytes_cell(out, (double)m->arena_bytes);
    fputs("<td></td></tr>\n<tr>", out);
    cell(out, "", "reserved");
    bytes_cell(out, (double)x->c.memory.reserved);
    fputs("<td></td></tr>\n<tr class=\"sum\">", out);
    cell(out, "", "total");
    bytes_cell(out, (double)x->c.memory.total);
    fputs("<td></td></tr>\n", out);
    if (sw_explain_snapshot_bytes(x) > 0) {
        fputs("<tr>", out);
        cell(out, "", "snapshot, while a checkpoint is written");
        fputs("<td></td>", out);
        bytes_cell(out, (double)sw_explain_snapshot_bytes(x));
        fputs("</tr>\n", out);
    }
    close_table(out);
    open_table(out, "Memory by layer", "where|#parameters|#gradients|#optimizer|#saved");
    const struct sw_layer_memory *row[2] = {&m->layer, &m->outside};
    for (int32_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "each of %d layers", m->layers);
        fputs("<tr>", out);
        cell(out, "", i == 0 ? name : "embedding, head, rest");
        bytes_cell(out, (double)row[i]->parameters);
        bytes_cell(out, (double)row[i]->gradients);
        bytes_cell(out, (double)row[i]->optimizer);
        bytes_cell(out, (double)row[i]->saved);
        fputs("</tr>\n", out);
    }
    close_table(out);
}

static void time_tables(FILE *out, const struct sw_explain *x)
{
    open_table(out, "Time by region", "region|#time|#compute|#waiting");
    for (int32_t r = 0; r < x->c.cost.region_count; r++) {
        const struct sw_region_cost *region = &x->c.cost.region[r];
        fputs("<tr>", out);
        cell(out, "", region->name);
        seconds_cell(out, region->seconds);
        seconds_cell(out, region->compute_seconds);
        seconds_cell(out, region->exposed_seconds);
        fputs("</tr>\n", out);
    }
    close_table(out);
    open_table(out, "Compute by op", "op|#calls|#time|#of it recomputed");
    for (int32_t i = 0; i < x->kind_count; i++) {
        fputs("<tr>", out);
        cell(out, "", sw_op_info(x->kind[i].kind)->name);
        count_cell(out, x->kind[i].calls);
        seconds_cell(out, x->kind[i].seconds);
        seconds_cell(out, x->kind[i].again_seconds);
        fputs("</tr>\n", out);
    }
    fputs("<tr>", out);
    cell(out, "", "slower beside collectives");
    fputs("<td></td>", out);
    seconds_cell(out, x->slowed_seconds);
    fputs("<td></td></tr>\n", out);
    close_table(out);
}

static void communication_tables(FILE *out, const struct sw_explain *x)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    char text[64];
    open_table(out, "Axes",
               "axis|#size|#stride|#in a node|#nodes|link|#communicates|#exposed|#hidden");
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const uint8_t axis = x->program->mesh.order[i];
        const struct sw_axis_span *p = &x->span[axis];
        fputs("<tr>", out);
        cell(out, "", sw_axis_name((enum sw_axis)axis));
        count_cell(out, p->size);
        count_cell(out, p->stride);
        count_cell(out, p->per_node);
        count_cell(out, p->nodes);
        cell(out, "", p->link >= 0 ? cluster->link[p->link].name : "none");
        seconds_cell(out, x->axis[axis].total_seconds);
        seconds_cell(out, x->axis[axis].exposed_seconds);
        seconds_cell(out, x->axis[axis].hidden_seconds);
        fputs("</tr>\n", out);
    }
    close_table(out);
    if (x->traffic.count == 0)
        return;
    open_table(out, "Communication", "what|axes|#calls|#sent|#time|#through a port|over");
    for (int32_t i = 0; i < x->traffic.count; i++) {
        const struct sw_traffic *t = &x->traffic.entry[i];
        struct sw_span span;
        double port_bytes;
        const int32_t link = sw_explain_link(x, t, &span, &port_bytes);
        fputs("<tr>", out);
        cell(out, "", sw_op_info(t->kind)->name);
        cell(out, "", sw_axes_format(t->axes, text, sizeof text));
        count_cell(out, t->calls);
        bytes_cell(out, t->bytes);
        seconds_cell(out, t->seconds);
        if (port_bytes >= 0)
            bytes_cell(out, port_bytes);
        else
            cell(out, "", "");
        cell(out, "", link >= 0 ? cluster->link[link].name : "none");
        fputs("</tr>\n", out);
    }
    close_table(out);
}

static void checkpoint_table(FILE *out, const struct sw_explain *x)
{
    struct sw_explain_lines lines;
    sw_explain_checkpoint(x, &lines);
    open_table(out, "Checkpoints", "what|how much");
    for (int32_t i = 0; i < lines.count; i++) {
        fputs("<tr>", out);
        cell(out, "m", lines.line[i].name);
        cell(out, "", lines.line[i].text);
        fputs("</tr>\n", out);
    }
    close_table(out);
}

static void choice_table(FILE *out, const struct sw_explain *x)
{
    if (x->choice_count == 0)
        return;
    open_table(out, "Alternatives, and why they lost", "choice|chosen|other|why the other lost");
    for (int32_t i = 0; i < x->choice_count; i++) {
        const struct sw_choice *c = &x->choice[i];
        fputs("<tr>", out);
        cell(out, "", c->name);
        cell(out, "m", c->chosen);
        cell(out, "m", c->other);
        cell(out, "", c->why);
        fputs("</tr>\n", out);
    }
    close_table(out);
    fputs("<p class=\"dim\">All else equal.</p>\n", out);
}

static void rejected_table(FILE *out, const struct sw_search *s)
{
    char mesh[64];
    const int32_t count = s->count - s->feasible;
    if (count == 0)
        return;
    fprintf(out, "<details><summary>Rejected: %d of %d meshes</summary>\n", count, s->count);
    open_table(out, "Rejected, nearest first", "mesh_dim|reason|detail|what would admit it");
    for (int32_t i = s->feasible; i < s->count && i < s->feasible + MOST_ROWS; i++) {
        const struct sw_candidate *c = &s->mesh[i];
        fputs("<tr>", out);
        cell(out, "m", sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh));
        cell(out, "m", sw_reject_name(c->reason));
        cell(out, "", c->detail);
        cell(out, "", c->help);
        fputs("</tr>\n", out);
    }
    close_table(out);
    if (count > MOST_ROWS)
        fprintf(out, "<p class=\"dim\">and %d more: plan explain --rejected</p>\n",
                count - MOST_ROWS);
    fputs("</details>\n", out);
}

void sw_html_tables(FILE *out, const struct sw_explain *x)
{
    fputs("<h2>Why these choices</h2>\n", out);
    choice_table(out, x);
    rejected_table(out, x->all);
    fputs("<h2>Numbers</h2>\n", out);
    memory_tables(out, x);
    time_tables(out, x);
    communication_tables(out, x);
    checkpoint_table(out, x);
}
