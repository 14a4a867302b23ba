/* Recompute sets by number and by name, for tests of variants. */
#ifndef SW_TEST_RECOMPUTE_H
#define SW_TEST_RECOMPUTE_H

#include "core/programs/compile.h"

#include <stdlib.h>
#include <string.h>

/* Values of a model's layers; NULL: a model without biases and head norms. */
static inline struct sw_layer_values sw_test_layer_values(const struct sw_model *model)
{
    static const struct sw_model plain = {.layers = 1};
    struct sw_layer_values values;
    if (sw_program_layer_values(model != NULL ? model : &plain, NULL, &values, NULL) != 0)
        abort();
    return values;
}

/* Set from a list of names, "n1, h", all values of the model. */
static inline struct sw_layer_values sw_test_values(const struct sw_model *model, const char *list)
{
    const struct sw_layer_values has = sw_test_layer_values(model);
    struct sw_layer_values set = {0};
    while (*list != '\0') {
        char name[SW_LAYER_NAME_BYTES] = "";
        const size_t length = strcspn(list, ", ");
        memcpy(name, list, length < sizeof name ? length : sizeof name - 1);
        const int32_t ordinal = sw_layer_value_find(name);
        if (ordinal < 0 || !sw_layer_values_has(has, ordinal))
            abort();
        sw_layer_values_add(&set, ordinal);
        list += length;
        list += strspn(list, ", ");
    }
    return set;
}

/* Values that a layer computes before the named one. */
static inline struct sw_layer_values sw_test_values_before(const struct sw_model *model,
                                                           const char *name)
{
    return sw_layer_values_before(sw_test_layer_values(model), name);
}

/* Values of a model whose number in the layer is a set bit. */
static inline struct sw_layer_values sw_test_values_at(struct sw_layer_values has, uint64_t bits)
{
    struct sw_layer_values set = {0};
    int32_t count = 0;
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (sw_layer_values_has(has, i) && bits >> count++ % 64 & 1u)
            sw_layer_values_add(&set, i);
    return set;
}

/* Set for a number. 0: none, 1: values before attention, 2: all; larger: random values, in some of
 * the first layers, every other time partly in the rest too. */
static inline struct sw_recompute sw_test_recompute(uint32_t number, const struct sw_model *model,
                                                    int32_t layers)
{
    if (number < 3)
        return number == 0   ? sw_recompute_none()
               : number == 2 ? sw_recompute_full()
                             : sw_recompute_all(sw_test_values_before(model, "o"));
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    const struct sw_layer_values has = sw_test_layer_values(model);
    const struct sw_layer_values values = sw_test_values_at(has, x >> 32);
    const struct sw_layer_values rest =
        sw_layer_values_common(values, sw_test_values_at(has, x & 1 ? x >> 12 & UINT32_MAX : 0));
    return (struct sw_recompute){values, 1 + (int32_t)((x >> 8 & 0xffff) % (uint64_t)layers), rest};
}

#endif
