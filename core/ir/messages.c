#include "core/ir/messages.h"

#include "core/ir/workspace_collective.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

/* Bytes of a block's piece: pieces for all members fit into the workspace at once, on one side or
 * on both. */
static int64_t piece_of(enum sw_collective kind, const struct sw_collective_blocks *b)
{
    const int32_t sides = kind == SW_ALL_TO_ALL && b->send_rows > 1 && b->receive_rows > 1 ? 2 : 1;
    const int64_t most = b->workspace_bytes / sides / b->group / 16 * 16;
    return most < b->block_bytes ? most : b->block_bytes;
}

static struct sw_collective_route queued_route(enum sw_collective kind,
                                               const struct sw_collective_blocks *b)
{
    struct sw_collective_route route = {.messages = 1};
    const int64_t rows = larger(b->send_rows, b->receive_rows);
    if (kind == SW_ALL_REDUCE) {
        route.messages = b->operands;
        return route;
    }
    if (rows <= 1)
        return route;
    /* rows of one length on both sides, or cut to it */
    const bool alike = b->send_rows == b->receive_rows || b->send_rows == 1 || b->receive_rows == 1;
    const int64_t piece = piece_of(kind, b);
    const bool large = b->block_bytes / rows >= SW_MESSAGE_LARGE;
    if (piece <= 0 || (alike && (rows <= SW_MESSAGES_FEW || (large && rows <= SW_MESSAGES_MOST)))) {
        route.messages = rows;
        return route;
    }
    route.packed = true;
    route.piece_bytes = piece;
    route.messages = divide_up(b->block_bytes, piece);
    return route;
}

/* Blocks pass through slots; without slots, they go whole. An all_reduce does so twice, but is
 * counted once. */
static struct sw_collective_route host_route(enum sw_collective kind,
                                             const struct sw_collective_blocks *b)
{
    const int64_t others = b->group - 1;
    const bool two = kind == SW_ALL_TO_ALL && b->send_rows > 1 && b->receive_rows > 1;
    const bool summed = kind == SW_REDUCE_SCATTER || kind == SW_ALL_REDUCE;
    const bool strided = kind == SW_ALL_REDUCE ? b->operands > 1 : b->send_rows > 1;
    const int64_t slots = summed ? (strided ? 2 * others + 1 : others) : two ? 2 * others : others;
    const int64_t slot = b->workspace_bytes / (slots > 0 ? slots : 1);
    struct sw_collective_route route = {.messages = 1};
    if (slot > 0 && slot < b->block_bytes)
        route.messages = divide_up(b->block_bytes, slot);
    route.packed = slot > 0;
    route.piece_bytes = slot > 0 && slot < b->block_bytes ? slot : b->block_bytes;
    return route;
}

struct sw_collective_route sw_collective_route(enum sw_carrier transport, enum sw_collective kind,
                                               const struct sw_collective_blocks *blocks)
{
    return transport == SW_CARRIER_QUEUED ? queued_route(kind, blocks) : host_route(kind, blocks);
}

static int64_t before(const struct sw_program *p, struct sw_ref ref, int32_t dim)
{
    const struct sw_value *value = &p->values[ref.value];
    int64_t rows = ref.mode == SW_INDEX_WHOLE ? value->stack : 1;
    for (int32_t d = 0; d < dim && d < value->ndim; d++)
        rows *= value->local[d];
    return rows;
}

struct sw_collective_blocks sw_collective_blocks(const struct sw_program *p, const struct sw_op *op)
{
    const enum sw_collective kind = sw_op_collective(op->kind);
    const int32_t dim = op->as.move.dim, dim_to = op->as.move.dim_to;
    struct sw_collective_blocks b = {.group = sw_axes_size(&p->mesh, op->axes),
                                     .send_rows = 1,
                                     .receive_rows = 1,
                                     .workspace_bytes = sw_workspace_collective(p, op),
                                     .operands = op->n_in};
    int64_t bytes = 0;
    for (uint16_t i = 0; i < op->n_in; i++)
        bytes += before(p, op->in[i], SW_MAX_DIMS) *
                 (int64_t)sw_dtype_bytes(p->values[op->in[i].value].dtype);
    b.block_bytes = kind == SW_ALL_GATHER ? bytes : divide_up(bytes, b.group);
    if (kind == SW_ALL_GATHER) {
        b.receive_rows = before(p, op->in[0], dim);
    } else if (kind == SW_REDUCE_SCATTER) {
        b.send_rows = before(p, op->in[0], dim);
    } else if (kind == SW_ALL_TO_ALL) { /* blocks of dim_to leave, blocks of dim arrive */
        const int64_t rows = before(p, op->in[0], dim);
        b.send_rows = before(p, op->in[0], dim_to);
        b.receive_rows = dim_to < dim ? rows / b.group : rows;
    }
    return b;
}
