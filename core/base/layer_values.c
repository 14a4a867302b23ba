#include "core/base/layer_values.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *about;
} rows[] = {
#define SW_LAYER_VALUE(name, about) {name, about},
#include "core/base/layer_values.def"
};

/* A name fits its bytes. */
#define SW_LAYER_VALUE(name, about)                                                                \
    _Static_assert(sizeof name <= SW_LAYER_NAME_BYTES, "too long: " name);
#include "core/base/layer_values.def"

const char *sw_layer_value_name(int32_t ordinal)
{
    return rows[ordinal].name;
}

const char *sw_layer_value_about(int32_t ordinal)
{
    return rows[ordinal].about;
}

int32_t sw_layer_value_find(const char *name)
{
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (strcmp(rows[i].name, name) == 0)
            return i;
    return -1;
}

struct sw_layer_values sw_layer_values_all(void)
{
    struct sw_layer_values all;
    memset(&all, 0xff, sizeof all);
    return all;
}

struct sw_layer_values sw_layer_values_join(struct sw_layer_values a, struct sw_layer_values b)
{
    for (int32_t i = 0; i < SW_LAYER_VALUES_WORDS; i++)
        a.word[i] |= b.word[i];
    return a;
}

struct sw_layer_values sw_layer_values_common(struct sw_layer_values a, struct sw_layer_values b)
{
    for (int32_t i = 0; i < SW_LAYER_VALUES_WORDS; i++)
        a.word[i] &= b.word[i];
    return a;
}

struct sw_layer_values sw_layer_values_without(struct sw_layer_values a, struct sw_layer_values b)
{
    for (int32_t i = 0; i < SW_LAYER_VALUES_WORDS; i++)
        a.word[i] &= ~b.word[i];
    return a;
}

bool sw_layer_values_empty(struct sw_layer_values set)
{
    return sw_layer_values_equal(set, (struct sw_layer_values){0});
}

int sw_layer_values_compare(struct sw_layer_values a, struct sw_layer_values b)
{
    for (int32_t i = SW_LAYER_VALUES_WORDS; i-- > 0;)
        if (a.word[i] != b.word[i])
            return a.word[i] < b.word[i] ? -1 : 1;
    return 0;
}

struct sw_layer_values sw_layer_values_before(struct sw_layer_values of_model, const char *name)
{
    struct sw_layer_values before = {0};
    const int32_t ordinal = sw_layer_value_find(name);
    if (ordinal < 0 || !sw_layer_values_has(of_model, ordinal))
        return sw_layer_values_all();
    for (int32_t i = 0; i < ordinal; i++)
        sw_layer_values_add(&before, i);
    return sw_layer_values_common(before, of_model);
}

const char *sw_layer_values_format(struct sw_layer_values set, char buffer[SW_VALUES_BYTES])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int32_t i = 0; i < SW_LAYER_VALUES; i++)
        if (sw_layer_values_has(set, i))
            used += (size_t)snprintf(buffer + used, SW_VALUES_BYTES - used, "%s%s",
                                     used > 0 ? ", " : "", rows[i].name);
    return buffer;
}
