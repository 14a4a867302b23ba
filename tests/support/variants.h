/* Choices that change a training step's program, for tests on many meshes. */
#ifndef SW_TEST_VARIANTS_H
#define SW_TEST_VARIANTS_H

#include "core/ir/options.h"
#include "core/sharding/mesh.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_test_variant {
    bool tied, few_kv_heads, zigzag, residual_tp, accumulate;
    uint8_t recompute; /* see sw_test_recompute */
    enum sw_attention_strategy strategy;
    bool bf16_hops;     /* not in sw_test_variant_at, nor is */
    bool other_blocks;  /* norms and multipliers of other families */
    int32_t inner_ring; /* number of ranks, if sp has more; 0: one ring */
    uint8_t sharding;   /* see sw_test_sharding */
};
enum { SW_TEST_VARIANTS = 2 * 2 * 2 * 2 * 2 * 3 * 3 };

/* 0 <= number < SW_TEST_VARIANTS: a stride coprime to 2 and 3 makes every choice meet every
 * other. */
struct sw_test_variant sw_test_variant_at(int32_t number);

/* Axes over which weights, gradients and masters are split. */
enum { SW_TEST_SHARDINGS = 10 };
void sw_test_sharding(struct sw_program_options *options, int32_t sharding);
const char *sw_test_sharding_name(int32_t sharding);

/* Formats mesh and choices for a message. Returns text. */
const char *sw_test_variant_describe(const struct sw_mesh *mesh, const struct sw_test_variant *v,
                                     char text[192]);

#endif
