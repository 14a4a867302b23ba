/* Whether what a step gives is any use. */
#ifndef SW_CHECK_FINITE_H
#define SW_CHECK_FINITE_H

#include "core/base/error.h"

/* Errors (SW_UNMET): the loss is not finite, or the gradient's norm (before clipping) is not, or it
 * is zero, and then every later one is, too. */
int sw_check_finite(int64_t step, double loss, double grad_norm, struct sw_error *err);

#endif
