#include "runner/collective/topology.h"

#include <stdlib.h>

static int compare_members(const void *a, const void *b)
{
    const struct sw_direct_member *one = a, *other = b;
    const int by_node = (one->node > other->node) - (one->node < other->node);
    return by_node != 0 ? by_node : (one->member > other->member) - (one->member < other->member);
}

static void sort_by_node(struct sw_direct_member *order, const struct sw_mesh *mesh,
                         struct sw_axes axes, int32_t rank, const int32_t *node)
{
    const int32_t group = sw_axes_size(mesh, axes);
    for (int32_t i = 0; i < group; i++)
        order[i] = (struct sw_direct_member){node[sw_axes_member(mesh, axes, rank, i)], i};
    qsort(order, (size_t)group, sizeof *order, compare_members);
}

/* Positions per node, if they are sorted and equally many on each; else the group's size. */
static int32_t members_of_nodes(const struct sw_direct_member *order, int32_t group)
{
    int32_t each = 1;
    while (each < group && order[each].node == order[0].node)
        each++;
    for (int32_t i = each; i < group; i++)
        if (group % each != 0 || (order[i].node == order[i - 1].node) != (i % each > 0))
            return group;
    return each > 1 ? each : group;
}

/* members_of_nodes of all groups over these axes. */
static int32_t members_of_groups(struct sw_direct_member *order, const struct sw_mesh *mesh,
                                 struct sw_axes axes, const int32_t *node)
{
    const int32_t group = sw_axes_size(mesh, axes), ranks = sw_mesh_rank_count(mesh);
    int32_t each = 0;
    for (int32_t rank = 0; rank < ranks; rank++) {
        if (sw_axes_index(mesh, axes, rank) > 0)
            continue;
        sort_by_node(order, mesh, axes, rank, node);
        const int32_t own = members_of_nodes(order, group);
        if (each > 0 && own != each)
            return group;
        each = own;
    }
    return each;
}

int32_t sw_topology_find(struct sw_topology *topology, const struct sw_mesh *mesh,
                         struct sw_axes axes, int32_t rank, const int32_t *node)
{
    const int32_t group = sw_axes_size(mesh, axes);
    int32_t *on_node = &topology->on_node[sw_axes_set(axes)];
    if (*on_node == 0)
        *on_node = node != NULL ? members_of_groups(topology->order, mesh, axes, node) : group;
    if (*on_node < group)
        sort_by_node(topology->order, mesh, axes, rank, node);
    for (int32_t i = 0; *on_node == group && i < group; i++)
        topology->order[i] = (struct sw_direct_member){0, i};
    return *on_node;
}
