/* The sides of a grid of measured sizes. */
#include "planner/fit/grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t sw_fit_side_index(const double *side, int32_t count, double size)
{
    int32_t i = 0;
    while (i < count && side[i] != size)
        i++;
    return i < count ? i : -1;
}

bool sw_fit_side_insert(double *side, int32_t *count, int32_t room, double size)
{
    int32_t at = 0;
    while (at < *count && side[at] < size)
        at++;
    if (at < *count && side[at] == size)
        return true;
    if (*count == room)
        return false;
    memmove(&side[at + 1], &side[at], (size_t)(*count - at) * sizeof *side);
    side[at] = size;
    ++*count;
    return true;
}

void sw_fit_side_spread(double *side, int32_t *count, int32_t room)
{
    const double from = log(side[0]), to = log(side[*count - 1]);
    int32_t kept = 0;
    if (*count <= room)
        return;
    for (int32_t i = 0, next = 0; i < room; i++) {
        const double wanted = from + (to - from) * i / (room - 1);
        /* keep as many of the rest as are still wanted */
        while (next + 1 <= *count - (room - i) &&
               fabs(log(side[next + 1]) - wanted) < fabs(log(side[next]) - wanted) - 1e-9)
            next++;
        side[kept++] = side[next++];
    }
    *count = kept;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sw_fit_errors_sum(double *errors, int32_t count, struct sw_fit_summary *out)
{
    *out = (struct sw_fit_summary){.count = count};
    if (count == 0)
        return;
    for (int32_t i = 0; i < count; i++) {
        out->bias += (1 / (1 + errors[i]) - 1) / count;
        errors[i] = fabs(errors[i]);
    }
    qsort(errors, (size_t)count, sizeof *errors, compare);
    for (int32_t i = 0; i < count; i++)
        out->mean += errors[i] / count;
    out->low = errors[count / 2];
    out->p90 = errors[count > 2 ? (count - 1) * 9 / 10 : count - 1]; /* at least the median */
    out->worst = errors[count - 1];
}
