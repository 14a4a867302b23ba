/* Rates of matrix products by size: x W, x W^T and a weight's gradient, each on a grid of sizes
 * (grid.h), called as by the executor. All ranks of a job measure at once (kernels.h). Owns nothing
 * lasting. */
#ifndef SW_CALIBRATE_PRODUCTS_H
#define SW_CALIBRATE_PRODUCTS_H

#include "runner/calibrate/grid.h"

/* Sizes of a grid without shares: the first `tokens` numbers of tokens, those measured. */
void sw_products_sizes(enum sw_product_kind kind, int32_t tokens, struct sw_products *out);

/* Collective over `world`; every rank gets the sums over all ranks. Takes about `seconds`, with
 * fewer numbers of tokens (at least two) if all would take longer. device: a fresh one, whose
 * search for kernels stays short. Errors: memory, the device's, the collectives'. */
int sw_calibrate_products(struct sw_device *device, struct sw_comm *world,
                          enum sw_product_kind kind, enum sw_rate_dtype dtype, double seconds,
                          struct sw_grid_rates *out, struct sw_error *err);

#endif
