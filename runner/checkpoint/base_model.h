/* The model that adapters stand on, as a checkpoint of them names it: by its path, and by a digest
 * that a copy of it under another path has as well. */
#ifndef SW_BASE_MODEL_H
#define SW_BASE_MODEL_H

#include "runner/checkpoint/model_folder.h"

/* Digest of every tensor of the folder: name, type, shape and one block of numbers, by name, in
 * however many files they lie. Reads 4 KiB of each tensor. Errors: SW_ENVIRONMENT: memory, a file
 * that cannot be read; SW_BAD_INPUT: as sw_folder_tensors. */
int sw_base_model_digest(const struct sw_model_folder *folder, uint64_t *out, struct sw_error *err);

#endif
