/* Calls by which rows of ops append their gradients and what ranks do. */
#ifndef SW_APPEND_H
#define SW_APPEND_H

#include "core/ir/builder.h"

/* For VJP rules. The cotangent of an op's result, which is present; an operand or result of forward
 * as backward has it, perhaps made again. */
struct sw_ref sw_autodiff_cotangent(struct sw_autodiff *a, struct sw_ref out);
struct sw_ref sw_autodiff_use(struct sw_autodiff *a, struct sw_ref primal);
/* True if the cotangent of an op's operand is wanted: rules leave out what makes no other. */
bool sw_autodiff_wants(const struct sw_autodiff *a, struct sw_ref primal);
int32_t sw_autodiff_op(struct sw_autodiff *a, enum sw_op_kind kind);
void sw_autodiff_in(struct sw_autodiff *a, int32_t op, struct sw_ref ref);
/* Makes a fresh value shaped as `primal`'s, the op's next result, and contributes it to primal's
 * cotangent. */
void sw_autodiff_out(struct sw_autodiff *a, int32_t op, struct sw_ref primal);
/* Passes an existing value on as cotangent of `primal`. */
void sw_autodiff_contribute(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref cotangent);
struct sw_op *sw_autodiff_get(struct sw_autodiff *a, int32_t op);

/* For rows with a lowering of their own: appends what ranks do for an op on logical values, which
 * need not be of the logical program; as its row says, or by the claims of its factors. */
int sw_partition_op(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_claims(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_constrain(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_accumulate(struct sw_partition *partition, const struct sw_op *op);
const struct sw_program *sw_partition_logical(const struct sw_partition *partition);

#endif
