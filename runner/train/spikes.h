/* Spikes: steps whose loss or gradient norm is far above those of the steps before.
 *
 * Mean and variance are those of all steps seen until there were `spike_window` of them, then
 * exponentially weighted with 1/spike_window (Finch 2009, "Incremental calculation of weighted mean
 * and variance"): a state of a few numbers, which checkpoints hold. A step is a spike where either
 * number is not finite or, once so many steps were seen, more than spike_threshold standard
 * deviations above its mean, as in OLMo's skip-step optimizer (OLMo Team 2024: 6 of 128 steps); a
 * deviation counts 0.1 % of the mean at least. A spike enters neither figure. Every rank has the
 * same numbers and decides alike. Pure functions. */
#ifndef SW_TRAIN_SPIKES_H
#define SW_TRAIN_SPIKES_H

#include "core/checkpoint/manifest.h"
#include "core/config/config.h"

/* The largest loss and gradient norm that are no spikes; finite. */
void sw_spikes_limits(const struct sw_optimizer_config *optimizer, const struct sw_spikes *spikes,
                      double *most_loss, double *most_norm);

/* Adds a step that is no spike. */
void sw_spikes_add(const struct sw_optimizer_config *optimizer, struct sw_spikes *spikes,
                   double loss, double norm);

/* "the loss is 9.25, more than 3.1, which is 6 standard deviations above its mean of 128 steps". */
const char *sw_spikes_describe(const struct sw_optimizer_config *optimizer,
                               const struct sw_spikes *spikes, double loss, double norm,
                               char text[200]);

#endif
