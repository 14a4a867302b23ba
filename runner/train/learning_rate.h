/* Learning rate of a step. Pure. */
#ifndef SW_TRAIN_LEARNING_RATE_H
#define SW_TRAIN_LEARNING_RATE_H

#include "core/config/config.h"

/* step from 1. Linear warm-up over warmup_steps, then constant, or down to min_learning_rate at
 * total_steps and constant after: linear; half a cosine (Loshchilov & Hutter 2017); wsd, linear in
 * the last decay_steps only (warm-up, stable, decay: MiniCPM, Hu et al. 2024). inverse_sqrt is
 * learning_rate sqrt(warmup_steps / step) (Vaswani et al. 2017) without an end, at least
 * min_learning_rate. */
double sw_learning_rate(const struct sw_optimizer_config *optimizer, int64_t step);

/* True if the rate is 0 after the schedule's end and `last`, the run's last step, lies there;
 * `note` then says so. */
bool sw_learning_rate_is_over(const struct sw_optimizer_config *optimizer, int64_t last, char *note,
                              size_t bytes);

#endif
