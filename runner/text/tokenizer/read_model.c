/* Vocabulary and merges of tokenizer.json. */
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t sw_character_of_byte(int32_t byte)
{
    if ((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae)
        return (uint32_t)byte;
    /* the others in order, from U+0100 (openai/gpt-2, src/encoder.py) */
    return byte <= 0x20   ? 0x100 + (uint32_t)byte
           : byte == 0xad ? 0x143
                          : 0x100 + (uint32_t)(byte - 0x7f + 33);
}

int32_t sw_byte_of_character(uint32_t character)
{
    if (character < 0x100)
        return sw_character_of_byte((int32_t)character) == character ? (int32_t)character : -1;
    if (character <= 0x120)
        return (int32_t)(character - 0x100);
    if (character <= 0x142)
        return (int32_t)(character - 0x121 + 0x7f);
    return character == 0x143 ? 0xad : -1;
}

/* ---- model ---- */

/* Checks the type; without one, a file with a list of merges is BPE. */
static int check_type(const struct sw_tokenizer *t, const json_t *model, struct sw_error *err)
{
    char shown[SW_TEXT_SHOWN_BYTES + 4];
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!sw_json_is_object(model))
        return sw_refuse(t, err, "there is no 'model', so this is not a tokenizer.json");
    if (type == NULL && json_is_array(json_object_get(model, "merges")))
        return 0;
    if (type != NULL && strcmp(type, "BPE") == 0)
        return 0;
    sw_text_shown(type == NULL ? "without a type" : type, SW_TEXT_SHOWN_BYTES, shown);
    return sw_refuse(t, err, "the model '%s' is not supported; supported is BPE", shown);
}

static int check_absent(const struct sw_tokenizer *t, const json_t *model, const char *key,
                        struct sw_error *err)
{
    const json_t *value = json_object_get(model, key);
    if (value == NULL || json_is_null(value) ||
        (json_is_string(value) && json_string_length(value) == 0))
        return 0;
    if (json_is_number(value) && json_number_value(value) == 0)
        return 0;
    return sw_refuse(t, err, "the model's '%s' is not supported; write null", key);
}

static int read_vocabulary(struct sw_tokenizer *t, const json_t *model, struct sw_error *err)
{
    json_t *vocabulary = json_object_get(model, "vocab"), *value;
    const char *text;
    if (!sw_json_is_object(vocabulary))
        return sw_refuse(t, err, "the model has no 'vocab' of tokens and ids");
    json_object_foreach(vocabulary, text, value)
    {
        if (!json_is_integer(value))
            return sw_refuse(t, err, "an id in the vocabulary is not a whole number");
        const int64_t id = json_integer_value(value);
        if (sw_token_add(t, id, text, strlen(text), err) != 0)
            return -1;
        t->token[id].is_model = true;
        t->next_added++;
    }
    return 0;
}

int sw_bytes_of_token(const char *text, size_t bytes, struct sw_chars *out)
{
    out->count = 0;
    for (size_t at = 0, step; at < bytes; at += step) {
        const int32_t byte = sw_byte_of_character(sw_utf8_get(text + at, &step));
        const char one = (char)byte;
        if (byte < 0)
            return 0;
        if (sw_chars_add(out, &one, 1) != 0)
            return -1;
    }
    return 1;
}

/* Sets the model tokens' forms in its input, and their map. A byte model never produces a token
 * with a character outside the byte alphabet. */
static int set_words(struct sw_tokenizer *t, struct sw_error *err)
{
    struct sw_chars bytes = {0};
    int status = sw_chars_add(&bytes, "", 0);
    for (int32_t id = 0; status == 0 && id < t->size; id++) {
        struct sw_token *token = &t->token[id];
        token->word = token->text;
        token->word_bytes = token->text_bytes;
        if (!token->exists || !t->bpe.of_bytes)
            continue;
        const int made = sw_bytes_of_token(t->arena.byte + token->text, token->text_bytes, &bytes);
        token->is_model = made > 0;
        status = made < 0;
        if (made <= 0)
            continue;
        token->word = (uint32_t)t->arena.count;
        token->word_bytes = (uint32_t)bytes.count;
        status = sw_chars_add(&t->arena, bytes.byte, bytes.count) != 0 ||
                 sw_chars_add(&t->arena, "", 1) != 0;
    }
    sw_chars_free(&bytes);
    if (status != 0 || sw_word_map_make(t, true, &t->words) != 0 ||
        sw_word_map_make(t, false, &t->names) != 0)
        return sw_out_of_memory(t, err);
    return 0;
}

