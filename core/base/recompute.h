/* What backward makes again instead of keeping it: some values in the first layers of a model, and
 * perhaps fewer in the rest of them. The values are the program's own: the builder of a model names
 * them while it builds a layer (core/models).
 *
 * Plain values: nothing to free. */
#ifndef SW_RECOMPUTE_H
#define SW_RECOMPUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SW_LAYER_NAME_BYTES = 16,
    SW_MOST_LAYER_VALUES = 32,
    SW_ALL_LAYERS = INT32_MAX,
    SW_VALUES_BYTES = SW_MOST_LAYER_VALUES * (SW_LAYER_NAME_BYTES + 1),
    SW_RECOMPUTE_BYTES = 2 * SW_VALUES_BYTES + 96
};

/* A value that a layer makes and backward may keep, as printed programs, run files and plans call
 * it. */
struct sw_layer_value {
    char name[SW_LAYER_NAME_BYTES];
    const char *about; /* for people; in static memory */
};
/* Those of a model, in the order in which a layer makes them. A value's ordinal is its place. */
struct sw_layer_values {
    struct sw_layer_value of[SW_MOST_LAYER_VALUES];
    int32_t count;
};

#define SW_ALL_VALUES UINT32_MAX /* whatever the model has */

/* {0}: nothing. */
struct sw_recompute {
    uint32_t values; /* of a layer: 1 << ordinal */
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
 * of so many layers (0: not known) that have these values. Returns buffer. */
const char *sw_recompute_describe(struct sw_recompute recompute,
                                  const struct sw_layer_values *values, int32_t layers,
                                  char buffer[SW_RECOMPUTE_BYTES]);

/* The ordinal of that name, the next one where it has none. -1: the name is too long, or there are
 * too many. about: in static memory. */
int32_t sw_layer_values_add(struct sw_layer_values *values, const char *name, const char *about);
/* The ordinal of that name, -1: none. */
int32_t sw_layer_values_find(const struct sw_layer_values *values, const char *name);
/* Those that a layer makes before the one of that name; all where there is none. */
uint32_t sw_layer_values_before(const struct sw_layer_values *values, const char *name);
/* "n1, h", in the order of a layer. Returns buffer. */
const char *sw_layer_values_format(const struct sw_layer_values *values, uint32_t set,
                                   char buffer[SW_VALUES_BYTES]);

#endif
