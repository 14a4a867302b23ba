/* Byte layout of collective calls: the input block for each member, the output block from each
 * member; copies of strided blocks and sums of operands. Shared by all implementations. Pure
 * functions on the caller's memory; owns and allocates nothing. */
#ifndef SW_COLLECTIVE_CALL_H
#define SW_COLLECTIVE_CALL_H

#include "core/ir/workspace_collective.h"
#include "runner/collective/collective.h"

/* Fills outer, n, middle, m, inner, dim_first, elems[0], count and kind from the local input shape;
 * leaves the other members alone. ndim may be SW_MAX_DIMS + 1: a whole stack, its instances as
 * leading dimension (dim, dim_to one higher). all_reduce ignores dim and dim_to; the caller adds
 * operands after the first (count, elems[i], in[i], out[i]). */
void sw_collective_call_shape(struct sw_collective_call *call, enum sw_collective kind, int ndim,
                              const int64_t *local_in, int dim, int dim_to);

/* Errors (SW_BAD_INPUT): the split dimension does not divide by the group; count out of range; a
 * slice. */
int sw_collective_call_check(const struct sw_collective_call *call, int32_t group,
                             struct sw_error *err);

/* A block of a dense array: rows of row_bytes, stride_bytes apart, from offset_bytes. */
struct sw_block {
    int64_t offset_bytes, rows, row_bytes, stride_bytes;
};

/* Block of this rank's input for `member`. Not for all_reduce. */
struct sw_block sw_call_send_block(const struct sw_collective_call *call, int32_t group,
                                   int32_t member);
/* Block of this rank's output from `member` (reduce_scatter: the whole output). */
struct sw_block sw_call_receive_block(const struct sw_collective_call *call, int32_t group,
                                      int32_t member);
struct sw_collective_slots sw_call_slots(const struct sw_collective_call *call, int32_t group);

int64_t sw_block_bytes(const struct sw_block *block);
bool sw_block_contiguous(const struct sw_block *block);
/* Array offset of byte `at` in the block's concatenated rows; returns the contiguous bytes from
 * there. */
int64_t sw_block_run(const struct sw_block *block, int64_t at, int64_t *offset_bytes);
/* Copies bytes [first, first + bytes) of the block's concatenated rows to or from contiguous
 * memory. `base`: the block's array. */
void sw_block_pack(void *packed, const void *base, const struct sw_block *block, int64_t first,
                   int64_t bytes);
void sw_block_unpack(void *base, const struct sw_block *block, int64_t first, int64_t bytes,
                     const void *packed);
/* Copies a block to another of the same size. */
void sw_block_copy(void *to_base, const struct sw_block *to, const void *from_base,
                   const struct sw_block *from);

/* Finds elements [first, first + elems) of an all_reduce's concatenated operands: returns the
 * operand that holds all of them and sets their offset in it; -1 if they span several. */
int32_t sw_call_operand_find(const struct sw_collective_call *call, int64_t first, int64_t elems,
                             int64_t *offset_bytes);
/* Copies such a range from the inputs; below, to the outputs. */
void sw_call_operands_pack(const struct sw_collective_call *call, void *packed, int64_t first,
                           int64_t elems);
void sw_call_operands_unpack(const struct sw_collective_call *call, int64_t first, int64_t elems,
                             const void *packed);
int64_t sw_call_total_elems(const struct sw_collective_call *call);

/* to[i] = from[0][i] + from[1][i] + ... in this order, in f32 for f32 and bf16 (rounded once, to
 * nearest even), f64 for f64. `to` may be one of the sources. count >= 1. */
void sw_sum(enum sw_dtype dtype, void *to, const void *const *from, int32_t count, int64_t elems);

#endif
