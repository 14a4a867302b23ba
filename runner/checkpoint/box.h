/* Copies boxes of numbers on the host, transposing and converting between dtypes of files and
 * state. Pure functions on the caller's memory, at any alignment. */
#ifndef SW_CHECKPOINT_BOX_H
#define SW_CHECKPOINT_BOX_H

#include "core/checkpoint/tensors.h"

struct sw_box {
    int64_t rows, columns; /* size of `to`; 0: does nothing */
    void *to;              /* number (0, 0); row-major, row stride to_stride_bytes */
    const void *from;
    int64_t to_stride_bytes, from_stride_bytes;
    enum sw_stored_dtype to_dtype, from_dtype;
    bool transposed; /* true if (i, j) of `to` is (j, i) of `from` */
};

/* Copies; converts as sw_convert_numbers. `to` and `from` must not overlap. One thread; half as
 * fast as memcpy when transposing. */
void sw_box_copy(const struct sw_box *box);

#endif
