/* Attention rates by phase, length and head size: a causal sequence, its gradient, and queries over
 * a cache, each on a grid of sizes (grid.h), called as by the executor. All ranks of a job measure
 * at once (kernels.h). Owns nothing lasting. */
#ifndef SW_CALIBRATE_ATTENTION_H
#define SW_CALIBRATE_ATTENTION_H

#include "runner/calibrate/grid.h"

/* Largest number of lengths. */
int32_t sw_attention_levels(enum sw_attention_phase phase);
/* Sizes of a grid without shares (struct sw_profile_config): the first `lengths` lengths, those
 * measured. */
void sw_attention_sizes(enum sw_attention_phase phase, int32_t lengths, struct sw_products *out);
/* FLOP of a point, counted as by its op's row (core/ops). */
double sw_attention_flops(enum sw_attention_phase phase, const struct sw_product *size);

/* Collective over `world`; every rank gets the sums over all ranks. Takes about `seconds`, with
 * fewer lengths (at least two) if all would take longer. Errors: memory, the device's, the
 * collectives'. */
int sw_calibrate_attention(struct sw_device *device, struct sw_comm *world,
                           enum sw_attention_phase phase, enum sw_rate_dtype dtype, double seconds,
                           struct sw_grid_rates *out, struct sw_error *err);

#endif
