#include "core/cost/ring.h"

#include "core/cost/cost.h"

#include <stdio.h>

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

/* Steps that send as much, one by one: a sum is rounded as of different steps. */
static void add_steps(struct sw_ring_time *out, int32_t steps, double sent, double block)
{
    const double taken = sent > block ? sent : block;
    double seconds = out->seconds, messages = out->messages;
    for (int32_t i = 0; i < steps; i++) {
        seconds += taken;
        messages += sent;
    }
    out->seconds = seconds;
    out->messages = messages;
}

void sw_ring_time(const struct sw_cluster_config *cluster, const struct sw_span *span, bool inside,
                  const struct sw_ring_blocks *blocks, double compute, struct sw_ring_time *out)
{
    const int32_t rings = blocks->rings, inner = blocks->ranks / rings;
    struct hops h = {*span, *span, cluster};
    if (inside)
        sw_links_cut(&h.inside, sw_links_fastest(cluster) + 1);
    h.inside.ranks = inner;
    const double keys = (double)blocks->travel_bytes, sums = (double)blocks->sum_bytes;
    const double pass = within(&h, keys), piece = across(&h, keys / inner);
    const double sum_pass = within(&h, sums), sum_piece = across(&h, sums / inner);
    const double block = compute / blocks->ranks;
    double before = 0; /* of sums of the step before */
    *out = (struct sw_ring_time){0};
    for (int32_t round = 0; round < rings; round++) {
        const double late = sum_pass + (round > 0 ? sum_piece : 0),
                     next = round < rings - 1 ? piece : 0;
        if (inner > 1) {
            add_steps(out, 1, before + pass + next, block);
            add_steps(out, inner - 2, late + pass + next, block);
            before = late;
        }
        add_steps(out, 1, before + next, block);
        before = late;
    }
    const double home = before + across(&h, sums);
    out->seconds += home;
    out->messages += home;
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

static void time_inner_rings(const struct sw_cluster_config *cluster,
                             const struct sw_program *program, const struct sw_op *op,
                             const struct sw_ring_blocks *blocks, double compute,
                             struct sw_ring_timing *out)
{
    struct sw_ring_time time;
    sw_ring_time_of(cluster, program, op, compute, &time);
    out->seconds = time.seconds;
    out->inside = time.seconds - compute;
    out->block = compute / blocks->ranks;
    out->hop = time.messages / blocks->ranks;
    out->home = blocks->sum_bytes > 0;
}

/* The ring computes on one block while the next travels; the gradient's dk and dv also travel home
 * at the end, when nothing is left to compute. A rank's blocks take alike (zigzag) or the longest
 * is assumed (op.c). */
void sw_ring_time_op(const struct sw_cluster_config *cluster, const struct sw_program *program,
                     const struct sw_op *op, const struct sw_span *span, double compute,
                     double bytes, struct sw_ring_timing *out)
{
    struct sw_ring_blocks blocks;
    *out = (struct sw_ring_timing){.seconds = compute};
    if (span->ranks <= 1)
        return;
    sw_ring_blocks_of(program, op, &blocks);
    if (blocks.rings > 1) {
        time_inner_rings(cluster, program, op, &blocks, compute, out);
        return;
    }
    const bool home = sw_op_returns_to_owner(op->kind);
    const double ranks = span->ranks, hops = home ? ranks : ranks - 1, block = compute / ranks;
    const double hop = sw_links_hop_seconds(cluster, span, bytes / hops);
    out->seconds = block + (ranks - 1) * (hop > block ? hop : block) + (home ? hop : 0);
    out->inside = out->seconds - compute;
    out->block = block;
    out->hop = hop;
    out->home = home;
}

void sw_ring_check(const struct sw_cluster_config *cluster, const struct sw_program *program,
                   const struct sw_op *op, const struct sw_span *span, struct sw_cost *out)
{
    const struct sw_accelerator_config *a = &cluster->accelerator;
    const int32_t link = sw_links_outermost(span);
    if (link < 1)
        return;
    const struct sw_value *k = &program->values[op->in[1].value];
    const double peak = k->dtype == SW_BF16_T ? a->peak_bf16_flops : a->peak_fp32_flops;
    const bool bf16 = op->as.attention.bf16_hops;
    struct sw_ring_blocks blocks; /* of inner rings one leaves a node in the time of all of them */
    sw_ring_blocks_of(program, op, &blocks);
    const double wider =
        (double)sw_dtype_bytes(bf16 ? SW_BF16_T : k->dtype) / (double)sw_dtype_bytes(SW_BF16_T);
    snprintf(out->ring_link, sizeof out->ring_link, "%.39s", cluster->link[link].name);
    out->ring_block_tokens = (double)k->local[1];
    out->ring_needs_tokens = 2 * wider * sw_links_overlap_tokens(cluster, link, peak) /
                             (op->as.attention.group > 1 ? op->as.attention.group : 1) /
                             (blocks.rings > 1 ? blocks.ranks / blocks.rings : 1);
}
