/* Sets of a layer's values that backward may keep or recompute, by the names in printed programs,
 * run files and plans. A set has a bit for each row of layer_values.def, so the list may grow
 * without other changes. A value's ordinal is its row.
 *
 * Plain values without padding: copied with =, compared as bytes, nothing to free. */
#ifndef SW_LAYER_VALUES_H
#define SW_LAYER_VALUES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SW_LAYER_VALUES = 0
#define SW_LAYER_VALUE(name, about) +1
#include "core/base/layer_values.def"
    ,
    SW_LAYER_VALUES_WORDS = SW_LAYER_VALUES / 32 + 1, /* at least one bit has no value */
    SW_LAYER_NAME_BYTES = 16,
    SW_VALUES_BYTES = SW_LAYER_VALUES * (SW_LAYER_NAME_BYTES + 1)
};

/* {0}: none. */
struct sw_layer_values {
    uint32_t word[SW_LAYER_VALUES_WORDS];
};

const char *sw_layer_value_name(int32_t ordinal);  /* "n1" */
const char *sw_layer_value_about(int32_t ordinal); /* for people */
/* The ordinal of that name, -1: none. */
int32_t sw_layer_value_find(const char *name);

/* All values of any model: every bit, including one without a value, which no other set has. */
struct sw_layer_values sw_layer_values_all(void);
static inline bool sw_layer_values_has(struct sw_layer_values set, int32_t ordinal)
{
    return (set.word[ordinal / 32] >> ordinal % 32 & 1u) != 0;
}
static inline void sw_layer_values_add(struct sw_layer_values *set, int32_t ordinal)
{
    set->word[ordinal / 32] |= UINT32_C(1) << ordinal % 32;
}
struct sw_layer_values sw_layer_values_join(struct sw_layer_values a, struct sw_layer_values b);
struct sw_layer_values sw_layer_values_common(struct sw_layer_values a, struct sw_layer_values b);
/* Values of a that are not in b. */
struct sw_layer_values sw_layer_values_without(struct sw_layer_values a, struct sw_layer_values b);
bool sw_layer_values_empty(struct sw_layer_values set);
/* Negative, 0, positive: compares by the last value that only one of them has; the one with it is
 * greater. */
int sw_layer_values_compare(struct sw_layer_values a, struct sw_layer_values b);
static inline bool sw_layer_values_equal(struct sw_layer_values a, struct sw_layer_values b)
{
    return sw_layer_values_compare(a, b) == 0;
}
/* True if a has all of b. */
static inline bool sw_layer_values_cover(struct sw_layer_values a, struct sw_layer_values b)
{
    return sw_layer_values_empty(sw_layer_values_without(b, a));
}
/* Values of a model that a layer makes before the one of that name; all if there is none. */
struct sw_layer_values sw_layer_values_before(struct sw_layer_values of_model, const char *name);
/* "n1, h", in the order of a layer. Returns buffer. */
const char *sw_layer_values_format(struct sw_layer_values set, char buffer[SW_VALUES_BYTES]);

#endif
