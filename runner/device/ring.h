/* What attention's blocks do at each step of a ring, on every device: which block a rank has at
 * hand, where it lies in the workspace, and what is sent beside the work on it.
 *
 * A ring of one has as many steps as members and a single round. Of inner rings a round has `inner`
 * steps: its first block leaves for the next ring in as many pieces, one with each step, while all
 * blocks of the ring's members pass by. Pieces keep calls short: they run in the order of their
 * starts, and a whole block over a slow link would hold up the hops behind it. Owns nothing. */
#ifndef SW_RUNNER_RING_H
#define SW_RUNNER_RING_H

#include "core/ir/workspace.h"
#include "runner/device/device.h"

struct sw_ring_step {
    int32_t round, at; /* of the rounds; in it, 0 <= at < inner */
    int32_t owner;     /* whose k and v are at hand */
    bool passes;       /* they go on to the next member */
    bool crosses;      /* a piece of the round's first block goes to the next inner ring */
};

static inline struct sw_ring_step sw_ring_step(const struct sw_ring *ring, int32_t step)
{
    const int32_t inner = ring->inner, rings = ring->size / inner;
    const int32_t round = step / inner, at = step % inner;
    const int32_t from = (ring->index / inner - round + rings) % rings;
    const int32_t position = (ring->index % inner - at + inner) % inner;
    return (struct sw_ring_step){.round = round,
                                 .at = at,
                                 .owner = from * inner + position,
                                 .passes = at < inner - 1,
                                 .crosses = round < rings - 1};
}

/* Piece `at` of `bytes`: its bytes, which may be none, from *first on. */
static inline size_t sw_ring_piece(const struct sw_ring *ring, size_t bytes, int32_t at,
                                   size_t *first)
{
    enum { ALIGNMENT = 256 };
    const size_t inner = (size_t)ring->inner;
    const size_t piece = ((bytes + inner - 1) / inner + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *first = piece * (size_t)at;
    if (*first >= bytes)
        return 0;
    return bytes - *first < piece ? bytes - *first : piece;
}

/* Offset in the workspace of the block that a round begins with; of k and v at hand. */
static inline int64_t sw_ring_first(const struct sw_ring *ring,
                                    const struct sw_attention_workspace *layout, int32_t round)
{
    return ring->inner == ring->size ? layout->travel[0] : layout->travel[2 + round % 2];
}
static inline int64_t sw_ring_at_hand(const struct sw_ring *ring,
                                      const struct sw_attention_workspace *layout, int32_t step)
{
    const int32_t at = step % ring->inner;
    return at == 0 ? sw_ring_first(ring, layout, step / ring->inner) : layout->travel[at % 2];
}

/* Sends [first, first + bytes) from one place of the workspace to as much of another. */
static inline int sw_ring_send(const struct sw_ring *ring, bool across, void *workspace,
                               int64_t from, int64_t to, size_t first, size_t bytes,
                               struct sw_error *err)
{
    char *base = (char *)workspace + first;
    return ring->start(ring->context, across, base + from, base + to, bytes, err);
}

/* k and v of a step leave, before it is worked on; returns how many messages are under way, -1. */
static inline int sw_ring_start_keys(const struct sw_ring *ring,
                                     const struct sw_attention_workspace *layout, void *workspace,
                                     int32_t step, struct sw_error *err)
{
    const struct sw_ring_step s = sw_ring_step(ring, step);
    size_t first;
    const size_t all = (size_t)layout->travel_bytes, piece = sw_ring_piece(ring, all, s.at, &first);
    int started = 0;
    if (s.crosses && piece > 0 &&
        (started++, sw_ring_send(ring, true, workspace, sw_ring_first(ring, layout, s.round),
                                 sw_ring_first(ring, layout, s.round + 1), first, piece, err)) != 0)
        return -1;
    if (s.passes &&
        (started++, sw_ring_send(ring, false, workspace, sw_ring_at_hand(ring, layout, step),
                                 layout->travel[(s.at + 1) % 2], 0, all, err)) != 0)
        return -1;
    return started;
}

/* dk and dv of the block at hand leave, after that, from `sums`; and of inner rings, from the
 * second round on, a piece of what those before made of the block that the round before began with.
 * As above. */
static inline int sw_ring_start_sums(const struct sw_ring *ring,
                                     const struct sw_attention_workspace *layout, void *workspace,
                                     int32_t step, const void *sums, struct sw_error *err)
{
    const struct sw_ring_step s = sw_ring_step(ring, step);
    size_t first;
    const size_t all = (size_t)layout->sum_bytes, piece = sw_ring_piece(ring, all, s.at, &first);
    int started = 1;
    if (ring->start(ring->context, false, sums, (char *)workspace + layout->cotangent[1], all,
                    err) != 0)
        return -1;
    if (s.round > 0 && piece > 0 &&
        (started++, sw_ring_send(ring, true, workspace, layout->cotangent[3], layout->cotangent[4],
                                 first, piece, err)) != 0)
        return -1;
    return started;
}

/* Ends so many of the oldest. */
static inline int sw_ring_wait(const struct sw_ring *ring, int started, struct sw_error *err)
{
    for (int i = 0; i < started; i++)
        if (ring->wait(ring->context, err) != 0)
            return -1;
    return 0;
}

#endif
