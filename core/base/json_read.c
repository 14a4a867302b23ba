#include "core/base/json_read.h"

#include <stdlib.h>
#include <string.h>

enum state { VALUE, ITEM_OR_CLOSE, KEY, KEY_OR_CLOSE, AFTER_VALUE, DONE };

void sw_json_reader_begin(struct sw_json_reader *r, const char *text, size_t bytes)
{
    const bool mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    *r = (struct sw_json_reader){
        .text = text, .bytes = bytes, .at = mark ? 3 : 0, .line = 1, .column = 1, .state = VALUE};
    r->begin = r->seen = r->at;
}

void sw_json_reader_free(struct sw_json_reader *r)
{
    free(r->value);
    *r = (struct sw_json_reader){.value = NULL};
}

void sw_json_where(struct sw_json_reader *r, int32_t *line, int32_t *column)
{
    for (; r->seen < r->begin && r->seen < r->bytes; r->seen++) {
        const unsigned char c = (unsigned char)r->text[r->seen];
        if (c == '\n' && r->line < INT32_MAX) {
            r->line++;
            r->column = 1;
        } else if ((c & 0xc0) != 0x80 && r->column < INT32_MAX) {
            r->column++;
        }
    }
    *line = r->line;
    *column = r->column;
}

static enum sw_json_event fail(struct sw_json_reader *r, size_t at, const char *mistake)
{
    r->begin = at;
    r->mistake = mistake;
    return SW_JSON_MISTAKE;
}

/* Mistake for an unexpected byte, or the unexpected end. */
static enum sw_json_event wrong(struct sw_json_reader *r)
{
    return r->at >= r->bytes ? fail(r, r->bytes, "the text ends within a value")
                             : fail(r, r->at, "wrong syntax");
}

/* ---- values ---- */

static bool put(struct sw_json_reader *r, const char *text, size_t bytes)
{
    if (bytes >= r->room - r->value_bytes) {
        const size_t room = (r->value_bytes + bytes + 32) * 2;
        char *grown = realloc(r->value, room);
        if (grown == NULL)
            return false;
        r->value = grown;
        r->room = room;
    }
    memcpy(r->value + r->value_bytes, text, bytes);
    r->value_bytes += bytes;
    r->value[r->value_bytes] = '\0';
    return true;
}

static bool put_character(struct sw_json_reader *r, uint32_t c)
{
    const int32_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    char text[4];
    for (int32_t i = more; i > 0; i--, c >>= 6)
        text[i] = (char)(0x80 | (c & 0x3f));
    text[0] = (char)(first[more] | c);
    return put(r, text, (size_t)more + 1);
}

