#include "tests/support/variants.h"

#include <stdio.h>

static int32_t digit(int32_t *number, int32_t base)
{
    const int32_t d = *number % base;
    *number /= base;
    return d;
}

struct sw_test_variant sw_test_variant_at(int32_t number)
{
    struct sw_test_variant v = {0};
    v.tied = digit(&number, 2);
    v.few_kv_heads = digit(&number, 2);
    v.zigzag = digit(&number, 2);
    v.residual_tp = digit(&number, 2);
    v.accumulate = digit(&number, 2);
    v.recompute = (uint8_t)digit(&number, 3);
    v.strategy = (enum sw_attention_strategy)digit(&number, 3);
    return v;
}

const char *sw_test_variant_describe(const struct sw_mesh *mesh, const struct sw_test_variant *v,
                                     char text[192])
{
    static const char *const strategies[] = {"ring", "gather", "ulysses"};
    char sizes[64], order[64], rings[32] = "";
    if (v->inner_ring > 0)
        snprintf(rings, sizeof rings, " of rings of %d", (int)v->inner_ring);
    snprintf(text, 192,
             "mesh %s order %s %s kv_heads %s %s residual %s accumulation %s recompute %d %s%s%s",
             sw_mesh_format(mesh, sizes, sizeof sizes),
             sw_mesh_format_order(mesh, order, sizeof order), v->tied ? "tied" : "untied",
             v->few_kv_heads ? "few" : "all", v->zigzag ? "zigzag" : "contiguous",
             v->residual_tp ? "sp,tp" : "sp", v->accumulate ? "more" : "1", v->recompute,
             strategies[v->strategy], rings,
             v->bf16_hops      ? " bf16 hops"
             : v->other_blocks ? " other blocks"
                               : "");
    return text;
}
