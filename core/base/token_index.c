#include "core/base/token_index.h"

#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/base/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ends and spans are read in place");

enum { SAMPLE_BYTES = 32768, SAMPLES = 1024 };

uint64_t sw_token_digest(const unsigned char *data, size_t bytes)
{
    uint64_t digest = SW_HASH_START;
    if (bytes <= (size_t)SAMPLE_BYTES * SAMPLES)
        return sw_hash_bytes(digest, data, bytes);
    for (size_t i = 0; i < SAMPLES; i++) {
        const size_t last = bytes - SAMPLE_BYTES;
        const size_t at = i + 1 == SAMPLES ? last : last / (SAMPLES - 1) * i;
        digest = sw_hash_bytes(digest, data + at, SAMPLE_BYTES);
    }
    return digest;
}

char *sw_token_index_path(const char *bin)
{
    const size_t room = strlen(bin) + sizeof SW_TOKEN_INDEX_ENDING;
    char *path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s%s", bin, SW_TOKEN_INDEX_ENDING);
    return path;
}

/* ---- checks ---- */

/* An index being read, and the numbers of its header. */
struct reading {
    struct sw_place at;
    const char *bin;
    const unsigned char *data;
    size_t bytes;
    uint64_t bin_bytes, bin_digest, source_bytes;
    struct sw_token_index *out;
    struct sw_error *err;
};

static uint64_t number_at(const struct reading *r, size_t at, int32_t width)
{
    return (uint64_t)sw_token_at(r->data + at, width, 0);
}

static int refuse(const struct reading *r, const char *what)
{
    return sw_fail_at(r->err, SW_BAD_INPUT, r->at,
                      "the index is damaged: %s; tokenize again, or copy both files again", what);
}

static int read_header(struct reading *r)
{
    struct sw_token_index *out = r->out;
    int64_t number[8];
    if (r->bytes < SW_TOKEN_INDEX_HEADER_BYTES ||
        memcmp(r->data, SW_TOKEN_INDEX_MAGIC, strlen(SW_TOKEN_INDEX_MAGIC)) != 0)
        return sw_fail_at(r->err, SW_BAD_INPUT, r->at,
                          "not an index of tokens, though its name says so; tokenize again, or "
                          "give the file another name");
    const uint64_t version = number_at(r, SW_TOKEN_INDEX_AT_VERSION, 4);
    const uint64_t flags = number_at(r, SW_TOKEN_INDEX_AT_FLAGS, 4);
    if (version != SW_TOKEN_INDEX_VERSION)
        return sw_fail_at(r->err, SW_BAD_INPUT, r->at,
                          "an index of version %" PRIu64 ", this program reads version %d; "
                          "tokenize again",
                          version, SW_TOKEN_INDEX_VERSION);
    for (size_t i = 0; i < 8; i++)
        number[i] = (int64_t)number_at(r, SW_TOKEN_INDEX_AT_NUMBERS + 8 * i, 8);
    r->bin_bytes = (uint64_t)number[0];
    r->bin_digest = (uint64_t)number[1];
    out->tokens = number[2];
    out->documents = number[3];
    out->largest = number[4];
    out->counted = number[5];
    out->spans = number[6];
    r->source_bytes = (uint64_t)number[7];
    out->masked = (flags & SW_TOKEN_INDEX_MASKED) != 0;
    return (flags & ~(uint64_t)SW_TOKEN_INDEX_MASKED) == 0 ? 0 : refuse(r, "unknown flags");
}

