/* Matrix products with weights, their biases, and the gate of the MLP. */
#include "core/ops/rows.h"

/* Width of an activation; for a weight, without padding, which is not multiplied. */
static double width_of(const struct sw_program *p, struct sw_ref activation)
{
    const struct sw_value *value = &p->values[activation.value];
    return (double)value->local[value->ndim - 1];
}

/* Product of linear and linear_t: [tokens, k] x [k, n], two activations and a weight between
 * them. */
static int32_t products_linear(const struct sw_program *p, const struct sw_op *op,
                               struct sw_product out[SW_OP_MAX_PRODUCTS])
{
    out[0] = (struct sw_product){
        sw_tokens_of(p, op->in[0]), width_of(p, op->out[0]), width_of(p, op->in[0]),
        op->kind == SW_OP_LINEAR ? SW_PRODUCT_LINEAR : SW_PRODUCT_LINEAR_T};
    return 1;
}

static int32_t products_linear_dw(const struct sw_program *p, const struct sw_op *op,
                                  struct sw_product out[SW_OP_MAX_PRODUCTS])
{
    out[0] = (struct sw_product){width_of(p, op->in[0]), width_of(p, op->in[1]),
                                 sw_tokens_of(p, op->in[0]), SW_PRODUCT_LINEAR_DW};
    return 1;
}

/* Adds the traffic of panels: weights in 8 bits are widened, written and read, and results are
 * written before they are scaled. */
static struct sw_op_cost cost_linear(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_op_cost cost = sw_cost_operands(p, op);
    if (sw_workspace_linear(p, op) > 0) {
        const struct sw_value *x = &p->values[op->in[0].value];
        const int64_t group = sw_dtype_group(p->values[op->in[1].value].dtype);
        cost.memory_bytes +=
            2 * (sw_ref_elems(p, op->in[1]) * group * (int64_t)sw_dtype_bytes(x->dtype) +
                 sw_ref_elems(p, op->out[0]) * (int64_t)sizeof(float));
    }
    return cost;
}

/* y = x W: dW = xT dy, dx = dy WT. y = x WT (linear_t): dW = dyT x, dx = dy W. The weight's
 * gradient comes before dx, so that its reduction overlaps it. */
static int vjp_product(struct sw_autodiff *a, const struct sw_op *op, bool transposed)
{
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    if (sw_autodiff_wants(a, op->in[1])) {
        const struct sw_ref x = sw_autodiff_use(a, op->in[0]);
        const int32_t dw = sw_autodiff_op(a, SW_OP_LINEAR_DW);
        sw_autodiff_in(a, dw, transposed ? dy : x);
        sw_autodiff_in(a, dw, transposed ? x : dy);
        sw_autodiff_out(a, dw, op->in[1]);
    }
    if (!sw_autodiff_wants(a, op->in[0]))
        return 0;
    const struct sw_ref w = sw_autodiff_use(a, op->in[1]);
    const int32_t dx = sw_autodiff_op(a, transposed ? SW_OP_LINEAR : SW_OP_LINEAR_T);
    sw_autodiff_in(a, dx, dy);
    sw_autodiff_in(a, dx, w);
    sw_autodiff_out(a, dx, op->in[0]);
    return 0;
}

static int vjp_linear(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    return vjp_product(a, op, false);
}

static int vjp_linear_t(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    return vjp_product(a, op, true);
}

static int vjp_add_bias(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    if (sw_autodiff_wants(a, op->in[1])) {
        const int32_t g = sw_autodiff_op(a, SW_OP_BIAS_GRAD);
        sw_autodiff_in(a, g, dy);
        sw_autodiff_out(a, g, op->in[1]);
    }
    sw_autodiff_contribute(a, op->in[0], dy);
    return 0;
}

static int vjp_swiglu(struct sw_autodiff *a, const struct sw_op *op, struct sw_error *err)
{
    (void)err;
    return sw_vjp_usual(a, op, 2, 2);
}

const struct sw_op_info sw_row_linear = {.name = "linear",
                                         .factors = "bse,ef->bsf|bse,ef,f->bsf",
                                         .cost_class = SW_CLASS_MATMUL,
                                         .addend = 2,
                                         .held = 1,
                                         .tiled = 1,
                                         .vjp = vjp_linear,
                                         .cost = cost_linear,
                                         .products = products_linear,
                                         .workspace = sw_workspace_linear};
const struct sw_op_info sw_row_linear_t = {.name = "linear_t",
                                           .factors = "bsf,ef->bse|bsf,ef,e->bse",
                                           .cost_class = SW_CLASS_MATMUL,
                                           .addend = 2,
                                           .held = 1,
                                           .tiled = 1,
                                           .vjp = vjp_linear_t,
                                           .cost = cost_linear,
                                           .products = products_linear,
                                           .workspace = sw_workspace_linear};
const struct sw_attribute sw_op_gradient_attributes[] = {
    {.name = "adds",
     .type = SW_ATTRIBUTE_FLAG,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, gradient.adds)},
    {.name = "first",
     .type = SW_ATTRIBUTE_FLAG,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, gradient.first)},
    {.type = SW_ATTRIBUTE_END}};
const struct sw_op_info sw_row_linear_dw = {.name = "linear_dw",
                                            .factors = "bse,bsf->ef",
                                            .attributes = sw_op_gradient_attributes,
                                            .cost_class = SW_CLASS_MATMUL,
                                            .gradient = 1,
                                            .cost = sw_cost_operands,
                                            .products = products_linear_dw};
const struct sw_op_info sw_row_add_bias = {.name = "add_bias",
                                           .factors = "bsf,f->bsf",
                                           .cost_class = SW_CLASS_MEMORY,
                                           .vjp = vjp_add_bias,
                                           .cost = sw_cost_memory};
const struct sw_op_info sw_row_bias_grad = {.name = "bias_grad",
                                            .factors = "bsf->f",
                                            .cost_class = SW_CLASS_MEMORY,
                                            .cost = sw_cost_memory,
                                            .workspace = sw_workspace_bias_grad};
static const struct sw_attribute swiglu_attributes[] = {
    {.name = "gelu",
     .type = SW_ATTRIBUTE_FLAG,
     .prints = SW_PRINT_SET,
     .offset = offsetof(union sw_attributes, swiglu.gelu)},
    {.type = SW_ATTRIBUTE_END}};
const struct sw_op_info sw_row_swiglu = {.name = "swiglu",
                                         .factors = ".,.->.",
                                         .attributes = swiglu_attributes,
                                         .cost_class = SW_CLASS_MEMORY,
                                         .gradient_kind = SW_OP_SWIGLU_GRAD,
                                         .vjp = vjp_swiglu,
                                         .cost = sw_cost_memory};
const struct sw_op_info sw_row_swiglu_grad = {.name = "swiglu_grad",
                                              .factors = ".,.,.->.,.",
                                              .attributes = swiglu_attributes,
                                              .cost_class = SW_CLASS_MEMORY,
                                              .cost = sw_cost_memory};
