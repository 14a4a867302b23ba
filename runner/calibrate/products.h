/* What matrix products reach by their sizes: x W, x W^T and a weight's gradient, each of a grid of
 * sizes (grid.h), called as the executor calls them. All ranks of a job measure at the same time
 * (kernels.h). Owns nothing that lasts. */
#ifndef SW_CALIBRATE_PRODUCTS_H
#define SW_CALIBRATE_PRODUCTS_H

#include "runner/calibrate/grid.h"

/* The sizes of a grid without shares: of tokens the first so many, as were measured. */
void sw_products_sizes(enum sw_product_kind kind, int32_t tokens, struct sw_products *out);

/* Collective over `world`; every rank gets the sums over all ranks. Takes about `seconds`, with
 * fewer tokens where all would take longer, and at least two numbers of them. device: one that
 * keeps no kernels of others, which it may have to search. Errors: memory, the device's, the
 * collectives'. */
int sw_calibrate_products(struct sw_device *device, struct sw_comm *world,
                          enum sw_product_kind kind, enum sw_rate_dtype dtype, double seconds,
                          struct sw_grid_rates *out, struct sw_error *err);

#endif
