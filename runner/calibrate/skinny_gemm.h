/* Rates at which decoding reads weights and cache: tokens of small transformers run on the
 * production executor; every product and attention is timed by the rows sharing a weight or key,
 * and by a token's total reads, which a cache holds or not. The program `read`, with the many rows
 * of a prompt, measures products only: arithmetic takes most of their time.
 *
 * All ranks of a job measure at once, as in training (kernels.h). Owns nothing lasting. */
#ifndef SW_CALIBRATE_SKINNY_GEMM_H
#define SW_CALIBRATE_SKINNY_GEMM_H

#include "runner/calibrate/kernels.h"

/* Collective over `world`; *out: sums over all ranks. Takes about `seconds`; runs at least one
 * program. Errors: memory, the device's, the collectives'. */
int sw_calibrate_skinny_gemm(struct sw_device *device, struct sw_comm *world, double seconds,
                             struct sw_skinny_gemm_rates *out, struct sw_error *err);

#endif
