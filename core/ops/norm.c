/* RMSNorm: of whole rows, and of each head by itself. */
#include "core/ops/rows.h"

static const struct sw_attribute norm_attributes[] = {
    {.name = "head_dim",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, norm.head_dim)},
    {.name = "eps", .type = SW_ATTRIBUTE_REAL, .offset = offsetof(union sw_attributes, norm.eps)},
    {.type = SW_ATTRIBUTE_END}};

static int vjp_norm(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    return sw_vjp_usual(a, op, 2, 2);
}

const struct sw_op_info sw_row_rmsnorm = {.name = "rmsnorm",
                                          .factors = "bse,e->bse",
                                          .whole = "e",
                                          .attributes = norm_attributes,
                                          .cost_class = SW_CLASS_MEMORY,
                                          .gradient_kind = SW_OP_RMSNORM_GRAD,
                                          .vjp = vjp_norm,
                                          .cost = sw_cost_memory};
const struct sw_op_info sw_row_rmsnorm_grad = {.name = "rmsnorm_grad",
                                               .factors = "bse,e,bse->bse,e",
                                               .whole = "e",
                                               .attributes = norm_attributes,
                                               .cost_class = SW_CLASS_MEMORY,
                                               .addend = 3,
                                               .cost = sw_cost_memory,
                                               .workspace = sw_workspace_norm_grad};
const struct sw_op_info sw_row_head_norm = {.name = "head_norm",
                                            .factors = "bsh,d->bsh",
                                            .whole = "d",
                                            .attributes = norm_attributes,
                                            .cost_class = SW_CLASS_MEMORY,
                                            .gradient_kind = SW_OP_HEAD_NORM_GRAD,
                                            .vjp = vjp_norm,
                                            .cost = sw_cost_memory};
const struct sw_op_info sw_row_head_norm_grad = {.name = "head_norm_grad",
                                                 .factors = "bsh,d,bsh->bsh,d",
                                                 .whole = "d",
                                                 .attributes = norm_attributes,
                                                 .cost_class = SW_CLASS_MEMORY,
                                                 .cost = sw_cost_memory,
                                                 .workspace = sw_workspace_norm_grad};
