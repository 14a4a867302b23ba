/* The program that moves the state into a checkpoint's files. Owns nothing. */
#ifndef SW_CHECKPOINT_SNAPSHOT_H
#define SW_CHECKPOINT_SNAPSHOT_H

#include "core/checkpoint/exchange.h"

/* Builds the program `save` of the exchange's state, laid out over it. options: of the run. *out is
 * the caller's, free with sw_program_free. Errors (SW_ENVIRONMENT): memory. */
int sw_build_snapshot(const struct sw_program_options *options, const struct sw_exchange *exchange,
                      struct sw_program **out, struct sw_error *err);

#endif
