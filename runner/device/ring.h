/* Where in the workspace attention's blocks lie at each hop of a ring (core/ir/ring.h), on every
 * device, and the sends of a hop. Owns nothing. */
#ifndef SW_DEVICE_RING_H
#define SW_DEVICE_RING_H

#include "core/ir/ring.h"
#include "runner/device/device.h"

static inline struct sw_ring_blocks sw_ring_of(const struct sw_ring *ring,
                                               const struct sw_attention_workspace *layout)
{
    return (struct sw_ring_blocks){.ranks = ring->size,
                                   .rings = layout->halos > 0 ? 1 : ring->size / ring->inner,
                                   .halos = layout->halos,
                                   .travel_bytes = layout->travel_bytes,
                                   .sum_bytes = layout->sum_bytes};
}

/* This rank's hop; behind the last: sw_ring_hops of sw_ring_of. */
static inline struct sw_ring_hop
sw_ring_step(const struct sw_ring *ring, const struct sw_attention_workspace *layout, int32_t step)
{
    const struct sw_ring_blocks blocks = sw_ring_of(ring, layout);
    return sw_ring_hop(&blocks, ring->index, step);
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

/* Sends the message's bytes of a block that lies at `from`, into one at `to`; *started counts it.
 */
static inline int sw_ring_send(const struct sw_ring *ring, const struct sw_ring_message *m,
                               const void *from, void *to, int *started, struct sw_error *err)
{
    if (m->bytes == 0)
        return 0;
    ++*started;
    return ring->start(ring->context, m->to, m->from, (const char *)from + m->first,
                       (char *)to + m->first, (size_t)m->bytes, err);
}

/* k and v of a step leave, before it is worked on; returns how many messages are under way, -1. */
static inline int sw_ring_start_keys(const struct sw_ring *ring,
                                     const struct sw_attention_workspace *layout, void *workspace,
                                     int32_t step, struct sw_error *err)
{
    const struct sw_ring_hop hop = sw_ring_step(ring, layout, step);
    char *base = workspace;
    int started = 0;
    return sw_ring_send(ring, &hop.keys[SW_HOP_ACROSS],
                        base + sw_ring_first(ring, layout, hop.round),
                        base + sw_ring_first(ring, layout, hop.round + 1), &started, err) != 0 ||
                   sw_ring_send(ring, &hop.keys[SW_HOP_WITHIN],
                                base + sw_ring_at_hand(ring, layout, step),
                                base + layout->travel[(hop.at + 1) % 2], &started, err) != 0
               ? -1
               : started;
}

/* dk and dv of the block at hand leave, after that, from `sums`; and of inner rings, from the
 * second round on, a piece of what those before made of the block that the round before began with;
 * behind the last step all of it. As above. */
static inline int sw_ring_start_sums(const struct sw_ring *ring,
                                     const struct sw_attention_workspace *layout, void *workspace,
                                     int32_t step, const void *sums, struct sw_error *err)
{
    const struct sw_ring_hop hop = sw_ring_step(ring, layout, step);
    char *base = workspace;
    int started = 0;
    return sw_ring_send(ring, &hop.sums[SW_HOP_WITHIN], sums, base + layout->cotangent[1], &started,
                        err) != 0 ||
                   sw_ring_send(ring, &hop.sums[SW_HOP_ACROSS], base + layout->cotangent[3],
                                base + layout->cotangent[4], &started, err) != 0
               ? -1
               : started;
}

/* Ends of chunks leave for those behind them, and arrive; as above. */
static inline int sw_ring_start_halos(const struct sw_ring *ring,
                                      const struct sw_attention_workspace *layout, void *workspace,
                                      struct sw_error *err)
{
    const struct sw_ring_hop hop = sw_ring_step(ring, layout, 0);
    char *base = workspace;
    int started = 0;
    for (int way = 0; way < SW_HOP_WAYS; way++)
        if (sw_ring_send(ring, &hop.keys[way], base + layout->travel[way],
                         base + layout->travel[2 + way], &started, err) != 0)
            return -1;
    return started;
}

/* dk and dv of the end that a step had at hand go back, and those of the rank's own come. */
static inline int sw_ring_send_back(const struct sw_ring *ring,
                                    const struct sw_attention_workspace *layout, void *workspace,
                                    int32_t step, struct sw_error *err)
{
    const struct sw_ring_hop hop = sw_ring_step(ring, layout, step);
    char *base = workspace;
    int started = 0;
    return sw_ring_send(ring, &hop.sums[step - 1], base + layout->cotangent[step],
                        base + layout->cotangent[2 + step], &started, err) != 0
               ? -1
               : started;
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
