/* Elementwise ops without knowledge of their operands: sums, casts, constraints. */
#include "core/ops/rows.h"

static const struct sw_attribute accumulate_attributes[] = {
    {.name = "first",
     .type = SW_ATTRIBUTE_FLAG,
     .offset = offsetof(union sw_attributes, accumulate.first)},
    {.type = SW_ATTRIBUTE_END}};

static const struct sw_attribute scale_attributes[] = {
    {.name = "factor",
     .type = SW_ATTRIBUTE_REAL,
     .offset = offsetof(union sw_attributes, scale.factor)},
    {.type = SW_ATTRIBUTE_END}};

static const struct sw_attribute softcap_attributes[] = {
    {.name = "cap",
     .type = SW_ATTRIBUTE_REAL,
     .offset = offsetof(union sw_attributes, softcap.cap)},
    {.type = SW_ATTRIBUTE_END}};

/* VJP of an op that is linear in one operand and its own transpose. */
static int vjp_same(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    return sw_vjp_usual(a, op, 0, 1);
}

static int vjp_add(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    sw_autodiff_contribute(a, op->in[0], dy);
    sw_autodiff_contribute(a, op->in[1], dy);
    return 0;
}

const struct sw_op_info sw_row_constrain = {.name = "constrain",
                                            .factors = ".->.",
                                            .cost_class = SW_CLASS_NONE,
                                            .partition = sw_partition_constrain,
                                            .linear = true,
                                            .gradient_kind = SW_OP_CONSTRAIN,
                                            .vjp = vjp_same};
const struct sw_op_info sw_row_add = {.name = "add",
                                      .factors = ".,.->.",
                                      .cost_class = SW_CLASS_MEMORY,
                                      .linear = true,
                                      .vjp = vjp_add,
                                      .cost = sw_cost_memory};
const struct sw_op_info sw_row_scale = {.name = "scale",
                                        .factors = ".->.",
                                        .attributes = scale_attributes,
                                        .cost_class = SW_CLASS_MEMORY,
                                        .linear = true,
                                        .gradient_kind = SW_OP_SCALE,
                                        .vjp = vjp_same,
                                        .cost = sw_cost_memory};
const struct sw_op_info sw_row_softcap = {.name = "softcap",
                                          .factors = ".->.",
                                          .attributes = softcap_attributes,
                                          .cost_class = SW_CLASS_MEMORY,
                                          .cost = sw_cost_memory};
const struct sw_op_info sw_row_accumulate = {.name = "accumulate",
                                             .factors = ".,.->.",
                                             .attributes = accumulate_attributes,
                                             .cost_class = SW_CLASS_MEMORY,
                                             .partition = sw_partition_accumulate,
                                             .linear = true,
                                             .cost = sw_cost_memory};
const struct sw_op_info sw_row_cast = {.name = "cast",
                                       .factors = ".->.",
                                       .cost_class = SW_CLASS_MEMORY,
                                       .linear = true,
                                       .always_recompute = true,
                                       .cost = sw_cost_memory};
const struct sw_op_info sw_row_widen = {.name = "widen",
                                        .factors = "ef,f->ef",
                                        .cost_class = SW_CLASS_MEMORY,
                                        .always_recompute = true,
                                        .cost = sw_cost_memory};
const struct sw_op_info sw_row_widen_t = {.name = "widen_t",
                                          .factors = "ef,e->ef",
                                          .cost_class = SW_CLASS_MEMORY,
                                          .always_recompute = true,
                                          .cost = sw_cost_memory};
