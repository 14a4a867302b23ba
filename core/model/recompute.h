/* What backward makes again instead of keeping it: some values in the first layers of a model, and
 * perhaps fewer in the rest of them.
 *
 * Owns the list of a layer's values, as builders make them and printed programs, run files and
 * plans call them. Plain values: nothing to free. */
#ifndef SW_RECOMPUTE_H
#define SW_RECOMPUTE_H

#include "core/base/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value that a layer of a decoder makes and backward may keep. A model has not all of them. Its
 * ordinal is its place in the list, in the order in which a layer makes them. */
struct sw_layer_value {
    const char *name, *about; /* for people */
    uint16_t wanted; /* the member of struct sw_model without which there is none; 0: always */
};
/* Ends with a NULL name; no more than SW_MOST_LAYER_VALUES. */
extern const struct sw_layer_value sw_layer_values[];

enum {
    SW_MOST_LAYER_VALUES = 32,
    SW_ALL_LAYERS = INT32_MAX,
    SW_VALUES_BYTES = 160,
    SW_RECOMPUTE_BYTES = 384
};
#define SW_ALL_VALUES UINT32_MAX /* whatever the model has */

/* {0}: nothing. */
struct sw_recompute {
    uint32_t values; /* those of these ordinals: 1 << ordinal */
    int32_t layers;  /* the first ones; more than there are: all */
    uint32_t rest;   /* the same of the other layers */
};

static inline struct sw_recompute sw_recompute_none(void)
{
    return (struct sw_recompute){0, 0, 0};
}

static inline struct sw_recompute sw_recompute_full(void)
{
    return (struct sw_recompute){SW_ALL_VALUES, SW_ALL_LAYERS, 0};
}

/* Those values in every layer. */
static inline struct sw_recompute sw_recompute_all(uint32_t values)
{
    return (struct sw_recompute){values, values != 0 ? SW_ALL_LAYERS : 0, 0};
}

/* The same recomputation of a model of so many layers in the one form that decisions and keys have:
 * nothing as {0}, all as sw_recompute_full; else no more layers than there are, and where these are
 * all, no rest. */
struct sw_recompute sw_recompute_normal(struct sw_recompute recompute, int32_t layers);
bool sw_recompute_equal(struct sw_recompute a, struct sw_recompute b);

/* "none", "partial", "full", NULL */
extern const char *const sw_recompute_words[];
/* One of these, of a normal one. */
const char *sw_recompute_word(struct sw_recompute recompute);
/* "none", "full", "n1 in all layers, h in the first 20 of 32 layers"; of a normal one, of a model
 * of so many layers (0: not known). Returns buffer. */
const char *sw_recompute_describe(struct sw_recompute recompute, int32_t layers,
                                  char buffer[SW_RECOMPUTE_BYTES]);

/* The ordinal of that name, -1: none. */
int32_t sw_layer_value_find(const char *name);
/* The set that a list of names is: "n1, h", up to its end or a bracket. What is no name is passed
 * over. */
uint32_t sw_layer_values_named(const char *list);
/* Those that a layer makes before the one of that name, which is in the list. */
uint32_t sw_layer_values_before(const char *name);
/* "n1, h", in the order of a layer. Returns buffer. */
const char *sw_layer_values_format(uint32_t values, char buffer[SW_VALUES_BYTES]);

/* The values that layers of this model may have, whatever the mesh. */
uint32_t sw_model_layer_values(const struct sw_model *model);

#endif
