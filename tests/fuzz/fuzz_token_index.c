/* Any bytes as the index of a file of tokens. The first byte says how many tokens the file has, and
 * whether the numbers that tie the index to itself and to the file are put in their places: without
 * that nothing gets behind a digest. A refusal is one line; what is accepted is sound. */
#include "core/base/hash.h"
#include "core/base/token_file.h"
#include "core/base/token_index.h"
#include "tests/fuzz/support.h"

#include <stdlib.h>
#include <string.h>

static void check_index(const struct sw_token_index *index)
{
    uint64_t before = 0, first = 0;
    int64_t counted = 0, document = 0;
    for (int64_t i = 0; i < index->documents; before = index->end[i], i++)
        fuzz_require(index->end[i] > before, "a document without tokens", "");
    fuzz_require(before == (uint64_t)index->tokens, "tokens of no document", "");
    before = 0;
    for (int64_t i = 0; i < index->spans; i++) {
        const uint64_t begin = index->span[2 * i], end = index->span[2 * i + 1];
        fuzz_require(begin >= before && begin < end && end <= (uint64_t)index->tokens,
                     "spans that are not apart", "");
        for (; index->end[document] <= begin; document++)
            first = index->end[document];
        fuzz_require(end <= index->end[document], "a span of two documents", "");
        counted += (int64_t)(end - begin) - (begin == first);
        before = end;
    }
    fuzz_require(index->masked || index->spans == 0, "spans without masks", "");
    fuzz_require(index->counted == (index->masked ? counted : index->tokens - index->documents),
                 "another count", "");
    fuzz_require((index->largest < 0) == (index->tokens == 0), "another largest token", "");
    fuzz_require_plain(index->source);
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct sw_token_index index;
    struct sw_error err = {0};
    if (bytes < 1)
        return;
    const size_t count = data[0] >> 1, bin_bytes = SW_TOKEN_HEADER_BYTES + 2 * count;
    const uint32_t head[3] = {SW_TOKEN_MAGIC, SW_TOKEN_UINT16, (uint32_t)count};
    unsigned char *bin = calloc(1, bin_bytes), *own = malloc(bytes);
    fuzz_require(bin != NULL && own != NULL, "no memory", "");
    memcpy(bin, head, sizeof head);
    memcpy(own, data + 1, --bytes);
    if ((data[0] & 1) != 0 && bytes >= SW_TOKEN_INDEX_HEADER_BYTES) {
        const uint64_t of_file[2] = {bin_bytes, sw_token_digest(bin, bin_bytes)};
        const size_t behind = SW_TOKEN_INDEX_AT_DIGEST + 8;
        memcpy(own + SW_TOKEN_INDEX_AT_NUMBERS, of_file, sizeof of_file);
        const uint64_t digest =
            sw_hash_bytes(sw_hash_bytes(SW_HASH_START, own, SW_TOKEN_INDEX_AT_DIGEST), own + behind,
                          bytes - behind);
        memcpy(own + SW_TOKEN_INDEX_AT_DIGEST, &digest, sizeof digest);
    }
    if (sw_token_index_parse("f", own, bytes, "bin", bin, bin_bytes, &index, &err) == 0) {
        fuzz_require(index.tokens == (int64_t)count, "another file", "");
        check_index(&index);
    } else {
        fuzz_require(err.status == SW_BAD_INPUT, "no mistake of the file", err.message);
        fuzz_require(strcmp(err.file, "f") == 0 && err.line == 0, "another place", err.file);
        fuzz_require(err.message[0] != '\0' && strlen(err.message) < 400, "no message",
                     err.message);
        fuzz_require_plain(err.message);
    }
    free(bin);
    free(own);
}
