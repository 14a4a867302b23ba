/* Tokens of a template. White space is trimmed as in Jinja's "Whitespace Control", with trim_blocks
 * and lstrip_blocks. */
#include "runner/text/jinja/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

struct jinja_block {
    struct jinja_block *before;
    size_t used, room;
    _Alignas(max_align_t) char byte[];
};

void *sw_jinja_arena_take(struct jinja_arena *arena, size_t bytes)
{
    struct jinja_block *block = arena->block;
    const size_t align = _Alignof(max_align_t), usual = 16384;
    if (bytes > arena->most_bytes)
        return NULL;
    bytes = (bytes + align - 1) / align * align;
    if (block == NULL || block->room - block->used < bytes) {
        const size_t room = bytes > usual / 4 ? bytes : usual;
        if (room > arena->most_bytes - arena->used_bytes ||
            (block = calloc(1, sizeof *block + room)) == NULL)
            return NULL;
        block->room = room;
        arena->used_bytes += room;
        if (room != usual && arena->block != NULL) { /* continues to fill the previous block */
            block->before = arena->block->before;
            arena->block->before = block;
        } else {
            block->before = arena->block;
            arena->block = block;
        }
    }
    block->used += bytes;
    return block->byte + block->used - bytes;
}

void sw_jinja_arena_free(struct jinja_arena *arena)
{
    for (struct jinja_block *block = arena->block; block != NULL;) {
        struct jinja_block *before = block->before;
        free(block);
        block = before;
    }
    arena->block = NULL;
}

struct sw_place sw_jinja_place(const struct jinja_source *source, size_t position)
{
    struct sw_place place = {source->file, 1, 1};
    for (size_t i = 0; i < position && i < source->bytes; i++) {
        place.column += ((unsigned char)source->text[i] & 0xc0) != 0x80;
        if (source->text[i] == '\n') {
            place.line++;
            place.column = 1;
        }
    }
    return place;
}

struct lexing {
    const struct jinja_source *source;
    struct jinja_arena *arena;
    struct jinja_token *token;
    size_t count, capacity, at;
    struct sw_error *err;
};

static int fail(const struct lexing *l, size_t position, const char *what)
{
    return sw_fail_at(l->err, SW_BAD_INPUT, sw_jinja_place(l->source, position), "%s", what);
}

static int fail_memory(const struct lexing *l)
{
    return sw_fail(l->err, SW_ENVIRONMENT, "out of memory for the chat template");
}

static int add(struct lexing *l, struct jinja_token token)
{
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity == 0 ? 256 : 2 * l->capacity;
        struct jinja_token *grown = sw_jinja_arena_take(l->arena, capacity * sizeof *grown);
        if (grown == NULL)
            return fail_memory(l);
        if (l->count > 0)
            memcpy(grown, l->token, l->count * sizeof *grown);
        l->token = grown;
        l->capacity = capacity;
    }
    l->token[l->count++] = token;
    return 0;
}

