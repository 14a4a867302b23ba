/* What backward makes again instead of keeping it: some values in the first layers of a model, and
 * perhaps fewer in the rest of them.
 *
 * Owns the names of a layer's values as printed programs, run files and plans have them. Plain
 * values: nothing to free. */
#ifndef SW_RECOMPUTE_H
#define SW_RECOMPUTE_H

#include "core/base/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which a layer makes them. A model has not all of them: biases (`+b`), norms of
 * heads (qn, kn) and copies of kv heads (k2, v2) are of some only. */
enum sw_layer_value {
    SW_VALUE_N1,
    SW_VALUE_Q0,
    SW_VALUE_Q0_BIASED,
    SW_VALUE_K0,
    SW_VALUE_K0_BIASED,
    SW_VALUE_V0,
    SW_VALUE_V0_BIASED,
    SW_VALUE_QN,
    SW_VALUE_KN,
    SW_VALUE_Q1,
    SW_VALUE_K1,
    SW_VALUE_K2,
    SW_VALUE_V2,
    SW_VALUE_O,
    SW_VALUE_LSE,
    SW_VALUE_Y,
    SW_VALUE_N2,
    SW_VALUE_GATE,
    SW_VALUE_GATE_BIASED,
    SW_VALUE_UP,
    SW_VALUE_UP_BIASED,
    SW_VALUE_H,
    SW_LAYER_VALUES
};

enum { SW_ALL_LAYERS = INT32_MAX, SW_VALUES_BYTES = 160, SW_RECOMPUTE_BYTES = 384 };
#define SW_ALL_VALUES ((UINT32_C(1) << SW_LAYER_VALUES) - 1)

/* {0}: nothing. */
struct sw_recompute {
    uint32_t values; /* a bit for each enum sw_layer_value; SW_ALL_VALUES: whatever the model has */
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

/* The name of one value, in static memory. */
const char *sw_layer_value_name(enum sw_layer_value value);
/* What it is, for people, in static memory. */
const char *sw_layer_value_about(enum sw_layer_value value);
/* The value of that name, -1: none. */
int32_t sw_layer_value_find(const char *name);
/* "n1, h", in the order of a layer. Returns buffer. */
const char *sw_layer_values_format(uint32_t values, char buffer[SW_VALUES_BYTES]);

/* The values that layers of this model may have, whatever the mesh. */
uint32_t sw_model_layer_values(const struct sw_model *model);
/* What comes before attention in a layer, whose result is kept: what a run file once called
 * before_attention. */
uint32_t sw_values_before_attention(void);

#endif
