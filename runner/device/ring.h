/* Workspace offsets of attention's blocks at each hop of a ring (core/ir/ring.h), the same on every
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

/* This rank's hop of a step; step = the number of hops: the final send home. */
static inline struct sw_ring_hop
sw_ring_step(const struct sw_ring *ring, const struct sw_attention_workspace *layout, int32_t step)
{
    const struct sw_ring_blocks blocks = sw_ring_of(ring, layout);
    return sw_ring_hop(&blocks, ring->index, step);
}

/* Workspace offset of a round's first block; below, of the step's k and v. */
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

/* Sends the message's byte range from block `from` into block `to` and increments *started. */
static inline int sw_ring_send(const struct sw_ring *ring, const struct sw_ring_message *m,
                               const void *from, void *to, int *started, struct sw_error *err)
{
    if (m->bytes == 0)
        return 0;
    ++*started;
    return ring->start(ring->context, m->to, m->from, (const char *)from + m->first,
                       (char *)to + m->first, (size_t)m->bytes, err);
}

/* Starts sending a step's k and v, before the step computes. Returns the messages started, or -1.
 * */
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

/* Starts sending a step's dk and dv from `sums`, after the step. With inner rings, from the second
 * round on, also sends a piece of the previous round's first block's sums, and all of them after
 * the last step. Returns as sw_ring_start_keys. */
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

/* Starts sending and receiving the ends of chunks (halos). Returns as sw_ring_start_keys. */
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

/* Sends back a step's dk and dv of a halo, and receives those of this rank's own halo. */
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

/* Waits for the `started` oldest messages. */
static inline int sw_ring_wait(const struct sw_ring *ring, int started, struct sw_error *err)
{
    for (int i = 0; i < started; i++)
        if (ring->wait(ring->context, err) != 0)
            return -1;
    return 0;
}

#endif
