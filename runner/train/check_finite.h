/* Checks the result of a step. */
#ifndef SW_CHECK_FINITE_H
#define SW_CHECK_FINITE_H

#include "core/base/error.h"

/* Errors (SW_UNMET): the loss or the gradient norm (before clipping) is not finite, or the norm is
 * zero, as it would stay. */
int sw_check_finite(int64_t step, double loss, double grad_norm, struct sw_error *err);

#endif
