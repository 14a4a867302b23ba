#include "core/base/blockwise.h"

#include <stdlib.h>

enum { DECADES = 7 };

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void sw_blockwise_fill(bool has_sign, struct sw_blockwise_table *out)
{
    double entry[SW_BLOCKWISE_CODES] = {0, 1}, decade = 1;
    int32_t count = 2, parts = has_sign ? 64 : 128;
    for (int32_t d = 0; d < DECADES; d++, decade /= 10, parts /= 2)
        for (int32_t i = 0; i < parts; i++) {
            const double middle = decade * (0.1 + 0.9 * (i + 0.5) / parts);
            entry[count++] = middle;
            if (has_sign)
                entry[count++] = -middle;
        }
    qsort(entry, SW_BLOCKWISE_CODES, sizeof *entry, ascending);
    for (int32_t i = 0; i < SW_BLOCKWISE_CODES; i++)
        out->value[i] = (float)entry[i];
    for (int32_t i = 0; i < SW_BLOCKWISE_CODES - 1; i++)
        out->middle[i] = (float)((entry[i] + entry[i + 1]) / 2);
}

int64_t sw_blockwise_elems(int64_t row_elems)
{
    for (int64_t ranks = 8; ranks > 0; ranks /= 2)
        for (int64_t elems = SW_BLOCKWISE_MOST; elems >= SW_BLOCKWISE_LEAST; elems /= 2)
            if (row_elems % (ranks * elems) == 0)
                return elems;
    return 0;
}
