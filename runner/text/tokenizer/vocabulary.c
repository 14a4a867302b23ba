#include "runner/text/tokenizer/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sw_out_of_memory(const struct sw_tokenizer *t, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", t->path);
}

int sw_refuse(const struct sw_tokenizer *t, struct sw_error *err, const char *format, ...)
{
    char message[SW_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = t->path}, "%s", message);
}

/* Makes room for ids up to this one, doubling, so that a file is read in linear time. */
static int grow(struct sw_tokenizer *t, int32_t id)
{
    int32_t capacity = 64, wanted = 64;
    while (capacity < t->size)
        capacity *= 2;
    while (wanted < id + 1)
        wanted *= 2;
    if (t->token == NULL || wanted > capacity) {
        struct sw_token *token = realloc(t->token, (size_t)wanted * sizeof *token);
        if (token == NULL)
            return -1;
        t->token = token;
    }
    if (id >= t->size) {
        memset(&t->token[t->size], 0, (size_t)(id + 1 - t->size) * sizeof *t->token);
        t->size = id + 1;
    }
    return 0;
}

int sw_token_add(struct sw_tokenizer *t, int64_t id, const char *text, size_t bytes,
                 struct sw_error *err)
{
    if (id < 0 || id >= SW_TEXT_MOST_IDS)
        return sw_refuse(t, err, "a token has the id %lld, ids are 0 to %d", (long long)id,
                         (int)SW_TEXT_MOST_IDS - 1);
    if (id < t->size && t->token[id].exists)
        return sw_refuse(t, err, "two tokens have the id %d", (int)id);
    const size_t at = t->arena.count;
    if (grow(t, (int32_t)id) != 0 || sw_chars_add(&t->arena, text, bytes) != 0 ||
        sw_chars_add(&t->arena, "", 1) != 0)
        return sw_out_of_memory(t, err);
    t->token[id] = (struct sw_token){
        .text = (uint32_t)at, .text_bytes = (uint32_t)bytes, .exists = true, .fallback = -1};
    return 0;
}

static uint32_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = bytes * 0x9e3779b97f4a7c15u, word = 0;
    for (; bytes >= 8; bytes -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0x9fb21c651e98df25u;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, text, bytes);
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return (uint32_t)(hash >> 32);
}

int32_t sw_word_find(const struct sw_tokenizer *t, const struct sw_word_map *map, const char *text,
                     size_t bytes)
{
    if (map->slots == 0)
        return -1;
    for (uint32_t at = hash_of(text, bytes) & (map->slots - 1);; at = (at + 1) & (map->slots - 1)) {
        const int32_t id = map->slot[at];
        if (id < 0)
            return -1;
        const struct sw_token *token = &t->token[id];
        const uint32_t start = map->by_word ? token->word : token->text;
        const uint32_t length = map->by_word ? token->word_bytes : token->text_bytes;
        if (length == bytes && memcmp(t->arena.byte + start, text, bytes) == 0)
            return id;
    }
}

int sw_word_map_make(const struct sw_tokenizer *t, bool by_word, struct sw_word_map *map)
{
    uint32_t slots = 64;
    while (slots < 2 * (uint64_t)t->size)
        slots *= 2;
    *map = (struct sw_word_map){malloc(slots * sizeof *map->slot), slots, 0, by_word};
    if (map->slot == NULL)
        return -1;
    memset(map->slot, 0xff, slots * sizeof *map->slot);
    for (int32_t id = 0; id < t->size; id++) {
        const struct sw_token *token = &t->token[id];
        if (!token->exists || (by_word && !token->is_model))
            continue;
        const char *text = t->arena.byte + (by_word ? token->word : token->text);
        uint32_t at = hash_of(text, by_word ? token->word_bytes : token->text_bytes) & (slots - 1);
        while (map->slot[at] >= 0)
            at = (at + 1) & (slots - 1);
        map->slot[at] = id;
        map->used++;
    }
    return 0;
}

int sw_word_map_add(const struct sw_tokenizer *t, struct sw_word_map *map, int32_t id)
{
    const struct sw_token *token = &t->token[id];
    if (4 * (uint64_t)map->used >= 3 * (uint64_t)map->slots) {
        struct sw_word_map grown;
        if (sw_word_map_make(t, map->by_word, &grown) != 0)
            return -1;
        free(map->slot);
        *map = grown;
        return 0;
    }
    uint32_t at = hash_of(t->arena.byte + token->text, token->text_bytes) & (map->slots - 1);
    while (map->slot[at] >= 0)
        at = (at + 1) & (map->slots - 1);
    map->slot[at] = id;
    map->used++;
    return 0;
}
