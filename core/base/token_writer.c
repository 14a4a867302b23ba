#include "core/base/token_writer.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/token_file.h"
#include "core/base/token_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 4096 };

struct sw_token_writer {
    char *path, *index_path, *span_path;
    struct sw_new_file tokens, index, spans; /* the last one is temporary */
    int32_t width;
    struct sw_token_counts counts;
    int64_t begin;      /* begin of the open document */
    int64_t span;       /* begin of the open span; -1: none */
    int64_t span_count; /* spans written */
    int64_t counted;    /* value at the document's begin */
    bool masked;        /* true once a token did not count */
};

static int fail_at(const char *path, struct sw_error *err)
{
    const int reason = errno;
    sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path}, "cannot write it: %s",
               strerror(reason));
    return sw_path_blame(err, reason, "name another file to write");
}

static int fail_to_write(const struct sw_token_writer *w, struct sw_error *err)
{
    return fail_at(w->path, err);
}

static void put_number(unsigned char *at, int32_t width, uint64_t number)
{
    for (int32_t b = 0; b < width; b++)
        at[b] = (unsigned char)(number >> (8 * b));
}

/* Writes some numbers of 8 bytes. */
static int write_numbers(const struct sw_token_writer *w, FILE *out, const int64_t *number,
                         size_t count, struct sw_error *err)
{
    unsigned char bytes[16];
    for (size_t i = 0; i < count; i++)
        put_number(bytes + 8 * i, 8, (uint64_t)number[i]);
    return fwrite(bytes, 8, count, out) == count ? 0 : fail_to_write(w, err);
}

static int write_token_header(struct sw_token_writer *w, struct sw_error *err)
{
    unsigned char header[SW_TOKEN_HEADER_BYTES] = {0};
    put_number(header, 4, SW_TOKEN_MAGIC);
    put_number(header + 4, 4, w->width == 2 ? SW_TOKEN_UINT16 : SW_TOKEN_UINT32);
    put_number(header + 8, 4, (uint64_t)w->counts.tokens & UINT32_MAX);
    rewind(w->tokens.out);
    return fwrite(header, 1, sizeof header, w->tokens.out) == sizeof header ? 0
                                                                            : fail_to_write(w, err);
}

static void release(struct sw_token_writer *w)
{
    sw_file_abandon(&w->tokens);
    sw_file_abandon(&w->index);
    sw_file_abandon(&w->spans);
    free(w->path);
    free(w->index_path);
    free(w->span_path);
    free(w);
}

void sw_token_writer_remove(const struct sw_token_writer *w)
{
    (void)unlink(w->tokens.aside);
    (void)unlink(w->index.aside);
    (void)unlink(w->spans.aside);
}

void sw_token_writer_abandon(struct sw_token_writer *w)
{
    if (w != NULL)
        release(w);
}

int sw_token_writer_open(const char *path, int32_t width, struct sw_token_writer **out,
                         struct sw_error *err)
{
    static const unsigned char zeros[SW_TOKEN_INDEX_HEADER_BYTES] = {0};
    struct sw_token_writer *w = calloc(1, sizeof *w);
    *out = NULL;
    if (w == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%.200s'", path);
    w->width = width;
    w->span = -1;
    w->counts.largest = -1;
    w->path = strdup(path);
    w->index_path = sw_token_index_path(path);
    w->span_path = w->index_path != NULL ? sw_token_index_path(w->index_path) : NULL;
    if (w->path == NULL || w->span_path == NULL)
        sw_fail(err, SW_ENVIRONMENT, "out of memory for '%.200s'", path);
    else if (sw_file_begin(&w->tokens, path, 0666, NULL) != 0)
        (void)fail_at(path, err);
    else if (sw_file_begin(&w->index, w->index_path, 0666, NULL) != 0 ||
             sw_file_begin(&w->spans, w->span_path, 0600, NULL) != 0 ||
             fwrite(zeros, 1, sizeof zeros, w->index.out) != sizeof zeros)
        (void)fail_at(w->index_path, err);
    else if (write_token_header(w, err) == 0)
        *out = w;
    if (*out == w)
        return 0;
    release(w);
    return -1;
}

static int end_span(struct sw_token_writer *w, int64_t end, struct sw_error *err)
{
    const int64_t pair[2] = {w->span, end};
    if (w->span < 0)
        return 0;
    w->counts.counted += end - w->span - (w->span == w->begin);
    w->span_count++;
    w->span = -1;
    return write_numbers(w, w->spans.out, pair, 2, err);
}

/* Opens and ends spans where tokens begin and cease to count. */
static int mark(struct sw_token_writer *w, const uint8_t *counts, size_t count,
                struct sw_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t at = w->counts.tokens + (int64_t)i;
        const bool counted = counts == NULL || counts[i] != 0;
        if (counted && w->span < 0)
            w->span = at;
        else if (!counted && end_span(w, at, err) != 0)
            return -1;
        w->masked = w->masked || !counted;
        if (counts == NULL)
            break; /* the rest counts like the first */
    }
    return 0;
}

int sw_token_writer_add(struct sw_token_writer *w, const int32_t *id, const uint8_t *counts,
                        size_t count, struct sw_error *err)
{
    unsigned char block[4 * BLOCK];
    if (mark(w, counts, count, err) != 0)
        return -1;
    w->counts.tokens += (int64_t)count;
    while (count > 0) {
        const size_t n = count < BLOCK ? count : BLOCK;
        for (size_t i = 0; i < n; i++) {
            put_number(block + i * (size_t)w->width, w->width, (uint32_t)id[i]);
            w->counts.largest = id[i] > w->counts.largest ? id[i] : w->counts.largest;
        }
        if (fwrite(block, (size_t)w->width, n, w->tokens.out) != n)
            return fail_to_write(w, err);
        id += n;
        count -= n;
    }
    return 0;
}

