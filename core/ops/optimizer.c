/* Once per step: the gradient's norm and AdamW. */
#include "core/ops/rows.h"

static const struct sw_attribute adamw_attributes[] = {
    {.name = "decay",
     .type = SW_ATTRIBUTE_FLAG,
     .offset = offsetof(union sw_attributes, adamw.decay)},
    {.name = "guarded",
     .type = SW_ATTRIBUTE_FLAG,
     .offset = offsetof(union sw_attributes, adamw.guarded)},
    {.type = SW_ATTRIBUTE_END}};

const struct sw_op_info sw_row_sum_squares = {.name = "sum_squares",
                                              .factors = ".->1",
                                              .cost_class = SW_CLASS_MEMORY,
                                              .cost = sw_cost_memory};
const struct sw_op_info sw_row_grad_norm = {
    .name = "grad_norm", .factors = "1->1", .cost_class = SW_CLASS_MEMORY, .cost = sw_cost_memory};
const struct sw_op_info sw_row_adamw = {.name = "adamw",
                                        .factors = ".,.,.,.,1->.,.,.",
                                        .attributes = adamw_attributes,
                                        .cost_class = SW_CLASS_MEMORY,
                                        .cost = sw_cost_memory};