/* Splits the bytes behind the header into arrays, and compares their digest. */
static int read_arrays(struct reading *r)
{
    struct sw_token_index *out = r->out;
    const uint64_t body = r->bytes - SW_TOKEN_INDEX_HEADER_BYTES;
    const uint64_t documents = (uint64_t)out->documents, spans = (uint64_t)out->spans;
    const size_t behind = SW_TOKEN_INDEX_AT_DIGEST + 8;
    if (documents > body / 8 || spans > body / 16 || r->source_bytes > body ||
        8 * documents + 16 * spans + r->source_bytes != body)
        return refuse(r, "its length is not that of its counts");
    const uint64_t digest =
        sw_hash_bytes(sw_hash_bytes(SW_HASH_START, r->data, SW_TOKEN_INDEX_AT_DIGEST),
                      r->data + behind, r->bytes - behind);
    if (digest != number_at(r, SW_TOKEN_INDEX_AT_DIGEST, 8))
        return refuse(r, "its digest is that of other bytes");
    for (size_t i = behind; i < SW_TOKEN_INDEX_HEADER_BYTES; i++)
        if (r->data[i] != 0)
            return refuse(r, "its header does not end in zeros");
    out->end = (const uint64_t *)(const void *)(r->data + SW_TOKEN_INDEX_HEADER_BYTES);
    out->span = out->end + out->documents;
    out->source = (const char *)(out->span + 2 * out->spans);
    const size_t length = strnlen(out->source, r->source_bytes);
    if (length + 1 != r->source_bytes)
        return refuse(r, "its source is no line");
    for (size_t i = 0; i < length; i++)
        if (sw_text_hidden(out->source + i) != 0)
            return refuse(r, "its source has hidden characters");
    return 0;
}

static int check_ends(const struct reading *r)
{
    const struct sw_token_index *out = r->out;
    uint64_t before = 0;
    for (int64_t i = 0; i < out->documents; i++) {
        if (out->end[i] <= before)
            return refuse(r, "a document ends before it begins");
        before = out->end[i];
    }
    if (out->tokens < 0 || before != (uint64_t)out->tokens)
        return refuse(r, "its documents do not end with its tokens");
    if (out->largest < -1 || out->largest > UINT32_MAX || (out->largest < 0) != (out->tokens == 0))
        return refuse(r, "its largest token is none");
    return 0;
}

static int check_spans(const struct reading *r)
{
    const struct sw_token_index *out = r->out;
    uint64_t before = 0, first = 0; /* end of the last span, begin of the document */
    int64_t counted = out->masked ? 0 : out->tokens - out->documents, document = 0;
    if (!out->masked && out->spans != 0)
        return refuse(r, "it has spans, and is not masked");
    for (int64_t i = 0; i < out->spans; i++) {
        const uint64_t begin = out->span[2 * i], end = out->span[2 * i + 1];
        if (begin < before || begin >= end || end > (uint64_t)out->tokens)
            return refuse(r, "its spans are not apart");
        for (; out->end[document] <= begin; document++)
            first = out->end[document];
        if (end > out->end[document])
            return refuse(r, "a span reaches over the end of its document");
        counted += (int64_t)(end - begin) - (begin == first);
        before = end;
    }
    return counted == out->counted ? 0 : refuse(r, "it counts other labels than its spans have");
}

static int check_tokens(const struct reading *r, const unsigned char *tokens, size_t bytes)
{
    struct sw_token_form form = {0};
    if (r->bin_bytes != bytes)
        return sw_fail_at(r->err, SW_BAD_INPUT, r->at,
                          "the index of other data: of %" PRIu64 " bytes, '%.200s' has %zu; "
                          "tokenize again, copy both files again, or remove the index to train on "
                          "undivided tokens",
                          r->bin_bytes, r->bin, bytes);
    if (r->bin_digest != sw_token_digest(tokens, bytes))
        return sw_fail_at(r->err, SW_BAD_INPUT, r->at,
                          "the index of other data: '%.200s' has as many bytes, but others; "
                          "tokenize again, copy both files again, or remove the index to train on "
                          "undivided tokens",
                          r->bin);
    if (sw_token_form(tokens, bytes, (int64_t)bytes, 1, (struct sw_place){.file = r->bin}, &form,
                      r->err) != 0)
        return -1;
    return form.tokens == r->out->tokens ? 0 : refuse(r, "its tokens are not the file's");
}

