#include "runner/train/packing.h"

#include "runner/train/order.h"

#include <stdlib.h>
#include <string.h>

/* A step and the next one have rows in one block or two adjacent ones, hence in at most two
 * epochs. */
enum { BLOCKS_KEPT = 3, EPOCHS_KEPT = 2 };

struct epoch {
    int64_t number, first_row; /* rows of earlier epochs */
    int64_t *before;           /* [blocks + 1]: rows of earlier blocks of this epoch */
};

struct block {
    int64_t epoch, number; /* -1: none yet */
    int64_t *document;     /* [block]: grouped by row */
    int32_t *begin;        /* [block + 1]: first of each row's documents */
    int32_t rows;
};

struct sw_packing {
    struct sw_packing_options options;
    struct sw_packing_sums sums;
    int64_t blocks;
    struct epoch known[EPOCHS_KEPT]; /* [0]: an epoch, [1]: the next one, or number -1 */
    struct block kept[BLOCKS_KEPT];
    int32_t oldest;
    int64_t *in_order;            /* scratch: a block's documents [block] */
    int32_t *length, *tree, *row; /* scratch: [block], and their tree */
};

/* ---- First-fit ---- */

static int32_t leaves_of(int64_t rows)
{
    int32_t leaves = 1;
    while (leaves < rows)
        leaves *= 2;
    return leaves;
}

size_t sw_pack_tree_elems(int32_t count)
{
    return 2 * (size_t)leaves_of(count);
}

/* The tree's leaves are rows, its nodes the largest room below. Two adjacent rows together exceed
 * one row's tokens, so twice the tokens divided by a row's are enough rows. */
int32_t sw_pack_first_fit(const int32_t *length, int32_t count, int32_t row_tokens, int32_t *tree,
                          int32_t *row)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += length[i];
    const int64_t enough = 2 * (sum / row_tokens) + 2;
    const int32_t leaves = leaves_of(enough < count ? enough : count);
    int32_t rows = 0;
    for (int32_t i = 0; i < 2 * leaves; i++)
        tree[i] = row_tokens;
    for (int32_t i = 0; i < count; i++) {
        int32_t at = 1;
        row[i] = -1;
        if (length[i] == 0)
            continue;
        while (at < leaves) {
            at *= 2;
            at += tree[at] < length[i];
        }
        row[i] = at - leaves;
        rows = row[i] >= rows ? row[i] + 1 : rows;
        tree[at] -= length[i];
        while ((at /= 2) > 0) {
            const int32_t most = tree[2 * at] > tree[2 * at + 1] ? tree[2 * at] : tree[2 * at + 1];
            if (tree[at] == most)
                break;
            tree[at] = most;
        }
    }
    return rows;
}

/* ---- Blocks ---- */

static int32_t cut_length(const struct sw_packing *p, int64_t document)
{
    const int64_t tokens = p->options.length(p->options.context, document);
    return tokens < p->options.row_tokens ? (int32_t)tokens : p->options.row_tokens;
}

static uint64_t key_of(const struct sw_packing *p, int64_t epoch)
{
    return sw_order_key(p->options.seed, epoch);
}

static int32_t documents_of(const struct sw_packing *p, int64_t number)
{
    const int64_t left = p->options.documents - number * p->options.block;
    return left < p->options.block ? (int32_t)left : p->options.block;
}

/* Packs a block: row[i] of its i-th document in_order[i]. Returns the number of rows. */
static int32_t pack(struct sw_packing *p, int64_t epoch, int64_t number)
{
    const uint64_t key = key_of(p, epoch);
    const int32_t count = documents_of(p, number);
    for (int32_t i = 0; i < count; i++) {
        const int64_t at = number * p->options.block + i;
        p->in_order[i] = p->options.ordered ? at : sw_order_permute(key, p->options.documents, at);
        p->length[i] = cut_length(p, p->in_order[i]);
    }
    return sw_pack_first_fit(p->length, count, p->options.row_tokens, p->tree, p->row);
}

/* Returns a packed block, cached if possible. */
static struct block *get_block(struct sw_packing *p, int64_t epoch, int64_t number)
{
    for (int32_t i = 0; i < BLOCKS_KEPT; i++)
        if (p->kept[i].epoch == epoch && p->kept[i].number == number)
            return &p->kept[i];
    struct block *b = &p->kept[p->oldest];
    p->oldest = (p->oldest + 1) % BLOCKS_KEPT;
    const int32_t count = documents_of(p, number);
    b->rows = pack(p, epoch, number);
    b->epoch = epoch;
    b->number = number;
    memset(b->begin, 0, ((size_t)b->rows + 1) * sizeof *b->begin);
    for (int32_t i = 0; i < count; i++)
        if (p->row[i] >= 0)
            b->begin[p->row[i] + 1]++;
    for (int32_t r = 0; r < b->rows; r++)
        b->begin[r + 1] += b->begin[r];
    for (int32_t i = 0; i < count; i++)
        if (p->row[i] >= 0)
            b->document[b->begin[p->row[i]]++] = p->in_order[i];
    memmove(b->begin + 1, b->begin, (size_t)b->rows * sizeof *b->begin);
    b->begin[0] = 0;
    return b;
}

