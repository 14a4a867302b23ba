/* Calls by which rows of the op table append gradients (VJPs) and the ops of ranks. */
#ifndef SW_APPEND_H
#define SW_APPEND_H

#include "core/ir/builder.h"

/* For VJP rules: the cotangent of an op's result, which exists; a forward operand or result as
 * backward has it, perhaps recomputed. */
struct sw_ref sw_autodiff_cotangent(struct sw_autodiff *a, struct sw_ref out);
struct sw_ref sw_autodiff_use(struct sw_autodiff *a, struct sw_ref primal);
/* True if the cotangent of an op's operand is wanted; rules skip work that makes no other. */
bool sw_autodiff_wants(const struct sw_autodiff *a, struct sw_ref primal);
int32_t sw_autodiff_op(struct sw_autodiff *a, enum sw_op_kind kind);
void sw_autodiff_in(struct sw_autodiff *a, int32_t op, struct sw_ref ref);
/* Adds a fresh value shaped as `primal`'s as the op's next result, and contributes it to primal's
 * cotangent. */
void sw_autodiff_out(struct sw_autodiff *a, int32_t op, struct sw_ref primal);
/* Contributes an existing value to the cotangent of `primal`. */
void sw_autodiff_contribute(struct sw_autodiff *a, struct sw_ref primal, struct sw_ref cotangent);
struct sw_op *sw_autodiff_get(struct sw_autodiff *a, int32_t op);

/* For rows with a lowering of their own: appends the ranks' ops for an op on logical values, which
 * may be outside the logical program. Follows the op's row, or the claims of its factors. */
int sw_partition_op(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_claims(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_constrain(struct sw_partition *partition, const struct sw_op *op);
int sw_partition_accumulate(struct sw_partition *partition, const struct sw_op *op);
const struct sw_program *sw_partition_logical(const struct sw_partition *partition);

#endif
