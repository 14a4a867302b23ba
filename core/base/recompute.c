#include "core/base/recompute.h"

#include <stdio.h>
#include <string.h>

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

static const char *describe_values(const struct sw_layer_values *values, uint32_t set,
                                   char buffer[SW_VALUES_BYTES])
{
    return set == SW_ALL_VALUES ? "all"
           : set == 0           ? "nothing"
                                : sw_layer_values_format(values, set, buffer);
}

const char *sw_recompute_describe(struct sw_recompute recompute,
                                  const struct sw_layer_values *values, int32_t layers,
                                  char buffer[SW_RECOMPUTE_BYTES])
{
    char made[SW_VALUES_BYTES], rest[SW_VALUES_BYTES], first[64];
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
                 describe_values(values, recompute.values, made));
    else if (recompute.rest == 0)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in %s",
                 describe_values(values, recompute.values, made), first);
    else if ((recompute.rest & ~recompute.values) == 0 && recompute.values != SW_ALL_VALUES)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in all layers, %s in %s",
                 describe_values(values, recompute.rest, rest), describe_values(values, more, made),
                 first);
    else
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in %s, %s in the rest",
                 describe_values(values, recompute.values, made), first,
                 describe_values(values, recompute.rest, rest));
    return buffer;
}

int32_t sw_layer_values_find(const struct sw_layer_values *values, const char *name)
{
    for (int32_t i = 0; i < values->count; i++)
        if (strcmp(values->of[i].name, name) == 0)
            return i;
    return -1;
}

int32_t sw_layer_values_add(struct sw_layer_values *values, const char *name, const char *about)
{
    const int32_t known = sw_layer_values_find(values, name);
    if (known >= 0)
        return known;
    if (values->count == SW_MOST_LAYER_VALUES || strlen(name) >= SW_LAYER_NAME_BYTES)
        return -1;
    struct sw_layer_value *value = &values->of[values->count];
    memset(value, 0, sizeof *value);
    strcpy(value->name, name);
    value->about = about;
    return values->count++;
}

uint32_t sw_layer_values_before(const struct sw_layer_values *values, const char *name)
{
    const int32_t ordinal = sw_layer_values_find(values, name);
    return ordinal < 0 ? SW_ALL_VALUES : (UINT32_C(1) << ordinal) - 1;
}

const char *sw_layer_values_format(const struct sw_layer_values *values, uint32_t set,
                                   char buffer[SW_VALUES_BYTES])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; i < values->count; i++)
        if (set >> i & 1u)
            used += (size_t)snprintf(buffer + used, SW_VALUES_BYTES - used, "%s%s",
                                     used > 0 ? ", " : "", values->of[i].name);
    return buffer;
}
