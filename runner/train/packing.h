/* Documents packed into rows of a fixed number of tokens, first-fit.
 *
 * The documents of an epoch are put in an order (a permutation keyed by the seed and the epoch),
 * cut into blocks of as many documents, and each block is packed by itself: a document goes
 * into the first row of its block that has room, and no row goes on into the next block. So a row's
 * position is (block, row), found by the number of rows of the blocks before; nothing of it is
 * kept in a checkpoint, and a run may begin anywhere. Rows of a block are in an order of their own,
 * since the last ones that first-fit opens are the emptiest.
 *
 * Knows lengths alone, not tokens. Owns its arrays. One thread at a time. */
#ifndef SW_PACKING_H
#define SW_PACKING_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_packing_options {
    int64_t documents; /* > 0 */
    /* Tokens of a document; one of none is in no row. */
    int64_t (*length)(const void *context, int64_t document);
    const void *context;
    int32_t row_tokens; /* > 0; a longer document is cut to it */
    int32_t block;      /* documents of a block; > 0 */
    uint64_t seed;
    bool ordered; /* true if documents and rows stay in their order: to evaluate, once */
};

struct sw_packing;
/* Errors (SW_ENVIRONMENT): memory. */
int sw_packing_create(const struct sw_packing_options *options, struct sw_packing **out,
                      struct sw_error *err);
void sw_packing_free(struct sw_packing *packing);

/* Documents of a row, in the order in which they stand in it, each from the first token that is
 * free on; valid until the next call. */
struct sw_packed_row {
    const int64_t *document; /* [count] */
    int32_t count;
};
/* Row number `row` (>= 0) of the whole training, one epoch behind the other; where `ordered`, rows
 * behind the last one have no documents. At least one document must have a token. */
void sw_packing_find(struct sw_packing *packing, int64_t row, struct sw_packed_row *out);
/* Rows of an epoch. */
int64_t sw_packing_rows(struct sw_packing *packing, int64_t epoch);

/* Sums over all documents of an epoch. */
struct sw_packing_sums {
    int64_t documents, tokens; /* in rows */
    int64_t cut_documents, cut_tokens;
};
struct sw_packing_sums sw_packing_sums(const struct sw_packing *packing);

/* First-fit of `count` lengths, each at most row_tokens: row[i] is the row of length i, -1 of
 * length 0. Returns the number of rows. tree [sw_pack_tree_elems()]: scratch. */
int32_t sw_pack_first_fit(const int32_t *length, int32_t count, int32_t row_tokens, int32_t *tree,
                          int32_t *row);
size_t sw_pack_tree_elems(int32_t count);

#endif
