/* Ops that run once per step: the gradient's norm and AdamW. */
#include "core/ops/rows.h"

static const struct sw_attribute adamw_attributes[] = {
    {.name = "decay",
     .type = SW_ATTRIBUTE_FLAG,
     .offset = offsetof(union sw_attributes, adamw.decay)},
    {.name = "guarded",
     .type = SW_ATTRIBUTE_FLAG,
     .offset = offsetof(union sw_attributes, adamw.guarded)},
    {.name = "block",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_SET,
     .costs = true,
     .offset = offsetof(union sw_attributes, adamw.block)},
    {.type = SW_ATTRIBUTE_END}};

const struct sw_op_info sw_row_sum_squares = {.name = "sum_squares",
                                              .factors = ".->1",
                                              .cost_class = SW_CLASS_MEMORY,
                                              .cost = sw_cost_memory};
const struct sw_op_info sw_row_grad_norm = {
    .name = "grad_norm", .factors = "1->1", .cost_class = SW_CLASS_MEMORY, .cost = sw_cost_memory};
/* Forms: with a copy, guarded, both; then those with codes, where a block (k) is not split and each
 * block's maximum is with it. */
static const char adamw_factors[] =
    ".,.,.,.,1->.,.,."
    "|.,.,.,.,1->.,.,.,."
    "|.,.,.,.,1,1->.,.,."
    "|.,.,.,.,1,1->.,.,.,."
    "|e(bk),e(bk),e(bk),e(bk),eb,eb,1->e(bk),eb,eb,e(bk),e(bk)"
    "|e(bk),e(bk),e(bk),e(bk),eb,eb,1->e(bk),eb,eb,e(bk),e(bk),e(bk)"
    "|e(bk),e(bk),e(bk),e(bk),eb,eb,1,1->e(bk),eb,eb,e(bk),e(bk)"
    "|e(bk),e(bk),e(bk),e(bk),eb,eb,1,1->e(bk),eb,eb,e(bk),e(bk),e(bk)";

static int32_t form_of_adamw(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_adamw_operands at = sw_adamw_operands(op);
    (void)p;
    return 4 * (at.most_m >= 0) + 2 * (at.loss >= 0) + (at.copy >= 0);
}

const struct sw_op_info sw_row_adamw = {.name = "adamw",
                                        .factors = adamw_factors,
                                        .form = form_of_adamw,
                                        .attributes = adamw_attributes,
                                        .cost_class = SW_CLASS_MEMORY,
                                        .cost = sw_cost_memory};
