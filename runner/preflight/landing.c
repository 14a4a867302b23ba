#include "runner/preflight/landing.h"

#include "core/cost/cost.h"

#include <stdio.h>
#include <string.h>

/* "block.node", "spine.leaf.node"; "node" without a topology. Node names may contain dots: the
 * pattern, "block.node", gives the number of parts. */
const char *sw_landing_block(const char *address, const char *pattern, char *buffer, size_t bytes)
{
    size_t length = 0;
    for (const char *p = pattern; address != NULL && p != NULL && (p = strchr(p, '.')) != NULL; p++)
        if (length <= strlen(address))
            length += strcspn(address + length, ".") + 1;
    if (address == NULL || length > strlen(address))
        length = 0;
    snprintf(buffer, bytes, "%.*s", length > 0 ? (int)length - 1 : 0, length > 0 ? address : "");
    return buffer;
}

int32_t sw_landing_predicted(const struct sw_cluster_config *cluster)
{
    const int32_t per_node = cluster->accelerators_per_node;
    for (int32_t l = 0; l < cluster->link_count; l++) {
        const int32_t spans = cluster->link[l].spans;
        if (spans > per_node && l < cluster->link_count - 1)
            return spans % per_node == 0 ? spans / per_node : 0;
    }
    return 0;
}

static bool are_together(const int32_t *group, int32_t nodes, int32_t size)
{
    for (int32_t n = 0; n < nodes; n++)
        if (group[n] != group[n - n % size])
            return false;
    return true;
}

int32_t sw_landing_found(const int32_t *group, int32_t nodes, int32_t priced)
{
    int32_t size = priced;
    while (size > 1 && (priced % size != 0 || !are_together(group, nodes, size)))
        size--;
    return size;
}

int sw_landing_seconds(const struct sw_program *program, const struct sw_cluster_config *cluster,
                       int32_t priced, int32_t found, double *seconds, struct sw_error *err)
{
    struct sw_cluster_config landed = *cluster;
    struct sw_program moved = *program;
    struct sw_cost cost;
    landed.placement.group = priced * cluster->accelerators_per_node;
    moved.mesh.domain = found < priced ? found * cluster->accelerators_per_node : 0;
    if (sw_cost_price(&moved, &landed, NULL, &cost, err) != 0)
        return -1;
    *seconds = cost.step_seconds;
    return 0;
}
