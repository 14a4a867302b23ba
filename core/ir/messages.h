/* Messages of a collective: their number to each other member, and true if blocks that are not in
 * one piece are packed first. Prices, the printed program and the transports share this one rule.
 * Pure functions of shapes; owns nothing. */
#ifndef SW_MESSAGES_H
#define SW_MESSAGES_H

#include "core/ir/op.h"

/* Shape of the block that a rank sends to, or receives from, one member. */
struct sw_collective_blocks {
    int32_t group;                   /* members */
    int64_t send_rows, receive_rows; /* runs of bytes of a member's block, in input and output */
    int64_t block_bytes;             /* bytes that one member gets */
    int64_t workspace_bytes;
    int32_t operands; /* operands of an all_reduce */
};

struct sw_collective_route {
    bool packed;
    int64_t messages; /* messages to each member in one call */
    /* bytes of a member's block in each packed message; the last may be shorter */
    int64_t piece_bytes;
};

enum {
    SW_MESSAGES_MOST =
        64, /* most messages to one member in one call, in programs on ordinary meshes */
    SW_MESSAGES_FEW = 8,         /* up to so many rows, packing costs more than it saves */
    SW_MESSAGE_LARGE = 256 << 10 /* the same for rows from so many bytes on */
};

/* NCCL puts a peer into a batch once, so n messages to one peer make n batches; a pass over memory
 * is cheaper. */
struct sw_collective_route sw_collective_route(enum sw_carrier transport, enum sw_collective kind,
                                               const struct sw_collective_blocks *blocks);

/* Blocks of a collective in a program whose sizes are known (laid out or resized). */
struct sw_collective_blocks sw_collective_blocks(const struct sw_program *program,
                                                 const struct sw_op *op);

#endif
