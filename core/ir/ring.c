#include "core/ir/ring.h"

#include "core/base/number.h"

void sw_ring_blocks_of(const struct sw_program *program, const struct sw_op *op,
                       struct sw_ring_blocks *out)
{
    const bool backward = op->kind == SW_OP_ATTENTION_GRAD;
    const struct sw_value *q = &program->values[op->in[0].value];
    const struct sw_value *k = &program->values[op->in[1].value];
    const int32_t ranks = sw_axes_size(&program->mesh, op->axes);
    struct sw_attention_workspace layout;
    sw_attention_workspace_layout(q->local, k->local, op->as.attention.head_dim, q->dtype,
                                  sw_attention_hops(op, ranks), backward, &layout);
    *out = (struct sw_ring_blocks){.ranks = ranks,
                                   .rings = ranks / sw_attention_inner_ring(op, ranks),
                                   .travel_bytes = layout.travel_bytes,
                                   .sum_bytes = layout.sum_bytes};
    if (ranks > 1 && layout.widened)
        out->widen_bytes =
            layout.travel_bytes + 2 * sw_value_local_elems(k) * (int64_t)sw_dtype_bytes(q->dtype);
    if (ranks > 1 && layout.sum_bytes < layout.cotangent_bytes)
        out->narrow_bytes = layout.cotangent_bytes + layout.sum_bytes;
}

static int64_t piece_bytes(int64_t bytes, int32_t pieces)
{
    return sw_align((bytes + pieces - 1) / pieces, SW_ARENA_ALIGNMENT);
}

/* Piece `at` of `pieces` that a block goes in. */
static struct sw_ring_message piece_of(int64_t bytes, int32_t pieces, int32_t at)
{
    const int64_t piece = piece_bytes(bytes, pieces), left = bytes - piece * at;
    return (struct sw_ring_message){.first = piece * at,
                                    .bytes = left <= 0      ? 0
                                             : left < piece ? left
                                                            : piece};
}

/* So many pieces from that one on are as long. */
static int32_t pieces_alike(int64_t bytes, int32_t pieces, int32_t at)
{
    const int64_t piece = piece_bytes(bytes, pieces);
    const int32_t whole = piece > 0 ? (int32_t)(bytes / piece) : 0;
    return at < whole ? whole - at : at == whole && bytes > piece * whole ? 1 : pieces - at;
}

struct sw_ring_hop sw_ring_hop(const struct sw_ring_blocks *ring, int32_t rank, int32_t hop)
{
    const int32_t ranks = ring->ranks, rings = ring->rings, inner = ranks / rings;
    const int32_t my_ring = rank / inner, my_place = rank % inner;
    const bool behind = hop == ranks;
    struct sw_ring_hop h = {
        .round = hop / inner, .at = hop % inner, .attends = !behind, .alike = 1};
    h.owner =
        (my_ring - h.round % rings + rings) % rings * inner + (my_place - h.at + inner) % inner;
    if (!behind && h.at < inner - 1)
        h.keys[SW_HOP_WITHIN].bytes = ring->travel_bytes;
    if (!behind && h.round < rings - 1)
        h.keys[SW_HOP_ACROSS] = piece_of(ring->travel_bytes, inner, h.at);
    if (!behind && ranks > 1)
        h.sums[SW_HOP_WITHIN].bytes = ring->sum_bytes;
    if (rings > 1 && h.round > 0)
        h.sums[SW_HOP_ACROSS] = piece_of(ring->sum_bytes, behind ? 1 : inner, h.at);
    if (h.at < inner - 1 && !behind) {
        const int32_t keys = h.round < rings - 1 ? pieces_alike(ring->travel_bytes, inner, h.at)
                                                 : inner,
                      sums = h.round > 0 ? pieces_alike(ring->sum_bytes, inner, h.at) : inner;
        h.alike = inner - 1 - h.at;
        h.alike = keys < h.alike ? keys : h.alike;
        h.alike = sums < h.alike ? sums : h.alike;
    }
    const int32_t next = (my_place + 1) % inner, last = (my_place + inner - 1) % inner;
    h.keys[SW_HOP_WITHIN].to = h.sums[SW_HOP_WITHIN].to = my_ring * inner + next;
    h.keys[SW_HOP_WITHIN].from = h.sums[SW_HOP_WITHIN].from = my_ring * inner + last;
    h.keys[SW_HOP_ACROSS].to = h.sums[SW_HOP_ACROSS].to = (rank + inner) % ranks;
    h.keys[SW_HOP_ACROSS].from = h.sums[SW_HOP_ACROSS].from = (rank + ranks - inner) % ranks;
    return h;
}

struct sw_ring_sum sw_ring_sum(const struct sw_ring_blocks *ring)
{
    struct sw_ring_sum sum = {0, 0, 0};
    for (int32_t hop = 0; hop <= ring->ranks;) {
        const struct sw_ring_hop h = sw_ring_hop(ring, 0, hop); /* all ranks send alike */
        int64_t bytes = 0;
        for (int way = 0; way < SW_HOP_WAYS; way++)
            bytes += h.keys[way].bytes + h.sums[way].bytes;
        sum.attends += h.attends ? h.alike : 0;
        sum.sends += bytes > 0 ? h.alike : 0;
        sum.bytes += bytes * h.alike;
        hop += h.alike;
    }
    return sum;
}
