/* A source of tokens: one file or several, one behind the other; a text as bytes, or .bin files of
 * tokens with or without an index (core/base/token_index.h).
 *
 * Owns the open files and their mappings. Reads from any number of threads. */
#ifndef SW_TOKENS_H
#define SW_TOKENS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_tokens;

struct sw_tokens_options {
    const char *const *path; /* [count] */
    int32_t count;           /* > 0 */
    bool is_bytes;           /* each byte is a token (sw_data_is_bytes) */
    bool needs_index;        /* true if a file without an index is an error */
    int64_t vocab_size;
};
/* Errors: SW_BAD_INPUT: a path that names no file, or one that is malformed, empty, or of bytes
 * that do not fit vocab_size; an index of other data. SW_ENVIRONMENT: the file is there and cannot
 * be read. Every message of this module about a file is "FILE: error: what; what to do". */
int sw_tokens_open(const struct sw_tokens_options *options, struct sw_tokens **out,
                   struct sw_error *err);
void sw_tokens_close(struct sw_tokens *tokens);

int64_t sw_tokens_count(const struct sw_tokens *tokens);
int32_t sw_tokens_files(const struct sw_tokens *tokens);
struct sw_tokens_file {
    const char *path;
    int64_t tokens, documents, labels; /* labels that count, in all documents; of all tokens where
                                          it has no index */
    bool indexed, masked;
};
struct sw_tokens_file sw_tokens_file(const struct sw_tokens *tokens, int32_t i);
/* Path of the first file; where every error that is of no one of them stands. */
const char *sw_tokens_path(const struct sw_tokens *tokens);

/* Copies tokens [first, first + count). Errors: SW_BAD_INPUT: a token that is not below
 * vocab_size, with its position; SW_ENVIRONMENT: a file lost bytes since it was opened. What `to`
 * holds is then unspecified. */
int sw_tokens_read(const struct sw_tokens *tokens, int64_t first, int64_t count, int32_t *to,
                   struct sw_error *err);
/* Asks the system to have these tokens in memory soon; returns at once. */
void sw_tokens_prefetch(const struct sw_tokens *tokens, int64_t first, int64_t count);
/* Reads part `part` (from 0) of `parts` of each file, but of those whose index knows the largest
 * token. Errors: as sw_tokens_read, of the first token that is none of the model's. */
int sw_tokens_check(const struct sw_tokens *tokens, int64_t part, int64_t parts,
                    struct sw_error *err);

/* true if no file is left to check. */
bool sw_tokens_is_checked(const struct sw_tokens *tokens);
/* Digest of the files' lengths, of those of their documents and of what counts. */
uint64_t sw_tokens_digest(const struct sw_tokens *tokens);

/* true if every file has an index. */
bool sw_tokens_is_indexed(const struct sw_tokens *tokens);
/* true if some tokens do not count as labels. */
bool sw_tokens_is_masked(const struct sw_tokens *tokens);
/* For a source that is indexed: its documents; the first token of one, and its tokens. */
int64_t sw_tokens_documents(const struct sw_tokens *tokens);
int64_t sw_tokens_document(const struct sw_tokens *tokens, int64_t document, int64_t *first);
/* Labels that count in all documents, cut or not. */
int64_t sw_tokens_labels(const struct sw_tokens *tokens);
/* Tokens of [first, first + count) that count as labels. */
int64_t sw_tokens_counted(const struct sw_tokens *tokens, int64_t first, int64_t count);
/* Makes -1 of those of labels[count], which are tokens from `first` on, that do not count. */
void sw_tokens_mask(const struct sw_tokens *tokens, int64_t first, int64_t count, int32_t *labels);

/* Bits per byte of tokens from `train` on under a bigram model of those before, with add-one
 * smoothing: p(b | a) = (count(a, b) + 1) / (count(a) + 256). Of bytes alone. Returns NaN when out
 * of memory, or when a file lost bytes. */
double sw_tokens_bigram_bits(const struct sw_tokens *tokens, int64_t train);

#endif
