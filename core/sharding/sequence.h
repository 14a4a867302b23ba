/* Layouts of the sequence over the ranks of a ring, contiguous and zigzag: the global position of
 * each local token. Tokens, labels and positions are permuted once, at load. */
#ifndef SW_SEQUENCE_H
#define SW_SEQUENCE_H

#include "core/base/words.h"

#include <stdint.h>

/* Storage order is the concatenation of the `shards` ranks' local blocks. Global position of the
 * element at storage index j of a sequence of `length` tokens: contiguous: j; zigzag: rank r holds
 * chunks r and 2*shards-1-r of length/(2*shards) tokens each, in that order (llama3
 * context-parallel / "striped halves" order). length must divide by shards (contiguous) or 2*shards
 * (zigzag). */
int64_t sw_sequence_position(enum sw_sequence_layout layout, int64_t length, int32_t shards,
                             int64_t j);

/* Tokens per run of consecutive positions in storage order: length/shards or length/(2*shards);
 * for shards == 1 the whole length in both layouts. */
int64_t sw_sequence_chunk(enum sw_sequence_layout layout, int64_t length, int32_t shards);

#endif
