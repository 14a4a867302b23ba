#include "runner/train/check_finite.h"

#include <inttypes.h>
#include <math.h>

/* The first step's loss and gradient come from the given weights: the learning rate is not to
 * blame. */
int sw_check_finite(int64_t step, double loss, double grad_norm, struct sw_error *err)
{
    if (isfinite(loss) && isfinite(grad_norm) && grad_norm != 0)
        return 0;
    return sw_fail(err, SW_UNMET, "the %s of step %" PRId64 " is %s; %s",
                   isfinite(loss) ? "gradient norm" : "loss", step,
                   isfinite(loss) && isfinite(grad_norm) ? "zero, so nothing is learned any more"
                                                         : "not finite",
                   step == 1 ? "begin with other weights: another init.from or initializer_range"
                             : "use a lower learning_rate or more warmup_steps");
}
