/* Identity of the base model of adapters in a checkpoint: its path, and a digest shared by copies
 * at other paths. */
#ifndef SW_BASE_MODEL_H
#define SW_BASE_MODEL_H

#include "runner/checkpoint/model_folder.h"

/* Digest of every tensor in the folder, by name: name, type, shape and one block of numbers,
 * independent of the division into files. Reads 4 KiB per tensor. Errors: SW_ENVIRONMENT: memory,
 * unreadable file; SW_BAD_INPUT: as sw_folder_tensors. */
int sw_base_model_digest(const struct sw_model_folder *folder, uint64_t *out, struct sw_error *err);

#endif