static int read_unknown(struct sw_tokenizer *t, const json_t *model, struct sw_error *err)
{
    const json_t *unknown = json_object_get(model, "unk_token");
    if (unknown == NULL || json_is_null(unknown))
        return 0;
    if (!json_is_string(unknown))
        return sw_refuse(t, err, "the model's 'unk_token' is not a string");
    t->bpe.unknown =
        sw_word_find(t, &t->names, json_string_value(unknown), json_string_length(unknown));
    if (t->bpe.unknown < 0)
        t->bpe.unknown = -2;
    return 0;
}

/* Finds the tokens of single bytes and characters. */
static int set_symbols(struct sw_tokenizer *t, struct sw_error *err)
{
    struct sw_bpe *bpe = &t->bpe;
    for (int32_t byte = 0; byte < 256; byte++) {
        const char one = (char)byte;
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        bpe->byte[byte] = bpe->of_bytes     ? sw_word_find(t, &t->words, &one, 1)
                          : bpe->falls_back ? sw_word_find(t, &t->words, name, 6)
                                            : -1;
    }
    if (bpe->of_bytes)
        return 0;
    bpe->symbol = malloc(65536 * sizeof *bpe->symbol);
    if (bpe->symbol == NULL)
        return sw_out_of_memory(t, err);
    memset(bpe->symbol, 0xff, 65536 * sizeof *bpe->symbol);
    for (int32_t id = 0; id < t->size; id++) {
        const struct sw_token *token = &t->token[id];
        size_t step;
        if (!token->is_model || token->text_bytes == 0)
            continue;
        const uint32_t character = sw_utf8_get(t->arena.byte + token->text, &step);
        if (step == token->text_bytes && character < 0x10000)
            bpe->symbol[character] = id;
    }
    return 0;
}

/* ---- merges ---- */

/* "left right", or ["left", "right"]. */
static int sides_of(const struct sw_tokenizer *t, const json_t *merge, int32_t side[2])
{
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    const char *text = json_string_value(merge);
    if (text != NULL) {
        const char *space = strchr(text, ' ');
        if (space == NULL || strchr(space + 1, ' ') != NULL)
            return -1;
        side[0] = sw_word_find(t, &t->names, text, (size_t)(space - text));
        side[1] = sw_word_find(t, &t->names, space + 1, strlen(space + 1));
    } else if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right)) {
        side[0] = sw_word_find(t, &t->names, json_string_value(left), json_string_length(left));
        side[1] = sw_word_find(t, &t->names, json_string_value(right), json_string_length(right));
    } else {
        return -1;
    }
    /* an empty side would let a merge add nothing */
    return side[0] < 0 || side[1] < 0 || t->token[side[0]].text_bytes == 0 ||
                   t->token[side[1]].text_bytes == 0
               ? -1
               : 0;
}

/* Token that the two sides form. */
static int32_t merged(const struct sw_tokenizer *t, const int32_t side[2], struct sw_chars *text)
{
    text->count = 0;
    for (int32_t i = 0; i < 2; i++)
        if (sw_chars_add(text, t->arena.byte + t->token[side[i]].text,
                         t->token[side[i]].text_bytes) != 0)
            return -1;
    return sw_word_find(t, &t->names, text->byte, text->count);
}

static void put_merge(struct sw_bpe *bpe, uint64_t pair, uint32_t rank, int32_t id)
{
    uint32_t at = sw_merge_slot(pair, bpe->merge_slots);
    while (bpe->merge[at].pair != SW_NO_PAIR && bpe->merge[at].pair != pair)
        at = (at + 1) & (bpe->merge_slots - 1);
    bpe->merge[at] = (struct sw_merge){pair, rank, id}; /* the later of two wins */
}

static int make_merges(struct sw_bpe *bpe, size_t count)
{
    uint32_t slots = 64;
    while (slots < 2 * count && slots < (uint32_t)1 << 31)
        slots *= 2;
    bpe->merge = malloc(slots * sizeof *bpe->merge);
    if (bpe->merge == NULL)
        return -1;
    bpe->merge_slots = slots;
    for (uint32_t i = 0; i < slots; i++)
        bpe->merge[i].pair = SW_NO_PAIR;
    return 0;
}

