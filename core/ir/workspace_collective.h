/* Scratch of the collectives: one formula that layout (arena size), plan and every implementation
 * share.
 *
 * A collective exchanges one block for each pair of members. A block that is not contiguous is
 * packed; blocks that are summed are received beside each other. Both use slots of the workspace.
 * Large blocks pass through the slots in pieces, so the workspace is bounded, except for arrays of
 * gigabytes, where it grows more slowly than the tensor. Owns nothing. */
#ifndef SW_WORKSPACE_COLLECTIVE_H
#define SW_WORKSPACE_COLLECTIVE_H

#include "core/ir/program.h"

enum {
    SW_SLOT_ALIGNMENT = 64, /* bytes; a multiple of every dtype's */
    SW_COLLECTIVE_WORKSPACE_MAX =
        32 << 20,       /* bytes, unless a slot would be smaller than SW_SLOT_MIN */
    SW_SLOT_MIN = 4096, /* bytes */
    SW_COLLECTIVE_PIECES =
        56, /* multiple of those workspaces from which a strided array gets more */
    SW_ALL_REDUCE_SMALL = 64 << 10 /* bytes times members up to which all_reduce is one exchange */
};

/* Slots of one collective: `slots` of `slot_bytes` each (a multiple of SW_SLOT_ALIGNMENT), each for
 * a whole block or a piece of one. slots 0: no workspace. */
struct sw_collective_slots {
    int32_t slots;
    int64_t slot_bytes;
};

/* group: members (>= 1). local_elems: elements of all operands of this rank together (>= 0).
 * send_strided, receive_strided: true if a member's block is not contiguous in the input, in the
 * output (for all_reduce, pass send_strided = more than one operand). slice: no slots. */
struct sw_collective_slots sw_collective_slots(enum sw_collective kind, int32_t group,
                                               int64_t local_elems, size_t element_bytes,
                                               bool send_strided, bool receive_strided);

/* Scratch bytes of a slice, all_gather, reduce_scatter, all_reduce or all_to_all op on one rank,
 * from the local shapes of its operands (set by layout); 0 for every other kind. */
int64_t sw_workspace_collective(const struct sw_program *program, const struct sw_op *op);

#endif
