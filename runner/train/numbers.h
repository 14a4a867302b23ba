/* Whether what a step gives, and what a run begins with, are any use. */
#ifndef SW_NUMBERS_H
#define SW_NUMBERS_H

#include "runner/rank/execute.h"

/* Errors (SW_UNMET): the loss is not finite, or the gradient's norm (before clipping) is not, or it
 * is zero, and then every later one is, too. */
int sw_check_finite(int64_t step, double loss, double grad_norm, struct sw_error *err);

/* Looks at this rank's part of what was read from the folder: the parameters and, moments, the
 * optimizer's state. Errors: SW_BAD_INPUT, at the folder: NaN or infinity, with the name of the
 * first tensor; SW_ENVIRONMENT. */
int sw_check_finite_loaded(struct sw_executor *executor, const char *folder, bool moments,
                           struct sw_error *err);

#endif
