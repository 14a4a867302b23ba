/* Byte-pair encoding: merges a word's adjacent pair of the lowest rank first, the leftmost among
 * equals.
 *
 * Words of up to SMALL symbols scan an array, longer ones use a heap: n log n, so that ten million
 * equal letters cost no more per letter than a long word. A fixed-size cache holds short words. */
#include "core/base/text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 40 };
#define NO_RANK UINT32_MAX
#define NO_SYMBOL UINT32_MAX

void sw_bpe_free(struct sw_bpe *bpe)
{
    free(bpe->merge);
    free(bpe->symbol);
    free(bpe->joined);
    *bpe = (struct sw_bpe){0};
}

static const struct sw_merge *find_merge(const struct sw_bpe *bpe, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t at = sw_merge_slot(pair, bpe->merge_slots);
    while (bpe->merge[at].pair != pair) {
        if (bpe->merge[at].pair == SW_NO_PAIR)
            return NULL;
        at = (at + 1) & (bpe->merge_slots - 1);
    }
    return &bpe->merge[at];
}

/* ---- symbols of a word ---- */

static int32_t id_of_character(const struct sw_tokenizer *t, const char *text, size_t *bytes)
{
    const uint32_t character = sw_utf8_get(text, bytes);
    if (character < 0x10000)
        return t->bpe.symbol[character];
    return sw_word_find(t, &t->words, text, *bytes);
}

bool sw_bpe_has(const struct sw_tokenizer *t, const char *text, size_t *bytes)
{
    const struct sw_bpe *bpe = &t->bpe;
    if (bpe->of_bytes)
        return *bytes = 1, bpe->byte[(unsigned char)text[0]] >= 0;
    if (id_of_character(t, text, bytes) >= 0)
        return true;
    bool falls = bpe->falls_back;
    for (size_t i = 0; i < *bytes; i++)
        falls = falls && bpe->byte[(unsigned char)text[i]] >= 0;
    return falls;
}

/* Byte tokens of a character; 0 if one is missing. */
static size_t fall_back(const struct sw_bpe *bpe, const char *text, size_t bytes, int32_t *id)
{
    for (size_t i = 0; i < bytes; i++) {
        id[i] = bpe->byte[(unsigned char)text[i]];
        if (id[i] < 0)
            return 0;
    }
    return bytes;
}

/* Writes at most [bytes] ids; returns their number, -1: no token for unknown characters. An unknown
 * character waits for the next known one, since several may fuse into one token. */
static int64_t symbols_of_characters(const struct sw_tokenizer *t, const char *text, size_t bytes,
                                     int32_t *id)
{
    const struct sw_bpe *bpe = &t->bpe;
    int64_t count = 0;
    bool waiting = false;
    for (size_t at = 0, step; at < bytes; at += step) {
        const int32_t known = id_of_character(t, text + at, &step);
        if (known >= 0) {
            if (waiting)
                id[count++] = bpe->unknown;
            waiting = false;
            id[count++] = known;
            continue;
        }
        /* a waiting unknown character takes one id of the room */
        int32_t fallen[4];
        const size_t n = bpe->falls_back ? fall_back(bpe, text + at, step, fallen) : 0;
        if (n > 0) {
            memcpy(&id[count], fallen, n * sizeof *fallen);
            count += (int64_t)n;
        } else if (bpe->unknown == -2) {
            return -1;
        } else if (bpe->unknown >= 0) {
            if (waiting && !bpe->fuse_unknown)
                id[count++] = bpe->unknown;
            waiting = true;
        }
    }
    if (waiting)
        id[count++] = bpe->unknown;
    return count;
}

static int64_t symbols_of_bytes(const struct sw_bpe *bpe, const char *text, size_t bytes,
                                int32_t *id)
{
    int64_t count = 0;
    bool fused = false;
    for (size_t i = 0; i < bytes; i++) {
        const int32_t known = bpe->byte[(unsigned char)text[i]];
        if (known < 0 && bpe->unknown == -2)
            return -1;
        if (known >= 0)
            id[count++] = known;
        else if (bpe->unknown >= 0 && !(fused && bpe->fuse_unknown))
            id[count++] = bpe->unknown;
        fused = known < 0;
    }
    return count;
}

/* ---- merging ---- */

static int64_t merge_few(const struct sw_bpe *bpe, int32_t *id, int64_t count)
{
    uint32_t rank[SMALL];
    int32_t made[SMALL];
    for (int64_t i = 0; i + 1 < count; i++) {
        const struct sw_merge *m = find_merge(bpe, id[i], id[i + 1]);
        rank[i] = m == NULL ? NO_RANK : m->rank;
        made[i] = m == NULL ? -1 : m->id;
    }
    while (count > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < count; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NO_RANK)
            break;
        id[best] = made[best];
        count--;
        const size_t behind = (size_t)(count - best - 1);
        memmove(&id[best + 1], &id[best + 2], behind * sizeof *id);
        memmove(&rank[best], &rank[best + 1], behind * sizeof *rank);
        memmove(&made[best], &made[best + 1], behind * sizeof *made);
        for (int64_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < count; i++) {
            const struct sw_merge *m = find_merge(bpe, id[i], id[i + 1]);
            rank[i] = m == NULL ? NO_RANK : m->rank;
            made[i] = m == NULL ? -1 : m->id;
        }
    }
    return count;
}

