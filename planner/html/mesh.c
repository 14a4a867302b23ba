/* Draws each coordinate on its accelerator and node. */
#include "planner/html/draw.h"

#include "planner/command/format.h"

#include <string.h>

enum { LEFT = 20, PITCH = 88, CELL = 82, CELL_HEIGHT = 52, ROW = 58, MOST_CELLS = 64, IN_ROW = 8 };

struct grid {
    int32_t in_node;       /* accelerators drawn of each node */
    int32_t columns, rows; /* sizes in a node's cells */
    int32_t across;        /* nodes side by side */
    int32_t nodes;         /* nodes drawn */
};

static struct grid make_grid(const struct sw_cluster_config *cluster)
{
    struct grid g;
    g.in_node = cluster->accelerators_per_node < 64 ? cluster->accelerators_per_node : 64;
    g.columns = g.in_node < IN_ROW ? g.in_node : IN_ROW;
    g.rows = (g.in_node + g.columns - 1) / g.columns;
    g.across = (SW_HTML_WIDTH - 2 * LEFT) / (g.columns * PITCH + 30);
    g.across = g.across < 1 ? 1 : g.across;
    g.nodes = MOST_CELLS / g.in_node < cluster->nodes ? MOST_CELLS / g.in_node : cluster->nodes;
    return g;
}

static void draw_cell(FILE *out, const struct sw_mesh *mesh, int32_t rank, double x, double y)
{
    static const char letters[] = "dfts";
    int32_t coordinate[SW_AXIS_COUNT], shown = 0;
    char text[64];
    sw_mesh_coordinate(mesh, rank, coordinate);
    fprintf(out, "<g><title>rank %d: dp %d, fsdp %d, tp %d, sp %d</title>\n", rank,
            coordinate[SW_DP], coordinate[SW_FSDP], coordinate[SW_TP], coordinate[SW_SP]);
    fprintf(out,
            "<rect class=\"cell\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n", x,
            y, CELL, CELL_HEIGHT);
    snprintf(text, sizeof text, "rank %d", rank);
    sw_html_label(out, x + 5, y + 13, "start", "d small", text);
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const uint8_t axis = mesh->order[i];
        if (mesh->size[axis] == 1)
            continue;
        const double left = x + 4 + shown % 2 * 38, top = y + 18 + shown / 2 * 16;
        fprintf(out,
                "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"36\" height=\"14\" rx=\"3\"/>\n",
                sw_axis_name((enum sw_axis)axis), left, top);
        snprintf(text, sizeof text, "%c%d", letters[axis], coordinate[axis]);
        sw_html_label(out, left + 18, top + 11, "middle", "on small", text);
        shown++;
    }
    fputs("</g>\n", out);
}

/* A line for each axis: its colour, letter, size, and the link that its groups cross. */
static double draw_legend(FILE *out, const struct sw_explain *x)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    double y = 6;
    for (int32_t i = 0; i < SW_AXIS_COUNT; i++) {
        const uint8_t axis = x->program->mesh.order[i];
        const struct sw_axis_span *p = &x->span[axis];
        char text[224], rate[SW_FORMAT_BYTES];
        if (p->size == 1)
            continue;
        fprintf(out,
                "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"13\" height=\"13\" rx=\"2\"/>\n",
                sw_axis_name((enum sw_axis)axis), LEFT, y);
        snprintf(text, sizeof text,
                 "%s (%c): %d ranks, every %d; %d in a node, over %d node%s; %s%.60s%s%s%s",
                 sw_axis_name((enum sw_axis)axis), sw_axis_name((enum sw_axis)axis)[0], p->size,
                 p->stride, p->per_node, p->nodes, p->nodes == 1 ? "" : "s",
                 p->link >= 0 ? "crosses " : "", p->link >= 0 ? cluster->link[p->link].name : "",
                 p->link >= 0 ? ", " : "",
                 p->link >= 0 ? sw_format_bytes(cluster->link[p->link].bandwidth, rate) : "",
                 p->link >= 0 ? "/s each way" : "");
        sw_html_label(out, LEFT + 20, y + 11, "start", "", text);
        y += 21;
    }
    return y;
}

void sw_html_mesh(FILE *out, const struct sw_explain *x)
{
    const struct sw_cluster_config *cluster = &x->run->cluster;
    const struct sw_mesh *mesh = &x->program->mesh;
    const struct grid g = make_grid(cluster);
    char text[256], order[64], nodes[SW_FORMAT_RATE], each[SW_FORMAT_RATE];
    int32_t legend = 0;
    for (int32_t a = 0; a < SW_AXIS_COUNT; a++)
        legend += mesh->size[a] > 1;
    const int32_t lines = (g.nodes + g.across - 1) / g.across;
    const int32_t node_height = g.rows * ROW + 36;
    snprintf(text, sizeof text, "%s with %s each; ranks fill them in the order %s.",
             sw_format_counted(cluster->nodes, "node", nodes),
             sw_format_counted(cluster->accelerators_per_node, "accelerator", each),
             sw_mesh_format_order(mesh, order, sizeof order));
    sw_html_svg_open(out, "mesh", 20 + legend * 21 + lines * node_height, "The mesh on the nodes",
                     text);
    const double top = draw_legend(out, x) + 8;
    for (int32_t n = 0; n < g.nodes; n++) {
        const double left = LEFT + n % g.across * (g.columns * PITCH + 30.0);
        const double y = top + n / g.across * (double)node_height;
        fprintf(out,
                "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
                "rx=\"6\"/>\n",
                left, y, g.columns * PITCH + 14, g.rows * ROW + 26);
        snprintf(text, sizeof text, "node %d", n);
        sw_html_label(out, left + 10, y + 15, "start", "b", text);
        for (int32_t i = 0; i < g.in_node; i++)
            draw_cell(out, mesh, n * cluster->accelerators_per_node + i,
                      left + 10 + i % g.columns * (double)PITCH,
                      y + 21 + i / g.columns * (double)ROW);
    }
    fputs("</svg>\n", out);
    if (g.nodes < cluster->nodes || g.in_node < cluster->accelerators_per_node)
        fprintf(out,
                "<p class=\"dim\">The first %d accelerators of %d of the %d nodes; the others "
                "follow in the same order.</p>\n",
                g.in_node, g.nodes, cluster->nodes);
}
