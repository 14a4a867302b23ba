#include "core/base/recompute.h"

#include <stdio.h>
#include <string.h>

/* clang-format off: a table */
static const struct {
    const char *name, *about;
} values_of_a_layer[] = {
    [SW_VALUE_N1] = {"n1", "the layer's input, normalized: what the attention projections read"},
    [SW_VALUE_Q0] = {"q0", "queries, as projected"},
    [SW_VALUE_Q0_BIASED] = {"q0+b", "queries with their bias"},
    [SW_VALUE_K0] = {"k0", "keys, as projected"},
    [SW_VALUE_K0_BIASED] = {"k0+b", "keys with their bias"},
    [SW_VALUE_V0] = {"v0", "values of attention, as projected"},
    [SW_VALUE_V0_BIASED] = {"v0+b", "values of attention with their bias"},
    [SW_VALUE_QN] = {"qn", "queries, each head normalized"},
    [SW_VALUE_KN] = {"kn", "keys, each head normalized"},
    [SW_VALUE_Q1] = {"q1", "queries with their rotary positions"},
    [SW_VALUE_K1] = {"k1", "keys with their rotary positions"},
    [SW_VALUE_K2] = {"k2", "keys, copied for ranks of tp that share a kv head"},
    [SW_VALUE_V2] = {"v2", "values of attention, copied likewise"},
    [SW_VALUE_O] = {"o", "attention's result, before its output projection"},
    [SW_VALUE_LSE] = {"lse", "log-sum-exp of each row of attention scores"},
    [SW_VALUE_Y] = {"y", "the residual stream behind attention"},
    [SW_VALUE_N2] = {"n2", "the same, normalized: what the MLP reads"},
    [SW_VALUE_GATE] = {"gate", "the MLP's gate projection"},
    [SW_VALUE_GATE_BIASED] = {"gate+b", "the same with its bias"},
    [SW_VALUE_UP] = {"up", "the MLP's up projection"},
    [SW_VALUE_UP_BIASED] = {"up+b", "the same with its bias"},
    [SW_VALUE_H] = {"h", "gate and up combined: what the MLP's down projection reads"},
};
/* clang-format on */
_Static_assert(sizeof values_of_a_layer / sizeof values_of_a_layer[0] == SW_LAYER_VALUES,
               "a name for every value");
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

const char *sw_recompute_describe(struct sw_recompute recompute, int32_t layers,
                                  char buffer[SW_RECOMPUTE_BYTES])
{
    char values[SW_VALUES_BYTES], rest[SW_VALUES_BYTES], first[64];
    const char *word = sw_recompute_word(recompute);
    const uint32_t more = recompute.values & ~recompute.rest;
    const int some = (int)recompute.layers;
    if (layers > 0)
        snprintf(first, sizeof first, "the first %d of %d layers", some, (int)layers);
    else
        snprintf(first, sizeof first, "the first %d layer%s", some, some == 1 ? "" : "s");
    if (strcmp(word, "partial") != 0)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s", word);
    else if (some == SW_ALL_LAYERS || (layers > 0 && some >= layers))
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in all layers",
                 describe_values(recompute.values, values));
    else if (recompute.rest == 0)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in %s", describe_values(recompute.values, values),
                 first);
    else if ((recompute.rest & ~recompute.values) == 0 && recompute.values != SW_ALL_VALUES)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in all layers, %s in %s",
                 describe_values(recompute.rest, rest), describe_values(more, values), first);
    else
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in %s, %s in the rest",
                 describe_values(recompute.values, values), first,
                 describe_values(recompute.rest, rest));
    return buffer;
}

const char *sw_layer_value_name(enum sw_layer_value value)
{
    return values_of_a_layer[value].name;
}

const char *sw_layer_value_about(enum sw_layer_value value)
{
    return values_of_a_layer[value].about;
}

int32_t sw_layer_value_find(const char *name)
{
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (strcmp(values_of_a_layer[i].name, name) == 0)
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
                                     used > 0 ? ", " : "", values_of_a_layer[i].name);
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
