/* The choices that change a training step's program, for tests that try them on many meshes. */
#ifndef SW_TEST_VARIANTS_H
#define SW_TEST_VARIANTS_H

#include "core/ir/options.h"
#include "core/sharding/mesh.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_test_variant {
    bool tied, few_kv_heads, zigzag, residual_tp, accumulate;
    uint8_t recompute; /* as sw_test_recompute */
    enum sw_attention_strategy strategy;
    bool bf16_hops;     /* in none of sw_test_variant_at, like */
    bool other_blocks;  /* norms and multipliers of other families */
    int32_t inner_ring; /* of this many ranks, where sp has more; 0: one ring */
    uint8_t sharding;   /* as sw_test_sharding */
};
enum { SW_TEST_VARIANTS = 2 * 2 * 2 * 2 * 2 * 3 * 3 };

/* 0 <= number < SW_TEST_VARIANTS: with a stride that is coprime to 2 and 3 every choice meets every
 * other. */
struct sw_test_variant sw_test_variant_at(int32_t number);

/* What is split over which axes: of weights, gradients and masters. */
enum { SW_TEST_SHARDINGS = 10 };
void sw_test_sharding(struct sw_program_options *options, int32_t sharding);
const char *sw_test_sharding_name(int32_t sharding);

/* Mesh and choices, for a message. Returns text. */
const char *sw_test_variant_describe(const struct sw_mesh *mesh, const struct sw_test_variant *v,
                                     char text[192]);

#endif
