/* Numbers of files from one dtype to another. Pure functions over the caller's memory, which may
 * lie at any address; any thread. */
#ifndef SW_CHECKPOINT_CONVERT_H
#define SW_CHECKPOINT_CONVERT_H

#include "core/checkpoint/tensors.h"

#include <stdbool.h>

/* Rounded once, to nearest, ties to even; beyond the range infinity, a NaN stays one. The same
 * dtype: bit by bit. `to` and `from` do not overlap. */
void sw_convert_numbers(void *to, enum sw_stored_dtype to_dtype, const void *from,
                        enum sw_stored_dtype from_dtype, int64_t count);

/* True if each of the numbers [count] is finite and stays so when it is so converted. Neither dtype
 * is SW_STORED_U8. */
bool sw_convert_is_finite(const void *from, enum sw_stored_dtype from_dtype,
                          enum sw_stored_dtype to_dtype, int64_t count);

/* Of what was so converted the first number that was finite and no longer is; -1: none. */
int64_t sw_convert_find_overflow(const void *to, enum sw_stored_dtype to_dtype, const void *from,
                                 enum sw_stored_dtype from_dtype, int64_t count);

#endif
