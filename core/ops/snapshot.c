/* Moving the state to the ranks that write it. */
#include "core/base/number.h"
#include "core/ops/rows.h"

#define LONG(member)                                                                               \
    .type = SW_ATTRIBUTE_LONG, .costs = true,                                                      \
    .offset = offsetof(union sw_attributes, snapshot.member)
#define INT(member)                                                                                \
    .type = SW_ATTRIBUTE_INT, .costs = true,                                                       \
    .offset = offsetof(union sw_attributes, snapshot.member)
static const struct sw_attribute snapshot_attributes[] = {
    {.name = "files", INT(files)},
    {.name = "bytes", LONG(bytes)},
    {.name = "owned_bytes", LONG(owned_bytes)},
    {.name = "rounds", INT(rounds)},
    {.name = "chunk_bytes", LONG(chunk_bytes)},
    {.name = "sent_bytes", LONG(sent_bytes)},
    {.name = "messages", LONG(messages)},
    {.name = "tables", .prints = SW_PRINT_NEVER, LONG(tables)},
    {.type = SW_ATTRIBUTE_END}};
#undef LONG
#undef INT

/* Share of one round, as rounds are about alike. */
static int64_t of_round(const struct sw_op *op, int64_t all)
{
    const int64_t rounds = op->as.snapshot.rounds > 0 ? op->as.snapshot.rounds : 1;
    return (all + rounds - 1) / rounds;
}

/* Blocks for other ranks are packed, blocks of this rank's files are unpacked: each is read and
 * written. */
static struct sw_op_cost cost_snapshot(const struct sw_program *p, const struct sw_op *op)
{
    const struct sw_snapshot_attributes *s = &op->as.snapshot;
    (void)p;
    return (struct sw_op_cost){0, 2 * of_round(op, s->sent_bytes + s->owned_bytes)};
}

static int64_t bytes_snapshot(const struct sw_program *p, const struct sw_op *op)
{
    (void)p;
    return of_round(op, op->as.snapshot.sent_bytes);
}

static double messages_snapshot(const struct sw_op *op)
{
    const struct sw_snapshot_attributes *s = &op->as.snapshot;
    return s->rounds > 0 ? (double)s->messages / s->rounds : 0;
}

/* Bytes of a leaving and an arriving message. */
static int64_t workspace_snapshot(const struct sw_program *p, const struct sw_op *op)
{
    (void)p;
    return 2 * sw_align(op->as.snapshot.chunk_bytes, SW_ARENA_ALIGNMENT);
}

const struct sw_op_info sw_row_snapshot = {.name = "snapshot",
                                           .attributes = snapshot_attributes,
                                           .cost_class = SW_CLASS_MEMORY,
                                           .cost = cost_snapshot,
                                           .communication = bytes_snapshot,
                                           .messages = messages_snapshot,
                                           .workspace = workspace_snapshot};
