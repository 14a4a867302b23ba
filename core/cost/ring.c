#include "core/cost/ring.h"

#include "core/cost/cost.h"

#include <stdio.h>

/* Messages in an inner ring, and to the next ring, with the seconds of recent lengths: a ring has
 * few. */
enum { KNOWN = 4 };
struct hops {
    struct sw_span inside, all;
    const struct sw_cluster_config *cluster;
    struct {
        int64_t bytes[KNOWN];
        double seconds[KNOWN];
        int32_t next;
    } known[SW_HOP_WAYS];
};

static double seconds_of(struct hops *h, enum sw_hop_way way, int64_t bytes)
{
    if (bytes == 0)
        return 0;
    for (int32_t i = 0; i < KNOWN; i++)
        if (h->known[way].bytes[i] == bytes)
            return h->known[way].seconds[i];
    const int32_t at = h->known[way].next++ % KNOWN;
    h->known[way].bytes[at] = bytes;
    return h->known[way].seconds[at] =
               way == SW_HOP_WITHIN
                   ? sw_links_hop_seconds(h->cluster, &h->inside, (double)bytes)
                   : sw_links_across_seconds(h->cluster, &h->all, h->inside.ranks, (double)bytes);
}

/* Seconds until messages are sent, one after another, where earlier ones took `before`. */
static double sent_seconds(struct hops *h, double before,
                           const struct sw_ring_message of[SW_HOP_WAYS])
{
    return before + seconds_of(h, SW_HOP_WITHIN, of[SW_HOP_WITHIN].bytes) +
           seconds_of(h, SW_HOP_ACROSS, of[SW_HOP_ACROSS].bytes);
}

/* Adds steps of equal bytes one by one, so that the sum is rounded as for different steps. */
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

/* Groups of steps in one round that send alike. */
enum { MOST_GROUPS = 16 };
struct round {
    int32_t count; /* above MOST_GROUPS: not all of them are kept */
    struct {
        int32_t steps;
        double sent;
    } of[MOST_GROUPS];
};

static void add_group(struct sw_ring_time *out, int32_t steps, double sent, double block,
                      struct round *kept)
{
    add_steps(out, steps, sent, block);
    if (kept->count < MOST_GROUPS) {
        kept->of[kept->count].steps = steps;
        kept->of[kept->count].sent = sent;
    }
    kept->count++;
}

/* Hops [first, end), behind sums that took *before; leaves those of the last hop there. */
static void add_hops(struct hops *h, const struct sw_ring_blocks *blocks, int32_t first,
                     int32_t end, double block, double *before, struct round *kept,
                     struct sw_ring_time *out)
{
    kept->count = 0;
    for (int32_t i = first; i < end;) {
        const struct sw_ring_hop hop = sw_ring_hop(blocks, 0, i);
        const double sums = sent_seconds(h, 0, hop.sums);
        add_group(out, 1, sent_seconds(h, *before, hop.keys), block, kept);
        add_group(out, hop.alike - 1, sent_seconds(h, sums, hop.keys), block, kept);
        *before = sums;
        i += hop.alike;
    }
}

/* Rounds between the second and the last send alike, behind sums that are alike from the third on:
 * the third is worked out, and added as often as there are such. */
void sw_ring_time(const struct sw_cluster_config *cluster, const struct sw_span *span, bool inside,
                  const struct sw_ring_blocks *blocks, double compute, struct sw_ring_time *out)
{
    struct hops h = {.inside = *span, .all = *span, .cluster = cluster};
    const int32_t inner = blocks->ranks / blocks->rings;
    const int32_t alike = blocks->halos == 0 ? blocks->rings - 4 : 0; /* beside the third */
    if (inside)
        sw_links_cut(&h.inside, sw_links_fastest(cluster) + 1);
    h.inside.ranks = inner;
    const double block = compute / sw_ring_hops(blocks);
    double before = 0; /* seconds that the sums of the hop before took */
    struct round kept;
    int32_t next = 0; /* number of a hop */
    *out = (struct sw_ring_time){0};
    if (alike > 0) {
        add_hops(&h, blocks, 0, 2 * inner, block, &before, &kept, out);
        add_hops(&h, blocks, 2 * inner, 3 * inner, block, &before, &kept, out);
        next = 3 * inner;
        for (int32_t k = 0; k < alike && kept.count <= MOST_GROUPS; k++, next += inner)
            for (int32_t g = 0; g < kept.count; g++)
                add_steps(out, kept.of[g].steps, kept.of[g].sent, block);
    }
    add_hops(&h, blocks, next, blocks->ranks, block, &before, &kept, out);
    const struct sw_ring_hop behind = sw_ring_hop(blocks, 0, blocks->ranks);
    const double home = sent_seconds(&h, before, behind.sums);
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
    out->block = compute / sw_ring_hops(blocks);
    out->hop = time.messages / blocks->ranks;
    out->home = blocks->sum_bytes > 0;
}

/* Times halos: a rank attends with its own keys while ends of chunks travel, then with these; only
 * the last end's dk and dv are waited for. */
static void time_halos(const struct sw_cluster_config *cluster, const struct sw_span *span,
                       const struct sw_ring_blocks *blocks, double compute,
                       struct sw_ring_timing *out)
{
    const double sent = (double)blocks->travel_bytes, sums = (double)blocks->sum_bytes;
    out->hop = blocks->halos * sw_links_hop_seconds(cluster, span, sent);
    out->block = compute * (1 - blocks->beside);
    out->home = blocks->sum_bytes > 0;
    out->seconds = (out->hop > out->block ? out->hop : out->block) + compute * blocks->beside +
                   (out->home ? sw_links_hop_seconds(cluster, span, sums) : 0);
    out->inside = out->seconds - compute;
}

/* The ring computes on one block while the next travels; the gradient's dk and dv travel home at
 * the end, with nothing left to compute. A rank's blocks take equal times (zigzag), or the longest
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
    const struct sw_ring_sum sum = sw_ring_sum(&blocks);
    if (sum.sends == 0)
        return;
    if (blocks.halos > 0) {
        time_halos(cluster, span, &blocks, compute, out);
        return;
    }
    const double block = compute / sum.attends;
    const double hop = sw_links_hop_seconds(cluster, span, bytes / sum.sends);
    out->seconds = block + (sum.attends - 1) * (hop > block ? hop : block) + (home ? hop : 0);
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
    struct sw_ring_blocks blocks; /* with inner rings, one block leaves a node in the time of
                                     all of them */
    sw_ring_blocks_of(program, op, &blocks);
    const double wider =
        (double)sw_dtype_bytes(bf16 ? SW_BF16_T : k->dtype) / (double)sw_dtype_bytes(SW_BF16_T);
    snprintf(out->ring_link, sizeof out->ring_link, "%.39s", cluster->link[link].name);
    out->ring_block_tokens = (double)k->local[1];
    out->ring_needs_tokens = 2 * wider * sw_links_overlap_tokens(cluster, link, peak) /
                             (op->as.attention.group > 1 ? op->as.attention.group : 1) /
                             (blocks.rings > 1 ? blocks.ranks / blocks.rings : 1);
}
