/* Normalizers: a text in front, other characters for some, and Unicode's four forms, of which only
 * the places that can change are looked at (most texts are NFC already). */
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { LAST_UNSAFE = 0x30000, MOST_DECOMPOSED = 64 };

static utf8proc_option_t options_of(const struct sw_normal *n)
{
    return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (n->compatible ? UTF8PROC_COMPAT : 0);
}

static void set_unsafe(struct sw_normal *n, uint32_t character)
{
    if (character < LAST_UNSAFE)
        n->unsafe[character >> 6] |= (uint64_t)1 << (character & 63);
}

static bool is_unsafe(const struct sw_normal *n, uint32_t character)
{
    return character < LAST_UNSAFE && (n->unsafe[character >> 6] >> (character & 63) & 1) != 0;
}

/* A character is safe when it stays as it is and nothing before it can take it in. From
 * decompositions all of that is known: what stands in one behind the first may be taken in. */
int sw_normal_prepare(struct sw_normal *n)
{
    utf8proc_int32_t part[MOST_DECOMPOSED];
    n->unsafe = calloc(LAST_UNSAFE / 64, sizeof *n->unsafe);
    if (n->unsafe == NULL)
        return -1;
    for (utf8proc_int32_t c = 0x80; c < LAST_UNSAFE; c++) {
        int boundary = UTF8PROC_BOUNDCLASS_START;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        utf8proc_ssize_t count =
            utf8proc_decompose_char(c, part, MOST_DECOMPOSED, options_of(n), &boundary);
        if (utf8proc_get_property(c)->combining_class != 0)
            set_unsafe(n, (uint32_t)c);
        if (count < 1 || count > MOST_DECOMPOSED || (count == 1 && part[0] == c))
            continue;
        for (utf8proc_ssize_t i = 1; i < count; i++)
            set_unsafe(n, (uint32_t)part[i]);
        if (n->compose)
            count = utf8proc_normalize_utf32(part, count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (count != 1 || part[0] != c)
            set_unsafe(n, (uint32_t)c);
    }
    return 0;
}

static int reserve_characters(struct sw_text_scratch *s, size_t count)
{
    if (count <= s->character_capacity)
        return 0;
    const size_t capacity = 2 * count;
    uint32_t *character = realloc(s->character, capacity * sizeof *character);
    if (character == NULL)
        return -1;
    s->character = character;
    s->character_capacity = capacity;
    return 0;
}

static uint8_t class_of(uint32_t character)
{
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)character)->combining_class;
}

/* Marks behind a character by class, those of one class as they stood; by counting, for there may
 * be millions. */
static void order_marks(uint32_t *mark, size_t count, uint32_t *room)
{
    size_t first[257] = {0};
    for (size_t i = 0; i < count; i++)
        first[class_of(mark[i]) + 1]++;
    for (int32_t i = 1; i < 257; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < count; i++)
        room[first[class_of(mark[i])]++] = mark[i];
    memcpy(mark, room, count * sizeof *mark);
}

static void order(uint32_t *character, size_t count, uint32_t *room)
{
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && class_of(character[end]) != 0)
            end++;
        if (end - i > 1)
            order_marks(character + i, end - i, room);
        i = end + (end == i);
    }
}

/* A stretch that no safe character begins within. */
static int put_stretch(const struct sw_normal *n, struct sw_text_scratch *s, const char *text,
                       size_t bytes, struct sw_chars *out)
{
    utf8proc_int32_t part[MOST_DECOMPOSED];
    size_t count = 0;
    for (size_t at = 0, step; at < bytes; at += step) {
        int boundary = UTF8PROC_BOUNDCLASS_START;
        const utf8proc_int32_t c = (utf8proc_int32_t)sw_utf8_get(text + at, &step);
        utf8proc_ssize_t parts =
            utf8proc_decompose_char(c, part, MOST_DECOMPOSED, options_of(n), &boundary);
        if (parts < 1 || parts > MOST_DECOMPOSED) { /* it has none */
            part[0] = c;
            parts = 1;
        }
        if (reserve_characters(s, 2 * (count + (size_t)parts)) != 0)
            return -1;
        for (utf8proc_ssize_t i = 0; i < parts; i++)
            s->character[count++] = (uint32_t)part[i];
    }
    order(s->character, count, s->character + count);
    if (n->compose) {
        const utf8proc_ssize_t composed =
            utf8proc_normalize_utf32((utf8proc_int32_t *)s->character, (utf8proc_ssize_t)count,
                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        count = composed < 0 ? count : (size_t)composed;
    }
    for (size_t i = 0; i < count; i++) {
        char utf8[4];
        if (sw_chars_add(out, utf8, sw_utf8_put(s->character[i], utf8)) != 0)
            return -1;
    }
    return 0;
}

/* The first unsafe character from `at` on; *before: where the character before it begins. */
static size_t find_unsafe(const struct sw_normal *n, const char *text, size_t bytes, size_t at,
                          size_t *before)
{
    *before = at;
    while (at < bytes) {
        uint64_t eight;
        size_t step;
        if (at + 8 <= bytes && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0)) {
            *before = at + 7;
            at += 8;
            continue;
        }
        if (is_unsafe(n, sw_utf8_get(text + at, &step)))
            break;
        *before = at;
        at += step;
    }
    return at;
}

