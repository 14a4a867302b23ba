#include "core/model/recompute.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* clang-format off: a table */
#define IF(member) offsetof(struct sw_model, member)
const struct sw_layer_value sw_layer_values[] = {
    {"n1", "the layer's input, normalized: what the attention projections read", 0},
    {"q0", "queries, as projected", 0},
    {"q0+b", "queries with their bias", IF(qkv_bias)},
    {"k0", "keys, as projected", 0},
    {"k0+b", "keys with their bias", IF(qkv_bias)},
    {"v0", "values of attention, as projected", 0},
    {"v0+b", "values of attention with their bias", IF(qkv_bias)},
    {"qn", "queries, each head normalized", IF(qk_norm)},
    {"kn", "keys, each head normalized", IF(qk_norm)},
    {"q1", "queries with their rotary positions", 0},
    {"k1", "keys with their rotary positions", 0},
    {"k2", "keys, copied for ranks of tp that share a kv head", 0},
    {"v2", "values of attention, copied likewise", 0},
    {"o", "attention's result, before its output projection", 0},
    {"lse", "log-sum-exp of each row of attention scores", 0},
    {"y", "the residual stream behind attention", 0},
    {"n2", "the same, normalized: what the MLP reads", 0},
    {"gate", "the MLP's gate projection", 0},
    {"gate+b", "the same with its bias", IF(mlp_bias)},
    {"up", "the MLP's up projection", 0},
    {"up+b", "the same with its bias", IF(mlp_bias)},
    {"h", "gate and up combined: what the MLP's down projection reads", 0},
    {NULL, NULL, 0},
};
#undef IF
/* clang-format on */
_Static_assert(sizeof sw_layer_values / sizeof sw_layer_values[0] <= SW_MOST_LAYER_VALUES,
               "a bit for every value, and one more");

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

int32_t sw_layer_value_find(const char *name)
{
    for (int32_t i = 0; sw_layer_values[i].name != NULL; i++)
        if (strcmp(sw_layer_values[i].name, name) == 0)
            return i;
    return -1;
}

uint32_t sw_layer_values_named(const char *list)
{
    uint32_t values = 0;
    while (*list != '\0' && *list != ']') {
        char name[16];
        const size_t length = strcspn(list, ", ]");
        snprintf(name, sizeof name, "%.*s", (int)length, list);
        const int32_t ordinal = sw_layer_value_find(name);
        values |= ordinal >= 0 ? UINT32_C(1) << ordinal : 0;
        list += length;
        list += strspn(list, ", ");
    }
    return values;
}

uint32_t sw_layer_values_before(const char *name)
{
    return (UINT32_C(1) << sw_layer_value_find(name)) - 1;
}

const char *sw_layer_values_format(uint32_t values, char buffer[SW_VALUES_BYTES])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; sw_layer_values[i].name != NULL; i++)
        if (values >> i & 1u)
            used += (size_t)snprintf(buffer + used, SW_VALUES_BYTES - used, "%s%s",
                                     used > 0 ? ", " : "", sw_layer_values[i].name);
    return buffer;
}

uint32_t sw_model_layer_values(const struct sw_model *model)
{
    uint32_t values = 0;
    for (int32_t i = 0; sw_layer_values[i].name != NULL; i++)
        if (sw_layer_values[i].wanted == 0 ||
            *((const char *)model + sw_layer_values[i].wanted) != 0)
            values |= UINT32_C(1) << i;
    return values;
}
