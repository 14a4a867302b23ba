/* Which links a group of ranks spans, and what a collective over it takes.
 *
 * Level l of the cluster joins the domains of level l - 1 (level 0 joins single accelerators) into
 * one of link[l].spans accelerators. Ranks fill domains in order, so a group's members per domain
 * follow from the mesh's axis order. Owns nothing. */
#ifndef SW_COST_LINKS_H
#define SW_COST_LINKS_H

#include "core/config/config.h"
#include "core/ir/op.h"

/* How the groups over some axes lie on the links: at each level, `inside` members of a group in a
 * domain, in `parts` domains of the level below, each with `members`. Groups whose size divides no
 * domain lie differently, the third of 6 over nodes of 8 with 4 and 2: then these are the worst of
 * all groups, the most inside and parts and the fewest members, since a step waits for the slowest.
 */
struct sw_span {
    int32_t ranks; /* of a group */
    int32_t levels;
    int32_t outermost; /* link that it crosses, -1: none (one rank) */
    int32_t inside[SW_MAX_LINKS], parts[SW_MAX_LINKS], members[SW_MAX_LINKS];
    /* steps of a ring over the group that go over links of that level; 0 where it crosses none */
    int32_t ring_steps[SW_MAX_LINKS];
};

void sw_links_span(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                   struct sw_axes axes, struct sw_span *out);

/* Leaves it only its innermost links, so many levels of them. */
void sw_links_cut(struct sw_span *span, int32_t levels);

/* Accelerators of a domain of that level: what its link spans, or as much of it as the ranks fill
 * that the job asks to have there together. */
int32_t sw_links_domain(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                        int32_t level);
/* Ranks of the segments that a job of the mesh can ask its scheduler for: those that the settings
 * ask for; else the largest product of inner axes that a group of nodes holds, where it is whole
 * nodes, more than one, and as many in every segment. 0: none. */
int32_t sw_links_segment(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh);

/* Gives the cluster the domains that the mesh asks for as what its links span, so that a mesh that
 * asks for nothing lies on them alike. */
void sw_links_settle(struct sw_cluster_config *cluster, const struct sw_mesh *mesh);

/* How the groups over a set of axes lie depends on which axes lie inside each of its own, which is
 * alike in many orders of the mesh's axes: four bits for each axis of the set. */
uint16_t sw_links_placement(const struct sw_mesh *mesh, sw_axis_set group);

/* Share of its bandwidth that a link of that level is assumed to reach where it tells none. */
double sw_links_assumed_share(int32_t level);

/* Seconds of one collective (SW_ALL_GATHER .. SW_ALL_TO_ALL) in which each rank sends `bytes`
 * (sw_op_communication_bytes): launch + steps x latency + bytes / (bandwidth x efficiency). */
double sw_links_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                        enum sw_collective kind, double bytes);

/* What that is made of, for measuring links as they are priced. `direct` as in sw_link_config; kind
 * as above.
 *
 * Bytes that each of `ranks` sends for each byte of the whole array: the bus factor of nccl-tests
 * (doc/PERFORMANCE.md). */
double sw_links_sent_share(enum sw_collective kind, int32_t ranks);
/* Steps whose latency one level adds, where it joins `parts` of the group's domains and a flat ring
 * has `ring_steps` of its steps. */
double sw_links_steps(bool direct, enum sw_collective kind, bool inside_node, int32_t parts,
                      int32_t ring_steps);
/* Bytes over one port of a domain with `members` of the `ranks`, each of which sends `bytes`, of
 * which the domain above has `inside`, in so many `domains`. `node`: of a direct exchange,
 * sw_links_node. */
double sw_links_crossing(bool direct, enum sw_collective kind, int32_t ranks, int32_t inside,
                         int32_t members, int32_t node, int32_t domains, double bytes);
/* The group's members on each node (domain of level 0), to which the runner's collectives send a
 * block once (runner/collective/direct.h); 1: not the same number on each, so to every member. */
int32_t sw_links_node(const struct sw_span *span);

/* What of it passes one accelerator's port of the outermost link that the group crosses. */
double sw_links_port_bytes(const struct sw_cluster_config *cluster, const struct sw_span *span,
                           enum sw_collective kind, double bytes);

/* Seconds of one hop of a ring over the group: every rank sends `bytes` to the next. */
double sw_links_hop_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                            double bytes);

/* Ranks of an inner ring of a ring over the group: those that lie in one fastest link domain, the
 * same number of consecutive members in each. 0: all of them lie there, or one, or not so. */
int32_t sw_links_inner_ring(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                            struct sw_axes axes);
/* Seconds of a message of `bytes` that every rank of a ring over the group sends to the same place
 * of the next inner ring of `inner`: all of a node's send out of it at once. */
double sw_links_across_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                               int32_t inner, double bytes);

/* Seconds in which every rank of the group sends `messages`, of `bytes` together, one after the
 * other to any of the others, while it receives as much. */
double sw_links_exchange_seconds(const struct sw_cluster_config *cluster,
                                 const struct sw_span *span, double bytes, double messages);

/* Tokens of a ring's block from which computing on one hides the transfer of the next over that
 * link: 4 d c^2 flops against 4 d c bytes of bf16 keys and values, so c >= peak / bandwidth, both
 * as on the data sheets (Liu et al. 2023, section 3, table 2). With fewer key than query heads,
 * times their ratio; causal attention computes half, so times two. */
double sw_links_overlap_tokens(const struct sw_cluster_config *cluster, int32_t level,
                               double peak_flops);

/* The outermost link that a group crosses, -1: none (one rank). */
int32_t sw_links_outermost(const struct sw_span *span);

/* The outermost of the innermost links that are all as fast as the first (bandwidth over
 * oversubscription): what its domains join, a node of NVLink, 72 accelerators of NVL72 or a whole
 * torus, is the fastest link domain, wherever hosts end. -1: there are no links. */
int32_t sw_links_fastest(const struct sw_cluster_config *cluster);
/* Whether a group crosses links outside of the fastest link domain. */
bool sw_links_leave_fastest(const struct sw_cluster_config *cluster, const struct sw_span *span);

#endif
