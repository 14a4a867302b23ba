/* Converts numbers of files between dtypes. Pure functions on the caller's memory, at any
 * alignment; any thread. */
#ifndef SW_CHECKPOINT_CONVERT_H
#define SW_CHECKPOINT_CONVERT_H

#include "core/checkpoint/tensors.h"

#include <stdbool.h>

/* Rounds once, to nearest, ties to even; beyond the range to infinity; NaN stays NaN. Equal dtypes:
 * bit by bit. `to` and `from` must not overlap. */
void sw_convert_numbers(void *to, enum sw_stored_dtype to_dtype, const void *from,
                        enum sw_stored_dtype from_dtype, int64_t count);

/* True if each of numbers [count] is finite and stays so in the conversion. Neither dtype is
 * SW_STORED_U8. */
bool sw_convert_is_finite(const void *from, enum sw_stored_dtype from_dtype,
                          enum sw_stored_dtype to_dtype, int64_t count);

/* First converted number that was finite and no longer is; -1: none. */
int64_t sw_convert_find_overflow(const void *to, enum sw_stored_dtype to_dtype, const void *from,
                                 enum sw_stored_dtype from_dtype, int64_t count);

#endif
