#include "runner/train/dataset.h"

#include "core/base/hash.h"
#include "runner/train/mixture.h"
#include "runner/train/order.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct source {
    struct sw_tokens *tokens;
    uint64_t seed;
    int64_t train; /* tokens, or documents if packed, before the held-out ones */
    bool packed;
    struct sw_packing *packing, *held; /* for training rows, for held-out rows; or NULL */
    int64_t held_rows, held_labels;
};

struct sw_dataset {
    struct sw_dataset_options options;
    struct source *source; /* [options.sources] */
    struct sw_mixture *mixture;
};

/* ---- Set-up ---- */

static int64_t train_length(const void *context, int64_t document)
{
    const struct source *s = context;
    return sw_tokens_document(s->tokens, document, NULL);
}

static int64_t held_length(const void *context, int64_t document)
{
    const struct source *s = context;
    return sw_tokens_document(s->tokens, s->train + document, NULL);
}

static int pack(const struct sw_dataset *d, const struct source *s, bool held, int64_t documents,
                struct sw_packing **out, struct sw_error *err)
{
    const struct sw_packing_options options = {.documents = documents,
                                               .length = held ? held_length : train_length,
                                               .context = s,
                                               .row_tokens = (int32_t)d->options.sequence_length,
                                               .block = d->options.pack_block,
                                               .seed = s->seed,
                                               .ordered = held};
    if (documents == 0 || sw_packing_create(&options, out, err) != 0)
        return documents == 0 ? 0 : -1;
    if (sw_packing_rows(*out, 0) > 0)
        return 0;
    sw_packing_free(*out); /* no document has a token */
    *out = NULL;
    return 0;
}

static int pack_source(struct sw_dataset *d, struct source *s, struct sw_error *err)
{
    const int64_t documents = sw_tokens_documents(s->tokens);
    s->train = documents - (int64_t)((double)documents * d->options.holdout);
    if (pack(d, s, false, s->train, &s->packing, err) != 0 ||
        pack(d, s, true, documents - s->train, &s->held, err) != 0)
        return -1;
    if (d->options.holdout < 1 && s->packing == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = sw_tokens_path(s->tokens)},
                          "no document to train on; use more data or a smaller holdout");
    return 0;
}

static int cut_windows(struct sw_dataset *d, struct source *s, struct sw_error *err)
{
    const int64_t tokens = sw_tokens_count(s->tokens), length = d->options.sequence_length;
    s->train = tokens - (int64_t)((double)tokens * d->options.holdout);
    if (d->options.holdout >= 1 || s->train >= length + 1)
        return 0;
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = sw_tokens_path(s->tokens)},
                      "%" PRId64 " token%s to train on, a sequence takes %" PRId64
                      "; use more data, a smaller sequence_length or holdout",
                      s->train, s->train == 1 ? "" : "s", length + 1);
}

static int64_t held_counted(struct sw_dataset *d, const struct source *s, int64_t row);

static void count_held(struct sw_dataset *d, struct source *s)
{
    const int64_t length = d->options.sequence_length;
    if (s->packed) {
        s->held_rows = s->held == NULL ? 0 : sw_packing_rows(s->held, 0);
    } else {
        const int64_t left = sw_tokens_count(s->tokens) - s->train - 1;
        s->held_rows = left > 0 ? (left + length - 1) / length : 0;
    }
    for (int64_t row = 0; row < s->held_rows; row++)
        s->held_labels += held_counted(d, s, row);
}

static int open_source(struct sw_dataset *d, int32_t i, struct sw_error *err)
{
    const struct sw_dataset_options *o = &d->options;
    struct source *s = &d->source[i];
    const struct sw_tokens_options tokens = {.path = o->source[i].path,
                                             .count = o->source[i].count,
                                             .is_bytes = o->is_bytes,
                                             .needs_index = o->pack && o->holdout < 1,
                                             .vocab_size = o->vocab_size};
    if (sw_tokens_open(&tokens, &s->tokens, err) != 0)
        return -1;
    s->seed = i == 0 ? o->seed : sw_hash_mix(o->seed + (uint64_t)i);
    s->packed = o->pack && sw_tokens_is_indexed(s->tokens);
    if ((s->packed ? pack_source(d, s, err) : cut_windows(d, s, err)) != 0)
        return -1;
    if (o->holdout < 1 && sw_tokens_labels(s->tokens) == 0)
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = o->source[i].path[0]},
                          "no label of it counts, by its index; tokenize texts with answers");
    count_held(d, s);
    return 0;
}

