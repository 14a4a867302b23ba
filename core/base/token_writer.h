/* Writes a file of tokens (llm.c's form) and its index (core/base/token_index.h) token by token,
 * under temporary names; both appear when complete. */
#ifndef SW_TOKEN_WRITER_H
#define SW_TOKEN_WRITER_H

#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sw_token_writer;

struct sw_token_counts {
    int64_t tokens, documents; /* documents without tokens are not counted */
    int64_t largest;           /* -1: no token */
    int64_t counted;           /* labels, as in struct sw_token_index */
    int64_t uncounted;         /* documents with more than one token but no label that counts */
};

/* Starts to write the file `path` and its index; width: bytes of a token, 2 or 4. Errors
 * (SW_ENVIRONMENT; SW_BAD_INPUT if `path` is unusable), at `path`. */
int sw_token_writer_open(const char *path, int32_t width, struct sw_token_writer **out,
                         struct sw_error *err);
/* Adds tokens id[count] to the open document. counts[count]: 0 where the token does not count as a
 * label; NULL: all count. Errors: SW_ENVIRONMENT. */
int sw_token_writer_add(struct sw_token_writer *writer, const int32_t *id, const uint8_t *counts,
                        size_t count, struct sw_error *err);
/* Ends the document. Errors: SW_ENVIRONMENT. */
int sw_token_writer_end(struct sw_token_writer *writer, struct sw_error *err);
struct sw_token_counts sw_token_writer_counts(const struct sw_token_writer *writer);
/* Ends the document, syncs both files, gives them their names, and frees the writer. source: a line
 * for people and programs, without hidden characters. Errors (SW_ENVIRONMENT): a write failed; then
 * both are removed.
 *
 * The index gets its name first: a process that dies in between leaves the old tokens with an index
 * that is refused, never masked tokens that all count. */
int sw_token_writer_commit(struct sw_token_writer *writer, const char *source,
                           struct sw_error *err);
/* Removes the unfinished files, for a process that ends now: the only call that another thread may
 * make meanwhile. */
void sw_token_writer_remove(const struct sw_token_writer *writer);
/* Removes the unfinished files, and frees the writer (may be NULL). */
void sw_token_writer_abandon(struct sw_token_writer *writer);

#endif