int sw_token_index_parse(const char *name, const unsigned char *data, size_t bytes, const char *bin,
                         const unsigned char *tokens, size_t token_bytes,
                         struct sw_token_index *out, struct sw_error *err)
{
    struct reading r = {.at = {.file = name}, .bin = bin, .data = data, .bytes = bytes, .err = err};
    *out = (struct sw_token_index){0};
    r.out = out;
    if (read_header(&r) != 0 || read_arrays(&r) != 0 || check_ends(&r) != 0 ||
        check_spans(&r) != 0 || check_tokens(&r, tokens, token_bytes) != 0)
        return -1;
    return 0;
}

/* ---- files ---- */

/* Maps a regular file; an empty one has no mapping. *written: time of its last change. Returns 0,
 * or -1 and errno. */
static int map_file(const char *path, unsigned char **data, size_t *bytes, struct timespec *written)
{
    struct stat info = {0};
    int reason = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *data = NULL;
    *bytes = 0;
    if (file < 0)
        return -1;
    if (fstat(file, &info) != 0)
        reason = errno;
    else if (!S_ISREG(info.st_mode))
        reason = S_ISDIR(info.st_mode) ? EISDIR : ESPIPE;
    if (reason == 0 && info.st_size > 0) {
        void *mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        reason = mapping == MAP_FAILED ? errno : 0;
        *data = reason == 0 ? mapping : NULL;
        *bytes = reason == 0 ? (size_t)info.st_size : 0;
    }
    close(file);
    *written = info.st_mtim;
    errno = reason;
    return reason == 0 ? 0 : -1;
}

static void unmap(void *data, size_t bytes)
{
    if (data != NULL)
        munmap(data, bytes);
}

static int fail_to_read(const char *path, struct sw_error *err)
{
    const bool kind = errno == EISDIR || errno == ESPIPE;
    return sw_fail_at(err, kind ? SW_BAD_INPUT : SW_ENVIRONMENT, (struct sw_place){.file = path},
                      "cannot read it: %s%s", kind ? "not a regular file" : strerror(errno),
                      kind ? "; name a file of tokens that 'runner tokenize' wrote" : "");
}

/* Path of the index of `bin`, which may be missing: beside it, or beside the target of a symbolic
 * link. NULL: no memory. */
static char *find_index(const char *bin)
{
    char *beside = sw_token_index_path(bin);
    char *target = beside != NULL && access(beside, F_OK) != 0 ? realpath(bin, NULL) : NULL;
    if (target == NULL)
        return beside;
    free(beside);
    beside = sw_token_index_path(target);
    free(target);
    return beside;
}

int sw_token_index_open(const char *bin, bool *found, struct sw_token_index *out,
                        struct sw_error *err)
{
    unsigned char *data = NULL, *tokens = NULL;
    size_t bytes = 0, token_bytes = 0;
    struct timespec written, tokens_written;
    int status = -1;
    char *path = find_index(bin);
    *found = false;
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the index of '%.200s'", bin);
    if (map_file(path, &data, &bytes, &written) != 0) {
        status = errno == ENOENT ? 0 : fail_to_read(path, err);
        goto out;
    }
    if (map_file(bin, &tokens, &token_bytes, &tokens_written) != 0) {
        (void)fail_to_read(bin, err);
        goto out;
    }
    status = sw_token_index_parse(path, data, bytes, bin, tokens, token_bytes, out, err);
    if (status == 0) {
        *found = true;
        if (tokens_written.tv_sec != written.tv_sec ? tokens_written.tv_sec > written.tv_sec
                                                    : tokens_written.tv_nsec > written.tv_nsec)
            out->largest = UINT32_MAX;
        out->mapping = data;
        out->mapping_bytes = bytes;
        data = NULL;
    }
out:
    unmap(tokens, token_bytes);
    unmap(data, bytes);
    free(path);
    return status;
}

void sw_token_index_close(struct sw_token_index *index)
{
    if (index->mapping != NULL)
        munmap(index->mapping, index->mapping_bytes);
    *index = (struct sw_token_index){0};
}
