#include "runner/train/numbers.h"

#include <inttypes.h>
#include <math.h>

int sw_numbers_check(int64_t step, double loss, double grad_norm, struct sw_error *err)
{
    if (isfinite(loss) && isfinite(grad_norm) && grad_norm != 0)
        return 0;
    return sw_fail(err, SW_UNMET,
                   "the %s of step %" PRId64
                   " is %s; use a lower learning_rate or more warmup_steps",
                   isfinite(loss) ? "gradient norm" : "loss", step,
                   isfinite(loss) && isfinite(grad_norm) ? "zero, so nothing is learned any more"
                                                         : "not finite");
}
