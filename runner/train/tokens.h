/* A source of tokens: concatenated files, a text as bytes or .bin files with or without an index
 * (core/base/token_index.h).
 *
 * Owns the open files and their mappings. Any number of threads may read. */
#ifndef SW_TOKENS_H
#define SW_TOKENS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct sw_tokens;

struct sw_tokens_options {
    const char *const *path; /* [count] */
    int32_t count;           /* > 0 */
    bool is_bytes;           /* true if bytes are tokens (sw_data_is_bytes) */
    bool needs_index;        /* true if a file without an index is an error */
    int64_t vocab_size;
};
/* Errors: SW_BAD_INPUT: no such file, or malformed, empty, or bytes that exceed vocab_size; an
 * index of other data. SW_ENVIRONMENT: an existing file cannot be read. Every message about a file
 * is "FILE: error: what; what to do". */
int sw_tokens_open(const struct sw_tokens_options *options, struct sw_tokens **out,
                   struct sw_error *err);
void sw_tokens_close(struct sw_tokens *tokens);

int64_t sw_tokens_count(const struct sw_tokens *tokens);
int32_t sw_tokens_files(const struct sw_tokens *tokens);
struct sw_tokens_file {
    const char *path;
    int64_t tokens, documents, labels; /* counted labels in all documents, or tokens */
    bool indexed, masked;
};
struct sw_tokens_file sw_tokens_file(const struct sw_tokens *tokens, int32_t i);
/* Path of the first file, named in errors about no particular one. */
const char *sw_tokens_path(const struct sw_tokens *tokens);

/* Copies tokens [first, first + count). Errors: SW_BAD_INPUT: a token >= vocab_size, with its
 * position; SW_ENVIRONMENT: a file became shorter. `to` is then unspecified. */
int sw_tokens_read(const struct sw_tokens *tokens, int64_t first, int64_t count, int32_t *to,
                   struct sw_error *err);
/* Asks the system to load these tokens soon; returns at once. */
void sw_tokens_prefetch(const struct sw_tokens *tokens, int64_t first, int64_t count);
/* Checks part `part` (from 0) of `parts` of each file whose index does not know the largest token.
 * Errors: as sw_tokens_read, for the first token >= vocab_size. */
int sw_tokens_check(const struct sw_tokens *tokens, int64_t part, int64_t parts,
                    struct sw_error *err);

/* True if no file needs a check. */
bool sw_tokens_is_checked(const struct sw_tokens *tokens);
/* Digest of the lengths of files and documents and of counted tokens. */
uint64_t sw_tokens_digest(const struct sw_tokens *tokens);

/* True if every file has an index. */
bool sw_tokens_is_indexed(const struct sw_tokens *tokens);
/* True if some tokens do not count as labels. */
bool sw_tokens_is_masked(const struct sw_tokens *tokens);
/* Documents of an indexed source; below, the first token and length of one. */
int64_t sw_tokens_documents(const struct sw_tokens *tokens);
int64_t sw_tokens_document(const struct sw_tokens *tokens, int64_t document, int64_t *first);
/* Counted labels in all documents, cut or not. */
int64_t sw_tokens_labels(const struct sw_tokens *tokens);
/* Tokens of [first, first + count) that count as labels. */
int64_t sw_tokens_counted(const struct sw_tokens *tokens, int64_t first, int64_t count);
/* Sets labels[count], the tokens from `first`, to -1 where they do not count. */
void sw_tokens_mask(const struct sw_tokens *tokens, int64_t first, int64_t count, int32_t *labels);

/* Bits per byte of the tokens from `train` under a bigram model of the earlier ones with add-one
 * smoothing: p(b | a) = (count(a, b) + 1) / (count(a) + 256). Bytes only. NaN: out of memory, or a
 * file became shorter. */
double sw_tokens_bigram_bits(const struct sw_tokens *tokens, int64_t train);

#endif
