#include "tests/support/variants.h"

#include <stdio.h>
#include <stdlib.h>

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

static const struct sharding {
    const char *name;
    struct sw_axes embed; /* all by the run's rule */
    int32_t zero;
    const char *row; /* further row; NULL: none */
    struct sw_axes axes;
    bool keep;
} shardings[SW_TEST_SHARDINGS] = {
    {"zero 3", {2, {SW_FSDP, SW_SP}}, 3, NULL, {0, {0}}, false},
    {"zero 2", {2, {SW_FSDP, SW_SP}}, 2, NULL, {0, {0}}, false},
    {"zero 1", {2, {SW_FSDP, SW_SP}}, 1, NULL, {0, {0}}, false},
    {"gathered weights kept", {2, {SW_FSDP, SW_SP}}, 3, NULL, {0, {0}}, true},
    {"fsdp alone", {1, {SW_FSDP}}, 3, NULL, {0, {0}}, false},
    {"fsdp alone, zero 2", {1, {SW_FSDP}}, 2, NULL, {0, {0}}, false},
    {"fsdp alone, zero 1", {1, {SW_FSDP}}, 1, NULL, {0, {0}}, false},
    {"fsdp alone, kept", {1, {SW_FSDP}}, 3, NULL, {0, {0}}, true},
    {"masters over dp",
     {2, {SW_FSDP, SW_SP}},
     0,
     "moment_embed",
     {3, {SW_FSDP, SW_SP, SW_DP}},
     false},
    {"masters and gradients over dp and sp",
     {1, {SW_FSDP}},
     0,
     "grad_embed",
     {3, {SW_FSDP, SW_DP, SW_SP}},
     false},
};

const char *sw_test_sharding_name(int32_t sharding)
{
    return shardings[sharding].name;
}

void sw_test_sharding(struct sw_program_options *options, int32_t sharding)
{
    const struct sharding *s = &shardings[sharding];
    if (sharding == 0)
        return; /* the default */
    if (sw_rules_set(&options->rules, "embed", s->embed, NULL) != 0 ||
        (s->row != NULL && sw_rules_set(&options->rules, s->row, s->axes, NULL) != 0))
        abort();
    if (s->zero > 0)
        sw_rules_set_zero(&options->rules, s->zero);
    options->keep_gathered = s->keep;
}

const char *sw_test_variant_describe(const struct sw_mesh *mesh, const struct sw_test_variant *v,
                                     char text[192])
{
    static const char *const strategies[] = {"ring", "gather", "ulysses"};
    char sizes[64], order[64], rings[32] = "";
    if (v->inner_ring > 0)
        snprintf(rings, sizeof rings, " of rings of %d", (int)v->inner_ring);
    snprintf(
        text, 192,
        "mesh %s order %s %s kv_heads %s %s residual %s accumulation %s recompute %d %s%s%s%s%s",
        sw_mesh_format(mesh, sizes, sizeof sizes), sw_mesh_format_order(mesh, order, sizeof order),
        v->tied ? "tied" : "untied", v->few_kv_heads ? "few" : "all",
        v->zigzag ? "zigzag" : "contiguous", v->residual_tp ? "sp,tp" : "sp",
        v->accumulate ? "more" : "1", v->recompute, strategies[v->strategy], rings,
        v->bf16_hops      ? " bf16 hops"
        : v->other_blocks ? " other blocks"
                          : "",
        v->sharding > 0 ? ", " : "", v->sharding > 0 ? shardings[v->sharding].name : "");
    return text;
}