/* Length of the non-ASCII character at p; 0: no UTF-8. */
static size_t character_bytes(const unsigned char *p, size_t left)
{
    const size_t bytes = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (bytes == 0 || bytes > left)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* too long, a surrogate, beyond U+10FFFF */
    return (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                   (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)
               ? 0
               : bytes;
}

/* The four digits of \uXXXX at `at`; -1: there are none. */
static int32_t unit_at(const struct sw_json_reader *r, size_t at)
{
    int32_t unit = 0;
    if (at + 6 > r->bytes || r->text[at] != '\\' || r->text[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        const char c = r->text[i];
        const int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Reads the escape at `at`; half a surrogate pair becomes U+FFFD. */
static enum sw_json_event read_escape(struct sw_json_reader *r)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *letter =
        r->at + 1 < r->bytes ? memchr(letters, r->text[r->at + 1], sizeof letters - 1) : NULL;
    if (letter != NULL) {
        r->at += 2;
        return put(r, &meant[letter - letters], 1) ? SW_JSON_STRING : SW_JSON_NO_MEMORY;
    }
    const int32_t unit = unit_at(r, r->at);
    if (unit < 0)
        return r->at + 6 > r->bytes && memchr(r->text + r->at, '"', r->bytes - r->at) == NULL
                   ? fail(r, r->bytes, "the text ends within a value")
                   : fail(r, r->at, "wrong syntax");
    uint32_t c = (uint32_t)unit;
    r->at += 6;
    if (c >= 0xd800 && c < 0xe000) {
        const int32_t other = c < 0xdc00 ? unit_at(r, r->at) : -1;
        const bool pair = other >= 0xdc00 && other < 0xe000;
        if (!pair && r->plain)
            return fail(r, r->at - 6, "half a surrogate pair, which is no character");
        c = pair ? 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)other - 0xdc00) : 0xfffd;
        r->at += pair ? 6 : 0;
    }
    return put_character(r, c) ? SW_JSON_STRING : SW_JSON_NO_MEMORY;
}

/* Reads the string whose quote is at `at`. */
static enum sw_json_event read_string(struct sw_json_reader *r)
{
    if (!put(r, "", 0))
        return SW_JSON_NO_MEMORY;
    for (r->at++; r->at < r->bytes;) {
        const size_t from = r->at;
        const unsigned char *p = (const unsigned char *)r->text;
        while (r->at < r->bytes && p[r->at] >= 0x20 && p[r->at] != '"' && p[r->at] != '\\') {
            const size_t bytes = p[r->at] < 0x80 ? 1 : character_bytes(p + r->at, r->bytes - r->at);
            if (bytes == 0)
                return fail(r, r->at, "a text that is not UTF-8");
            r->at += bytes;
        }
        if (!put(r, r->text + from, r->at - from))
            return SW_JSON_NO_MEMORY;
        if (r->at == r->bytes)
            break;
        if (p[r->at] == '"')
            return r->at++, SW_JSON_STRING;
        if (p[r->at] != '\\')
            return fail(r, r->at, "wrong syntax");
        const enum sw_json_event event = read_escape(r);
        if (event != SW_JSON_STRING)
            return event;
    }
    return fail(r, r->bytes, "the text ends within a value");
}

static size_t digits_at(const struct sw_json_reader *r, size_t at)
{
    size_t count = 0;
    while (at + count < r->bytes && r->text[at + count] >= '0' && r->text[at + count] <= '9')
        count++;
    return count;
}

/* Bytes of the number at `at`; 0: there is none. */
static size_t number_bytes(const struct sw_json_reader *r)
{
    size_t at = r->at + (r->text[r->at] == '-'), digits = digits_at(r, at);
    if (digits > 1 && r->text[at] == '0')
        digits = 1; /* none begins with a 0 */
    if (digits == 0)
        return 0;
    at += digits;
    if (at < r->bytes && r->text[at] == '.' && (digits = digits_at(r, at + 1)) > 0)
        at += 1 + digits;
    if (at < r->bytes && (r->text[at] == 'e' || r->text[at] == 'E')) {
        const size_t sign = at + 1 < r->bytes && (r->text[at + 1] == '+' || r->text[at + 1] == '-');
        digits = digits_at(r, at + 1 + sign);
        at += digits > 0 ? 1 + sign + digits : 0;
    }
    return at - r->at;
}

static bool starts_with(const struct sw_json_reader *r, const char *word)
{
    const size_t bytes = strlen(word);
    return bytes <= r->bytes - r->at && memcmp(r->text + r->at, word, bytes) == 0;
}

/* True if the rest of the text is a beginning of the word. */
static bool cuts_off(const struct sw_json_reader *r, const char *word)
{
    const size_t left = r->bytes - r->at;
    return left < strlen(word) && memcmp(r->text + r->at, word, left) == 0;
}

static enum sw_json_event read_word(struct sw_json_reader *r)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    enum { WORDS = sizeof words / sizeof words[0], NUMBERS = 3 }; /* index of the first of them */
    const size_t count = r->plain ? NUMBERS : WORDS;
    size_t w = 0;
    while (w < count && !starts_with(r, words[w]))
        w++;
    const size_t bytes = w < count ? strlen(words[w]) : number_bytes(r);
    if (bytes == 0) {
        for (w = 0; w < count; w++)
            if (cuts_off(r, words[w]))
                return fail(r, r->bytes, "the text ends within a value");
        return wrong(r);
    }
    if (!put(r, r->text + r->at, bytes))
        return SW_JSON_NO_MEMORY;
    r->at += bytes;
    return w < NUMBERS ? SW_JSON_WORD : SW_JSON_NUMBER;
}

