/* Token data: a text file as bytes, or a .bin file of tokens; sequences to train on, a held-out
 * tail to judge by.
 *
 * Owns the open file and its mapping. Sequence g of training is the same on every mesh: a
 * permutation keyed by (seed, epoch) of the windows of sequence_length tokens, which start at
 * another offset in every epoch. */
#ifndef SW_DATASET_H
#define SW_DATASET_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_dataset;

/* is_bytes: each byte is a token (sw_data_is_bytes). Otherwise the file holds tokens: llm.c's
 * (magic 20240520 or 20240801, version 1: uint16, version 7: uint32), else plain little-endian
 * uint16 (vocab_size <= 65536) or uint32. holdout: fraction of the tail kept for evaluation; 1: all
 * of it, nothing is trained on. Errors: SW_BAD_INPUT when path names no file, or one that is
 * malformed, too short, or of bytes that do not fit vocab_size; SW_ENVIRONMENT when the file is
 * there and cannot be read. Every message of this module about a file is "FILE: error: what; what
 * to do". */
int sw_dataset_open(const char *path, bool is_bytes, double holdout, uint64_t seed,
                    int64_t vocab_size, int64_t sequence_length, struct sw_dataset **out,
                    struct sw_error *err);
void sw_dataset_close(struct sw_dataset *dataset);
/* Reads part `part` (from 0) of `parts` of the file. Errors: as sw_dataset_train, of its first
 * token that is none of the model's. */
int sw_dataset_check(const struct sw_dataset *dataset, int64_t part, int64_t parts,
                     struct sw_error *err);

bool sw_dataset_is_bytes(const struct sw_dataset *dataset);
int64_t sw_dataset_train_tokens(const struct sw_dataset *dataset);
int64_t sw_dataset_holdout_tokens(const struct sw_dataset *dataset);

/* Training sequence number `sequence` (>= 0): tokens and labels [sequence_length], either may be
 * NULL; label i is token i + 1. Errors: SW_BAD_INPUT: a token that is not below vocab_size, with
 * its position; SW_ENVIRONMENT: the file lost bytes since it was opened. What tokens and labels
 * hold is then unspecified. */
int sw_dataset_train(const struct sw_dataset *dataset, int64_t sequence, int32_t *tokens,
                     int32_t *labels, struct sw_error *err);

/* Sequences that cover the held-out tail once; the last is padded with label -1. 0: nothing is held
 * out. */
int64_t sw_dataset_holdout_sequences(const struct sw_dataset *dataset);
/* Held-out sequence; beyond the last one, all labels are -1. Errors: as sw_dataset_train. */
int sw_dataset_holdout(const struct sw_dataset *dataset, int64_t sequence, int32_t *tokens,
                       int32_t *labels, struct sw_error *err);
/* Tokens of the held-out tail that have a predecessor: the labels that are not -1. */
int64_t sw_dataset_holdout_labels(const struct sw_dataset *dataset);
/* Of `count` held-out sequences from `first` on. */
int64_t sw_dataset_holdout_counted(const struct sw_dataset *dataset, int64_t first, int64_t count);

/* Bits per byte of the held-out labels under a bigram model of the training bytes with add-one
 * smoothing: p(b | a) = (count(a, b) + 1) / (count(a) + 256). Only for bytes. Returns NaN when out
 * of memory, or when the file lost bytes. */
double sw_dataset_bigram_bits(const struct sw_dataset *dataset);

#endif
