/* The arena of a description, and the texts in it. */
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/schema/internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384, SHOWN_CHARACTERS = 60 };

struct block {
    struct block *next;
    size_t used, capacity;
    max_align_t data[];
};

void *sw_config_alloc(struct sw_config *c, size_t bytes)
{
    const size_t rounded = (size_t)sw_align((int64_t)bytes, sizeof(max_align_t));
    struct block *block = c->blocks;
    if (block == NULL || block->capacity - block->used < rounded) {
        size_t capacity = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
        block = calloc(1, sizeof *block + capacity);
        if (block == NULL) {
            c->failed = true;
            return NULL;
        }
        block->capacity = capacity;
        block->next = c->blocks;
        c->blocks = block;
    }
    void *result = (char *)block->data + block->used;
    block->used += rounded;
    return result;
}

void sw_config_release(struct sw_config *c)
{
    while (c->blocks != NULL) {
        struct block *next = c->blocks->next;
        free(c->blocks);
        c->blocks = next;
    }
    free(c->stored);
    c->stored = NULL;
}

const char *sw_config_copy(struct sw_config *c, const char *text, size_t bytes)
{
    char *copy = sw_config_alloc(c, bytes + 1);
    if (copy == NULL)
        return "";
    memcpy(copy, text, bytes);
    return copy;
}

const char *sw_config_format(struct sw_config *c, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : sw_config_alloc(c, (size_t)length + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text != NULL ? text : "";
}

/* Escapes invisible characters and those that control a terminal: "\x1b", "\u202e". */
static const char *escape(struct sw_config *c, const char *text, size_t max_characters)
{
    char *shown = sw_config_alloc(c, strlen(text) * 6 + 8);
    if (shown == NULL)
        return "";
    size_t used = 0, characters = 0;
    const unsigned char *p = (const unsigned char *)text;
    for (; *p != 0 && characters < max_characters; characters++) {
        const size_t hidden = sw_text_hidden((const char *)p);
        if (hidden == 3) {
            const unsigned code = (p[0] & 0x0fU) << 12 | (p[1] & 0x3fU) << 6 | (p[2] & 0x3fU);
            used += (size_t)snprintf(shown + used, 7, "\\u%04x", code);
            p += hidden;
        } else if (hidden > 0) {
            const unsigned code = hidden == 2 ? (p[0] & 0x1fU) << 6 | (p[1] & 0x3fU) : p[0];
            used += (size_t)snprintf(shown + used, 7, code > 0xff ? "\\u%04x" : "\\x%02x", code);
            p += hidden;
        } else {
            do
                shown[used++] = (char)*p++;
            while ((*p & 0xc0) == 0x80);
        }
    }
    if (*p != 0)
        memcpy(shown + used, "...", 3); /* the buffer is zeroed, and the cut left room */
    return shown;
}

const char *sw_config_shown(struct sw_config *c, const char *text)
{
    /* A huge text costs no more than its shown part. */
    size_t length = strnlen(text, SHOWN_CHARACTERS * 4 + 4);
    return escape(c, text[length] == 0 ? text : sw_config_copy(c, text, length), SHOWN_CHARACTERS);
}

const char *sw_config_quote(struct sw_config *c, const char *text)
{
    return sw_config_format(c, "'%s'", sw_config_shown(c, text));
}

const char *sw_config_shown_path(struct sw_config *c, const char *path)
{
    return escape(c, path, 8192);
}
