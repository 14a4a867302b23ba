/* Which links a group of ranks spans, and what a collective over it takes.
 *
 * Level l of the cluster joins the domains of level l - 1 (level 0 joins single accelerators) into
 * one of link[l].spans accelerators. Ranks fill domains in order, so a group's members per domain
 * follow from the mesh's axis order. Owns nothing. */
#ifndef SW_PLANNER_LINKS_H
#define SW_PLANNER_LINKS_H

#include "core/config/config.h"
#include "core/program/op/op.h"

/* How a group lies on the links: at each level, `parts` domains of the level below, each with
 * `members` of the group. */
struct sw_span {
    int32_t ranks; /* of the group */
    int32_t levels;
    int32_t parts[SW_MAX_LINKS], members[SW_MAX_LINKS];
};

void sw_links_span(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                   struct sw_axes axes, struct sw_span *out);

/* Seconds of one collective (SW_OP_ALL_GATHER .. SW_OP_ALL_TO_ALL) in which each rank sends `bytes`
 * (sw_op_communication_bytes). */
double sw_links_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                        enum sw_op_kind kind, double bytes);

/* What that is made of, for measuring links as they are priced. `direct` as in sw_link_config; kind
 * as above.
 *
 * Bytes that each of `ranks` sends for each byte of the whole array: the bus factor of nccl-tests
 * (doc/PERFORMANCE.md). */
double sw_links_sent_share(enum sw_op_kind kind, int32_t ranks);
/* Steps whose latency one level adds, where it joins `parts` of the group's domains. */
double sw_links_steps(bool direct, enum sw_op_kind kind, bool inside_node, int32_t parts);
/* Bytes over one port of a level that joins `parts` domains of `members` of the `ranks`, each of
 * which sends `bytes`. */
double sw_links_crossing(bool direct, enum sw_op_kind kind, int32_t ranks, int32_t parts,
                         int32_t members, double bytes);

/* Seconds of one hop of a ring over the group: every rank sends `bytes` to the next. */
double sw_links_hop_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                            double bytes);

/* Tokens of a ring's block from which computing on one hides the transfer of the next over that
 * link: 4 d c^2 flops against 4 d c bytes of bf16 keys and values, so c >= peak / bandwidth, both
 * as on the data sheets (Liu et al. 2023, section 3, table 2). With fewer key than query heads,
 * times their ratio; causal attention computes half, so times two. */
double sw_links_overlap_tokens(const struct sw_cluster_config *cluster, int32_t level,
                               double peak_flops);

/* The outermost link that the group crosses, -1: none (one rank). */
int32_t sw_links_outermost(const struct sw_span *span);

#endif
