#include "runner/train/tokens.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/token_file.h"
#include "core/base/token_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 65536, BLOCK_TOKENS = 1 << 24 };

struct file {
    char *path;
    int descriptor;
    void *mapping;
    size_t mapping_bytes;
    const unsigned char *data; /* at the first token */
    int32_t width;             /* bytes per token: 1, 2, 4 or 8 */
    int64_t count, first;      /* number of tokens; index of the first in the source */
    bool indexed;
    struct sw_token_index index;
    int64_t first_document; /* in the source */
};

struct sw_tokens {
    struct file *file; /* [files] */
    int32_t files;
    bool is_bytes, indexed, masked;
    int64_t vocab_size, count, documents;
};

/* ---- Opening ---- */

/* Finds the tokens' offset and width. */
static int read_form(const struct sw_tokens *t, struct file *f, struct sw_error *err)
{
    const size_t bytes = f->mapping_bytes;
    struct sw_token_form form = {.width = 1, .tokens = (int64_t)bytes};
    if (!t->is_bytes &&
        sw_token_form(f->mapping, bytes < HEAD_BYTES ? bytes : HEAD_BYTES, (int64_t)bytes,
                      t->vocab_size, (struct sw_place){.file = f->path}, &form, err) != 0)
        return -1;
    f->data = (const unsigned char *)f->mapping + form.begin_bytes;
    f->width = form.width;
    f->count = form.tokens;
    return 0;
}

static int fail_to_open(const char *path, const char *what, const char *help, struct sw_error *err)
{
    const enum sw_status status = sw_path_status(errno, false);
    return sw_fail_at(err, status, (struct sw_place){.file = path}, "cannot open %s: %s; %s", what,
                      strerror(errno),
                      status == SW_BAD_INPUT ? help : "it must be readable on every node");
}

static int map_file(struct file *f, struct sw_error *err)
{
    struct stat info;
    /* opening a pipe would wait for a writer */
    f->descriptor = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->descriptor < 0)
        return fail_to_open(
            f->path, "the data file",
            "name one that every node has as data.path in the run file and emit the plan again",
            err);
    if (fstat(f->descriptor, &info) != 0)
        return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = f->path},
                          "cannot read the data file: %s", strerror(errno));
    if (!S_ISREG(info.st_mode))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = f->path},
                          "the data is %s; name a text file or a .bin file of tokens",
                          S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    if (info.st_size == 0)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = f->path},
                          "the data file is empty; name one with something to train on");
    void *mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, f->descriptor, 0);
    if (mapping == MAP_FAILED)
        return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = f->path},
                          "cannot read the data file: %s", strerror(errno));
    f->mapping = mapping;
    f->mapping_bytes = (size_t)info.st_size;
    return 0;
}

/* Opens the index, which tells the tokens' width if the vocabulary would otherwise. */
static int open_index(const struct sw_tokens *t, struct file *f, bool needed, struct sw_error *err)
{
    if (!t->is_bytes && sw_token_index_open(f->path, &f->indexed, &f->index, err) != 0)
        return -1;
    if (!f->indexed && needed)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = f->path},
                          "has no index of documents, which data.pack needs; make it with 'runner "
                          "tokenize' from the texts");
    if (!f->indexed || f->index.tokens == f->count)
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = f->path},
                      "%" PRId64 " tokens of %d bytes, its index has %" PRId64
                      "; use the model that the data was tokenized for",
                      f->count, (int)f->width, f->index.tokens);
}

static int open_file(struct sw_tokens *t, struct file *f, bool needs_index, struct sw_error *err)
{
    if (map_file(f, err) != 0 || read_form(t, f, err) != 0 ||
        open_index(t, f, needs_index, err) != 0)
        return -1;
    f->first = t->count;
    f->first_document = t->documents;
    t->count += f->count;
    t->documents += f->indexed ? f->index.documents : 0;
    t->indexed = t->indexed && f->indexed;
    t->masked = t->masked || (f->indexed && f->index.masked);
    return 0;
}

int sw_tokens_open(const struct sw_tokens_options *options, struct sw_tokens **out,
                   struct sw_error *err)
{
    struct sw_tokens *t = calloc(1, sizeof *t);
    int status = -1;
    if (t != NULL)
        *t = (struct sw_tokens){.is_bytes = options->is_bytes,
                                .indexed = true,
                                .vocab_size = options->vocab_size,
                                .file = calloc((size_t)options->count, sizeof *t->file)};
    if (t != NULL && t->file != NULL)
        status = 0;
    for (int32_t i = 0; status == 0 && i < options->count; i++) {
        struct file *f = &t->file[t->files++];
        f->descriptor = -1;
        f->path = strdup(options->path[i]);
        status = f->path == NULL ? -1 : 0;
        if (status == 0 && open_file(t, f, options->needs_index, err) != 0) {
            sw_tokens_close(t);
            return -1;
        }
    }
    if (status == 0)
        *out = t;
    else
        sw_tokens_close(t);
    return status == 0 ? 0 : sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
}