int sw_dataset_open(const struct sw_dataset_options *options, struct sw_dataset **out,
                    struct sw_error *err)
{
    struct sw_dataset *d = calloc(1, sizeof *d);
    struct source *source = calloc((size_t)options->sources, sizeof *source);
    if (d == NULL || source == NULL) {
        free(d);
        free(source);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    }
    d->options = *options;
    d->source = source;
    bool good = sw_mixture_create(options->weight, options->sources, &d->mixture, err) == 0;
    for (int32_t i = 0; good && i < options->sources; i++)
        good = open_source(d, i, err) == 0;
    d->options.source = NULL; /* owned by the caller */
    d->options.weight = NULL;
    if (!good) {
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
    for (int32_t i = 0; i < d->options.sources; i++) {
        sw_packing_free(d->source[i].packing);
        sw_packing_free(d->source[i].held);
        sw_tokens_close(d->source[i].tokens);
    }
    sw_mixture_free(d->mixture);
    free(d->source);
    free(d);
}

/* ---- Facts ---- */

bool sw_dataset_is_bytes(const struct sw_dataset *d)
{
    return d->options.is_bytes;
}

bool sw_dataset_varies(const struct sw_dataset *d)
{
    bool varies = false;
    for (int32_t i = 0; i < d->options.sources; i++)
        varies = varies || d->source[i].packed || sw_tokens_is_masked(d->source[i].tokens);
    return varies;
}

/* Number of tokens before the held-out ones. */
static int64_t train_tokens(const struct source *s)
{
    int64_t first = 0;
    if (!s->packed)
        return s->train;
    if (s->train > 0)
        first = sw_tokens_document(s->tokens, s->train - 1, &first) + first;
    return first;
}

int64_t sw_dataset_train_tokens(const struct sw_dataset *d)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < d->options.sources; i++)
        tokens += train_tokens(&d->source[i]);
    return tokens;
}

int64_t sw_dataset_holdout_tokens(const struct sw_dataset *d)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < d->options.sources; i++)
        tokens += sw_tokens_count(d->source[i].tokens) - train_tokens(&d->source[i]);
    return tokens;
}

struct sw_packing_sums sw_dataset_sums(const struct sw_dataset *d, int64_t *rows)
{
    struct sw_packing_sums sums = {0};
    *rows = 0;
    for (int32_t i = 0; i < d->options.sources; i++) {
        if (d->source[i].packing == NULL)
            continue;
        const struct sw_packing_sums more = sw_packing_sums(d->source[i].packing);
        sums.documents += more.documents;
        sums.tokens += more.tokens;
        sums.cut_documents += more.cut_documents;
        sums.cut_tokens += more.cut_tokens;
        *rows += sw_packing_rows(d->source[i].packing, 0);
    }
    return sums;
}

int sw_dataset_check(const struct sw_dataset *d, int64_t part, int64_t parts, struct sw_error *err)
{
    for (int32_t i = 0; i < d->options.sources; i++)
        if (sw_tokens_check(d->source[i].tokens, part, parts, err) != 0)
            return -1;
    return 0;
}

bool sw_dataset_is_checked(const struct sw_dataset *d)
{
    bool checked = true;
    for (int32_t i = 0; i < d->options.sources; i++)
        checked = checked && sw_tokens_is_checked(d->source[i].tokens);
    return checked;
}

uint64_t sw_dataset_digest(const struct sw_dataset *d)
{
    uint64_t digest = 0;
    for (int32_t i = 0; i < d->options.sources; i++)
        digest = sw_hash_mix(digest + sw_tokens_digest(d->source[i].tokens));
    return digest;
}

/* ---- Rows that are windows ---- */

static int64_t window_start(const struct sw_dataset *d, const struct source *s, int64_t row)
{
    const int64_t length = d->options.sequence_length, windows = (s->train - 1) / length;
    const uint64_t key = sw_order_key(s->seed, row / windows);
    const int64_t slack = s->train - 1 - windows * length;
    const int64_t shift = (int64_t)(sw_hash_mix(key ^ 0x5851f42d4c957f2du) % (uint64_t)(slack + 1));
    return sw_order_permute(key, windows, row % windows) * length + shift;
}

/* Numbers the documents of segments[count], which holds their tokens. */
static void number_documents(const struct sw_dataset *d, int64_t count, int32_t *segments)
{
    int32_t number = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool ends = segments[i] == d->options.document_end;
        segments[i] = number;
        number += ends;
    }
}

