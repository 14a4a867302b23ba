#include "core/cost/links.h"

#include "core/cost/cost.h"

/* Share of a link's bandwidth that collectives reach on large messages, where the cluster does not
 * tell. Inside a node: 370 of 450 GB/s on DGX H100 (Austin et al., "How to Scale Your Model",
 * 2025). Between nodes: 362 of 400 GB/s at 1 GiB on four B200 nodes (stas00/ml-engineering,
 * network). */
static const double inside_share = 0.82, outside_share = 0.90;

/* Bytes per second of one accelerator on that level when all talk at once. */
static double bandwidth_of(const struct sw_cluster_config *cluster, int32_t level, double bytes)
{
    const struct sw_link_config *link = &cluster->link[level];
    double share = level == 0 ? inside_share : outside_share;
    if (link->efficiency.count > 0)
        share = sw_cost_efficiency(&link->efficiency, bytes, share);
    const double bandwidth = link->bandwidth * share;
    return link->oversubscription > 1 ? bandwidth / link->oversubscription : bandwidth;
}

/* One axis of a group: a step along it is `stride` ranks, with `inner` members of the group. */
struct group_axis {
    int32_t size, stride, inner;
};

/* Ranks of the group of rank 0 that are smaller than `limit`: axis by axis, outermost first, whole
 * blocks of the inner ones. */
static int32_t members_below(const struct group_axis *axis, int32_t count, int32_t limit)
{
    int32_t members = 0;
    for (int32_t i = 0; i < count && limit > 0; i++) {
        const int32_t blocks = limit / axis[i].stride;
        const int32_t whole = blocks < axis[i].size ? blocks : axis[i].size;
        members += whole * axis[i].inner;
        limit = whole == axis[i].size ? 0 : limit - whole * axis[i].stride;
    }
    return limit > 0 ? members + 1 : members;
}

/* A search asks this for every placement of every mesh. */
void sw_links_span(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                   struct sw_axes axes, struct sw_span *out)
{
    const sw_axis_set set = sw_axes_set(axes);
    struct group_axis found[SW_AXIS_COUNT], *outermost = found + SW_AXIS_COUNT;
    int32_t stride = 1, ranks = 1, below = 1;
    for (int32_t i = SW_AXIS_COUNT - 1; i >= 0; i--) {
        const int32_t axis = mesh->order[i], size = mesh->size[axis];
        if (set & (1u << axis) && size > 1) {
            *--outermost = (struct group_axis){size, stride, ranks};
            ranks *= size;
        }
        stride *= size;
    }
    const int32_t count = (int32_t)(found + SW_AXIS_COUNT - outermost);
    out->ranks = ranks;
    out->levels = cluster->link_count;
    for (int32_t l = 0; l < cluster->link_count; l++) {
        int32_t inside = ranks;
        if (l < cluster->link_count - 1 && below < ranks)
            inside = members_below(outermost, count, cluster->link[l].spans);
        out->members[l] = below;
        out->parts[l] = (inside + below - 1) / below;
        below = inside;
    }
}

static double log2_ceiling(int32_t n)
{
    double steps = 0;
    while (n > 1) {
        n = (n + 1) / 2;
        steps++;
    }
    return steps;
}

double sw_links_sent_share(enum sw_op_kind kind, int32_t ranks)
{
    const double part = (double)(ranks - 1) / ranks;
    return kind == SW_OP_ALL_REDUCE ? 2 * part : part;
}

/* A ring has a step for each part; an all_reduce is a ring or chain inside a node, up and down, and
 * a tree between nodes (NCCL, src/graph/tuning.cc). */
double sw_links_steps(bool direct, enum sw_op_kind kind, bool inside_node, int32_t parts)
{
    if (direct) /* to all members at once; all_reduce once to sum, once to hand out */
        return kind == SW_OP_ALL_REDUCE ? 2 : 1;
    if (kind != SW_OP_ALL_REDUCE)
        return parts - 1;
    return 2 * (inside_node ? parts - 1 : log2_ceiling(parts));
}

/* A domain with m members of the group receives the blocks of the (k-1)/k of the group outside it,
 * m links at once (every accelerator has its own share of the domain's egress, of which other
 * groups use theirs). */
double sw_links_crossing(bool direct, enum sw_op_kind kind, int32_t ranks, int32_t parts,
                         int32_t members, double bytes)
{
    const double n = ranks, k = parts, m = members, whole = bytes * n / (n - 1);
    /* direct: every member's own blocks leave the domain, whoever else in it sends the same; those
     * for the k-1 neighbours of this level, m members each */
    return direct                     ? bytes * m * (k - 1) / (n - 1)
           : kind == SW_OP_ALL_TO_ALL ? whole * (n - m) / n
                                      : whole * (k - 1) / (k * m);
}

/* The slowest level bounds the transfer, since levels are pipelined; latencies add. all_reduce is
 * reduce_scatter + all_gather. */
double sw_links_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                        enum sw_op_kind kind, double bytes)
{
    if (span->ranks <= 1)
        return 0;
    double slowest = 0, latency = 0;
    for (int32_t l = 0; l < span->levels; l++) {
        const struct sw_link_config *link = &cluster->link[l];
        if (span->parts[l] <= 1)
            continue;
        const double seconds = sw_links_crossing(link->direct, kind, span->ranks, span->parts[l],
                                                 span->members[l], bytes) /
                               bandwidth_of(cluster, l, bytes);
        if (seconds > slowest)
            slowest = seconds;
        latency += sw_links_steps(link->direct, kind, l == 0, span->parts[l]) * link->latency_s;
    }
    return latency + slowest;
}

int32_t sw_links_outermost(const struct sw_span *span)
{
    for (int32_t l = span->levels - 1; l >= 0; l--)
        if (span->parts[l] > 1)
            return l;
    return -1;
}

/* All ranks send at once. Only the last of a domain sends out of it: on its own port where ports
 * are rails, else with the ports of the m members of its group together. */
double sw_links_hop_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                            double bytes)
{
    const int32_t l = sw_links_outermost(span);
    if (l < 0)
        return 0;
    double slowest = 0;
    for (int32_t i = 0; i <= l; i++) {
        const double ports = cluster->link[i].rails ? 1 : span->members[i];
        const double seconds = bytes / (bandwidth_of(cluster, i, bytes) * ports);
        if (span->parts[i] > 1 && seconds > slowest)
            slowest = seconds;
    }
    return slowest + cluster->link[l].latency_s;
}

double sw_links_overlap_tokens(const struct sw_cluster_config *cluster, int32_t level,
                               double peak_flops)
{
    return peak_flops / cluster->link[level].bandwidth;
}