static void sift_down(uint64_t *heap, size_t count, size_t at)
{
    const uint64_t value = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

static void sift_up(uint64_t *heap, size_t at, uint64_t value)
{
    while (at > 0 && heap[(at - 1) / 2] > value) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = value;
}

/* Removes the lowest, moving the last into its place. */
static uint64_t take_lowest(uint64_t *heap, size_t *count)
{
    const uint64_t lowest = heap[0];
    heap[0] = heap[--*count];
    if (*count > 1)
        sift_down(heap, *count, 0);
    return lowest;
}

static const struct sw_merge *merge_at(const struct sw_bpe *bpe, const struct sw_symbol *symbol,
                                       uint32_t at)
{
    if (at == NO_SYMBOL || symbol[at].next == NO_SYMBOL)
        return NULL;
    return find_merge(bpe, symbol[at].id, symbol[symbol[at].next].id);
}

/* symbol [count], heap [2 * count]: each merge removes one heap entry and adds at most two. */
static void merge_linked(const struct sw_bpe *bpe, struct sw_symbol *symbol, size_t count,
                         uint64_t *heap)
{
    size_t waiting = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct sw_merge *m = merge_at(bpe, symbol, i);
        if (m != NULL)
            heap[waiting++] = (uint64_t)m->rank << 32 | i;
    }
    for (size_t i = waiting / 2; i-- > 0;)
        sift_down(heap, waiting, i);
    while (waiting > 0) {
        const uint64_t lowest = take_lowest(heap, &waiting);
        const uint32_t at = (uint32_t)lowest;
        if (symbol[at].id < 0)
            continue; /* merged into the previous symbol */
        const struct sw_merge *m = merge_at(bpe, symbol, at);
        if (m == NULL || m->rank != lowest >> 32)
            continue; /* outdated: one of the two has changed */
        const uint32_t gone = symbol[at].next;
        symbol[at].id = m->id;
        symbol[at].next = symbol[gone].next;
        symbol[gone].id = -1;
        if (symbol[at].next != NO_SYMBOL)
            symbol[symbol[at].next].previous = at;
        const uint32_t changed[2] = {symbol[at].previous, at};
        for (int32_t i = 0; i < 2; i++)
            if ((m = merge_at(bpe, symbol, changed[i])) != NULL)
                sift_up(heap, waiting++, (uint64_t)m->rank << 32 | changed[i]);
    }
}

static int reserve_symbols(struct sw_text_scratch *s, size_t count)
{
    if (count <= s->symbol_capacity)
        return 0;
    free(s->symbol);
    free(s->heap);
    s->symbol = malloc(count * sizeof *s->symbol);
    s->heap = malloc(2 * count * sizeof *s->heap);
    s->symbol_capacity = s->symbol != NULL && s->heap != NULL ? count : 0;
    return s->symbol_capacity == count ? 0 : -1;
}