static int read_merges(struct sw_tokenizer *t, const json_t *model, struct sw_error *err)
{
    const json_t *list = json_object_get(model, "merges"), *value;
    struct sw_chars text = {0};
    size_t i;
    int status = 0;
    if (!json_is_array(list))
        return sw_refuse(t, err, "the model has no list of 'merges'");
    if (make_merges(&t->bpe, json_array_size(list)) != 0)
        return sw_out_of_memory(t, err);
    json_array_foreach((json_t *)list, i, value)
    {
        int32_t side[2];
        if (sides_of(t, value, side) != 0) {
            status = sw_refuse(t, err, "merge %zu is not two tokens of the vocabulary", i + 1);
            break;
        }
        const int32_t id = merged(t, side, &text);
        if (id < 0) {
            status = sw_refuse(t, err, "merge %zu makes no token of the vocabulary", i + 1);
            break;
        }
        put_merge(&t->bpe, (uint64_t)(uint32_t)side[0] << 32 | (uint32_t)side[1], (uint32_t)i, id);
    }
    sw_chars_free(&text);
    return status;
}

/* True if it has the form of a byte fallback token: "<0x41>". */
static bool is_byte_token(const struct sw_tokenizer *t, uint32_t id)
{
    const struct sw_token *token = &t->token[id];
    return token->text_bytes == 6 && memcmp(t->arena.byte + token->text, "<0x", 3) == 0;
}

static bool bytes_merge(const struct sw_tokenizer *t)
{
    for (uint32_t i = 0; i < t->bpe.merge_slots; i++) {
        const uint64_t pair = t->bpe.merge[i].pair;
        if (pair != SW_NO_PAIR &&
            (is_byte_token(t, (uint32_t)(pair >> 32)) || is_byte_token(t, (uint32_t)pair)))
            return true;
    }
    return false;
}

/* True if each character becomes one or more tokens of its own, whatever is beside it. */
static bool stands_alone(const struct sw_bpe *bpe)
{
    for (int32_t byte = 0; byte < 256; byte++)
        if (bpe->byte[byte] < 0)
            return false;
    return !bpe->of_bytes && bpe->falls_back;
}

static int set_joined(struct sw_tokenizer *t, struct sw_error *err)
{
    struct sw_bpe *bpe = &t->bpe;
    if (!stands_alone(bpe))
        return 0;
    bpe->bytes_merge = bytes_merge(t);
    bpe->joined = calloc(SW_JOINED_WORDS, sizeof *bpe->joined);
    if (bpe->joined == NULL)
        return sw_out_of_memory(t, err);
    for (uint32_t i = 0; i < bpe->merge_slots; i++) {
        if (bpe->merge[i].pair == SW_NO_PAIR)
            continue;
        const struct sw_token *token = &t->token[bpe->merge[i].id];
        const char *text = t->arena.byte + token->text;
        size_t step;
        uint32_t left = sw_utf8_get(text, &step);
        for (size_t at = step; at < token->text_bytes; at += step) {
            const uint32_t right = sw_utf8_get(text + at, &step);
            uint64_t bits;
            uint64_t *word = sw_joined_word(bpe, left, right, &bits);
            *word |= bits;
            left = right;
        }
    }
    return 0;
}

int sw_read_model(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    const json_t *model = json_object_get(root, "model");
    struct sw_bpe *bpe = &t->bpe;
    if (check_type(t, model, err) != 0 || check_absent(t, model, "dropout", err) != 0 ||
        check_absent(t, model, "continuing_subword_prefix", err) != 0 ||
        check_absent(t, model, "end_of_word_suffix", err) != 0 ||
        sw_read_flag(t, model, "fuse_unk", false, &bpe->fuse_unknown, err) != 0 ||
        sw_read_flag(t, model, "byte_fallback", false, &bpe->falls_back, err) != 0 ||
        sw_read_flag(t, model, "ignore_merges", false, &bpe->ignore_merges, err) != 0 ||
        read_vocabulary(t, model, err) != 0)
        return -1;
    if (set_words(t, err) != 0 || read_unknown(t, model, err) != 0 || set_symbols(t, err) != 0 ||
        read_merges(t, model, err) != 0 || set_joined(t, err) != 0)
        return -1;
    for (int32_t byte = 0; bpe->of_bytes && bpe->falls_back && byte < 256; byte++)
        if (bpe->byte[byte] < 0)
            return sw_refuse(t, err,
                             "byte_fallback with ByteLevel is not supported where a byte "
                             "has no token");
    return 0;
}
