/* Merges a folder's adapters into the base model's weights: W + scale B A, in fp64. Holds one
 * projection's A and B at a time, and an open file; borrows the folder. */
#ifndef SW_CHECKPOINT_MERGE_H
#define SW_CHECKPOINT_MERGE_H

#include "runner/checkpoint/folder.h"

struct sw_adapter_merge;

/* Errors: SW_BAD_INPUT, at the file: tensors that are not a projection's A and B, or whose sizes do
 * not match the weight and adapter_config.json. SW_ENVIRONMENT: memory, unreadable file. */
int sw_adapter_merge_create(const struct sw_model_folder *adapter,
                            const struct sw_model_folder *model, struct sw_adapter_merge **out,
                            struct sw_error *err);
void sw_adapter_merge_free(struct sw_adapter_merge *merge); /* accepts NULL */

/* Loads the adapter of a model's weight, for sw_adapter_merge_add. *has: true if it has one.
 * Errors: SW_ENVIRONMENT: memory, unreadable file. */
int sw_adapter_merge_begin(struct sw_adapter_merge *merge, const struct sw_safetensor *weight,
                           bool *has, struct sw_error *err);
/* Adds the adapter to the weight's numbers [first, first + count). */
void sw_adapter_merge_add(const struct sw_adapter_merge *merge, double *numbers, int64_t first,
                          int64_t count);

#endif
