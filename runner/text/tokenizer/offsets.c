/* Offsets of tokens in the text: the stages keep each byte's origin, and a piece's tokens are
 * matched to its bytes. */
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct sw_origins *origins, size_t more)
{
    if (more <= origins->capacity - origins->count)
        return 0;
    size_t capacity = origins->capacity < 64 ? 64 : 2 * origins->capacity;
    if (capacity < origins->count + more)
        capacity = origins->count + more;
    size_t *at =
        capacity > SIZE_MAX / sizeof *at ? NULL : realloc(origins->at, capacity * sizeof *at);
    if (at == NULL)
        return -1;
    origins->at = at;
    origins->capacity = capacity;
    return 0;
}

int sw_origins_copy(struct sw_origins *origins, const size_t *from, size_t bytes)
{
    if (reserve(origins, bytes) != 0)
        return -1;
    if (bytes > 0)
        memcpy(origins->at + origins->count, from, bytes * sizeof *from);
    origins->count += bytes;
    return 0;
}

int sw_origins_fill(struct sw_origins *origins, size_t at, size_t bytes)
{
    if (reserve(origins, bytes) != 0)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        origins->at[origins->count++] = at;
    return 0;
}

int sw_origins_of_text(struct sw_origins *origins, const char *text, size_t bytes)
{
    if (reserve(origins, bytes + 1) != 0)
        return -1;
    for (size_t at = 0, step; at < bytes; at += step) {
        sw_utf8_get(text + at, &step);
        for (size_t i = 0; i < step; i++)
            origins->at[origins->count++] = at;
    }
    return 0;
}

int sw_text_spans_add(struct sw_text_spans *spans, size_t begin, size_t end)
{
    if (spans->count == spans->capacity) {
        const size_t capacity = spans->capacity < 64 ? 64 : 2 * spans->capacity;
        struct sw_text_span *span = realloc(spans->span, capacity * sizeof *span);
        if (span == NULL)
            return -1;
        spans->span = span;
        spans->capacity = capacity;
    }
    spans->span[spans->count++] = (struct sw_text_span){begin, end};
    return 0;
}

int sw_offsets_add(struct sw_text_scratch *scratch, size_t first, size_t last)
{
    size_t bytes;
    sw_utf8_get(scratch->given + last, &bytes);
    return sw_text_spans_add(scratch->offsets, first, last + bytes);
}

/* Bytes of the text that the token stands for; 0: it does not match. */
static size_t bytes_of_token(const struct sw_tokenizer *t, int32_t id, const char *text,
                             size_t bytes)
{
    const struct sw_token *token = &t->token[id];
    const char *word = t->arena.byte + token->word;
    size_t at = 0;
    if (t->bpe.falls_back && t->bpe.byte[(unsigned char)text[0]] == id)
        return 1;
    if (token->word_bytes > 0 && token->word_bytes <= bytes &&
        memcmp(word, text, token->word_bytes) == 0)
        return token->word_bytes;
    if (t->bpe.of_bytes || !t->bpe.bytes_merge)
        return 0;
    for (size_t i = 0; i < token->word_bytes;) { /* merged byte fallback: <0xE6><0x97> */
        unsigned byte;
        int end = 0;
        if (at == bytes)
            return 0;
        if (token->word_bytes - i >= 6 && sscanf(word + i, "<0x%2X>%n", &byte, &end) == 1 &&
            end == 6 && byte == (unsigned char)text[at])
            i += 6;
        else if (word[i] == text[at])
            i++;
        else
            return 0;
        at++;
    }
    return at;
}

/* Bytes of unknown characters at text that one token stands for. */
static size_t bytes_of_unknown(const struct sw_tokenizer *t, const char *text, size_t bytes)
{
    size_t at = 0, step;
    while (at < bytes && !sw_bpe_has(t, text + at, &step)) {
        at += step;
        if (!t->bpe.fuse_unknown)
            break;
    }
    return at;
}

int sw_offsets_of_piece(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const size_t *origin, const int32_t *id,
                        size_t count)
{
    size_t at = 0, step;
    for (size_t i = 0; i < count && bytes > 0; i++) {
        size_t length = at < bytes ? bytes_of_token(t, id[i], text + at, bytes - at) : 0;
        if (length == 0 && id[i] == t->bpe.unknown)
            length = bytes_of_unknown(t, text + at, bytes - at);
        while (length == 0 && at < bytes && !sw_bpe_has(t, text + at, &step)) { /* dropped */
            at += step;
            length = at < bytes ? bytes_of_token(t, id[i], text + at, bytes - at) : 0;
        }
        const size_t first = at < bytes ? at : bytes - 1;
        const size_t last = length > 0 ? at + length - 1 : first;
        if (sw_offsets_add(scratch, origin[first], origin[last]) != 0)
            return -1;
        at += length;
    }
    return 0;
}

/* ---- spaces at the ends of tokens ---- */

static bool is_blank(const char *text, size_t *bytes)
{
    const uint32_t character = sw_utf8_get(text, bytes);
    return character == sw_character_of_byte(' ') || sw_utf8_is_space(character);
}

/* Counts a text's leading and trailing blank characters. */
static void count_blanks(const char *text, size_t bytes, size_t *leading, size_t *trailing)
{
    bool begins = true;
    *leading = *trailing = 0;
    for (size_t at = 0, step; at < bytes; at += step) {
        const bool blank = is_blank(text + at, &step);
        begins = begins && blank;
        *leading += begins;
        *trailing = blank ? *trailing + 1 : 0;
    }
}

static size_t step_over(const char *text, size_t at, size_t end, size_t characters)
{
    for (size_t step; characters > 0 && at < end; characters--, at += step)
        sw_utf8_get(text + at, &step);
    return at;
}

static size_t step_back(const char *text, size_t begin, size_t at, size_t characters)
{
    for (; characters > 0 && at > begin; characters--)
        do
            at--;
        while (at > begin && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

void sw_offsets_strip(const struct sw_tokenizer *t, const char *text, const int32_t *id,
                      struct sw_text_span *span, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sw_token *token = &t->token[id[i]];
        const bool stands = token->added > 0; /* verbatim in the text, maybe with more spaces */
        size_t leading, trailing;
        if (stands)
            count_blanks(text + span[i].begin, span[i].end - span[i].begin, &leading, &trailing);
        else
            count_blanks(t->arena.byte + token->text, token->text_bytes, &leading, &trailing);
        if (leading == 1 && t->keeps_prefix && (i == 0 || span[i].begin == 0))
            leading = 0;
        span[i].begin = step_over(text, span[i].begin, span[i].end, leading);
        span[i].end = step_back(text, span[i].begin, span[i].end, trailing);
    }
}
