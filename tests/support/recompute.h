/* Recomputation by number, for tests that go through variants. */
#ifndef SW_TEST_RECOMPUTE_H
#define SW_TEST_RECOMPUTE_H

#include "core/model/recompute.h"

/* 0: nothing, 1: what comes before attention, 2: everything; beyond, a set of values drawn from the
 * number, in some of the first layers, every other
 * time with some of them in the rest. */
static inline struct sw_recompute sw_test_recompute(uint32_t number, int32_t layers)
{
    if (number < 3)
        return number == 0   ? sw_recompute_none()
               : number == 2 ? sw_recompute_full()
                             : sw_recompute_all(sw_layer_values_before("o"));
    static const struct sw_model every = {.qkv_bias = true, .qk_norm = true, .mlp_bias = true};
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    const uint32_t values = (uint32_t)(x >> 32) & sw_model_layer_values(&every);
    const uint32_t rest = x & 1 ? values & (uint32_t)(x >> 12) : 0;
    return (struct sw_recompute){values, 1 + (int32_t)((x >> 8 & 0xffff) % (uint64_t)layers), rest};
}

#endif
