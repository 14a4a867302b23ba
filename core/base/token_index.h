/* Index of a file of tokens: which documents X.bin holds and which tokens count as labels, in
 * X.bin.index. Little-endian numbers:
 *
 *       0  "SWTOKIDX"
 *       8  uint32 version, uint32 flags (1: masked)
 *      16  uint64 bytes of X.bin, uint64 sw_token_digest of X.bin
 *      32  int64 tokens, documents, largest, counted, spans
 *      72  uint64 bytes of the source, with the NUL behind it
 *      80  uint64 FNV-1a of all bytes of the index but these 8; 40 bytes of zeros
 *     128  uint64 end[documents], uint64 span[spans][2], the source
 *
 * The reader trusts nothing: a damaged index, and the index of other data, are refused.
 * core/base/token_writer.h writes both files. */
#ifndef SW_TOKEN_INDEX_H
#define SW_TOKEN_INDEX_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_TOKEN_INDEX_MAGIC "SWTOKIDX"
#define SW_TOKEN_INDEX_ENDING ".index" /* appended to the name of the file of tokens */
enum { SW_TOKEN_INDEX_VERSION = 1, SW_TOKEN_INDEX_HEADER_BYTES = 128 };
enum { SW_TOKEN_INDEX_MASKED = 1 }; /* flags */
/* Offsets within the header. */
enum {
    SW_TOKEN_INDEX_AT_VERSION = 8,
    SW_TOKEN_INDEX_AT_FLAGS = 12,
    SW_TOKEN_INDEX_AT_NUMBERS = 16, /* 8 numbers of 8 bytes, in the order above */
    SW_TOKEN_INDEX_AT_DIGEST = 80
};

struct sw_token_index {
    int64_t tokens; /* in the file of tokens */
    int64_t documents;
    int64_t largest;     /* largest token; -1: no token; UINT32_MAX if the file was written to
                            after its index: then unexamined tokens may be larger */
    int64_t counted;     /* labels that count: tokens of spans, except the first of each document */
    const uint64_t *end; /* [documents]: end of each, in tokens; ascending; the last is `tokens` */
    bool masked;         /* false: every label counts, and there are no spans */
    int64_t spans;
    const uint64_t *span; /* [2 * spans]: begin and end of tokens that count as labels; sorted,
                             separate, none across a document's end */
    const char *source;   /* a line of JSON: inputs, tokenizer, template */
    void *mapping;        /* memory of all of these; NULL: the caller's */
    size_t mapping_bytes;
};

/* Opens the index of the file of tokens `bin`, beside it or beside the target of a symbolic link.
 * *found: false if there is none; then *out must not be closed. Errors: SW_BAD_INPUT, at the index:
 * damaged, of another version, or of other data; at `bin`: its header is wrong; SW_ENVIRONMENT: a
 * file cannot be read. */
int sw_token_index_open(const char *bin, bool *found, struct sw_token_index *out,
                        struct sw_error *err);
void sw_token_index_close(struct sw_token_index *index);

/* The same for bytes in memory: data[bytes], at a multiple of 8, of a file called `name`, and
 * tokens[token_bytes] of `bin`. *out points into data. */
int sw_token_index_parse(const char *name, const unsigned char *data, size_t bytes, const char *bin,
                         const unsigned char *tokens, size_t token_bytes,
                         struct sw_token_index *out, struct sw_error *err);

/* Digest of a file of tokens: of all its bytes up to 32 MiB, else of 1024 blocks of 32 KiB from
 * first to last. */
uint64_t sw_token_digest(const unsigned char *data, size_t bytes);

/* "BIN.index", malloc'ed; NULL: no memory. */
char *sw_token_index_path(const char *bin);

#endif