void sw_tokens_close(struct sw_tokens *t)
{
    for (int32_t i = 0; t != NULL && i < t->files; i++) {
        struct file *f = &t->file[i];
        if (f->indexed)
            sw_token_index_close(&f->index);
        if (f->mapping != NULL)
            munmap(f->mapping, f->mapping_bytes);
        if (f->descriptor >= 0)
            close(f->descriptor);
        free(f->path);
    }
    if (t != NULL)
        free(t->file);
    free(t);
}

int64_t sw_tokens_count(const struct sw_tokens *t)
{
    return t->count;
}

int32_t sw_tokens_files(const struct sw_tokens *t)
{
    return t->files;
}

struct sw_tokens_file sw_tokens_file(const struct sw_tokens *t, int32_t i)
{
    const struct file *f = &t->file[i];
    return (struct sw_tokens_file){.path = f->path,
                                   .tokens = f->count,
                                   .documents = f->indexed ? f->index.documents : 0,
                                   .labels = f->indexed ? f->index.counted : f->count - 1,
                                   .indexed = f->indexed,
                                   .masked = f->indexed && f->index.masked};
}

const char *sw_tokens_path(const struct sw_tokens *t)
{
    return t->file[0].path;
}

/* ---- Reading ---- */

/* Checks the length: reading a mapped file past its end kills the process silently. */
static int check_length(const struct file *f, struct sw_error *err)
{
    struct stat info;
    if (fstat(f->descriptor, &info) == 0 && info.st_size >= (off_t)f->mapping_bytes)
        return 0;
    return sw_fail_at(
        err, SW_ENVIRONMENT, (struct sw_place){.file = f->path},
        "the data file became shorter while it was in use; restore it and start again");
}

/* File of a token: the last that begins at or before it. */
static const struct file *file_of(const struct sw_tokens *t, int64_t token)
{
    int32_t low = 0, high = t->files;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (t->file[middle].first <= token)
            low = middle;
        else
            high = middle;
    }
    return &t->file[low];
}

/* Length of the part of [first, first + count) in the file of `first`. */
static int64_t within(const struct file *f, int64_t first, int64_t count)
{
    const int64_t left = f->first + f->count - first;
    return count < left ? count : left;
}

static int refuse(const struct sw_tokens *t, const struct file *f, int64_t at, struct sw_error *err)
{
    return sw_token_refuse(sw_token_at(f->data, f->width, at), at, t->vocab_size,
                           (struct sw_place){.file = f->path}, err);
}

int sw_tokens_read(const struct sw_tokens *t, int64_t first, int64_t count, int32_t *to,
                   struct sw_error *err)
{
    while (count > 0) {
        const struct file *f = file_of(t, first);
        const int64_t begin = first - f->first, n = within(f, first, count);
        if (check_length(f, err) != 0)
            return -1;
        for (int64_t i = 0; i < n; i++) {
            const int64_t value = sw_token_at(f->data, f->width, begin + i);
            if (value < 0 || value >= t->vocab_size)
                return refuse(t, f, begin + i, err);
            to[i] = (int32_t)value;
        }
        to += n;
        first += n;
        count -= n;
    }
    return 0;
}

void sw_tokens_prefetch(const struct sw_tokens *t, int64_t first, int64_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    while (count > 0) {
        const struct file *f = file_of(t, first);
        const int64_t n = within(f, first, count);
        const unsigned char *from = f->data + (first - f->first) * f->width;
        const size_t into = (size_t)(from - (const unsigned char *)f->mapping) % page;
        (void)madvise((void *)(uintptr_t)(from - into), (size_t)n * (size_t)f->width + into,
                      MADV_WILLNEED);
        first += n;
        count -= n;
    }
}

static int check_file(const struct sw_tokens *t, const struct file *f, int64_t part, int64_t parts,
                      struct sw_error *err)
{
    const int64_t each = f->count / parts, to = part + 1 == parts ? f->count : (part + 1) * each;
    if (f->indexed && f->index.largest < t->vocab_size)
        return 0;
    for (int64_t from = part * each; from < to; from += BLOCK_TOKENS) {
        const int64_t count = to - from < BLOCK_TOKENS ? to - from : BLOCK_TOKENS;
        if (check_length(f, err) != 0)
            return -1;
        const int64_t bad =
            sw_token_find_bad(f->data + from * f->width, f->width, count, t->vocab_size);
        if (bad >= 0)
            return refuse(t, f, from + bad, err);
    }
    return 0;
}