/* Fills `count` tokens from `start` with their labels; pads the rest of the row. */
static int fill_window(const struct sw_dataset *d, const struct source *s, int64_t start,
                       int64_t count, const struct sw_row *out, struct sw_error *err)
{
    const int64_t length = d->options.sequence_length;
    const size_t left = (size_t)(length - count);
    if (out->tokens != NULL) {
        if (sw_tokens_read(s->tokens, start, count, out->tokens, err) != 0)
            return -1;
        memset(out->tokens + count, 0, left * sizeof(int32_t));
    }
    if (out->labels != NULL) {
        if (sw_tokens_read(s->tokens, start + 1, count, out->labels, err) != 0)
            return -1;
        sw_tokens_mask(s->tokens, start + 1, count, out->labels);
        memset(out->labels + count, 0xff, left * sizeof(int32_t));
    }
    if (out->segments != NULL) {
        if (sw_tokens_read(s->tokens, start, count, out->segments, err) != 0)
            return -1;
        memset(out->segments + count, 0, left * sizeof(int32_t));
        number_documents(d, length, out->segments);
    }
    for (int64_t i = 0; out->positions != NULL && i < length; i++)
        out->positions[i] = (int32_t)i;
    return 0;
}

/* ---- Rows of documents ---- */

/* Length of a document in a row; *first: its first token. */
static int64_t document_of(const struct sw_dataset *d, const struct source *s, int64_t document,
                           int64_t *first)
{
    const int64_t tokens = sw_tokens_document(s->tokens, document, first);
    return tokens < d->options.sequence_length ? tokens : d->options.sequence_length;
}

/* Fills a document of n tokens at position `at`: its last token has no label. */
static int fill_document(const struct source *s, int64_t first, int64_t n, int64_t at,
                         int32_t number, const struct sw_row *out, struct sw_error *err)
{
    if (out->tokens != NULL && sw_tokens_read(s->tokens, first, n, out->tokens + at, err) != 0)
        return -1;
    if (out->labels != NULL) {
        if (sw_tokens_read(s->tokens, first + 1, n - 1, out->labels + at, err) != 0)
            return -1;
        sw_tokens_mask(s->tokens, first + 1, n - 1, out->labels + at);
        out->labels[at + n - 1] = -1;
    }
    for (int64_t i = 0; out->segments != NULL && i < n; i++)
        out->segments[at + i] = number;
    for (int64_t i = 0; out->positions != NULL && i < n; i++)
        out->positions[at + i] = (int32_t)i;
    return 0;
}

/* Fills documents offset + row->document[...]. */
static int fill_packed(const struct sw_dataset *d, const struct source *s, int64_t offset,
                       const struct sw_packed_row *row, const struct sw_row *out,
                       struct sw_error *err)
{
    int64_t at = 0, first;
    for (int32_t i = 0; i < row->count; i++) {
        const int64_t n = document_of(d, s, offset + row->document[i], &first);
        if (fill_document(s, first, n, at, i, out, err) != 0)
            return -1;
        at += n;
    }
    for (int32_t number = row->count; at < d->options.sequence_length; at++, number++) {
        if (out->tokens != NULL)
            out->tokens[at] = 0;
        if (out->labels != NULL)
            out->labels[at] = -1;
        if (out->segments != NULL)
            out->segments[at] = number;
        if (out->positions != NULL)
            out->positions[at] = 0;
    }
    return 0;
}

static int64_t count_packed(const struct sw_dataset *d, const struct source *s, int64_t offset,
                            const struct sw_packed_row *row)
{
    int64_t counted = 0, first;
    for (int32_t i = 0; i < row->count; i++) {
        const int64_t n = document_of(d, s, offset + row->document[i], &first);
        counted += sw_tokens_counted(s->tokens, first + 1, n - 1);
    }
    return counted;
}

/* ---- Training ---- */

int sw_dataset_train(struct sw_dataset *d, int64_t row, const struct sw_row *out,
                     struct sw_error *err)
{
    int64_t inside;
    const struct source *s = &d->source[sw_mixture_find(d->mixture, row, &inside)];
    struct sw_packed_row packed;
    if (!s->packed)
        return fill_window(d, s, window_start(d, s, inside), d->options.sequence_length, out, err);
    sw_packing_find(s->packing, inside, &packed);
    return fill_packed(d, s, 0, &packed, out, err);
}

