/* Normalizers: prefixes, replacements, and Unicode's four forms, which process only positions that
 * can change (most texts are NFC already). */
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

/* Marks unsafe characters. A safe one stays unchanged and never composes with its predecessor;
 * decompositions tell: their later characters may compose. */
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

/* Flag of a decomposed character's later parts. */
#define FOLLOWS 0x80000000u

static uint8_t class_of(uint32_t character)
{
    const utf8proc_int32_t c = (utf8proc_int32_t)(character & ~FOLLOWS);
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* Sorts combining marks by class, stably; a counting sort, since there may be millions. */
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

/* A text to normalize, its bytes' origins, and the result. */
struct change {
    const char *text;
    size_t bytes;
    const size_t *origin; /* NULL: not requested */
    struct sw_chars *out;
    struct sw_origins *origins;
};

static int put(const struct change *c, size_t begin, size_t end)
{
    return sw_chars_add(c->out, c->text + begin, end - begin) != 0 ||
                   (c->origin != NULL &&
                    sw_origins_copy(c->origins, c->origin + begin, end - begin) != 0)
               ? -1
               : 0;
}

/* Appends new text that stands for the character at byte `at`. */
static int put_new(const struct change *c, const char *text, size_t bytes, size_t at)
{
    return sw_chars_add(c->out, text, bytes) != 0 ||
                   (c->origin != NULL && sw_origins_fill(c->origins, c->origin[at], bytes) != 0)
               ? -1
               : 0;
}

/* Origins of a stretch: in `tokenizers`, each result character takes the next character of the
 * stretch; composition skips those that vanish. */
struct following {
    const struct change *c;
    size_t at, end; /* positions in the text */
};

static void pass_over(struct following *f)
{
    size_t bytes;
    if (f->at < f->end) {
        sw_utf8_get(f->c->text + f->at, &bytes);
        f->at += bytes;
    }
}

/* change: 1: the character is new; -n: it absorbs n more. */
static int follow(struct following *f, uint32_t character, int64_t change)
{
    char utf8[4];
    const size_t at = (change > 0 && f->at > 0) || f->at == f->end ? f->at - 1 : f->at;
    for (int64_t i = change; i <= 0; i++)
        pass_over(f);
    return sw_origins_fill(f->c->origins, f->c->origin[at],
                           sw_utf8_put(character & ~FOLLOWS, utf8));
}

/* Composition of the two, or 0. */
static uint32_t joined(uint32_t left, uint32_t right)
{
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)left, (utf8proc_int32_t)(right & ~FOLLOWS)};
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1
               ? (uint32_t)pair[0]
               : 0;
}

/* Composes (UAX 15) character by character; overwrites `character`. */
static int follow_composed(struct following *f, uint32_t *character, size_t count)
{
    uint32_t first = 0; /* composition target; 0: none yet */
    int64_t change = 0;
    size_t kept = 0; /* marks kept after it */
    int status = 0;
    for (size_t i = 0; status == 0 && i <= count; i++) {
        const uint32_t one = i < count ? character[i] : 0;
        const uint8_t class = i < count ? class_of(one) : 0;
        const bool blocked = kept > 0 && class_of(character[kept - 1]) >= class;
        const uint32_t both = first != 0 && i < count && !blocked ? joined(first, one) : 0;
        if (both != 0) {
            first = both;
            change += (one & FOLLOWS) != 0 ? 0 : -1;
        } else if (first != 0 && class != 0) {
            character[kept++] = one;
        } else {
            if (first != 0)
                status = follow(f, first, change);
            for (size_t k = 0; status == 0 && k < kept; k++)
                status = follow(f, character[k], (character[k] & FOLLOWS) != 0);
            kept = 0;
            first = class == 0 ? one & ~FOLLOWS : 0;
            change = (one & FOLLOWS) != 0;
            if (status == 0 && class != 0)
                status = follow(f, one, change);
        }
    }
    return status;
}

/* room: [count], overwritten */
static int put_origins(const struct sw_normal *n, const uint32_t *character, size_t count,
                       uint32_t *room, const struct change *c, size_t begin, size_t end)
{
    struct following f = {c, begin, end};
    int status = 0;
    if (n->compose) {
        memcpy(room, character, count * sizeof *room);
        return follow_composed(&f, room, count);
    }
    for (size_t i = 0; status == 0 && i < count; i++)
        status = follow(&f, character[i], (character[i] & FOLLOWS) != 0);
    return status;
}

