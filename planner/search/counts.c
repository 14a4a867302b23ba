/* Cost of each number of nodes that an elastic run may have (`nodes: 3-4`). */
#include "planner/search/report.h"

#include "planner/command/format.h"

#include <inttypes.h>
#include <stdlib.h>

struct sw_run_config sw_run_on_nodes(const struct sw_run_config *run, int32_t nodes)
{
    struct sw_run_config part = *run;
    sw_cluster_resize(&part.cluster, nodes);
    /* for this number only */
    part.nodes = NULL;
    part.nodes_least = part.nodes_most = nodes;
    return part;
}

void sw_search_count_nodes(const struct sw_run_config *run, const struct sw_search *search,
                           struct sw_node_count *out)
{
    *out = (struct sw_node_count){.nodes = run->cluster.nodes, .fits = search->feasible > 0};
    if (!out->fits)
        return;
    out->mesh = search->mesh[0].decision.mesh;
    out->step_seconds = search->mesh[0].cost.step_seconds;
    out->accelerator_hours = sw_report_accelerator_hours(run, out->step_seconds);
}

int sw_search_node_counts(const struct sw_run_config *run, struct sw_node_count **out,
                          int32_t *count, struct sw_error *err)
{
    const int32_t wanted =
        run->nodes_least < run->nodes_most ? run->nodes_most - run->nodes_least + 1 : 0;
    *count = 0;
    *out = NULL;
    if (wanted == 0)
        return 0;
    struct sw_node_count *counts = calloc((size_t)wanted, sizeof *counts);
    if (counts == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the numbers of nodes");
    for (int32_t i = 0; i < wanted; i++) {
        struct sw_search search = {0};
        const struct sw_run_config part = sw_run_on_nodes(run, run->nodes_least + i);
        if (sw_search_choose(&part, SW_FOR_TRAIN, 1, &search, err) != 0) {
            free(counts);
            return -1;
        }
        sw_search_count_nodes(&part, &search, &counts[i]);
        sw_search_free(&search);
    }
    *out = counts;
    *count = wanted;
    return 0;
}

void sw_report_node_counts(FILE *out, const struct sw_run_config *run,
                           const struct sw_node_count *counts, int32_t count)
{
    char mesh[64], step[SW_FORMAT_BYTES], took[SW_FORMAT_BYTES], hours[SW_FORMAT_RATE];
    for (int32_t i = 0; i < count; i++) {
        const struct sw_node_count *n = &counts[i];
        fprintf(out, "%-9s %d: ", i == 0 ? "nodes" : "", (int)n->nodes);
        if (!n->fits) {
            fprintf(out, "no mesh fits\n");
            continue;
        }
        fprintf(out, "mesh_dim %s, %s a step", sw_mesh_format(&n->mesh, mesh, sizeof mesh),
                sw_format_seconds(n->step_seconds, step));
        if (run->says_steps)
            fprintf(out, ", %s in all, %s",
                    sw_format_duration((double)sw_run_steps(run) * n->step_seconds, took),
                    sw_format_accelerator_hours(n->accelerator_hours, hours));
        fprintf(out, "\n");
    }
}
