#include "runner/text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int sw_ids_reserve(struct sw_ids *ids, size_t more)
{
    if (more <= ids->capacity - ids->count)
        return 0;
    size_t capacity = ids->capacity < 64 ? 64 : ids->capacity * 2;
    if (capacity < ids->count + more)
        capacity = ids->count + more;
    int32_t *id = capacity > SIZE_MAX / sizeof *id ? NULL : realloc(ids->id, capacity * sizeof *id);
    if (id == NULL)
        return -1;
    ids->id = id;
    ids->capacity = capacity;
    return 0;
}

void sw_ids_free(struct sw_ids *ids)
{
    free(ids->id);
    *ids = (struct sw_ids){0};
}

void sw_text_spans_free(struct sw_text_spans *spans)
{
    free(spans->span);
    *spans = (struct sw_text_spans){0};
}

int sw_chars_add(struct sw_chars *chars, const char *text, size_t bytes)
{
    if (bytes >= chars->capacity - chars->count) {
        size_t capacity = chars->capacity < 64 ? 64 : chars->capacity * 2;
        if (capacity <= chars->count + bytes)
            capacity = chars->count + bytes + 1;
        char *byte = realloc(chars->byte, capacity);
        if (byte == NULL)
            return -1;
        chars->byte = byte;
        chars->capacity = capacity;
    }
    if (bytes > 0)
        memcpy(chars->byte + chars->count, text, bytes);
    chars->count += bytes;
    chars->byte[chars->count] = '\0';
    return 0;
}

void sw_chars_free(struct sw_chars *chars)
{
    free(chars->byte);
    *chars = (struct sw_chars){0};
}