int64_t sw_dataset_train_counted(struct sw_dataset *d, int64_t first, int64_t count)
{
    int64_t counted = 0, inside;
    sw_mixture_mark(d->mixture, first);
    for (int64_t row = first; row < first + count; row++) {
        const struct source *s = &d->source[sw_mixture_find(d->mixture, row, &inside)];
        struct sw_packed_row packed;
        if (s->packed) {
            sw_packing_find(s->packing, inside, &packed);
            counted += count_packed(d, s, 0, &packed);
        } else {
            counted += sw_tokens_counted(s->tokens, window_start(d, s, inside) + 1,
                                         d->options.sequence_length);
        }
    }
    return counted;
}

void sw_dataset_prefetch(struct sw_dataset *d, int64_t first, int64_t count)
{
    int64_t inside, begin;
    for (int64_t row = first; row < first + count; row++) {
        const struct source *s = &d->source[sw_mixture_find(d->mixture, row, &inside)];
        struct sw_packed_row packed = {0};
        if (s->packed)
            sw_packing_find(s->packing, inside, &packed);
        else
            sw_tokens_prefetch(s->tokens, window_start(d, s, inside),
                               d->options.sequence_length + 1);
        for (int32_t i = 0; i < packed.count; i++) {
            const int64_t n = document_of(d, s, packed.document[i], &begin);
            sw_tokens_prefetch(s->tokens, begin, n);
        }
    }
}

int32_t sw_dataset_sources(const struct sw_dataset *d)
{
    return d->options.sources;
}

const struct sw_tokens *sw_dataset_tokens(const struct sw_dataset *d, int32_t i)
{
    return d->source[i].tokens;
}

int32_t sw_dataset_train_source(struct sw_dataset *d, int64_t row)
{
    int64_t inside;
    return sw_mixture_find(d->mixture, row, &inside);
}

/* ---- What is held out ---- */

/* Labels in a held-out window, counted or not. */
static int64_t held_window(const struct sw_dataset *d, const struct source *s, int64_t row)
{
    const int64_t left =
        sw_tokens_count(s->tokens) - s->train - 1 - row * d->options.sequence_length;
    return left < 0 ? 0 : left < d->options.sequence_length ? left : d->options.sequence_length;
}

static int64_t held_counted(struct sw_dataset *d, const struct source *s, int64_t row)
{
    struct sw_packed_row packed;
    if (!s->packed)
        return sw_tokens_counted(s->tokens, s->train + row * d->options.sequence_length + 1,
                                 held_window(d, s, row));
    sw_packing_find(s->held, row, &packed);
    return count_packed(d, s, s->train, &packed);
}

/* Source of a held-out row; *row: number within it. NULL: after the last. */
static const struct source *find_held(const struct sw_dataset *d, int64_t *row)
{
    for (int32_t i = 0; i < d->options.sources; *row -= d->source[i++].held_rows)
        if (*row < d->source[i].held_rows)
            return &d->source[i];
    return NULL;
}

int64_t sw_dataset_holdout_sequences(const struct sw_dataset *d)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < d->options.sources; i++)
        rows += d->source[i].held_rows;
    return rows;
}

int sw_dataset_holdout(struct sw_dataset *d, int64_t row, const struct sw_row *out,
                       struct sw_error *err)
{
    const struct source *s = find_held(d, &row);
    struct sw_packed_row packed = {0};
    if (s == NULL || (s->packed && s->held == NULL))
        return fill_packed(d, s, 0, &packed, out, err);
    if (!s->packed)
        return fill_window(d, s, s->train + row * d->options.sequence_length,
                           held_window(d, s, row), out, err);
    sw_packing_find(s->held, row, &packed);
    return fill_packed(d, s, s->train, &packed, out, err);
}

int64_t sw_dataset_holdout_labels(const struct sw_dataset *d)
{
    int64_t labels = 0;
    for (int32_t i = 0; i < d->options.sources; i++)
        labels += d->source[i].held_labels;
    return labels;
}

int64_t sw_dataset_holdout_counted(struct sw_dataset *d, int64_t first, int64_t count)
{
    int64_t counted = 0;
    for (int64_t i = first; i < first + count; i++) {
        int64_t row = i;
        const struct source *s = find_held(d, &row);
        counted += s != NULL ? held_counted(d, s, row) : 0;
    }
    return counted;
}

double sw_dataset_bigram_bits(const struct sw_dataset *d)
{
    return d->options.sources == 1 && d->options.is_bytes
               ? sw_tokens_bigram_bits(d->source[0].tokens, d->source[0].train)
               : NAN;
}