/* Decomposes and orders a text's characters, [*count] in s->character. */
static int take_apart(const struct sw_normal *n, struct sw_text_scratch *s, const char *text,
                      size_t bytes, size_t *count)
{
    utf8proc_int32_t part[MOST_DECOMPOSED];
    *count = 0;
    for (size_t at = 0, step; at < bytes; at += step) {
        int boundary = UTF8PROC_BOUNDCLASS_START;
        const utf8proc_int32_t c = (utf8proc_int32_t)sw_utf8_get(text + at, &step);
        utf8proc_ssize_t parts =
            utf8proc_decompose_char(c, part, MOST_DECOMPOSED, options_of(n), &boundary);
        if (parts < 1 || parts > MOST_DECOMPOSED) { /* it does not decompose */
            part[0] = c;
            parts = 1;
        }
        if (reserve_characters(s, 2 * (*count + (size_t)parts)) != 0)
            return -1;
        for (utf8proc_ssize_t i = 0; i < parts; i++)
            s->character[(*count)++] = (uint32_t)part[i] | (i > 0 ? FOLLOWS : 0);
    }
    order(s->character, *count, s->character + *count);
    return 0;
}

/* Normalizes a stretch without safe characters inside. */
static int put_stretch(const struct sw_normal *n, struct sw_text_scratch *s, const struct change *c,
                       size_t begin, size_t end)
{
    size_t count;
    if (take_apart(n, s, c->text + begin, end - begin, &count) != 0)
        return -1;
    if (c->origin != NULL &&
        put_origins(n, s->character, count, s->character + count, c, begin, end) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        s->character[i] &= ~FOLLOWS;
    if (n->compose) {
        const utf8proc_ssize_t composed =
            utf8proc_normalize_utf32((utf8proc_int32_t *)s->character, (utf8proc_ssize_t)count,
                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        count = composed < 0 ? count : (size_t)composed;
    }
    for (size_t i = 0; i < count; i++) {
        char utf8[4];
        if (sw_chars_add(c->out, utf8, sw_utf8_put(s->character[i], utf8)) != 0)
            return -1;
    }
    return 0;
}

/* First unsafe character from `at`; *before: start of the character before it. */
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
static int put_form(const struct sw_normal *n, struct sw_text_scratch *s, const struct change *c)
{
    size_t before, done = 0;
    size_t at = find_unsafe(n, c->text, c->bytes, 0, &before);
    if (at == c->bytes)
        return 0;
    while (at < c->bytes) {
        const size_t end = find_safe(n, c->text, c->bytes, at);
        if (put(c, done, before) != 0 || put_stretch(n, s, c, before, end) != 0)
            return -1;
        done = end;
        at = find_unsafe(n, c->text, c->bytes, end, &before);
    }
    return put(c, done, c->bytes) != 0 ? -1 : 1;
}

/* 1: done, 0: no match, -1: no memory, -2: too many steps. */
static int put_replaced(const struct sw_normal *n, struct sw_text_scratch *s,
                        const struct change *c)
{
    struct sw_matches matches = sw_matches_of(&n->pattern, &s->matcher, c->text, c->bytes);
    size_t done = 0, begin, end;
    int found;
    while ((found = sw_matches_next(&matches, &begin, &end)) > 0) {
        if (put(c, done, begin) != 0 ||
            put_new(c, n->content, n->content_bytes, end > 0 ? end - 1 : 0) != 0)
            return -1;
        done = end;
    }
    if (found < 0)
        return -2;
    if (matches.last_end == SIZE_MAX)
        return 0;
    return put(c, done, c->bytes) != 0 ? -1 : 1;
}

/* 1: done, -1: no memory. */
static int put_prepended(const struct sw_normal *n, const struct change *c)
{
    return put_new(c, n->content, n->content_bytes, 0) != 0 || put(c, 0, c->bytes) != 0 ? -1 : 1;
}

static int normalize_once(const struct sw_tokenizer *t, const struct sw_normal *n,
                          struct sw_text_scratch *s, struct change *c, struct sw_error *err)
{
    int status;
    c->out->count = c->origins->count = 0;
    if (n->kind == SW_NORMAL_UNICODE)
        status = put_form(n, s, c);
    else if (n->kind == SW_NORMAL_PREPEND)
        status = put_prepended(n, c);
    else
        status = put_replaced(n, s, c);
    if (status == -2)
        return sw_refuse(t, err, "a pattern of the normalizer takes too many steps on this text");
    if (status < 0)
        return sw_out_of_memory(t, err);
    if (status > 0) {
        c->text = c->out->byte;
        c->bytes = c->out->count;
        c->origin = c->origin != NULL ? c->origins->at : NULL;
    }
    return 0;
}

int sw_normalize(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char **text,
                 size_t *bytes, const size_t **origin, struct sw_error *err)
{
    struct change c = {.text = *text, .bytes = *bytes, .origin = origin != NULL ? *origin : NULL};
    int32_t free_one = 0;
    for (int32_t i = 0; i < t->normal_count && c.bytes > 0; i++) {
        c.out = &scratch->normal[free_one];
        c.origins = &scratch->normal_origin[free_one];
        if (normalize_once(t, &t->normal[i], scratch, &c, err) != 0)
            return -1;
        if (c.text == c.out->byte)
            free_one = 1 - free_one;
    }
    *text = c.text;
    *bytes = c.bytes;
    if (origin != NULL)
        *origin = c.origin;
    return 0;
}
