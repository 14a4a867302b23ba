/* Spikes: steps with loss or gradient norm far above earlier ones.
 *
 * Mean and variance cover all steps until there are `spike_window`, then are exponentially weighted
 * with 1/spike_window (Finch 2009, "Incremental calculation of weighted mean and variance"): a few
 * numbers, kept in checkpoints. A step is a spike if either number is not finite or, after
 * spike_window steps, exceeds its mean by more than spike_threshold standard deviations, as in
 * OLMo's skip-step optimizer (OLMo Team 2024: 6 of 128 steps); a standard deviation is at least 0.1
 * % of the mean. Spikes enter neither figure. Every rank has the same numbers and decides alike.
 * Pure functions. */
#ifndef SW_TRAIN_SPIKES_H
#define SW_TRAIN_SPIKES_H

#include "core/checkpoint/manifest.h"
#include "core/config/config.h"

/* Largest loss and gradient norm that are not spikes; finite. */
void sw_spikes_limits(const struct sw_optimizer_config *optimizer, const struct sw_spikes *spikes,
                      double *most_loss, double *most_norm);

/* Adds a step that is not a spike. */
void sw_spikes_add(const struct sw_optimizer_config *optimizer, struct sw_spikes *spikes,
                   double loss, double norm);

/* "the loss is 9.25, more than 3.1, which is 6 standard deviations above its mean of 128 steps". */
const char *sw_spikes_describe(const struct sw_optimizer_config *optimizer,
                               const struct sw_spikes *spikes, double loss, double norm,
                               char text[200]);

#endif
