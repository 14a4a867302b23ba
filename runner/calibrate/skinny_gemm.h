/* How fast decoding reads weights and cache, measured where it does: tokens of small transformers
 * go through the production executor, and the time of every product and of attention is taken by
 * the rows that each weight or key meets and by what a token reads in all, which a cache of the
 * processor holds or does not. Of the many rows that a prompt has in the program `read` products
 * alone: arithmetic is most of their time.
 *
 * All ranks of a job measure at the same time, as in training (kernels.h). Owns nothing that lasts.
 */
#ifndef SW_CALIBRATE_SKINNY_GEMM_H
#define SW_CALIBRATE_SKINNY_GEMM_H

#include "runner/calibrate/kernels.h"

/* Collective over `world`; rates->skinny_gemm becomes the sums over all ranks, and what took their
 * time. Takes about `seconds`, at least one program. Errors: memory, the device's, the
 * collectives'. */
int sw_calibrate_skinny_gemm(struct sw_device *device, struct sw_comm *world, double seconds,
                             struct sw_skinny_gemm_rates *out, struct sw_error *err);

#endif
