#include "core/ir/workspace_collective.h"

#include "core/ir/op.h"

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int64_t divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

struct sw_collective_slots sw_collective_slots(enum sw_collective kind, int32_t group,
                                               int64_t local_elems, size_t element_bytes,
                                               bool send_strided, bool receive_strided)
{
    struct sw_collective_slots none = {0};
    if (group <= 1 || local_elems <= 0)
        return none;
    const int64_t element = (int64_t)element_bytes;
    const int32_t others = group - 1;
    int32_t slots = 0;
    int64_t block_bytes = 0;
    switch (kind) {
    case SW_SLICE:
        return none;
    case SW_ALL_GATHER: /* the input is sent as it is */
        slots = receive_strided ? others : 0;
        block_bytes = local_elems * element;
        break;
    case SW_REDUCE_SCATTER: /* blocks of the others; strided: also the packed sends and the own
                               block */
        slots = send_strided ? 2 * others + 1 : others;
        block_bytes = divide_up(local_elems, group) * element;
        break;
    case SW_ALL_REDUCE:
        slots = send_strided ? 2 * others + 1 : others;
        block_bytes = local_elems * element * group <= SW_ALL_REDUCE_SMALL
                          ? local_elems * element
                          : divide_up(local_elems, group) * element;
        break;
    case SW_ALL_TO_ALL:
        slots = (send_strided ? others : 0) + (receive_strided ? others : 0);
        block_bytes = divide_up(local_elems, group) * element;
        break;
    }
    if (slots == 0)
        return none;
    int64_t slot_bytes = round_up(block_bytes, SW_SLOT_ALIGNMENT);
    int64_t budget = SW_COLLECTIVE_WORKSPACE_MAX;
    if ((send_strided || receive_strided) && block_bytes * group / SW_COLLECTIVE_PIECES > budget)
        budget = block_bytes * group / SW_COLLECTIVE_PIECES;
    int64_t most = budget / slots / SW_SLOT_ALIGNMENT * SW_SLOT_ALIGNMENT;
    if (most < SW_SLOT_MIN)
        most = SW_SLOT_MIN;
    if (slot_bytes > most)
        slot_bytes = most;
    return (struct sw_collective_slots){slots, slot_bytes};
}

int64_t sw_workspace_collective(const struct sw_program *program, const struct sw_op *op)
{
    if (!sw_op_is_move(op->kind) || op->n_in == 0)
        return 0;
    const enum sw_collective kind = sw_op_collective(op->kind);
    const int32_t dim = op->as.move.dim, dim_to = op->as.move.dim_to;
    const int32_t group = sw_axes_size(&program->mesh, op->axes);
    int64_t elems = 0;
    for (int i = 0; i < op->n_in; i++) {
        const struct sw_value *value = &program->values[op->in[i].value];
        int64_t one = 1;
        for (int d = 0; d < value->ndim; d++)
            one *= value->local[d];
        elems += op->in[i].mode == SW_INDEX_WHOLE ? one * value->stack : one;
    }
    const struct sw_value *value = &program->values[op->in[0].value];
    const int64_t outermost = op->in[0].mode == SW_INDEX_WHOLE ? value->stack : 1;
    int64_t before = outermost, before_to = outermost; /* elements before dim, before dim_to */
    for (int d = 0; d < dim && d < value->ndim; d++)
        before *= value->local[d];
    for (int d = 0; d < dim_to && d < value->ndim; d++)
        before_to *= value->local[d];

    bool send_strided = false, receive_strided = false;
    switch (kind) {
    case SW_ALL_GATHER:
        receive_strided = before > 1;
        break;
    case SW_REDUCE_SCATTER:
        send_strided = before > 1;
        break;
    case SW_ALL_REDUCE:
        send_strided = op->n_in > 1;
        break;
    case SW_ALL_TO_ALL: /* blocks of dim_to leave, blocks of dim arrive (dim_to is then group times
                           smaller) */
        send_strided = before_to > 1;
        receive_strided = (dim_to < dim ? before / group : before) > 1;
        break;
    case SW_SLICE:
        break;
    }
    const struct sw_collective_slots slots = sw_collective_slots(
        kind, group, elems, sw_dtype_bytes(value->dtype), send_strided, receive_strided);
    return slots.slots * slots.slot_bytes;
}
