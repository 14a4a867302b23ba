/* What attention reaches by phase, length and head size: a causal sequence, its gradient, and
 * queries over a cache, each of a grid of sizes (grid.h), called as the executor calls them. All
 * ranks of a job measure at the same time (kernels.h). Owns nothing that lasts. */
#ifndef SW_CALIBRATE_ATTENTION_H
#define SW_CALIBRATE_ATTENTION_H

#include "runner/calibrate/grid.h"

/* Numbers of lengths at most. */
int32_t sw_attention_levels(enum sw_attention_phase phase);
/* The sizes of a grid without shares (struct sw_profile_config): of lengths the first so many, as
 * were measured. */
void sw_attention_sizes(enum sw_attention_phase phase, int32_t lengths, struct sw_products *out);
/* FLOP of a point: as the rows of its op count them (core/ops). */
double sw_attention_flops(enum sw_attention_phase phase, const struct sw_product *size);

/* Collective over `world`; every rank gets the sums over all ranks. Takes about `seconds`, with
 * fewer lengths where all would take longer, and at least two. Errors: memory, the device's, the
 * collectives'. */
int sw_calibrate_attention(struct sw_device *device, struct sw_comm *world,
                           enum sw_attention_phase phase, enum sw_rate_dtype dtype, double seconds,
                           struct sw_grid_rates *out, struct sw_error *err);

#endif
