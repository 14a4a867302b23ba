/* Which of several nodes is slow: a pure rule over what each of them reached. */
#ifndef SW_PREFLIGHT_JUDGE_H
#define SW_PREFLIGHT_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

/* A node is out of its band when it reaches less than 1/SW_JUDGE_FACTOR of what the middle one of
 * the nodes does, and less than is predicted. Healthy nodes of one kind differ by a tenth; other
 * jobs on a shared network may take half. */
enum { SW_JUDGE_FACTOR = 3 };

/* rate[count]: larger is better; 0 and less: the node could not do it at all; NaN: not tried, and
 * not judged. predicted: infinite where there is no prediction. slow[count] is set. Returns how
 * many are slow. With two nodes the faster one is the middle. */
int32_t sw_judge(const double *rate, int32_t count, double predicted, bool *slow);

/* Middle of those that are numbers, the upper one of two; NaN: there is none. */
double sw_judge_middle(const double *rate, int32_t count);

/* The node that node i of `count` talks to in that round (0 <= round < sw_judge_rounds(count)), -1:
 * it has a rest. Over all rounds every two nodes meet once, and nobody talks to two at a time (the
 * circle of a tournament). */
int32_t sw_judge_rounds(int32_t count);
int32_t sw_judge_partner(int32_t i, int32_t round, int32_t count);

#endif
