/* How the bytes of a collective travel: in how many messages to each other member, and whether
 * blocks that are not in one piece are packed first. One rule that prices, the printed program and
 * the transports share. Pure functions of shapes; owns nothing. */
#ifndef SW_MESSAGES_H
#define SW_MESSAGES_H

#include "core/ir/op.h"

/* What a rank's block for, or from, one member looks like. */
struct sw_collective_blocks {
    int32_t group;                   /* members */
    int64_t send_rows, receive_rows; /* runs of bytes of a member's block, in input and output */
    int64_t block_bytes;             /* that one member gets */
    int64_t workspace_bytes;
    int32_t operands; /* of an all_reduce */
};

struct sw_collective_route {
    bool packed;
    int64_t messages; /* to each member, of one call */
    int64_t
        piece_bytes; /* packed: of a member's block, in each message (the last may be shorter) */
};

enum {
    SW_MESSAGES_MOST = 64,       /* to one member in one call, of any program of an ordinary mesh */
    SW_MESSAGES_FEW = 8,         /* rows that are not worth a pass over memory */
    SW_MESSAGE_LARGE = 256 << 10 /* bytes of a row from which on it is not, either */
};

/* NCCL takes a peer into a batch once, so many messages to one peer are as many batches; a pass
 * over the memory is cheaper. */
struct sw_collective_route sw_collective_route(enum sw_carrier transport, enum sw_collective kind,
                                               const struct sw_collective_blocks *blocks);

/* Of a collective of a program whose sizes are known (laid out or resized). */
struct sw_collective_blocks sw_collective_blocks(const struct sw_program *program,
                                                 const struct sw_op *op);

#endif
