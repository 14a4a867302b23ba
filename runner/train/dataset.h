/* Rows of a run's data: what to train on, and what is held out to judge by.
 *
 * Row g of training is the same on every mesh, at every restart: it follows from the files, the
 * seed and g alone. Without `pack` a row is a window of sequence_length tokens of a source; the
 * windows of an epoch are permuted, keyed by (seed, epoch), and start at another offset in every
 * epoch. With it a row holds whole documents (packing.h). Several sources take turns by weight
 * (mixture.h).
 *
 * Owns the sources. One thread at a time. */
#ifndef SW_DATASET_H
#define SW_DATASET_H

#include "runner/train/packing.h"
#include "runner/train/tokens.h"

struct sw_dataset;

/* Files that are one source, one behind the other. */
struct sw_dataset_source {
    const char *const *path; /* [count] */
    int32_t count;
};
struct sw_dataset_options {
    const struct sw_dataset_source *source; /* [sources] */
    const double *weight;                   /* [sources]; may be NULL for one source */
    int32_t sources;
    bool is_bytes;
    bool pack;
    int32_t pack_block; /* documents that are packed together (SW_DATA_PACK_BLOCK) */
    double holdout; /* share at the end of each source that is held out: of tokens, or of documents
                       where they are packed; 1: all, and nothing is trained on */
    uint64_t seed;
    int64_t document_end; /* of rows that are windows: token behind which another document begins;
                             -1: a row is one */
    int64_t vocab_size, sequence_length;
};

/* Errors: as sw_tokens_open; SW_BAD_INPUT: fewer tokens than a row takes, no document of at least
 * one token, a packed source without an index. Where all is held out, sources without an index are
 * read as windows, packed or not. */
int sw_dataset_open(const struct sw_dataset_options *options, struct sw_dataset **out,
                    struct sw_error *err);
void sw_dataset_close(struct sw_dataset *dataset);
/* sw_tokens_check of every source. */
int sw_dataset_check(const struct sw_dataset *dataset, int64_t part, int64_t parts,
                     struct sw_error *err);

/* true if indexes tell that every token is one of the model's: nothing is left to check. */
bool sw_dataset_is_checked(const struct sw_dataset *dataset);
/* Digest of the lengths of all files and documents and of what counts: the same rows have the same
 * one. */
uint64_t sw_dataset_digest(const struct sw_dataset *dataset);
bool sw_dataset_is_bytes(const struct sw_dataset *dataset);
/* true if labels of some rows do not count, so that steps differ in what they count. */
bool sw_dataset_varies(const struct sw_dataset *dataset);
int64_t sw_dataset_train_tokens(const struct sw_dataset *dataset);
int64_t sw_dataset_holdout_tokens(const struct sw_dataset *dataset);
/* Documents and tokens in packed rows of an epoch of what is trained on, over all sources; zeros:
 * nothing is packed. *rows: of the first epoch. */
struct sw_packing_sums sw_dataset_sums(const struct sw_dataset *dataset, int64_t *rows);

/* Parts of a row, each [sequence_length]; any may be NULL. */
struct sw_row {
    int32_t *tokens;
    int32_t *labels;    /* label i is token i + 1; -1: does not count */
    int32_t *segments;  /* numbers of documents in the row, ascending from 0; what pads a packed row
                           has numbers of its own, token by token */
    int32_t *positions; /* of a token in its document, where rows are packed; else in the row */
};
/* Training row number `row` (>= 0). Errors: as sw_tokens_read; what the row holds is then
 * unspecified. */
int sw_dataset_train(struct sw_dataset *dataset, int64_t row, const struct sw_row *out,
                     struct sw_error *err);
/* Labels that count in training rows [first, first + count): of the index alone, no token is read.
 * The rows are those of the next step: later calls go back to `first` quickly. */
int64_t sw_dataset_train_counted(struct sw_dataset *dataset, int64_t first, int64_t count);
/* Asks the system for the files' parts that these rows are read from, to have them when they are
 * read; returns at once. */
void sw_dataset_prefetch(struct sw_dataset *dataset, int64_t first, int64_t count);
int32_t sw_dataset_sources(const struct sw_dataset *dataset);
const struct sw_tokens *sw_dataset_tokens(const struct sw_dataset *dataset, int32_t i);
/* The source of a training row. */
int32_t sw_dataset_train_source(struct sw_dataset *dataset, int64_t row);

/* Rows that cover what is held out once; the last of each source is padded with label -1. 0:
 * nothing is held out. */
int64_t sw_dataset_holdout_sequences(const struct sw_dataset *dataset);
/* Held-out row; beyond the last one, all labels are -1. Errors: as sw_dataset_train. */
int sw_dataset_holdout(struct sw_dataset *dataset, int64_t row, const struct sw_row *out,
                       struct sw_error *err);
/* Labels that count in all that is held out; in `count` held-out rows from `first` on. */
int64_t sw_dataset_holdout_labels(const struct sw_dataset *dataset);
int64_t sw_dataset_holdout_counted(struct sw_dataset *dataset, int64_t first, int64_t count);

/* sw_tokens_bigram_bits of a single source of bytes; else NaN. */
double sw_dataset_bigram_bits(const struct sw_dataset *dataset);

#endif
