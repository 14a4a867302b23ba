/* Links that a group of ranks spans, and times of collectives over it.
 *
 * Level l of the cluster joins the domains of level l - 1 (level 0 joins single accelerators) into
 * one of link[l].spans accelerators. Ranks fill domains in order, so the members of a group in each
 * domain follow from the mesh's axis order. Owns nothing. */
#ifndef SW_COST_LINKS_H
#define SW_COST_LINKS_H

#include "core/config/config.h"
#include "core/ir/op.h"

/* Span of the groups over some axes: at each level, a domain has `inside` members of a group, in
 * `parts` domains of the level below with `members` each. Groups whose size divides no domain
 * differ (the third group of 6 over nodes of 8 has 4 and 2): then the worst of all groups counts,
 * with the most inside and parts and the fewest members, since a step waits for the slowest. */
struct sw_span {
    int32_t ranks; /* ranks of a group */
    int32_t levels;
    int32_t outermost; /* outermost link that it crosses, -1: none (one rank) */
    int32_t inside[SW_MAX_LINKS], parts[SW_MAX_LINKS], members[SW_MAX_LINKS];
    /* steps of a ring over the group on links of that level; 0: none cross it */
    int32_t ring_steps[SW_MAX_LINKS];
};

void sw_links_span(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                   struct sw_axes axes, struct sw_span *out);

/* Cuts the span to its innermost `levels` links. */
void sw_links_cut(struct sw_span *span, int32_t levels);

/* Accelerators in a domain of that level: the span of its link, or the part of it that the job asks
 * to fill. */
int32_t sw_links_domain(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                        int32_t level);
/* Ranks of a segment that a job of the mesh asks its scheduler for: the settings' number; else the
 * largest product of inner axes that fits into a group of nodes, if it is whole nodes, more than
 * one, and divides the job. 0: none. */
int32_t sw_links_segment(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh);

/* Sets the cluster's link spans to the domains that the mesh asks for, so that a mesh without
 * requests spans the same links. */
void sw_links_settle(struct sw_cluster_config *cluster, const struct sw_mesh *mesh);

/* Key of a placement: the span of a set of axes depends on the axes inside each of its own, equal
 * in many axis orders: four bits for each axis of the set. */
uint16_t sw_links_placement(const struct sw_mesh *mesh, sw_axis_set group);

/* Default share of its bandwidth that a link of that level reaches. */
double sw_links_assumed_share(int32_t level);

/* Seconds of one collective (SW_ALL_GATHER .. SW_ALL_TO_ALL) in which each rank sends `bytes`
 * (sw_op_communication_bytes): launch + steps x latency + bytes / (bandwidth x efficiency). */
double sw_links_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                        enum sw_collective kind, double bytes);

/* Parts of that time, for measuring links as they are priced. `direct` as in sw_link_config; kind
 * as above.
 *
 * Bytes that each of `ranks` sends for each byte of the whole array: the bus factor of nccl-tests
 * (doc/PERFORMANCE.md). */
double sw_links_sent_share(enum sw_collective kind, int32_t ranks);
/* Steps whose latency one level adds if it joins `parts` of the group's domains and a flat ring has
 * `ring_steps` steps there. */
double sw_links_steps(bool direct, enum sw_collective kind, bool inside_node, int32_t parts,
                      int32_t ring_steps);
/* Bytes over one port of a domain with `members` of the `ranks`, each of which sends `bytes`; the
 * domain above has `inside` members, in `domains` domains. `node`: sw_links_node, for a direct
 * exchange. */
double sw_links_crossing(bool direct, enum sw_collective kind, int32_t ranks, int32_t inside,
                         int32_t members, int32_t node, int32_t domains, double bytes);
/* Members of the group on each node (domain of level 0), to which the runner's collectives send a
 * block once (runner/collective/direct.h); 1: nodes have different numbers, so a block goes to
 * every member. */
int32_t sw_links_node(const struct sw_span *span);

/* Bytes of it over one accelerator's port of the group's outermost link. */
double sw_links_port_bytes(const struct sw_cluster_config *cluster, const struct sw_span *span,
                           enum sw_collective kind, double bytes);

/* Seconds of one hop of a ring over the group: every rank sends `bytes` to the next. */
double sw_links_hop_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                            double bytes);

/* Ranks of an inner ring in a ring over the group: those in one fastest link domain, the same
 * number of consecutive members in each. 0: a single domain, one member in each, or unequal
 * numbers. */
int32_t sw_links_inner_ring(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                            struct sw_axes axes);
/* Seconds of a message of `bytes` from every rank of a ring over the group to the same member of
 * the next inner ring of `inner`: all members on a node send out of it at once. */
double sw_links_across_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                               int32_t inner, double bytes);

/* Seconds in which every rank of the group sends `messages`, of `bytes` together, one after another
 * to any other ranks, while it receives as many. */
double sw_links_exchange_seconds(const struct sw_cluster_config *cluster,
                                 const struct sw_span *span, double bytes, double messages);

/* Tokens of a ring's block from which computing on one block hides the transfer of the next over
 * that link: 4 d c^2 flops against 4 d c bytes of bf16 keys and values, so c >= peak / bandwidth,
 * both from the data sheets (Liu et al. 2023, section 3, table 2). With fewer key than query heads,
 * times their ratio; causal attention computes half, so times two. */
double sw_links_overlap_tokens(const struct sw_cluster_config *cluster, int32_t level,
                               double peak_flops);

/* The outermost link that a group crosses, -1: none (one rank). */
int32_t sw_links_outermost(const struct sw_span *span);

/* The fastest link domain: the outermost of the inner links that are all as fast as the first
 * (bandwidth over oversubscription), such as a node of NVLink, 72 accelerators of NVL72 or a whole
 * torus, wherever hosts end. -1: no links. */
int32_t sw_links_fastest(const struct sw_cluster_config *cluster);
/* True if a group crosses links outside of the fastest link domain. */
bool sw_links_leave_fastest(const struct sw_cluster_config *cluster, const struct sw_span *span);

#endif