int sw_tokens_check(const struct sw_tokens *t, int64_t part, int64_t parts, struct sw_error *err)
{
    for (int32_t i = 0; i < t->files; i++)
        if (check_file(t, &t->file[i], part, parts, err) != 0)
            return -1;
    return 0;
}

bool sw_tokens_is_checked(const struct sw_tokens *t)
{
    bool checked = true;
    for (int32_t i = 0; i < t->files; i++)
        checked = checked && t->file[i].indexed && t->file[i].index.largest < t->vocab_size;
    return checked;
}

/* ---- The index ---- */

/* An index contains a digest of all its bytes. */
uint64_t sw_tokens_digest(const struct sw_tokens *t)
{
    uint64_t digest = 0;
    for (int32_t i = 0; i < t->files; i++) {
        const struct sw_token_index *index = &t->file[i].index;
        digest = sw_hash_mix(digest + (uint64_t)t->file[i].count);
        if (t->file[i].indexed)
            digest =
                sw_hash_mix(digest + (uint64_t)sw_token_at((const unsigned char *)index->mapping +
                                                               SW_TOKEN_INDEX_AT_DIGEST,
                                                           8, 0));
    }
    return digest;
}

bool sw_tokens_is_indexed(const struct sw_tokens *t)
{
    return t->indexed;
}

bool sw_tokens_is_masked(const struct sw_tokens *t)
{
    return t->masked;
}

int64_t sw_tokens_documents(const struct sw_tokens *t)
{
    return t->documents;
}

int64_t sw_tokens_document(const struct sw_tokens *t, int64_t document, int64_t *first)
{
    int32_t low = 0, high = t->files;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (t->file[middle].first_document <= document)
            low = middle;
        else
            high = middle;
    }
    const struct file *f = &t->file[low];
    const int64_t at = document - f->first_document;
    const int64_t begin = at == 0 ? 0 : (int64_t)f->index.end[at - 1];
    if (first != NULL)
        *first = f->first + begin;
    return (int64_t)f->index.end[at] - begin;
}

int64_t sw_tokens_labels(const struct sw_tokens *t)
{
    int64_t labels = 0;
    for (int32_t i = 0; i < t->files; i++)
        labels += t->file[i].indexed ? t->file[i].index.counted : t->file[i].count;
    return labels;
}

/* First span that ends after a token of the file. */
static int64_t span_behind(const struct file *f, int64_t token)
{
    int64_t low = 0, high = f->index.spans;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)f->index.span[2 * middle + 1] > token)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Length of the run from `first` in one file whose tokens all count or all do not (*counts). */
static int64_t next_run(const struct sw_tokens *t, int64_t first, int64_t count, bool *counts)
{
    const struct file *f = file_of(t, first);
    const int64_t begin = first - f->first, n = within(f, first, count);
    *counts = true;
    if (!f->indexed || !f->index.masked)
        return n;
    const int64_t i = span_behind(f, begin);
    const int64_t from = i < f->index.spans ? (int64_t)f->index.span[2 * i] : begin + n;
    *counts = from <= begin;
    const int64_t end = *counts ? (int64_t)f->index.span[2 * i + 1] : from;
    return end - begin < n ? end - begin : n;
}

int64_t sw_tokens_counted(const struct sw_tokens *t, int64_t first, int64_t count)
{
    int64_t counted = 0;
    bool counts;
    for (int64_t run; count > 0; first += run, count -= run) {
        run = next_run(t, first, count, &counts);
        counted += counts ? run : 0;
    }
    return counted;
}

void sw_tokens_mask(const struct sw_tokens *t, int64_t first, int64_t count, int32_t *labels)
{
    bool counts;
    for (int64_t run; t->masked && count > 0; first += run, count -= run, labels += run) {
        run = next_run(t, first, count, &counts);
        for (int64_t i = 0; !counts && i < run; i++)
            labels[i] = -1;
    }
}

/* ---- Bigrams ---- */

double sw_tokens_bigram_bits(const struct sw_tokens *t, int64_t train)
{
    const struct file *f = &t->file[0];
    uint64_t *pairs = calloc(256 * 256, sizeof *pairs);
    uint64_t total[256] = {0};
    if (pairs == NULL || t->files > 1 || check_length(f, NULL) != 0) {
        free(pairs);
        return NAN;
    }
    for (int64_t i = 0; i + 1 < train; i++) {
        pairs[f->data[i] * 256 + f->data[i + 1]]++;
        total[f->data[i]]++;
    }
    double bits = 0;
    for (int64_t i = train; i + 1 < f->count; i++) {
        const unsigned char a = f->data[i], b = f->data[i + 1];
        bits -= log2((double)(pairs[a * 256 + b] + 1) / (double)(total[a] + 256));
    }
    free(pairs);
    return bits / (double)(f->count - train - 1);
}
