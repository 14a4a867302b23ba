/* Finds slow nodes among several: a pure rule on their rates. */
#ifndef SW_PREFLIGHT_JUDGE_H
#define SW_PREFLIGHT_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

/* A node is slow below 1/SW_JUDGE_FACTOR of the middle node's rate and below the prediction.
 * Healthy nodes of one kind differ by a tenth; other jobs on a shared network may take half. */
enum { SW_JUDGE_FACTOR = 3 };

/* rate[count]: larger is better; <= 0: the node failed; NaN: not tried, not judged. predicted:
 * infinite if unknown. Sets slow[count]; returns the number of slow nodes. Of two nodes the faster
 * is the middle. */
int32_t sw_judge(const double *rate, int32_t count, double predicted, bool *slow);

/* Median of the rates that are not NaN, the upper one of two; NaN: none. */
double sw_judge_middle(const double *rate, int32_t count);

/* Partner of node i of `count` in a round (0 <= round < sw_judge_rounds(count)); -1: it rests. Over
 * all rounds every two nodes meet once, with one partner at a time (round-robin tournament). */
int32_t sw_judge_rounds(int32_t count);
int32_t sw_judge_partner(int32_t i, int32_t round, int32_t count);

#endif
