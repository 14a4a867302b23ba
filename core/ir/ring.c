#include "core/ir/ring.h"

#include "core/base/number.h"

void sw_ring_blocks_of(const struct sw_program *program, const struct sw_op *op,
                       struct sw_ring_blocks *out)
{
    const struct sw_value *q = &program->values[op->in[0].value];
    const struct sw_value *k = &program->values[op->in[1].value];
    const int32_t ranks = sw_axes_size(&program->mesh, op->axes);
    struct sw_attention_workspace layout;
    sw_attention_workspace_of(op, ranks, q->local, k->local, q->dtype, &layout);
    *out = (struct sw_ring_blocks){
        .ranks = ranks,
        .rings = layout.halos > 0 ? 1 : ranks / sw_attention_inner_ring(op, ranks),
        .halos = layout.halos,
        .beside = (double)(layout.halos * layout.halo) / (2 * (double)k->local[1]),
        .travel_bytes = layout.travel_bytes,
        .sum_bytes = layout.sum_bytes};
    if (ranks > 1 && layout.widened)
        out->widen_bytes =
            layout.travel_bytes + 2 * sw_value_local_elems(k) * (int64_t)sw_dtype_bytes(q->dtype);
    if (ranks > 1 && layout.halos == 0 && layout.sum_bytes < layout.cotangent_bytes)
        out->narrow_bytes = layout.cotangent_bytes + layout.sum_bytes;
}

static int64_t piece_bytes(int64_t bytes, int32_t pieces)
{
    return sw_align((bytes + pieces - 1) / pieces, SW_ARENA_ALIGNMENT);
}

/* Piece `at` of a block in `pieces` pieces. */
static struct sw_ring_message piece_of(int64_t bytes, int32_t pieces, int32_t at)
{
    const int64_t piece = piece_bytes(bytes, pieces), left = bytes - piece * at;
    return (struct sw_ring_message){.first = piece * at,
                                    .bytes = left <= 0      ? 0
                                             : left < piece ? left
                                                            : piece};
}

/* Number of pieces, from that one on, that have its length. */
static int32_t pieces_alike(int64_t bytes, int32_t pieces, int32_t at)
{
    const int64_t piece = piece_bytes(bytes, pieces);
    const int32_t whole = piece > 0 ? (int32_t)(bytes / piece) : 0;
    return at < whole ? whole - at : at == whole && bytes > piece * whole ? 1 : pieces - at;
}

int32_t sw_ring_hops(const struct sw_ring_blocks *ring)
{
    if (ring->halos == 0)
        return ring->ranks;
    return ring->travel_bytes > 0 ? 1 + ring->halos : 1;
}

int64_t sw_ring_halo_position(int32_t ranks, int32_t rank, int32_t i, int64_t halo, int64_t chunk)
{
    const int64_t behind = i == 0 ? rank : 2 * (int64_t)ranks - 1 - rank; /* the rank's chunk */
    const bool has = i == 0 ? rank > 0 : rank < ranks - 1; /* a rank in the middle has both
                                                              neighbours */
    return has ? behind * chunk - halo : INT64_MAX;
}

/* Sends the ends of chunks to the rank of the chunk behind, and their sums back. */
static struct sw_ring_hop halo_hop(const struct sw_ring_blocks *ring, int32_t rank, int32_t hop)
{
    const int32_t next = (rank + 1) % ring->ranks, last = (rank + ring->ranks - 1) % ring->ranks;
    const bool own = hop == 0, behind = hop == sw_ring_hops(ring);
    struct sw_ring_hop h = {.at = hop,
                            .owner = own        ? rank
                                     : hop == 1 ? last
                                                : next,
                            .attends = !behind,
                            .alike = 1};
    for (int way = 0; way < SW_HOP_WAYS; way++) {
        const int64_t keys = own && way < ring->halos ? ring->travel_bytes : 0;
        const int64_t sums = !behind && hop == 1 + way ? ring->sum_bytes : 0;
        const int32_t to = way == 0 ? next : last, from = way == 0 ? last : next;
        h.keys[way] = (struct sw_ring_message){.to = to, .from = from, .bytes = keys};
        h.sums[way] = (struct sw_ring_message){.to = from, .from = to, .bytes = sums};
    }
    return h;
}

struct sw_ring_hop sw_ring_hop(const struct sw_ring_blocks *ring, int32_t rank, int32_t hop)
{
    if (ring->halos > 0)
        return halo_hop(ring, rank, hop);
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
    for (int32_t hop = 0; hop <= sw_ring_hops(ring);) {
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
