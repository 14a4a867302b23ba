/* Rows of a run's data: training rows and held-out rows.
 *
 * Training row g depends only on the files, the seed and g: it is the same on every mesh and after
 * every restart. Without `pack` a row is a window of sequence_length tokens of a source; an epoch's
 * windows are permuted, keyed by (seed, epoch), and have another offset in every epoch. With `pack`
 * a row holds whole documents (packing.h). Several sources are mixed by weight (mixture.h).
 *
 * Owns the sources. One thread at a time. */
#ifndef SW_DATASET_H
#define SW_DATASET_H

#include "runner/train/packing.h"
#include "runner/train/tokens.h"

struct sw_dataset;

/* Concatenated files of one source. */
struct sw_dataset_source {
    const char *const *path; /* [count] */
    int32_t count;
};
struct sw_dataset_options {
    const struct sw_dataset_source *source; /* [sources] */
    const double *weight;                   /* [sources]; NULL allowed for one source */
    int32_t sources;
    bool is_bytes;
    bool pack;
    int32_t pack_block; /* documents packed together (SW_DATA_PACK_BLOCK) */
    double holdout; /* held-out share at each source's end, of tokens or, if packed, documents; 1:
                     * all, no training rows */
    uint64_t seed;
    int64_t document_end; /* for windows: token that ends a document; -1: a row is one */
    int64_t vocab_size, sequence_length;
};

/* Errors: as sw_tokens_open; SW_BAD_INPUT: fewer tokens than a row takes, no document with a token,
 * a packed source without an index. If all is held out, sources without an index are read as
 * windows even with `pack`. */
int sw_dataset_open(const struct sw_dataset_options *options, struct sw_dataset **out,
                    struct sw_error *err);
void sw_dataset_close(struct sw_dataset *dataset);
/* Runs sw_tokens_check on every source. */
int sw_dataset_check(const struct sw_dataset *dataset, int64_t part, int64_t parts,
                     struct sw_error *err);

/* True if indexes prove every token below vocab_size: no check is needed. */
bool sw_dataset_is_checked(const struct sw_dataset *dataset);
/* Digest of all lengths of files and documents and of counted tokens: equal for equal rows. */
uint64_t sw_dataset_digest(const struct sw_dataset *dataset);
bool sw_dataset_is_bytes(const struct sw_dataset *dataset);
/* True if some rows have labels that do not count, so that steps differ in their number. */
bool sw_dataset_varies(const struct sw_dataset *dataset);
int64_t sw_dataset_train_tokens(const struct sw_dataset *dataset);
int64_t sw_dataset_holdout_tokens(const struct sw_dataset *dataset);
/* Documents and tokens in packed training rows of an epoch, over all sources; zeros: nothing is
 * packed. *rows: of the first epoch. */
struct sw_packing_sums sw_dataset_sums(const struct sw_dataset *dataset, int64_t *rows);

/* Parts of a row, each [sequence_length]; NULL: not wanted. */
struct sw_row {
    int32_t *tokens;
    int32_t *labels;    /* label i is token i + 1; -1: does not count */
    int32_t *segments;  /* document numbers in the row, from 0; padding tokens get their own */
    int32_t *positions; /* position in the document if rows are packed, else in the row */
};
/* Reads training row `row` (>= 0). Errors: as sw_tokens_read; the row is then unspecified. */
int sw_dataset_train(struct sw_dataset *dataset, int64_t row, const struct sw_row *out,
                     struct sw_error *err);
/* Counted labels in training rows [first, first + count), from the index alone, without reading
 * tokens. For the next step's rows: later calls return to `first` quickly. */
int64_t sw_dataset_train_counted(struct sw_dataset *dataset, int64_t first, int64_t count);
/* Asks the system to prefetch these rows' parts of the files; returns at once. */
void sw_dataset_prefetch(struct sw_dataset *dataset, int64_t first, int64_t count);
int32_t sw_dataset_sources(const struct sw_dataset *dataset);
const struct sw_tokens *sw_dataset_tokens(const struct sw_dataset *dataset, int32_t i);
/* Source of a training row. */
int32_t sw_dataset_train_source(struct sw_dataset *dataset, int64_t row);

/* Rows that cover the held-out data once; each source's last is padded with label -1. 0: no
 * held-out data. */
int64_t sw_dataset_holdout_sequences(const struct sw_dataset *dataset);
/* Reads a held-out row; after the last one all labels are -1. Errors: as sw_dataset_train. */
int sw_dataset_holdout(struct sw_dataset *dataset, int64_t row, const struct sw_row *out,
                       struct sw_error *err);
/* Counted labels in all held-out data; below, in `count` held-out rows from `first`. */
int64_t sw_dataset_holdout_labels(const struct sw_dataset *dataset);
int64_t sw_dataset_holdout_counted(struct sw_dataset *dataset, int64_t first, int64_t count);

/* sw_tokens_bigram_bits if there is one source, of bytes; else NaN. */
double sw_dataset_bigram_bits(const struct sw_dataset *dataset);

#endif
