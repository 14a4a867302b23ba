/* Values that backward recomputes instead of keeping: some in the first layers of a model, and
 * possibly fewer in the others.
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
    int32_t layers;              /* number of first layers; more than the model has: all */
    struct sw_layer_values rest; /* values in the other layers */
};

struct sw_recompute sw_recompute_none(void);
struct sw_recompute sw_recompute_full(void);
/* Recomputes those values in every layer. */
struct sw_recompute sw_recompute_all(struct sw_layer_values values);

/* The equal recomputation for a model of that many layers in normal form, used by decisions and
 * keys: {0} for nothing, sw_recompute_full for all; else at most the model's layers, and no rest if
 * these are all. */
struct sw_recompute sw_recompute_normal(struct sw_recompute recompute, int32_t layers);
bool sw_recompute_equal(struct sw_recompute a, struct sw_recompute b);

/* "none", "partial", "full", NULL */
extern const char *const sw_recompute_words[];
/* Word for one in normal form. */
const char *sw_recompute_word(struct sw_recompute recompute);
/* "none", "full", "n1 in all layers, h in the first 20 of 32 layers"; for one in normal form, in a
 * model of so many layers (0: unknown). Returns buffer. */
const char *sw_recompute_describe(struct sw_recompute recompute, int32_t layers,
                                  char buffer[SW_RECOMPUTE_BYTES]);

#endif
