/* Order of a group's members with those of a node adjacent. Internal to direct.c. Owns nothing. */
#ifndef SW_COLLECTIVE_TOPOLOGY_H
#define SW_COLLECTIVE_TOPOLOGY_H

#include "core/sharding/mesh.h"

/* A member of a group, and its node. */
struct sw_direct_member {
    int32_t node, member;
};

/* State of one rank's communicator. Zero at first, except `order`. */
struct sw_topology {
    struct sw_direct_member *order; /* [members of the largest group] */
    /* sw_topology_find's result for each set of axes; 0: not yet computed */
    int32_t on_node[1 << SW_AXIS_COUNT];
};

/* Fills order[] with the members of the rank's group over these axes, sorted by node. Returns the
 * members per node, the same for every group over these axes: groups given the same numbers, e.g.
 * copies of one parameter, must compute the same sums. If there is no such number above 1, returns
 * the group's size, members in their own order. node: [ranks], each one's node as its lowest rank;
 * NULL: all on one. All ranks get the same answer. */
int32_t sw_topology_find(struct sw_topology *topology, const struct sw_mesh *mesh,
                         struct sw_axes axes, int32_t rank, const int32_t *node);

#endif
