/* Ops of reshards: a rank's own slice, the collectives, and the wait for one. */
#include "core/ops/rows.h"

/* Printed with the axes, in one way for all (print.c). */
static const struct sw_attribute move_attributes[] = {
    {.name = "dim",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_NEVER,
     .costs = true,
     .offset = offsetof(union sw_attributes, move.dim)},
    {.name = "dim_to",
     .type = SW_ATTRIBUTE_INT,
     .prints = SW_PRINT_NEVER,
     .costs = true,
     .offset = offsetof(union sw_attributes, move.dim_to)},
    {.type = SW_ATTRIBUTE_END}};

static int64_t members(const struct sw_program *p, const struct sw_op *op)
{
    return sw_axes_size(&p->mesh, op->axes);
}

static int64_t bytes_all_gather(const struct sw_program *p, const struct sw_op *op)
{
    return sw_refs_bytes(p, op->in, op->n_in) * (members(p, op) - 1);
}

static int64_t bytes_reduce_scatter(const struct sw_program *p, const struct sw_op *op)
{
    return sw_refs_bytes(p, op->out, op->n_out) * (members(p, op) - 1);
}

/* reduce_scatter, then all_gather (Patarasuk & Yuan 2009) */
static int64_t bytes_all_reduce(const struct sw_program *p, const struct sw_op *op)
{
    const int64_t group = members(p, op);
    return 2 * (sw_refs_bytes(p, op->in, op->n_in) / group) * (group - 1);
}

static int64_t bytes_all_to_all(const struct sw_program *p, const struct sw_op *op)
{
    const int64_t group = members(p, op);
    return sw_refs_bytes(p, op->in, op->n_in) / group * (group - 1);
}

_Static_assert(SW_OP_ALL_GATHER - SW_OP_SLICE == SW_ALL_GATHER &&
                   SW_OP_REDUCE_SCATTER - SW_OP_SLICE == SW_REDUCE_SCATTER &&
                   SW_OP_ALL_REDUCE - SW_OP_SLICE == SW_ALL_REDUCE &&
                   SW_OP_ALL_TO_ALL - SW_OP_SLICE == SW_ALL_TO_ALL,
               "kinds in the order of enum sw_collective");

const struct sw_op_info sw_row_slice = {.name = "slice",
                                        .attributes = move_attributes,
                                        .cost_class = SW_CLASS_MEMORY,
                                        .always_recompute = true,
                                        .cost = sw_cost_memory};
const struct sw_op_info sw_row_all_gather = {.name = "all_gather",
                                             .attributes = move_attributes,
                                             .cost_class = SW_CLASS_COLLECTIVE,
                                             .communication = bytes_all_gather,
                                             .workspace = sw_workspace_collective};
const struct sw_op_info sw_row_reduce_scatter = {.name = "reduce_scatter",
                                                 .attributes = move_attributes,
                                                 .cost_class = SW_CLASS_COLLECTIVE,
                                                 .communication = bytes_reduce_scatter,
                                                 .workspace = sw_workspace_collective};
const struct sw_op_info sw_row_all_reduce = {.name = "all_reduce",
                                             .attributes = move_attributes,
                                             .cost_class = SW_CLASS_COLLECTIVE,
                                             .communication = bytes_all_reduce,
                                             .workspace = sw_workspace_collective};
const struct sw_op_info sw_row_all_to_all = {.name = "all_to_all",
                                             .attributes = move_attributes,
                                             .cost_class = SW_CLASS_COLLECTIVE,
                                             .communication = bytes_all_to_all,
                                             .workspace = sw_workspace_collective};
const struct sw_op_info sw_row_wait = {.name = "wait", .cost_class = SW_CLASS_WAIT};
