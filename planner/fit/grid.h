/* The sides of a grid of measured sizes, and errors of prices between its points. Owns nothing. */
#ifndef SW_PLANNER_FIT_GRID_H
#define SW_PLANNER_FIT_GRID_H

#include "planner/fit/fit.h"

/* Index of a size on a side; -1: none. */
int32_t sw_fit_side_index(const double *side, int32_t count, double size);
/* Inserts into an ascending side, once; false: full. */
bool sw_fit_side_insert(double *side, int32_t *count, int32_t room, double size);
/* Keeps `room` sizes of a side, those nearest to an even spread of their logarithms; of two equally
 * near the smaller. The ends stay. */
void sw_fit_side_spread(double *side, int32_t *count, int32_t room);
/* Summarizes `count` values of predicted / measured - 1, which it sorts by magnitude: count, bias,
 * and of |error| mean, p90, worst, the median as `low`. */
void sw_fit_errors_sum(double *errors, int32_t count, struct sw_fit_summary *out);

#endif