/* Adds a token with a copy of [bytes] of the source from l->at. */
static int add_text(struct lexing *l, enum jinja_token_kind kind, size_t bytes)
{
    char *copy = sw_jinja_arena_take(l->arena, bytes + 1);
    if (copy == NULL)
        return fail_memory(l);
    memcpy(copy, l->source->text + l->at, bytes);
    const struct jinja_token token = {
        .kind = kind, .text = copy, .bytes = bytes, .position = l->at};
    l->at += bytes;
    return add(l, token);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool starts(const struct lexing *l, const char *what)
{
    const size_t bytes = strlen(what);
    return l->source->bytes - l->at >= bytes && memcmp(l->source->text + l->at, what, bytes) == 0;
}

/* ---- within a tag ---- */

static int32_t hex_value(const char *p, size_t digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        const char c = p[i];
        if (!is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F'))
            return -1;
        value = value * 16 + (uint32_t)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value < 0x110000 && (value < 0xd800 || value > 0xdfff) ? (int32_t)value : -1;
}

/* Decodes the escape after a backslash at p, [left] bytes, as in Python. Returns the bytes read; 0:
 * not a character. */
static size_t read_escape(const char *p, size_t left, char *out, size_t *count)
{
    static const char letters[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    size_t octal = 0;
    uint32_t value = 0;
    for (size_t i = 0; i + 1 < sizeof letters; i += 2)
        if (letters[i] == *p)
            return out[(*count)++] = letters[i + 1], 1;
    if (*p == '\n') /* line continuation */
        return 1;
    if (digits > 0) {
        const int32_t character = left > digits ? hex_value(p + 1, digits) : -1;
        if (character < 0)
            return 0;
        *count += sw_utf8_put((uint32_t)character, out + *count);
        return digits + 1;
    }
    while (octal < 3 && octal < left && p[octal] >= '0' && p[octal] <= '7')
        value = value * 8 + (uint32_t)(p[octal++] - '0');
    if (octal > 0) {
        *count += sw_utf8_put(value, out + *count);
        return octal;
    }
    out[(*count)++] = '\\';
    out[(*count)++] = *p;
    return 1;
}

static int lex_string(struct lexing *l)
{
    const char *p = l->source->text;
    const size_t begin = l->at, end = l->source->bytes;
    size_t close = begin + 1, count = 0;
    while (close < end && p[close] != p[begin])
        close += p[close] == '\\' ? 2 : 1;
    if (close >= end)
        return fail(l, begin, "this text has no end; close it with the same quote");
    char *text = sw_jinja_arena_take(l->arena, 2 * (close - begin) + 8);
    if (text == NULL)
        return fail_memory(l);
    for (size_t i = begin + 1; i < close;) {
        if (p[i] != '\\') {
            text[count++] = p[i++];
            continue;
        }
        const size_t taken = read_escape(p + i + 1, close - i - 1, text, &count);
        if (taken == 0)
            return fail(l, i, "this is not a character; write \\xHH, \\uHHHH or \\UHHHHHHHH");
        i += 1 + taken;
    }
    text[count] = '\0';
    l->at = close + 1;
    return add(l, (struct jinja_token){
                      .kind = JINJA_STRING, .text = text, .bytes = count, .position = begin});
}

static int lex_number(struct lexing *l)
{
    const char *p = l->source->text;
    const size_t begin = l->at;
    char digits[64];
    size_t count = 0, i = begin;
    bool real = false;
    for (; i < l->source->bytes && count < sizeof digits - 1; i++) {
        const bool sign = (p[i] == '-' || p[i] == '+') && i > begin && (p[i - 1] | 32) == 'e';
        if (p[i] == '_')
            continue;
        if (p[i] == '.' && (real || i + 1 >= l->source->bytes || !is_digit(p[i + 1])))
            break;
        if (!is_digit(p[i]) && p[i] != '.' && !sign &&
            !((p[i] | 32) == 'e' && i + 1 < l->source->bytes &&
              (is_digit(p[i + 1]) || p[i + 1] == '-' || p[i + 1] == '+')))
            break;
        real = real || !is_digit(p[i]);
        digits[count++] = p[i];
    }
    digits[count] = '\0';
    if (count > 40 || (!real && count > 18))
        return fail(l, begin, "this number is too long; 18 digits are the most");
    if (add_text(l, real ? JINJA_FLOAT : JINJA_INTEGER, i - begin) != 0)
        return -1;
    l->token[l->count - 1].integer = strtoll(digits, NULL, 10);
    l->token[l->count - 1].number = strtod(digits, NULL);
    return 0;
}

static int lex_operator(struct lexing *l)
{
    static const char *const operators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                            "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                            "]",  "{",  "}",  ".",  ":",  "|",  ",", NULL};
    for (size_t i = 0; operators[i] != NULL; i++)
        if (starts(l, operators[i]))
            return add_text(l, JINJA_OPERATOR, strlen(operators[i]));
    return fail(l, l->at, "an expression cannot have this character");
}

/* Skips the white space that a tag's end absorbs. */
static void skip_behind(struct lexing *l, char sign, bool block)
{
    if (sign == '-')
        while (l->at < l->source->bytes && is_blank(l->source->text[l->at]))
            l->at++;
    else if (block && sign != '+' && l->at < l->source->bytes && l->source->text[l->at] == '\n')
        l->at++;
}

static int lex_token(struct lexing *l)
{
    const char *p = l->source->text;
    size_t bytes = 0;
    if (p[l->at] == '"' || p[l->at] == '\'')
        return lex_string(l);
    if (is_digit(p[l->at]))
        return lex_number(l);
    while (l->at + bytes < l->source->bytes &&
           (is_letter(p[l->at + bytes]) || is_digit(p[l->at + bytes])))
        bytes++;
    return bytes > 0 ? add_text(l, JINJA_NAME, bytes) : lex_operator(l);
}

/* Reads the tokens of a tag up to its end. */
static int lex_tag(struct lexing *l, bool block, size_t begin)
{
    const char *close = block ? "%}" : "}}";
    size_t open = 0;
    for (;;) {
        while (l->at < l->source->bytes && is_blank(l->source->text[l->at]))
            l->at++;
        if (l->at >= l->source->bytes)
            return fail(l, begin,
                        block ? "this tag has no end; close it with %}"
                              : "this output has no end; close it with }}");
        const char sign = l->source->text[l->at];
        const size_t signs = sign == '-' || (block && sign == '+') ? 1 : 0;
        l->at += signs;
        if (open == 0 && starts(l, close)) {
            const struct jinja_token end = {.kind = block ? JINJA_BLOCK_END : JINJA_OUTPUT_END,
                                            .text = close,
                                            .position = l->at};
            l->at += 2;
            skip_behind(l, signs > 0 ? sign : '\0', block);
            return add(l, end);
        }
        l->at -= signs;
        if (strchr("([{", sign) != NULL)
            open++;
        else if (strchr(")]}", sign) != NULL && open > 0)
            open--;
        if (lex_token(l) != 0)
            return -1;
    }
}

/* ---- between tags ---- */

/* End of the text from `begin` to the tag at `tag`, whose start may absorb white space. */
static size_t data_end(const struct lexing *l, size_t begin, size_t tag)
{
    const char *p = l->source->text;
    const char sign = tag + 2 < l->source->bytes ? p[tag + 2] : '\0';
    size_t end = tag;
    if (sign == '-') {
        while (end > begin && is_blank(p[end - 1]))
            end--;
    } else if (p[tag + 1] != '{' && sign != '+') {
        while (end > begin && is_blank(p[end - 1]) && p[end - 1] != '\n')
            end--;
        if (end > 0 && p[end - 1] != '\n')
            end = tag;
    }
    return end;
}

static int add_data(struct lexing *l, size_t end)
{
    const size_t begin = l->at;
    return end > begin ? add_text(l, JINJA_DATA, end - begin) : 0;
}

static size_t find(const struct lexing *l, size_t from, const char *what)
{
    const size_t bytes = strlen(what);
    for (size_t i = from; i + bytes <= l->source->bytes; i++)
        if (memcmp(l->source->text + i, what, bytes) == 0)
            return i;
    return l->source->bytes;
}

/* Matches a whole word after "{%" and its sign. Returns the position after it, 0: another word. */
static size_t tag_word(const struct lexing *l, size_t tag, const char *word)
{
    const char *p = l->source->text;
    size_t i = tag + 2;
    if (i < l->source->bytes && (p[i] == '-' || p[i] == '+'))
        i++;
    while (i < l->source->bytes && is_blank(p[i]))
        i++;
    if (l->source->bytes - i < strlen(word) || memcmp(p + i, word, strlen(word)) != 0)
        return 0;
    i += strlen(word);
    while (i < l->source->bytes && is_blank(p[i]))
        i++;
    return i;
}

/* Position after "%}" or "-%}" at i; 0: neither is there. *sign: its white space control. */
static size_t close_tag(const struct lexing *l, size_t i, char *sign)
{
    const char *p = l->source->text;
    *sign = i < l->source->bytes && (p[i] == '-' || p[i] == '+') ? p[i] : '\0';
    i += *sign != '\0';
    return l->source->bytes - i >= 2 && p[i] == '%' && p[i + 1] == '}' ? i + 2 : 0;
}

/* Reads {% raw %} ... {% endraw %} at l->at. Returns 1: it is another tag. */
static int lex_raw(struct lexing *l)
{
    const size_t tag = l->at, word = tag_word(l, tag, "raw");
    char sign;
    const size_t from = word > 0 ? close_tag(l, word, &sign) : 0;
    if (from == 0)
        return 1;
    l->at = from;
    if (sign == '-')
        skip_behind(l, sign, true);
    for (size_t end = find(l, l->at, "{%"); end < l->source->bytes; end = find(l, end + 2, "{%")) {
        const size_t last = tag_word(l, end, "endraw");
        const size_t behind = last > 0 ? close_tag(l, last, &sign) : 0;
        if (behind == 0)
            continue;
        if (add_data(l, data_end(l, l->at, end)) != 0)
            return -1;
        l->at = behind;
        skip_behind(l, sign, true);
        return 0;
    }
    return fail(l, tag, "this raw has no end; close it with {% endraw %}");
}

static int lex_comment(struct lexing *l)
{
    const size_t end = find(l, l->at + 2, "#}");
    if (end == l->source->bytes)
        return fail(l, l->at, "this comment has no end; close it with #}");
    const char sign = end > l->at + 2 ? l->source->text[end - 1] : '\0';
    l->at = end + 2;
    skip_behind(l, sign, true);
    return 0;
}

static size_t next_tag(const struct lexing *l)
{
    const char *p = l->source->text;
    for (size_t i = l->at; i + 1 < l->source->bytes; i++)
        if (p[i] == '{' && (p[i + 1] == '{' || p[i + 1] == '%' || p[i + 1] == '#'))
            return i;
    return l->source->bytes;
}

int sw_jinja_lex(const struct jinja_source *source, struct jinja_arena *arena,
                 struct jinja_token **token, struct sw_error *err)
{
    struct lexing l = {.source = source, .arena = arena, .err = err};
    while (l.at < source->bytes) {
        const size_t tag = next_tag(&l);
        if (add_data(&l, tag < source->bytes ? data_end(&l, l.at, tag) : tag) != 0)
            return -1;
        l.at = tag;
        if (tag == source->bytes)
            break;
        const char what = source->text[tag + 1];
        const int raw = what == '%' ? lex_raw(&l) : 1;
        if (raw < 0 || (what == '#' && lex_comment(&l) != 0))
            return -1;
        if (raw == 0 || what == '#')
            continue;
        const struct jinja_token begin = {.kind =
                                              what == '%' ? JINJA_BLOCK_BEGIN : JINJA_OUTPUT_BEGIN,
                                          .text = what == '%' ? "{%" : "{{",
                                          .position = tag};
        l.at += 2;
        if (l.at < source->bytes &&
            (source->text[l.at] == '-' || (what == '%' && source->text[l.at] == '+')))
            l.at++;
        if (add(&l, begin) != 0 || lex_tag(&l, what == '%', tag) != 0)
            return -1;
    }
    *token = l.token;
    if (add(&l, (struct jinja_token){
                    .kind = JINJA_END, .text = "the end", .position = source->bytes}) != 0)
        return -1;
    *token = l.token;
    return 0;
}