/* Counts an epoch's rows, block by block. */
static void count_epoch(struct sw_packing *p, int64_t number, int64_t first_row, struct epoch *e)
{
    e->number = number;
    e->first_row = first_row;
    e->before[0] = 0;
    for (int64_t b = 0; b < p->blocks; b++)
        e->before[b + 1] = e->before[b] + pack(p, number, b);
}

static int64_t end_of(const struct sw_packing *p, const struct epoch *e)
{
    return e->first_row + e->before[p->blocks];
}

static void begin(struct sw_packing *p)
{
    count_epoch(p, 0, 0, &p->known[0]);
    p->known[1].number = -1;
}

/* Adds the next epoch. */
static void advance(struct sw_packing *p)
{
    const struct epoch last = p->known[p->known[1].number >= 0];
    if (p->known[1].number >= 0) {
        p->known[1] = p->known[0];
        p->known[0] = last;
    }
    count_epoch(p, last.number + 1, end_of(p, &last), &p->known[1]);
}

/* ---- Rows ---- */

static const struct epoch *newest(const struct sw_packing *p)
{
    return &p->known[p->known[1].number >= 0];
}

int64_t sw_packing_rows(struct sw_packing *p, int64_t number)
{
    if (number < p->known[0].number)
        begin(p);
    while (newest(p)->number < number)
        advance(p);
    return p->known[p->known[0].number != number].before[p->blocks];
}

static const struct epoch *find_epoch(struct sw_packing *p, int64_t row)
{
    if (row < p->known[0].first_row)
        begin(p);
    while (row >= end_of(p, newest(p)))
        advance(p);
    return &p->known[row >= end_of(p, &p->known[0])];
}

/* Block of an epoch's row: the last that begins at or before it. */
static int64_t block_of(const struct sw_packing *p, const struct epoch *e, int64_t row)
{
    int64_t low = 0, high = p->blocks;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (e->before[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void sw_packing_find(struct sw_packing *p, int64_t row, struct sw_packed_row *out)
{
    *out = (struct sw_packed_row){0};
    if (p->options.ordered && row >= p->known[0].before[p->blocks])
        return;
    const struct epoch *e = find_epoch(p, row);
    const int64_t inside = row - e->first_row, number = block_of(p, e, inside);
    const struct block *b = get_block(p, e->number, number);
    int64_t at = inside - e->before[number];
    if (!p->options.ordered)
        at = sw_order_permute(key_of(p, e->number) + (uint64_t)number + 1, b->rows, at);
    out->document = b->document + b->begin[at];
    out->count = b->begin[at + 1] - b->begin[at];
}

struct sw_packing_sums sw_packing_sums(const struct sw_packing *p)
{
    return p->sums;
}

/* ---- Set-up ---- */

static void sum_up(struct sw_packing *p)
{
    for (int64_t d = 0; d < p->options.documents; d++) {
        const int64_t tokens = p->options.length(p->options.context, d), kept = cut_length(p, d);
        p->sums.documents += kept > 0;
        p->sums.tokens += kept;
        p->sums.cut_documents += kept < tokens;
        p->sums.cut_tokens += tokens - kept;
    }
}

static bool make_room(struct sw_packing *p)
{
    const size_t block = (size_t)p->options.block;
    bool good = true;
    for (int32_t i = 0; i < EPOCHS_KEPT; i++) {
        p->known[i].before = calloc((size_t)p->blocks + 1, sizeof *p->known[i].before);
        good = good && p->known[i].before != NULL;
    }
    p->length = calloc(block, sizeof *p->length);
    p->in_order = calloc(block, sizeof *p->in_order);
    p->tree = calloc(sw_pack_tree_elems(p->options.block), sizeof *p->tree);
    p->row = calloc(block, sizeof *p->row);
    for (int32_t i = 0; i < BLOCKS_KEPT; i++) {
        p->kept[i].document = calloc(block, sizeof *p->kept[i].document);
        p->kept[i].begin = calloc(block + 1, sizeof *p->kept[i].begin);
        p->kept[i].epoch = -1;
        good = good && p->kept[i].document != NULL && p->kept[i].begin != NULL;
    }
    return good && p->length != NULL && p->in_order != NULL && p->tree != NULL && p->row != NULL;
}

int sw_packing_create(const struct sw_packing_options *options, struct sw_packing **out,
                      struct sw_error *err)
{
    struct sw_packing *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->options = *options;
        if (p->options.block > options->documents)
            p->options.block = (int32_t)options->documents;
        p->blocks = (options->documents + p->options.block - 1) / p->options.block;
    }
    if (p == NULL || !make_room(p)) {
        sw_packing_free(p);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
    }
    sum_up(p);
    begin(p);
    *out = p;
    return 0;
}

void sw_packing_free(struct sw_packing *p)
{
    if (p == NULL)
        return;
    for (int32_t i = 0; i < BLOCKS_KEPT; i++) {
        free(p->kept[i].document);
        free(p->kept[i].begin);
    }
    for (int32_t i = 0; i < EPOCHS_KEPT; i++)
        free(p->known[i].before);
    free(p->length);
    free(p->in_order);
    free(p->tree);
    free(p->row);
    free(p);
}
