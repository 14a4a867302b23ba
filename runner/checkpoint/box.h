/* Boxes of numbers on the host: copied, transposed and converted between the dtypes of files and of
 * a state. Pure functions over the caller's memory, which may lie at any address. */
#ifndef SW_CHECKPOINT_BOX_H
#define SW_CHECKPOINT_BOX_H

#include "core/checkpoint/tensors.h"

struct sw_box {
    int64_t rows, columns; /* of `to`; 0: nothing is done */
    void *to;              /* number (0, 0); row-major, rows to_stride_bytes apart */
    const void *from;
    int64_t to_stride_bytes, from_stride_bytes;
    enum sw_stored_dtype to_dtype, from_dtype;
    bool transposed; /* (i, j) of `to` is (j, i) of `from`, else (i, j) */
};

/* Converted as sw_convert_numbers does. `to` and `from` do not overlap. One thread; about half as
 * fast as memcpy where it transposes. */
void sw_box_copy(const struct sw_box *box);

#endif
