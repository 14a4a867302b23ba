#include "core/cost/ring.h"

/* Messages between members of an inner ring, and to the next ring. */
struct hops {
    struct sw_span inside, all;
    const struct sw_cluster_config *cluster;
};

static double within(const struct hops *h, double bytes)
{
    return bytes > 0 ? sw_links_hop_seconds(h->cluster, &h->inside, bytes) : 0;
}

static double across(const struct hops *h, double bytes)
{
    return bytes > 0 ? sw_links_across_seconds(h->cluster, &h->all, h->inside.ranks, bytes) : 0;
}

void sw_ring_time(const struct sw_cluster_config *cluster, const struct sw_span *span, bool inside,
                  const struct sw_ring_blocks *blocks, double compute, struct sw_ring_time *out)
{
    const int32_t rings = blocks->rings, inner = blocks->ranks / rings;
    struct hops h = {*span, *span, cluster};
    if (inside)
        h.inside.levels = sw_links_fastest(cluster) + 1;
    h.inside.ranks = inner;
    const double keys = (double)blocks->travel_bytes, sums = (double)blocks->sum_bytes;
    const double pass = within(&h, keys), piece = across(&h, keys / inner);
    const double sum_pass = within(&h, sums), sum_piece = across(&h, sums / inner);
    const double block = compute / blocks->ranks;
    double seconds = 0, messages = 0, before = 0; /* of sums of the step before */
    for (int32_t round = 0; round < rings; round++)
        for (int32_t at = 0; at < inner; at++) {
            const double sent =
                before + (at < inner - 1 ? pass : 0) + (round < rings - 1 ? piece : 0);
            seconds += sent > block ? sent : block;
            messages += sent;
            before = sum_pass + (round > 0 ? sum_piece : 0);
        }
    const double home = before + across(&h, sums);
    out->seconds = seconds + home;
    out->messages = messages + home;
}

void sw_ring_time_of(const struct sw_cluster_config *cluster, const struct sw_program *program,
                     const struct sw_op *op, double compute, struct sw_ring_time *out)
{
    const struct sw_mesh *mesh = &program->mesh;
    struct sw_ring_blocks blocks;
    struct sw_span span;
    sw_ring_blocks_of(program, op, &blocks);
    sw_links_span(cluster, mesh, op->axes, &span);
    sw_ring_time(cluster, &span,
                 blocks.ranks / blocks.rings == sw_links_inner_ring(cluster, mesh, op->axes),
                 &blocks, compute, out);
}
