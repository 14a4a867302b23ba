/* The number of nodes that `prefer: cost` takes of a run that may have several. */
#include "planner/search/frontier.h"

#include "planner/search/report.h"

#include <stdio.h>

int sw_frontier_settle(const char *path, struct sw_run_config *run, struct sw_error *err)
{
    struct sw_node_list nodes = {.count = 0};
    struct sw_frontier frontier;
    char hours[SW_FORMAT_RATE], end[SW_FORMAT_RATE];
    if (run->prefer != SW_PREFER_COST || run->nodes_least == run->nodes_most ||
        run->job.type != SW_JOB_TRAIN)
        return 0;
    for (int32_t n = run->nodes_least; n <= run->nodes_most; n++)
        nodes.nodes[nodes.count++] = n;
    if (sw_frontier_find(run, &nodes, NULL, &frontier, err) != 0)
        return -1;
    if (frontier.chosen >= 0) {
        const struct sw_frontier_row *row = &frontier.row[frontier.chosen];
        if (path != NULL)
            fprintf(stderr, "%s: note: prefer: cost takes %d of 'nodes: %s': %s, %s%s\n",
                    sw_command_shown(path), (int)row->nodes, run->nodes,
                    sw_cost_format(run, SW_COST_ACCELERATOR_HOURS, row->hours, hours),
                    sw_cost_format(run, SW_COST_TIME, row->end_s, end),
                    frontier.whole_run ? "" : " for 1,000 steps");
        sw_run_config_resize(run, row->nodes);
    }
    sw_frontier_free(&frontier);
    return 0;
}
