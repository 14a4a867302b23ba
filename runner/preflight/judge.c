#include "runner/preflight/judge.h"

#include "core/base/number.h"

#include <math.h>
#include <stdlib.h>

double sw_judge_middle(const double *rate, int32_t count)
{
    double *known = calloc((size_t)(count > 0 ? count : 1), sizeof *known);
    int32_t n = 0;
    for (int32_t i = 0; known != NULL && i < count; i++)
        if (!isnan(rate[i]))
            known[n++] = rate[i];
    if (n > 0)
        qsort(known, (size_t)n, sizeof *known, sw_compare_doubles);
    const double middle = n > 0 ? known[n / 2] : NAN;
    free(known);
    return middle;
}

int32_t sw_judge(const double *rate, int32_t count, double predicted, bool *slow)
{
    const double middle = sw_judge_middle(rate, count);
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++) {
        slow[i] = !isnan(rate[i]) &&
                  (rate[i] <= 0 || (rate[i] < predicted && rate[i] * SW_JUDGE_FACTOR < middle));
        found += slow[i];
    }
    return found;
}

int32_t sw_judge_rounds(int32_t count)
{
    return count < 2 ? 0 : count + count % 2 - 1;
}

int32_t sw_judge_partner(int32_t i, int32_t round, int32_t count)
{
    const int32_t circle = sw_judge_rounds(count); /* circle of all but the centre */
    int32_t partner;
    if (i == circle) {
        partner = 0;
        while (2 * partner % circle != round)
            partner++;
    } else {
        partner = ((round - i) % circle + circle) % circle;
        if (partner == i)
            partner = circle;
    }
    return partner < count ? partner : -1;
}
