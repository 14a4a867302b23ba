#include "core/base/recompute.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {[SW_VALUE_N1] = "n1",
                                    [SW_VALUE_Q0] = "q0",
                                    [SW_VALUE_Q0_BIASED] = "q0+b",
                                    [SW_VALUE_K0] = "k0",
                                    [SW_VALUE_K0_BIASED] = "k0+b",
                                    [SW_VALUE_V0] = "v0",
                                    [SW_VALUE_V0_BIASED] = "v0+b",
                                    [SW_VALUE_QN] = "qn",
                                    [SW_VALUE_KN] = "kn",
                                    [SW_VALUE_Q1] = "q1",
                                    [SW_VALUE_K1] = "k1",
                                    [SW_VALUE_K2] = "k2",
                                    [SW_VALUE_V2] = "v2",
                                    [SW_VALUE_O] = "o",
                                    [SW_VALUE_LSE] = "lse",
                                    [SW_VALUE_Y] = "y",
                                    [SW_VALUE_N2] = "n2",
                                    [SW_VALUE_GATE] = "gate",
                                    [SW_VALUE_GATE_BIASED] = "gate+b",
                                    [SW_VALUE_UP] = "up",
                                    [SW_VALUE_UP_BIASED] = "up+b",
                                    [SW_VALUE_H] = "h"};
_Static_assert(sizeof names / sizeof names[0] == SW_LAYER_VALUES, "a name for every value");
_Static_assert(SW_LAYER_VALUES < 32, "a bit for every value");

struct sw_recompute sw_recompute_normal(struct sw_recompute recompute, int32_t layers)
{
    if (recompute.layers <= 0 || recompute.values == recompute.rest)
        recompute = (struct sw_recompute){recompute.layers <= 0 ? recompute.rest : recompute.values,
                                          layers, 0};
    if (recompute.layers >= layers)
        recompute = (struct sw_recompute){recompute.values, layers, 0};
    if (recompute.values == 0 && recompute.rest == 0)
        return sw_recompute_none();
    if (recompute.values == SW_ALL_VALUES && recompute.layers == layers)
        return sw_recompute_full();
    return recompute;
}

bool sw_recompute_equal(struct sw_recompute a, struct sw_recompute b)
{
    return a.values == b.values && a.layers == b.layers && a.rest == b.rest;
}

const char *const sw_recompute_words[] = {"none", "partial", "full", NULL};

const char *sw_recompute_word(struct sw_recompute recompute)
{
    if (sw_recompute_equal(recompute, sw_recompute_none()))
        return sw_recompute_words[0];
    return sw_recompute_words[sw_recompute_equal(recompute, sw_recompute_full()) ? 2 : 1];
}

static const char *describe_values(uint32_t values, char buffer[SW_VALUES_BYTES])
{
    return values == SW_ALL_VALUES ? "all"
           : values == 0           ? "nothing"
                                   : sw_layer_values_format(values, buffer);
}

const char *sw_recompute_describe(struct sw_recompute recompute, char buffer[SW_RECOMPUTE_BYTES])
{
    char values[SW_VALUES_BYTES], rest[SW_VALUES_BYTES];
    const char *word = sw_recompute_word(recompute);
    const uint32_t more = recompute.values & ~recompute.rest;
    const int layers = (int)recompute.layers;
    const char *const plural = layers == 1 ? "" : "s";
    if (strcmp(word, "partial") != 0)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s", word);
    else if (recompute.rest == 0)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in the first %d layer%s",
                 describe_values(recompute.values, values), layers, plural);
    else if ((recompute.rest & ~recompute.values) == 0 && recompute.values != SW_ALL_VALUES)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in all layers, %s in the first %d",
                 describe_values(recompute.rest, rest), describe_values(more, values), layers);
    else
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in the first %d layer%s, %s in the rest",
                 describe_values(recompute.values, values), layers, plural,
                 describe_values(recompute.rest, rest));
    return buffer;
}

const char *sw_layer_value_name(enum sw_layer_value value)
{
    return names[value];
}

int32_t sw_layer_value_find(const char *name)
{
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

const char *sw_layer_values_format(uint32_t values, char buffer[SW_VALUES_BYTES])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (values >> i & 1u)
            used += (size_t)snprintf(buffer + used, SW_VALUES_BYTES - used, "%s%s",
                                     used > 0 ? ", " : "", names[i]);
    return buffer;
}

uint32_t sw_model_layer_values(const struct sw_model *model)
{
    uint32_t values = SW_ALL_VALUES;
    if (!model->qkv_bias)
        values &= ~(UINT32_C(1) << SW_VALUE_Q0_BIASED | UINT32_C(1) << SW_VALUE_K0_BIASED |
                    UINT32_C(1) << SW_VALUE_V0_BIASED);
    if (!model->qk_norm)
        values &= ~(UINT32_C(1) << SW_VALUE_QN | UINT32_C(1) << SW_VALUE_KN);
    if (!model->mlp_bias)
        values &= ~(UINT32_C(1) << SW_VALUE_GATE_BIASED | UINT32_C(1) << SW_VALUE_UP_BIASED);
    return values;
}

uint32_t sw_values_before_attention(void)
{
    return (UINT32_C(1) << SW_VALUE_O) - 1;
}
