/* Whether what was read is any use. */
#ifndef SW_CHECKPOINT_FINITE_H
#define SW_CHECKPOINT_FINITE_H

#include "core/checkpoint/placement.h"
#include "runner/rank/execute.h"

/* Looks at this rank's part of what was read from the folder, the tensors of the placement: the
 * parameters and, moments, the optimizer's state. Errors: SW_BAD_INPUT, at the folder: NaN or
 * infinity, with the name of the first tensor; SW_ENVIRONMENT. */
int sw_check_finite_loaded(struct sw_executor *executor, const struct sw_placement *placement,
                           const char *folder, bool moments, struct sw_error *err);

#endif
