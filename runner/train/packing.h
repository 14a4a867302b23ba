/* Packs documents into rows of a fixed number of tokens, first-fit.
 *
 * An epoch's documents are permuted, keyed by the seed and the epoch, and cut into blocks of equal
 * count; each block is packed by itself: a document goes into the first row of its block with room.
 * So (block, row), found from the rows of earlier blocks, identifies a row; checkpoints keep
 * nothing of it, and a run may begin anywhere. The rows of a block are permuted too, since
 * first-fit's last rows are the emptiest.
 *
 * Uses lengths only, no tokens. Owns its arrays. One thread at a time. */
#ifndef SW_PACKING_H
#define SW_PACKING_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_packing_options {
    int64_t documents; /* > 0 */
    /* Tokens of a document; without tokens it is in no row. */
    int64_t (*length)(const void *context, int64_t document);
    const void *context;
    int32_t row_tokens; /* > 0; longer documents are cut */
    int32_t block;      /* documents per block; > 0 */
    uint64_t seed;
    bool ordered; /* true to keep the order of documents and rows: evaluation, one epoch */
};

struct sw_packing;
/* Errors (SW_ENVIRONMENT): memory. */
int sw_packing_create(const struct sw_packing_options *options, struct sw_packing **out,
                      struct sw_error *err);
void sw_packing_free(struct sw_packing *packing);

/* Documents of a row in order, each from the first free token; valid until the next call. */
struct sw_packed_row {
    const int64_t *document; /* [count] */
    int32_t count;
};
/* Finds row `row` (>= 0) of all training, epoch after epoch; if `ordered`, rows after the last have
 * no documents. Some document must have a token. */
void sw_packing_find(struct sw_packing *packing, int64_t row, struct sw_packed_row *out);
/* Number of rows in an epoch. */
int64_t sw_packing_rows(struct sw_packing *packing, int64_t epoch);

/* Sums over all documents of an epoch. */
struct sw_packing_sums {
    int64_t documents, tokens; /* in rows */
    int64_t cut_documents, cut_tokens;
};
struct sw_packing_sums sw_packing_sums(const struct sw_packing *packing);

/* First-fit of `count` lengths, each at most row_tokens: row[i] is the row of length i, -1 if the
 * length is 0. Returns the number of rows. tree [sw_pack_tree_elems()]: scratch. */
int32_t sw_pack_first_fit(const int32_t *length, int32_t count, int32_t row_tokens, int32_t *tree,
                          int32_t *row);
size_t sw_pack_tree_elems(int32_t count);

#endif
