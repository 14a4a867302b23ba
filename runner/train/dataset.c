#include "runner/train/dataset.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 65536, BLOCK_TOKENS = 1 << 24 };

struct sw_dataset {
    char *path;
    int file;
    void *mapping;
    size_t mapping_bytes;
    const unsigned char *data; /* the first token */
    bool is_bytes;
    int32_t width; /* bytes per token: 1, 2, 4 or 8 */
    int64_t tokens, train, vocab_size, sequence_length;
    uint64_t seed;
};

/* Finds where the tokens are and how wide. */
static int read_form(struct sw_dataset *d, struct sw_error *err)
{
    const size_t bytes = d->mapping_bytes;
    struct sw_token_form form = {.width = 1, .tokens = (int64_t)bytes};
    if (!d->is_bytes &&
        sw_token_form(d->mapping, bytes < HEAD_BYTES ? bytes : HEAD_BYTES, (int64_t)bytes,
                      d->vocab_size, (struct sw_place){.file = d->path}, &form, err) != 0)
        return -1;
    d->data = (const unsigned char *)d->mapping + form.begin_bytes;
    d->width = form.width;
    d->tokens = form.tokens;
    return 0;
}

static int fail_to_open(const char *path, const char *what, const char *help, struct sw_error *err)
{
    const enum sw_status status = sw_path_status(errno, false);
    return sw_fail_at(err, status, (struct sw_place){.file = path}, "cannot open %s: %s; %s", what,
                      strerror(errno),
                      status == SW_BAD_INPUT ? help : "it must be readable on every node");
}

static int map_file(struct sw_dataset *d, struct sw_error *err)
{
    struct stat info;
    d->file = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for a writer */
    if (d->file < 0)
        return fail_to_open(
            d->path, "the data file",
            "name one that every node has as data.path in the run file and emit the plan again",
            err);
    if (fstat(d->file, &info) != 0)
        return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = d->path},
                          "cannot read the data file: %s", strerror(errno));
    if (!S_ISREG(info.st_mode))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = d->path},
                          "the data is %s; name a text file or a .bin file of tokens",
                          S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    if (info.st_size == 0)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = d->path},
                          "the data file is empty; name one with something to train on");
    void *mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, d->file, 0);
    if (mapping == MAP_FAILED)
        return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = d->path},
                          "cannot read the data file: %s", strerror(errno));
    d->mapping = mapping;
    d->mapping_bytes = (size_t)info.st_size;
    return 0;
}

/* Reading beyond the end of a mapped file ends the process without a word. */
static int check_length(const struct sw_dataset *d, struct sw_error *err)
{
    struct stat info;
    if (fstat(d->file, &info) == 0 && info.st_size >= (off_t)d->mapping_bytes)
        return 0;
    return sw_fail_at(
        err, SW_ENVIRONMENT, (struct sw_place){.file = d->path},
        "the data file became shorter while it was in use; restore it and start again");
}

int sw_dataset_open(const char *path, bool is_bytes, double holdout, uint64_t seed,
                    int64_t vocab_size, int64_t sequence_length, struct sw_dataset **out,
                    struct sw_error *err)
{
    struct sw_dataset *d = calloc(1, sizeof *d);
    if (d == NULL || (d->path = strdup(path)) == NULL) {
        free(d);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    }
    d->file = -1;
    d->is_bytes = is_bytes;
    d->vocab_size = vocab_size;
    d->sequence_length = sequence_length;
    d->seed = seed;
    if (map_file(d, err) != 0 || read_form(d, err) != 0) {
        sw_dataset_close(d);
        return -1;
    }
    d->train = d->tokens - (int64_t)((double)d->tokens * holdout);
    if (holdout < 1 && d->train < sequence_length + 1) {
        sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                   "%" PRId64 " token%s to train on, a sequence takes %" PRId64
                   "; use more data, a smaller sequence_length or holdout",
                   d->train, d->train == 1 ? "" : "s", sequence_length + 1);
        sw_dataset_close(d);
        return -1;
    }
    *out = d;
    return 0;
}

void sw_dataset_close(struct sw_dataset *d)
{
    if (d == NULL)
        return;
    if (d->mapping != NULL)
        munmap(d->mapping, d->mapping_bytes);
    if (d->file >= 0)
        close(d->file);
    free(d->path);
    free(d);
}

bool sw_dataset_is_bytes(const struct sw_dataset *d)
{
    return d->is_bytes;
}

int64_t sw_dataset_train_tokens(const struct sw_dataset *d)
{
    return d->train;
}

int64_t sw_dataset_holdout_tokens(const struct sw_dataset *d)
{
    return d->tokens - d->train;
}

/* A permutation of [0, count): four Feistel rounds over the next even number of bits, walked until
 * inside. */