/* Merges the ids in place; *count shrinks. Returns -1: no memory. */
static int merge_many(const struct sw_bpe *bpe, struct sw_text_scratch *s, int32_t *id,
                      int64_t *count)
{
    const size_t n = (size_t)*count;
    if (reserve_symbols(s, n) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        s->symbol[i] =
            (struct sw_symbol){id[i], (uint32_t)i - 1, i + 1 < n ? (uint32_t)i + 1 : NO_SYMBOL};
    merge_linked(bpe, s->symbol, n, s->heap);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (s->symbol[i].id >= 0)
            id[(*count)++] = s->symbol[i].id;
    return 0;
}

/* ---- words ---- */

static int fail_unknown(const struct sw_tokenizer *t, const char *text, size_t bytes,
                        struct sw_error *err)
{
    char copy[SW_TEXT_SHOWN_BYTES + 8], shown[SW_TEXT_SHOWN_BYTES + 4];
    const size_t kept = bytes < sizeof copy - 1 ? bytes : sizeof copy - 1;
    memcpy(copy, text, kept);
    copy[kept] = '\0';
    sw_text_shown(copy, SW_TEXT_SHOWN_BYTES, shown);
    return sw_refuse(
        t, err, "a character of '%s' has no token, and neither has the model's unk_token", shown);
}

static int encode_new(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                      const char *text, size_t bytes, struct sw_ids *ids, struct sw_error *err)
{
    const struct sw_bpe *bpe = &t->bpe;
    if (bpe->of_bytes && bpe->ignore_merges) {
        const int32_t whole = sw_word_find(t, &t->words, text, bytes);
        if (whole >= 0) {
            ids->id[ids->count++] = whole;
            return 0;
        }
    }
    int32_t *id = &ids->id[ids->count];
    int64_t count = bpe->of_bytes ? symbols_of_bytes(bpe, text, bytes, id)
                                  : symbols_of_characters(t, text, bytes, id);
    if (count < 0)
        return fail_unknown(t, text, bytes, err);
    if (count <= SMALL)
        count = merge_few(bpe, id, count);
    else if (merge_many(bpe, scratch, id, &count) != 0)
        return sw_out_of_memory(t, err);
    ids->count += (size_t)count;
    return 0;
}

static struct sw_cached *cache_slot(struct sw_text_scratch *s, const char *text, size_t bytes,
                                    char padded[SW_CACHE_BYTES])
{
    uint64_t word[SW_CACHE_BYTES / 8] = {0};
    memcpy(word, text, bytes);
    memcpy(padded, word, SW_CACHE_BYTES);
    uint64_t hash = (word[0] ^ bytes) * 0x9e3779b97f4a7c15u;
    hash = ((hash ^ hash >> 32) + word[1]) * 0x9fb21c651e98df25u;
    hash = ((hash ^ hash >> 32) + word[2]) * 0xd6e8feb86659fd93u;
    return &s->cache[hash >> 32 & (SW_CACHE_SLOTS - 1)];
}

static int encode_word(const struct sw_tokenizer *t, struct sw_text_scratch *s, const char *text,
                       size_t bytes, struct sw_ids *ids, struct sw_error *err)
{
    if (sw_ids_reserve(ids, bytes < SW_CACHE_IDS ? SW_CACHE_IDS : bytes) != 0)
        return sw_out_of_memory(t, err);
    if (bytes > SW_CACHE_BYTES)
        return encode_new(t, s, text, bytes, ids, err);
    char padded[SW_CACHE_BYTES];
    struct sw_cached *cached = cache_slot(s, text, bytes, padded);
    if (cached->bytes == bytes && memcmp(cached->text, padded, SW_CACHE_BYTES) == 0) {
        memcpy(&ids->id[ids->count], cached->id, sizeof cached->id);
        ids->count += cached->count;
        return 0;
    }
    const size_t before = ids->count;
    if (encode_new(t, s, text, bytes, ids, err) != 0)
        return -1;
    const size_t count = ids->count - before;
    if (count <= SW_CACHE_IDS) {
        memcpy(cached->text, padded, SW_CACHE_BYTES);
        memcpy(cached->id, &ids->id[before], count * sizeof *cached->id);
        cached->bytes = (uint8_t)bytes;
        cached->count = (uint8_t)count;
    }
    return 0;
}

static bool is_known(const struct sw_bpe *bpe, uint32_t character)
{
    return character < 0x10000 && bpe->symbol[character] >= 0;
}

/* True if no merge crosses from one character to the next. */
static bool falls_apart(const struct sw_bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t bits;
    const uint64_t word = *sw_joined_word(bpe, left, right, &bits);
    return (word & bits) != bits &&
           (!bpe->bytes_merge || (is_known(bpe, left) && is_known(bpe, right)));
}

static int encode_words(const struct sw_tokenizer *t, struct sw_text_scratch *s, const char *text,
                        size_t bytes, struct sw_ids *ids, struct sw_error *err)
{
    size_t begin = 0, step;
    uint32_t left = sw_utf8_get(text, &step);
    for (size_t at = step; at < bytes; at += step) {
        const uint32_t right = sw_utf8_get(text + at, &step);
        if (falls_apart(&t->bpe, left, right)) {
            if (encode_word(t, s, text + begin, at - begin, ids, err) != 0)
                return -1;
            begin = at;
        }
        left = right;
    }
    return encode_word(t, s, text + begin, bytes - begin, ids, err);
}

int sw_bpe_encode(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char *text,
                  size_t bytes, struct sw_ids *ids, struct sw_error *err)
{
    if (bytes == 0)
        return 0;
    if (bytes >= UINT32_MAX)
        return sw_refuse(t, err, "a word of 4 GiB or more; cut the text");
    if (!t->bpe.of_bytes && t->bpe.ignore_merges) {
        const int32_t whole = sw_word_find(t, &t->words, text, bytes);
        if (whole >= 0) {
            if (sw_ids_reserve(ids, 1) != 0)
                return sw_out_of_memory(t, err);
            ids->id[ids->count++] = whole;
            return 0;
        }
    }
    return t->bpe.joined != NULL ? encode_words(t, scratch, text, bytes, ids, err)
                                 : encode_word(t, scratch, text, bytes, ids, err);
}
