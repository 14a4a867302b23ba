/* The rows of the op table, one for each kind, in the file of its family, and parts that several of
 * them share. Internal to core/ops. */
#ifndef SW_OPS_ROWS_H
#define SW_OPS_ROWS_H

#include "core/passes/append.h"
#include "core/ir/op.h"
#include "core/ir/workspace.h"
#include "core/ir/workspace_collective.h"

#include <stddef.h>

#define SW_KERNEL(KIND, name) extern const struct sw_op_info sw_row_##name;
#define SW_OTHER SW_KERNEL
#include "core/ir/ops.def"

/* Cost of an op whose time is that of moving its operands, with that many flops for each element
 * written. */
struct sw_op_cost sw_cost_memory(const struct sw_program *p, const struct sw_op *op);
struct sw_op_cost sw_cost_operands(const struct sw_program *p, const struct sw_op *op);

/* The usual VJP: one op of the row's gradient kind with the same attributes. Operands: the op's
 * first `operands`, then the cotangent of the result. Results: the cotangents of the first
 * `results` operands. */
int sw_vjp_usual(struct sw_autodiff *a, const struct sw_op *op, int32_t operands, int32_t results);

#endif