static size_t find_safe(const struct sw_normal *n, const char *text, size_t bytes, size_t at)
{
    for (size_t step; at < bytes; at += step)
        if (!is_unsafe(n, sw_utf8_get(text + at, &step)))
            break;
    return at;
}

/* 1: done, 0: nothing changes, -1: no memory. */
static int put_form(const struct sw_normal *n, struct sw_text_scratch *s, const char *text,
                    size_t bytes, struct sw_chars *out)
{
    size_t before, done = 0;
    size_t at = find_unsafe(n, text, bytes, 0, &before);
    if (at == bytes)
        return 0;
    out->count = 0;
    while (at < bytes) {
        const size_t end = find_safe(n, text, bytes, at);
        if (sw_chars_add(out, text + done, before - done) != 0 ||
            put_stretch(n, s, text + before, end - before, out) != 0)
            return -1;
        done = end;
        at = find_unsafe(n, text, bytes, end, &before);
    }
    return sw_chars_add(out, text + done, bytes - done) != 0 ? -1 : 1;
}

/* 1: done, 0: nothing to replace, -1: no memory, -2: too many steps. */
static int put_replaced(const struct sw_normal *n, struct sw_text_scratch *s, const char *text,
                        size_t bytes, struct sw_chars *out)
{
    struct sw_matches matches = sw_matches_of(&n->pattern, &s->matcher, text, bytes);
    size_t done = 0, begin, end;
    int found;
    out->count = 0;
    while ((found = sw_matches_next(&matches, &begin, &end)) > 0) {
        if (sw_chars_add(out, text + done, begin - done) != 0 ||
            sw_chars_add(out, n->content, n->content_bytes) != 0)
            return -1;
        done = end;
    }
    if (found < 0)
        return -2;
    if (matches.last_end == SIZE_MAX)
        return 0;
    return sw_chars_add(out, text + done, bytes - done) != 0 ? -1 : 1;
}

/* 1: done, -1: no memory. */
static int put_prepended(const struct sw_normal *n, const char *text, size_t bytes,
                         struct sw_chars *out)
{
    out->count = 0;
    return sw_chars_add(out, n->content, n->content_bytes) != 0 ||
                   sw_chars_add(out, text, bytes) != 0
               ? -1
               : 1;
}

static int normalize_once(const struct sw_tokenizer *t, const struct sw_normal *n,
                          struct sw_text_scratch *s, const char **text, size_t *bytes,
                          struct sw_chars *out, struct sw_error *err)
{
    int status;
    if (n->kind == SW_NORMAL_UNICODE)
        status = put_form(n, s, *text, *bytes, out);
    else if (n->kind == SW_NORMAL_PREPEND)
        status = put_prepended(n, *text, *bytes, out);
    else
        status = put_replaced(n, s, *text, *bytes, out);
    if (status == -2)
        return sw_refuse(t, err, "a pattern of the normalizer takes too many steps on this text");
    if (status < 0)
        return sw_out_of_memory(t, err);
    if (status > 0) {
        *text = out->byte;
        *bytes = out->count;
    }
    return 0;
}

int sw_normalize(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char **text,
                 size_t *bytes, struct sw_error *err)
{
    int32_t free_one = 0;
    for (int32_t i = 0; i<t->normal_count && * bytes> 0; i++) {
        struct sw_chars *out = &scratch->normal[free_one];
        if (normalize_once(t, &t->normal[i], scratch, text, bytes, out, err) != 0)
            return -1;
        if (*text == out->byte)
            free_one = 1 - free_one;
    }
    return 0;
}
