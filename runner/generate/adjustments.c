#include "runner/generate/adjustments.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool sw_adjustments_create(int64_t slots, int64_t most, struct sw_adjustments *out)
{
    const size_t all = (size_t)slots * (size_t)most;
    *out = (struct sw_adjustments){.slots = slots,
                                   .most = most,
                                   .entries =
                                       calloc(all * SW_ADJUSTMENT_NUMBERS, sizeof *out->entries),
                                   .made = calloc(all, sizeof *out->made),
                                   .count = calloc((size_t)slots, sizeof *out->count)};
    if (out->entries != NULL && out->made != NULL && out->count != NULL)
        return true;
    sw_adjustments_free(out);
    return false;
}

void sw_adjustments_free(struct sw_adjustments *a)
{
    free(a->entries);
    free(a->made);
    free(a->count);
    *a = (struct sw_adjustments){0};
}

const float *sw_adjustments_of(const struct sw_adjustments *a, int64_t slot)
{
    return a->entries + slot * a->most * SW_ADJUSTMENT_NUMBERS;
}

/* Index of the token's entry; adds a neutral one if absent. */
static int64_t find(struct sw_adjustments *a, int64_t slot, int32_t token)
{
    enum { NUMBERS = SW_ADJUSTMENT_NUMBERS };
    float *entries = a->entries + slot * a->most * NUMBERS;
    int32_t *made = a->made + slot * a->most;
    const int64_t count = a->count[slot];
    int64_t first = 0, behind = count;
    while (first < behind) {
        const int64_t middle = first + (behind - first) / 2;
        if ((int32_t)entries[middle * NUMBERS + SW_ADJUSTMENT_TOKEN] < token)
            first = middle + 1;
        else
            behind = middle;
    }
    float *to = entries + first * NUMBERS;
    if (first < count && (int32_t)to[SW_ADJUSTMENT_TOKEN] == token)
        return first;
    assert(count < a->most);
    memmove(to + NUMBERS, to, (size_t)(count - first) * NUMBERS * sizeof *to);
    memmove(made + first + 1, made + first, (size_t)(count - first) * sizeof *made);
    to[SW_ADJUSTMENT_TOKEN] = (float)token;
    to[SW_ADJUSTMENT_BIAS] = to[SW_ADJUSTMENT_PENALTY] = 0;
    made[first] = 0;
    a->count[slot]++;
    return first;
}

static float *entry_of(struct sw_adjustments *a, int64_t slot, int64_t at)
{
    return a->entries + (slot * a->most + at) * SW_ADJUSTMENT_NUMBERS;
}

void sw_adjustments_begin(struct sw_adjustments *a, int64_t slot, const struct sw_biases *biases,
                          bool bans)
{
    a->count[slot] = 0;
    for (int32_t i = 0; biases != NULL && i < biases->count; i++)
        entry_of(a, slot, find(a, slot, biases->token[i]))[SW_ADJUSTMENT_BIAS] = biases->bias[i];
    for (int32_t i = 0; biases != NULL && bans && i < biases->banned_count; i++)
        entry_of(a, slot, find(a, slot, biases->banned[i]))[SW_ADJUSTMENT_BIAS] = SW_BANNED_BIAS;
}

void sw_adjustments_allow(struct sw_adjustments *a, int64_t slot, const struct sw_biases *biases)
{
    for (int32_t i = 0; i < biases->banned_count; i++)
        entry_of(a, slot, find(a, slot, biases->banned[i]))[SW_ADJUSTMENT_BIAS] = 0;
    for (int32_t i = 0; i < biases->count; i++)
        entry_of(a, slot, find(a, slot, biases->token[i]))[SW_ADJUSTMENT_BIAS] = biases->bias[i];
}

void sw_adjustments_made(struct sw_adjustments *a, int64_t slot, int32_t token, double presence,
                         double frequency)
{
    const int64_t at = find(a, slot, token);
    const int32_t made = ++a->made[slot * a->most + at];
    entry_of(a, slot, at)[SW_ADJUSTMENT_PENALTY] = (float)(presence + made * frequency);
}