static int64_t permute(uint64_t key, int64_t count, int64_t i)
{
    int32_t half = 1;
    while (half < 31 && (int64_t)1 << (2 * half) < count)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const uint64_t swap =
                left ^ (sw_hash_mix(key + round * 0x9e3779b97f4a7c15u + right) & mask);
            left = right;
            right = swap;
        }
        x = left << half | right;
    } while (x >= (uint64_t)count);
    return (int64_t)x;
}

static int copy_token(const struct sw_dataset *d, int64_t at, int32_t *token, struct sw_error *err)
{
    const int64_t value = sw_token_at(d->data, d->width, at);
    if (value < 0 || value >= d->vocab_size)
        return sw_token_refuse(value, at, d->vocab_size, (struct sw_place){.file = d->path}, err);
    if (token != NULL)
        *token = (int32_t)value;
    return 0;
}

int sw_dataset_check(const struct sw_dataset *d, int64_t part, int64_t parts, struct sw_error *err)
{
    const int64_t each = d->tokens / parts, to = part + 1 == parts ? d->tokens : (part + 1) * each;
    for (int64_t from = part * each; from < to; from += BLOCK_TOKENS) {
        const int64_t count = to - from < BLOCK_TOKENS ? to - from : BLOCK_TOKENS;
        if (check_length(d, err) != 0)
            return -1;
        const int64_t bad =
            sw_token_find_bad(d->data + from * d->width, d->width, count, d->vocab_size);
        if (bad >= 0)
            return copy_token(d, from + bad, NULL, err);
    }
    return 0;
}

int sw_dataset_train(const struct sw_dataset *d, int64_t sequence, int32_t *tokens, int32_t *labels,
                     struct sw_error *err)
{
    const int64_t windows = (d->train - 1) / d->sequence_length;
    const int64_t epoch = sequence / windows;
    const uint64_t key = sw_hash_mix(d->seed * 0x9e3779b97f4a7c15u + (uint64_t)epoch + 1);
    const int64_t slack = d->train - 1 - windows * d->sequence_length;
    const int64_t shift = (int64_t)(sw_hash_mix(key ^ 0x5851f42d4c957f2du) % (uint64_t)(slack + 1));
    const int64_t start = permute(key, windows, sequence % windows) * d->sequence_length + shift;
    if (check_length(d, err) != 0)
        return -1;
    for (int64_t i = 0; i < d->sequence_length; i++)
        if (copy_token(d, start + i, tokens != NULL ? &tokens[i] : NULL, err) != 0 ||
            copy_token(d, start + i + 1, labels != NULL ? &labels[i] : NULL, err) != 0)
            return -1;
    return 0;
}

int64_t sw_dataset_holdout_labels(const struct sw_dataset *d)
{
    return d->tokens - d->train > 1 ? d->tokens - d->train - 1 : 0;
}

int64_t sw_dataset_holdout_counted(const struct sw_dataset *d, int64_t first, int64_t count)
{
    const int64_t left = sw_dataset_holdout_labels(d) - first * d->sequence_length;
    const int64_t most = count * d->sequence_length;
    return left < 0 ? 0 : left < most ? left : most;
}

int64_t sw_dataset_holdout_sequences(const struct sw_dataset *d)
{
    return (sw_dataset_holdout_labels(d) + d->sequence_length - 1) / d->sequence_length;
}

int sw_dataset_holdout(const struct sw_dataset *d, int64_t sequence, int32_t *tokens,
                       int32_t *labels, struct sw_error *err)
{
    const int64_t count = sw_dataset_holdout_labels(d);
    if (check_length(d, err) != 0)
        return -1;
    for (int64_t i = 0; i < d->sequence_length; i++) {
        const int64_t at = sequence * d->sequence_length + i;
        int32_t token = 0, label = -1;
        if (at < count && (copy_token(d, d->train + at, &token, err) != 0 ||
                           copy_token(d, d->train + at + 1, &label, err) != 0))
            return -1;
        if (tokens != NULL)
            tokens[i] = token;
        if (labels != NULL)
            labels[i] = label;
    }
    return 0;
}

double sw_dataset_bigram_bits(const struct sw_dataset *d)
{
    uint64_t *pairs = calloc(256 * 256, sizeof *pairs);
    uint64_t total[256] = {0};
    if (pairs == NULL || check_length(d, NULL) != 0) {
        free(pairs);
        return NAN;
    }
    for (int64_t i = 0; i + 1 < d->train; i++) {
        pairs[d->data[i] * 256 + d->data[i + 1]]++;
        total[d->data[i]]++;
    }
    double bits = 0;
    for (int64_t i = d->train; i + 1 < d->tokens; i++) {
        const unsigned char a = d->data[i], b = d->data[i + 1];
        bits -= log2((double)(pairs[a * 256 + b] + 1) / (double)(total[a] + 256));
    }
    free(pairs);
    return bits / (double)sw_dataset_holdout_labels(d);
}
