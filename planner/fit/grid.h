/* The sides of a grid of measured sizes, and how far prices between its points are off. Owns
 * nothing. */
#ifndef SW_PLANNER_FIT_GRID_H
#define SW_PLANNER_FIT_GRID_H

#include "planner/fit/fit.h"

/* Where a size stands on a side; -1: nowhere. */
int32_t sw_fit_side_index(const double *side, int32_t count, double size);
/* Into an ascending side, once; false: it is full. */
bool sw_fit_side_insert(double *side, int32_t *count, int32_t room, double size);
/* Keeps `room` sizes of a side, those nearest to an even spread of their logarithms; of two as near
 * the smaller. The ends stay. */
void sw_fit_side_spread(double *side, int32_t *count, int32_t room);
/* Of `count` values of predicted / measured - 1, which it sorts without their signs: count, bias,
 * and of |error| mean, p90, worst, the median as `low`. */
void sw_fit_errors_sum(double *errors, int32_t count, struct sw_fit_summary *out);

#endif