/* ---- structure ---- */

static bool in_object(const struct sw_json_reader *r)
{
    return r->depth > 0 && (r->is_object[(r->depth - 1) / 8] >> ((r->depth - 1) % 8) & 1) != 0;
}

static enum sw_json_event open_container(struct sw_json_reader *r, bool object)
{
    if (r->depth == SW_JSON_READ_DEPTH)
        return fail(r, r->at, "values nested too deeply");
    const uint8_t bit = (uint8_t)(1u << (r->depth % 8));
    uint8_t *byte = &r->is_object[r->depth / 8];
    *byte = (uint8_t)(object ? *byte | bit : *byte & ~bit);
    r->depth++;
    r->at++;
    r->state = object ? KEY_OR_CLOSE : ITEM_OR_CLOSE;
    return object ? SW_JSON_OBJECT : SW_JSON_ARRAY;
}

static enum sw_json_event close_container(struct sw_json_reader *r)
{
    r->depth--;
    r->at++;
    r->state = r->depth > 0 ? AFTER_VALUE : DONE;
    return SW_JSON_CLOSE;
}

static void skip_space(struct sw_json_reader *r)
{
    while (r->at < r->bytes && (r->text[r->at] == ' ' || r->text[r->at] == '\n' ||
                                r->text[r->at] == '\r' || r->text[r->at] == '\t'))
        r->at++;
}

static enum sw_json_event read_key(struct sw_json_reader *r)
{
    const size_t begin = r->at;
    if (r->at == r->bytes || r->text[r->at] != '"')
        return wrong(r);
    const enum sw_json_event event = read_string(r);
    if (event != SW_JSON_STRING)
        return event;
    skip_space(r);
    if (r->at == r->bytes || r->text[r->at] != ':')
        return wrong(r);
    r->at++;
    r->begin = begin;
    r->state = VALUE;
    return SW_JSON_KEY;
}

static enum sw_json_event read_value(struct sw_json_reader *r)
{
    enum sw_json_event event;
    if (r->at == r->bytes)
        return wrong(r);
    if (r->text[r->at] == '{' || r->text[r->at] == '[')
        return open_container(r, r->text[r->at] == '{');
    event = r->text[r->at] == '"' ? read_string(r) : read_word(r);
    r->state = r->depth > 0 ? AFTER_VALUE : DONE;
    return event;
}

enum sw_json_event sw_json_next(struct sw_json_reader *r)
{
    skip_space(r);
    r->value_bytes = 0;
    if (r->state == AFTER_VALUE) {
        const char c = r->at < r->bytes ? r->text[r->at] : '\0';
        r->begin = r->at;
        if (c == (in_object(r) ? '}' : ']'))
            return close_container(r);
        if (c != ',')
            return wrong(r);
        r->at++;
        skip_space(r);
        r->state = in_object(r) ? KEY : VALUE;
    }
    r->begin = r->at;
    if (r->state == DONE)
        return r->at == r->bytes ? SW_JSON_END : fail(r, r->at, "text after the end");
    if ((r->state == KEY_OR_CLOSE && r->at < r->bytes && r->text[r->at] == '}') ||
        (r->state == ITEM_OR_CLOSE && r->at < r->bytes && r->text[r->at] == ']'))
        return close_container(r);
    return r->state == KEY || r->state == KEY_OR_CLOSE ? read_key(r) : read_value(r);
}
