/* Moves a state between the shards of a mesh and the ranks that own parts of files, round by round
 * (core/checkpoint/exchange.h). Collective: every rank calls it for every round, in order.
 *
 * Its two message buffers of chunk_bytes are the workspace of the set's program `save`, or its own
 * if there is none or loading needs longer messages; if device memory is not the host's, it owns
 * two more on the host. Borrows the rest. Allocates only in sw_mover_create. Used by the compute
 * thread unless noted. */
#ifndef SW_CHECKPOINT_MOVE_H
#define SW_CHECKPOINT_MOVE_H

#include "core/checkpoint/exchange.h"
#include "runner/checkpoint/scales.h"
#include "runner/rank/execute.h"

struct sw_mover;

/* The executor's mesh has the exchange's number of ranks, and both share the state. Errors
 * (SW_ENVIRONMENT): memory. SW_BAD_INPUT: another number of ranks; when saving, a tensor's dtype
 * differs from its row's; messages longer than `save`'s buffers. */
int sw_mover_create(const struct sw_exchange *exchange, struct sw_executor *executor,
                    struct sw_mover **out, struct sw_error *err);
void sw_mover_free(struct sw_mover *mover);
/* Sets the settled scales, borrowed, for loading rows in 8 bits. */
void sw_mover_quantize(struct sw_mover *mover, const struct sw_scales *scales);

/* Errors of both: SW_ENVIRONMENT: the device's, the communicator's (a rank is gone). Ranks do not
 * agree on errors: a failing one leaves the job. */

/* Saving, a round of program `save`: fills chunk [sw_exchange_chunk(exchange, my rank, round)] with
 * this rank's bytes of the files. */
int sw_mover_collect(struct sw_mover *mover, int32_t round, void *chunk, struct sw_error *err);
/* Loading: sends this rank's chunk, read from the files, to the shards that hold its elements,
 * converted to the row's dtype (to nearest even), and tiled if the row is and sw_mover_tiles
 * (sw_executor_settle_state). */
int sw_mover_spread(struct sw_mover *mover, int32_t round, const void *chunk, struct sw_error *err);
/* True if loading tiles weights on the device at once. */
static inline bool sw_mover_tiles(const struct sw_device *device)
{
    return device->vtable->in_host_memory && device->vtable->tile_box != NULL;
}
/* Loading on a device in host memory: places this rank's elements of a stretch read from the files.
 * Not collective; threads may place different stretches at once. */
int sw_mover_place(struct sw_mover *mover, const struct sw_stretch *stretch, const void *data,
                   struct sw_error *err);
/* First tensor of the placement with a number, seen on this rank, that is not finite; INT32_MAX:
 * none. Ignores weights in 8 bits (scales.h). */
int32_t sw_mover_not_finite(const struct sw_mover *mover);

#endif
