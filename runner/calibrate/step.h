/* A short training step over all ranks at the end of a calibration: `plan`'s prediction from the
 * written files against the measured time. */
#ifndef SW_CALIBRATE_STEP_H
#define SW_CALIBRATE_STEP_H

#include "runner/rank/rank.h"

/* Collective, once the ranks met: runs a step of the rank's plan, with its programs, or else of a
 * transformer sized for the device, with dp = nodes and tp = ranks of a node. Tokens are random.
 * The rank then has its programs, communicator and executor. *seconds: a median, equal on every
 * rank. Errors, in rank->err: memory, the device's, the collectives'. */
int sw_calibrate_step(struct sw_rank *rank, int32_t nodes, double *seconds);

#endif
