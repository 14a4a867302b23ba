/* RMSNorm of whole rows, of single heads, and of rows that are split. */
#include "core/ops/rows.h"

#define PLUS_ONE                                                                                   \
    {                                                                                              \
        .name = "plus_one", .type = SW_ATTRIBUTE_FLAG, .prints = SW_PRINT_SET,                     \
        .offset = offsetof(union sw_attributes, norm.plus_one)                                     \
    }
static const struct sw_attribute norm_attributes[] = {
    {.name = "head_dim",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, norm.head_dim)},
    {.name = "width",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, norm.width)},
    {.name = "eps", .type = SW_ATTRIBUTE_REAL, .offset = offsetof(union sw_attributes, norm.eps)},
    PLUS_ONE,
    {.type = SW_ATTRIBUTE_END}};
static const struct sw_attribute sums_attributes[] = {PLUS_ONE, {.type = SW_ATTRIBUTE_END}};

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

/* With r = 1 / sqrt(sums / width + eps): dx = r w dy - x r^3 / width D, D the whole row's sum of x
 * w dy. The sums of squares get no cotangent: dx includes their part. */
static int vjp_split_norm(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    const struct sw_ref x = sw_autodiff_use(a, op->in[0]), sums = sw_autodiff_use(a, op->in[1]),
                        w = sw_autodiff_use(a, op->in[2]);
    const int32_t dots = sw_autodiff_op(a, SW_OP_ROW_SUMS);
    sw_autodiff_get(a, dots)->as.norm.plus_one = op->as.norm.plus_one;
    sw_autodiff_in(a, dots, x);
    sw_autodiff_in(a, dots, w);
    sw_autodiff_in(a, dots, dy);
    sw_autodiff_out(a, dots, op->in[1]);
    const struct sw_ref sum = sw_autodiff_get(a, dots)->out[0];
    const int32_t g = sw_autodiff_op(a, SW_OP_SPLIT_NORM_GRAD);
    sw_autodiff_get(a, g)->as = op->as;
    sw_autodiff_in(a, g, x);
    sw_autodiff_in(a, g, sums);
    sw_autodiff_in(a, g, w);
    sw_autodiff_in(a, g, dy);
    sw_autodiff_in(a, g, sum);
    sw_autodiff_out(a, g, op->in[0]);
    sw_autodiff_out(a, g, op->in[2]);
    return 0;
}

const struct sw_op_info sw_row_row_sums = {.name = "row_sums",
                                           .factors = "bsh->bs|bsh,h,bsh->bs",
                                           .attributes = sums_attributes,
                                           .cost_class = SW_CLASS_MEMORY,
                                           .cost = sw_cost_memory};
const struct sw_op_info sw_row_split_norm = {.name = "split_norm",
                                             .factors = "bsh,bs,h->bsh",
                                             .attributes = norm_attributes,
                                             .cost_class = SW_CLASS_MEMORY,
                                             .vjp = vjp_split_norm,
                                             .cost = sw_cost_memory};
const struct sw_op_info sw_row_split_norm_grad = {.name = "split_norm_grad",
                                                  .factors = "bsh,bs,h,bsh,bs->bsh,h",
                                                  .attributes = norm_attributes,
                                                  .cost_class = SW_CLASS_MEMORY,
                                                  .cost = sw_cost_memory,
                                                  .workspace = sw_workspace_norm_grad};
