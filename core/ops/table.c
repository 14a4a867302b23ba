/* Row of each kind. */
#include "core/ops/rows.h"

const struct sw_op_info *const sw_op_rows[] = {
#define SW_KERNEL(KIND, name) [SW_OP_##KIND] = &sw_row_##name,
#define SW_OTHER SW_KERNEL
#include "core/ir/ops.def"
};
