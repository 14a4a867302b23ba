/* In which order the members of a group are found: those of a node next to each other. Internal to
 * direct.c. Owns nothing. */
#ifndef SW_COLLECTIVE_TOPOLOGY_H
#define SW_COLLECTIVE_TOPOLOGY_H

#include "core/sharding/mesh.h"

/* A member of a group, and the node that it lies on. */
struct sw_direct_member {
    int32_t node, member;
};

/* Of one rank's communicator. Zeros to begin with, but for `order`. */
struct sw_topology {
    struct sw_direct_member *order; /* [members of the largest group] */
    /* of the groups over each set of axes, as below; 0: not looked at so far */
    int32_t on_node[1 << SW_AXIS_COUNT];
};

/* Puts the members of the rank's group over these axes in order[], by node. Returns how many lie on
 * each node: of every group over these axes, since groups that are given the same numbers, as of a
 * parameter that each of them holds, must make the same sums of them. All members, in their own
 * order, where that is not one number larger than 1. node: [ranks], as the lowest rank on it; NULL:
 * all on one. All ranks come to the same answer. */
int32_t sw_topology_find(struct sw_topology *topology, const struct sw_mesh *mesh,
                         struct sw_axes axes, int32_t rank, const int32_t *node);

#endif
