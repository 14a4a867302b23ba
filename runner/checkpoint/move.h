/* Moves a state between the shards of a mesh and the ranks that own parts of files, round by round
 * (core/checkpoint/exchange.h). Collective: every rank calls it for every round, in order.
 *
 * Two message buffers of chunk_bytes are the workspace of the set's program `save`, or of its own
 * where the set has none or loading has longer messages; where the device's memory is not the
 * host's, it owns two more in the host's. Borrows the rest. Nothing is allocated after
 * sw_mover_create. One thread, the compute thread, unless said otherwise. */
#ifndef SW_CHECKPOINT_MOVE_H
#define SW_CHECKPOINT_MOVE_H

#include "core/checkpoint/exchange.h"
#include "runner/checkpoint/scales.h"
#include "runner/rank/execute.h"

struct sw_mover;

/* The executor runs on a mesh of as many ranks as the exchange's, and the exchange's state is its
 * set's. Errors (SW_ENVIRONMENT): memory. SW_BAD_INPUT: another number of ranks; to be saved, a
 * tensor of another dtype than its row; longer messages than `save` has room for. */
int sw_mover_create(const struct sw_exchange *exchange, struct sw_executor *executor,
                    struct sw_mover **out, struct sw_error *err);
void sw_mover_free(struct sw_mover *mover);
/* Loading rows in 8 bits takes settled scales of the exchange's placement, which are borrowed. */
void sw_mover_quantize(struct sw_mover *mover, const struct sw_scales *scales);

/* Errors of both: SW_ENVIRONMENT: the device's, the communicator's (another rank is gone). Ranks do
 * not agree on what went wrong: whoever fails leaves the job. */

/* Saving, what the program `save` does in a round: chunk [sw_exchange_chunk(exchange, my rank,
 * round)] gets the bytes of this rank's chunk as the files have them. */
int sw_mover_collect(struct sw_mover *mover, int32_t round, void *chunk, struct sw_error *err);
/* Loading: the elements of this rank's chunk, as read from the files, go to the shards that they
 * belong to, converted from the file's dtype to the row's (rounded to nearest even), and into tiles
 * where the row lies so and sw_mover_tiles (sw_executor_settle_state). */
int sw_mover_spread(struct sw_mover *mover, int32_t round, const void *chunk, struct sw_error *err);
/* True if loading puts weights that lie in tiles on the device there at once. */
static inline bool sw_mover_tiles(const struct sw_device *device)
{
    return device->vtable->in_host_memory && device->vtable->tile_box != NULL;
}
/* Loading, on a device in the host's memory: the elements of a stretch, as read from the files,
 * that belong to this rank. Not collective; several threads may place other stretches at once. */
int sw_mover_place(struct sw_mover *mover, const struct sw_stretch *stretch, const void *data,
                   struct sw_error *err);
/* The first tensor of the placement in which this rank found, so far, a number that is not finite
 * in the state; INT32_MAX: none. Weights in 8 bits are not looked at (scales.h). */
int32_t sw_mover_not_finite(const struct sw_mover *mover);

#endif
