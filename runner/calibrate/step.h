/* One short step of training over all ranks, which a calibration ends with: what `plan` predicts
 * from the files that were written, beside what the step takes. */
#ifndef SW_CALIBRATE_STEP_H
#define SW_CALIBRATE_STEP_H

#include "runner/rank/rank.h"

/* Collective, once the ranks met: a step of the rank's plan, whose programs it has; without one of
 * a transformer over dp = nodes and tp = the ranks of a node, of a size that suits the device.
 * Tokens are drawn. The rank then has its programs, communicator and executor. *seconds: the median
 * of some, the same on every rank. Errors, in rank->err: memory, the device's, the collectives'. */
int sw_calibrate_step(struct sw_rank *rank, int32_t nodes, double *seconds);

#endif