int sw_token_writer_end(struct sw_token_writer *w, struct sw_error *err)
{
    const int64_t end = w->counts.tokens;
    if (end == w->begin)
        return 0;
    if (end_span(w, end, err) != 0)
        return -1;
    w->counts.documents++;
    w->counts.uncounted += end - w->begin > 1 && w->counts.counted == w->counted;
    w->begin = end;
    w->counted = w->counts.counted;
    return write_numbers(w, w->index.out, &end, 1, err);
}

struct sw_token_counts sw_token_writer_counts(const struct sw_token_writer *w)
{
    return w->counts;
}

/* ---- the end ---- */

/* Syncs written data. */
static int flush_file(const struct sw_token_writer *w, const struct sw_new_file *file,
                      struct sw_error *err)
{
    if (ferror(file->out) == 0 && fflush(file->out) == 0 && fsync(fileno(file->out)) == 0)
        return 0;
    return fail_to_write(w, err);
}

/* Writes spans and source behind the ends of the documents. */
static int write_rest(struct sw_token_writer *w, const char *source, struct sw_error *err)
{
    char block[4 * BLOCK];
    if (w->masked) {
        FILE *in = fflush(w->spans.out) == 0 ? fopen(w->spans.aside, "rbe") : NULL;
        bool copied = in != NULL;
        for (size_t n; copied && (n = fread(block, 1, sizeof block, in)) > 0;)
            copied = fwrite(block, 1, n, w->index.out) == n;
        copied = copied && ferror(in) == 0;
        const int reason = errno;
        if (in != NULL)
            fclose(in);
        errno = reason;
        if (!copied)
            return fail_to_write(w, err);
    }
    const size_t bytes = strlen(source) + 1;
    return fwrite(source, 1, bytes, w->index.out) == bytes ? 0 : fail_to_write(w, err);
}

/* Digest, by `digest`, of a whole unfinished file; *bytes: its length. */
static int digest_file(const struct sw_token_writer *w, const struct sw_new_file *file,
                       uint64_t (*digest)(const unsigned char *data, size_t bytes), uint64_t *out,
                       int64_t *bytes, struct sw_error *err)
{
    struct stat info;
    const int handle = open(file->aside, O_RDONLY | O_CLOEXEC);
    void *data = MAP_FAILED;
    if (handle >= 0 && fstat(handle, &info) == 0)
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
    const int reason = errno;
    if (handle >= 0)
        close(handle);
    errno = reason;
    if (data == MAP_FAILED)
        return fail_to_write(w, err);
    *bytes = info.st_size;
    *out = digest(data, (size_t)info.st_size);
    munmap(data, (size_t)info.st_size);
    return 0;
}

/* Digest of an index that lacks its own. */
static uint64_t digest_index(const unsigned char *data, size_t bytes)
{
    const size_t behind = SW_TOKEN_INDEX_AT_DIGEST + 8;
    return sw_hash_bytes(sw_hash_bytes(SW_HASH_START, data, SW_TOKEN_INDEX_AT_DIGEST),
                         data + behind, bytes - behind);
}

static int write_index_header(struct sw_token_writer *w, const char *source, struct sw_error *err)
{
    unsigned char header[SW_TOKEN_INDEX_HEADER_BYTES] = {0};
    const struct sw_token_counts *c = &w->counts;
    uint64_t digest = 0;
    int64_t bytes = 0, own_bytes;
    if (digest_file(w, &w->tokens, sw_token_digest, &digest, &bytes, err) != 0)
        return -1;
    const int64_t number[8] = {bytes,
                               (int64_t)digest,
                               c->tokens,
                               c->documents,
                               c->largest,
                               c->counted,
                               w->masked ? w->span_count : 0,
                               (int64_t)strlen(source) + 1};
    memcpy(header, SW_TOKEN_INDEX_MAGIC, strlen(SW_TOKEN_INDEX_MAGIC));
    put_number(header + SW_TOKEN_INDEX_AT_VERSION, 4, SW_TOKEN_INDEX_VERSION);
    put_number(header + SW_TOKEN_INDEX_AT_FLAGS, 4, w->masked ? SW_TOKEN_INDEX_MASKED : 0);
    for (size_t i = 0; i < 8; i++)
        put_number(header + SW_TOKEN_INDEX_AT_NUMBERS + 8 * i, 8, (uint64_t)number[i]);
    for (int32_t time = 0; time < 2; time++) { /* first without its digest, then with it */
        rewind(w->index.out);
        if (fwrite(header, 1, sizeof header, w->index.out) != sizeof header ||
            fflush(w->index.out) != 0)
            return fail_to_write(w, err);
        if (time == 0 && digest_file(w, &w->index, digest_index, &digest, &own_bytes, err) != 0)
            return -1;
        put_number(header + SW_TOKEN_INDEX_AT_DIGEST, 8, digest);
    }
    return 0;
}

int sw_token_writer_commit(struct sw_token_writer *w, const char *source, struct sw_error *err)
{
    int status = -1;
    if (sw_token_writer_end(w, err) != 0 || write_token_header(w, err) != 0 ||
        flush_file(w, &w->tokens, err) != 0 || write_rest(w, source, err) != 0 ||
        write_index_header(w, source, err) != 0)
        goto out;
    if (sw_file_commit(&w->index, NULL) != 0 || sw_file_commit(&w->tokens, NULL) != 0)
        (void)fail_to_write(w, err);
    else
        status = 0;
out:
    release(w);
    return status;
}
