/* Parts that rows of several families share. */
#include "core/ops/rows.h"

struct sw_op_cost sw_cost_memory(const struct sw_program *p, const struct sw_op *op)
{
    struct sw_op_cost cost = {0, sw_operand_bytes(p, op)};
    for (uint16_t i = 0; i < op->n_out; i++)
        cost.flops += (double)sw_ref_elems(p, op->out[i]);
    return cost;
}

struct sw_op_cost sw_cost_operands(const struct sw_program *p, const struct sw_op *op)
{
    return (struct sw_op_cost){0, sw_operand_bytes(p, op)};
}

int sw_vjp_usual(struct sw_autodiff *a, const struct sw_op *op, int32_t operands, int32_t results)
{
    enum { MOST = 4 };
    struct sw_ref in[MOST];
    const struct sw_ref dy = sw_autodiff_cotangent(a, op->out[0]);
    for (int32_t i = 0; i < operands && i < MOST; i++)
        in[i] = sw_autodiff_use(a, op->in[i]);
    const int32_t g = sw_autodiff_op(a, sw_op_rows[op->kind]->gradient_kind);
    sw_autodiff_get(a, g)->as = op->as;
    for (int32_t i = 0; i < operands && i < MOST; i++)
        sw_autodiff_in(a, g, in[i]);
    sw_autodiff_in(a, g, dy);
    for (int32_t i = 0; i < results; i++)
        sw_autodiff_out(a, g, op->in[i]);
    return 0;
}
