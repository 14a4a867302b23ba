/* Adapters of a folder on their way into the weights that they stand on: W + scale B A, in fp64.
 * Has one projection's A and B at a time, and an open file; borrows the folder. */
#ifndef SW_CHECKPOINT_MERGE_H
#define SW_CHECKPOINT_MERGE_H

#include "runner/checkpoint/folder.h"

struct sw_adapter_merge;

/* Errors: SW_BAD_INPUT, at the file: tensors that are not A and B of a projection of the model, or
 * whose sizes are not those of its weight and of adapter_config.json. SW_ENVIRONMENT: memory, the
 * file cannot be read. */
int sw_adapter_merge_create(const struct sw_model_folder *adapter,
                            const struct sw_model_folder *model, struct sw_adapter_merge **out,
                            struct sw_error *err);
void sw_adapter_merge_free(struct sw_adapter_merge *merge); /* NULL: nothing */

/* Goes to a weight of the model, whose adapter is added from now on. *has: it has one. Errors:
 * SW_ENVIRONMENT: memory, the file cannot be read. */
int sw_adapter_merge_begin(struct sw_adapter_merge *merge, const struct sw_safetensor *weight,
                           bool *has, struct sw_error *err);
/* Adds it to the weight's numbers [first, first + count). */
void sw_adapter_merge_add(const struct sw_adapter_merge *merge, double *numbers, int64_t first,
                          int64_t count);

#endif
