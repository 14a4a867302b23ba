#include "core/base/recompute.h"

#include <stdio.h>
#include <string.h>

static bool is_all(struct sw_layer_values set)
{
    return sw_layer_values_equal(set, sw_layer_values_all());
}

struct sw_recompute sw_recompute_none(void)
{
    return (struct sw_recompute){.layers = 0};
}

struct sw_recompute sw_recompute_full(void)
{
    return (struct sw_recompute){.values = sw_layer_values_all(), .layers = SW_ALL_LAYERS};
}

struct sw_recompute sw_recompute_all(struct sw_layer_values values)
{
    return (struct sw_recompute){.values = values,
                                 .layers = sw_layer_values_empty(values) ? 0 : SW_ALL_LAYERS};
}

struct sw_recompute sw_recompute_normal(struct sw_recompute recompute, int32_t layers)
{
    const struct sw_layer_values none = {0};
    if (recompute.layers <= 0 || sw_layer_values_equal(recompute.values, recompute.rest))
        recompute = (struct sw_recompute){recompute.layers <= 0 ? recompute.rest : recompute.values,
                                          layers, none};
    if (recompute.layers >= layers)
        recompute = (struct sw_recompute){recompute.values, layers, none};
    if (sw_layer_values_empty(recompute.values) && sw_layer_values_empty(recompute.rest))
        return sw_recompute_none();
    if (is_all(recompute.values) && recompute.layers == layers)
        return sw_recompute_full();
    return recompute;
}

bool sw_recompute_equal(struct sw_recompute a, struct sw_recompute b)
{
    return sw_layer_values_equal(a.values, b.values) && a.layers == b.layers &&
           sw_layer_values_equal(a.rest, b.rest);
}

const char *const sw_recompute_words[] = {"none", "partial", "full", NULL};

const char *sw_recompute_word(struct sw_recompute recompute)
{
    if (sw_recompute_equal(recompute, sw_recompute_none()))
        return sw_recompute_words[0];
    return sw_recompute_words[sw_recompute_equal(recompute, sw_recompute_full()) ? 2 : 1];
}

static const char *describe_values(struct sw_layer_values set, char buffer[SW_VALUES_BYTES])
{
    return is_all(set)                  ? "all"
           : sw_layer_values_empty(set) ? "nothing"
                                        : sw_layer_values_format(set, buffer);
}

const char *sw_recompute_describe(struct sw_recompute recompute, int32_t layers,
                                  char buffer[SW_RECOMPUTE_BYTES])
{
    char made[SW_VALUES_BYTES], rest[SW_VALUES_BYTES], first[64];
    const char *word = sw_recompute_word(recompute);
    const struct sw_layer_values more = sw_layer_values_without(recompute.values, recompute.rest);
    const int some = (int)recompute.layers;
    if (layers > 0)
        snprintf(first, sizeof first, "the first %d of %d layers", some, (int)layers);
    else
        snprintf(first, sizeof first, "the first %d layer%s", some, some == 1 ? "" : "s");
    if (strcmp(word, "partial") != 0)
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s", word);
    else if (some == SW_ALL_LAYERS || (layers > 0 && some >= layers))
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in all layers",
                 describe_values(recompute.values, made));
    else if (sw_layer_values_empty(recompute.rest))
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in %s", describe_values(recompute.values, made),
                 first);
    else if (sw_layer_values_cover(recompute.values, recompute.rest) && !is_all(recompute.values))
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in all layers, %s in %s",
                 describe_values(recompute.rest, rest), describe_values(more, made), first);
    else
        snprintf(buffer, SW_RECOMPUTE_BYTES, "%s in %s, %s in the rest",
                 describe_values(recompute.values, made), first,
                 describe_values(recompute.rest, rest));
    return buffer;
}
