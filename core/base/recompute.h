/* What backward makes again instead of keeping it: some values in the first layers of a model, and
 * perhaps fewer in the rest of them.
 *
 * Plain values: nothing to free. */
#ifndef SW_RECOMPUTE_H
#define SW_RECOMPUTE_H

#include "core/base/layer_values.h"

#include <stddef.h>

enum { SW_ALL_LAYERS = INT32_MAX, SW_RECOMPUTE_BYTES = 2 * SW_VALUES_BYTES + 96 };

/* {0}: nothing. */
struct sw_recompute {
    struct sw_layer_values values;
    int32_t layers;              /* the first ones; more than there are: all */
    struct sw_layer_values rest; /* the same of the other layers */
};

struct sw_recompute sw_recompute_none(void);
struct sw_recompute sw_recompute_full(void);
/* Those values in every layer. */
struct sw_recompute sw_recompute_all(struct sw_layer_values values);

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

#endif
