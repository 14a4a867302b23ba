#include "planner/links.h"

/* Share of a link's bandwidth that collectives reach on large messages: 370 of 450 GB/s on DGX H100
 * (Austin et al., "How to Scale Your Model", 2025). Measured bandwidths should be divided by it. */
static const double link_efficiency = 0.82;

/* Ranks of the group of rank 0 that are smaller than `limit`. */
static int32_t members_below(const struct sw_mesh *mesh, struct sw_axes axes, int32_t limit)
{
    int32_t stride[SW_AXIS_COUNT], count = 0;
    for (int32_t i = SW_AXIS_COUNT - 1, ranks = 1; i >= 0; i--) {
        stride[mesh->order[i]] = ranks;
        ranks *= mesh->size[mesh->order[i]];
    }
    int32_t at[SW_AXIS_COUNT] = {0};
    for (;;) {
        int32_t rank = 0;
        for (uint8_t i = 0; i < axes.count; i++)
            rank += at[i] * stride[axes.axis[i]];
        count += rank < limit;
        uint8_t i = 0;
        for (; i < axes.count; i++) {
            if (++at[i] < mesh->size[axes.axis[i]])
                break;
            at[i] = 0;
        }
        if (i == axes.count)
            return count;
    }
}

void sw_links_span(const struct sw_cluster_config *cluster, const struct sw_mesh *mesh,
                   struct sw_axes axes, struct sw_span *out)
{
    int32_t below = 1;
    *out = (struct sw_span){.ranks = sw_axes_size(mesh, axes), .levels = cluster->link_count};
    for (int32_t l = 0; l < cluster->link_count; l++) {
        int32_t inside =
            below < out->ranks ? members_below(mesh, axes, cluster->link[l].spans) : out->ranks;
        if (l == cluster->link_count - 1)
            inside = out->ranks;
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

/* Level by level: a domain with m members of the group receives the blocks of the (k-1)/k of the
 * group outside it, m links at once (every accelerator has its own share of the domain's egress).
 * The slowest level bounds the transfer, since levels are pipelined; latencies add. all_reduce is
 * reduce_scatter + all_gather, its latency that of a tree. */
double sw_links_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                        enum sw_op_kind kind, double bytes)
{
    if (span->ranks <= 1)
        return 0;
    const double n = span->ranks, whole = bytes * n / (n - 1);
    double slowest = 0, latency = 0;
    for (int32_t l = 0; l < span->levels; l++) {
        const double k = span->parts[l], m = span->members[l];
        if (k <= 1)
            continue;
        const double bandwidth = cluster->link[l].bandwidth * link_efficiency;
        const double seconds = kind == SW_OP_ALL_TO_ALL ? whole * (n - m) / n / bandwidth
                                                        : whole * (k - 1) / (k * m) / bandwidth;
        if (seconds > slowest)
            slowest = seconds;
        const double steps = kind == SW_OP_ALL_REDUCE ? 2 * log2_ceiling(span->parts[l]) : (k - 1);
        latency += steps * cluster->link[l].latency_s;
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

/* All ranks send at once, each on its own link: the ring is as fast as the outermost link it
 * crosses. */
double sw_links_hop_seconds(const struct sw_cluster_config *cluster, const struct sw_span *span,
                            double bytes)
{
    const int32_t l = sw_links_outermost(span);
    if (l < 0)
        return 0;
    double slowest = 0;
    for (int32_t i = 0; i <= l; i++) {
        const double seconds = bytes / (cluster->link[i].bandwidth * link_efficiency);
        if (span->parts[i] > 1 && seconds > slowest)
            slowest = seconds;
    }
    return slowest + cluster->link[l].latency_s;
}
