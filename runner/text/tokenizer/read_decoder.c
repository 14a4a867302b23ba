/* The decoder of tokenizer.json: each token's form in a text, and changes to the whole text. */
#include "runner/text/tokenizer/internal.h"

#include <string.h>

static const char known_decoders[] =
    "ByteLevel, Metaspace, and Sequences of Replace, ByteFallback, Fuse and Strip, in this order";

static int read_replace(struct sw_tokenizer *t, const json_t *part, struct sw_error *err)
{
    struct sw_decoding *d = &t->decoding;
    if (d->replacement_count == SW_DECODE_REPLACEMENTS)
        return sw_refuse(t, err, "more than %d Replace in the decoder",
                         (int)SW_DECODE_REPLACEMENTS);
    const int32_t i = d->replacement_count;
    if (!json_is_string(json_object_get(json_object_get(part, "pattern"), "String")))
        return sw_refuse(t, err, "the pattern of a Replace in the decoder is not a String");
    if (sw_read_text(t, part, "content", SW_TEXT_CONTENT_BYTES, d->replacement[i].to,
                     &d->replacement[i].to_bytes, err) != 0 ||
        sw_read_pattern(t, json_object_get(part, "pattern"), "Replace", &d->replacement[i].from,
                        err) != 0)
        return -1;
    d->replacement_count++;
    return 0;
}

static int read_strip(struct sw_tokenizer *t, const json_t *part, struct sw_error *err)
{
    struct sw_decoding *d = &t->decoding;
    const json_t *start = json_object_get(part, "start"), *stop = json_object_get(part, "stop");
    if (!json_is_integer(start) || json_integer_value(start) < 0 ||
        json_integer_value(start) > INT32_MAX || !json_is_integer(stop))
        return sw_refuse(t, err, "the Strip of the decoder lacks its start or stop");
    if (json_integer_value(stop) != 0)
        return sw_refuse(t, err, "a Strip at the end of the text is not supported");
    if (sw_read_text(t, part, "content", 4, d->strip, &d->strip_bytes, err) != 0)
        return -1;
    if (d->strip_bytes == 0)
        return sw_refuse(t, err, "the content of the decoder's Strip is empty");
    d->strip_count = (int32_t)json_integer_value(start);
    return 0;
}

static int read_metaspace(struct sw_tokenizer *t, const json_t *part, struct sw_error *err)
{
    struct sw_decoding *d = &t->decoding;
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    bool prefixed;
    d->kind = SW_DECODE_METASPACE;
    if (sw_read_text(t, part, "replacement", 4, d->mark, &d->mark_bytes, err) != 0 ||
        sw_read_flag(t, part, "add_prefix_space", true, &prefixed, err) != 0)
        return -1;
    d->keeps_first = scheme != NULL ? strcmp(scheme, "never") == 0 : !prefixed;
    if (d->mark_bytes == 0)
        return sw_refuse(t, err, "the replacement of the Metaspace is empty");
    d->replacement_count = 1;
    memcpy(d->replacement[0].to, " ", 2);
    d->replacement[0].to_bytes = 1;
    return sw_pattern_plain(d->mark, d->mark_bytes, &d->replacement[0].from) == 0
               ? 0
               : sw_out_of_memory(t, err);
}

static int read_part(struct sw_tokenizer *t, const json_t *part, const char *type,
                     struct sw_error *err)
{
    struct sw_decoding *d = &t->decoding;
    const bool alone = d->parts++ == 0;
    const bool plain = d->kind == SW_DECODE_PLAIN && d->strip_count == 0;
    if (strcmp(type, "ByteLevel") == 0 && alone) {
        d->kind = SW_DECODE_BYTES;
        return 0;
    }
    if (strcmp(type, "Metaspace") == 0 && alone)
        return read_metaspace(t, part, err);
    if (strcmp(type, "Replace") == 0 && plain && !d->falls_back && !d->fused)
        return read_replace(t, part, err);
    if (strcmp(type, "ByteFallback") == 0 && plain && !d->falls_back && !d->fused) {
        d->falls_back = true;
        return 0;
    }
    if (strcmp(type, "Fuse") == 0 && plain && !d->fused) {
        d->fused = true;
        return 0;
    }
    if (strcmp(type, "Strip") == 0 && plain && d->fused)
        return read_strip(t, part, err);
    return sw_refuse_type(t, type, alone ? "decoder" : "decoder's part", known_decoders, err);
}

/* "<0xE4>" -> 0xe4; -1: no such token. */
static int16_t byte_named(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    int16_t byte = 0;
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    for (int32_t i = 3; i < 5; i++) {
        const char lower = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] + 32) : text[i];
        const char *digit = lower == '\0' ? NULL : strchr(digits, lower);
        if (digit == NULL)
            return -1;
        byte = (int16_t)(byte * 16 + (digit - digits));
    }
    return byte;
}

static int replace(const struct sw_pattern *from, const char *to, size_t to_bytes,
                   struct sw_chars *text, struct sw_chars *room)
{
    struct sw_matches matches = sw_matches_of(from, NULL, text->byte, text->count);
    size_t done = 0, begin, end;
    room->count = 0;
    while (sw_matches_next(&matches, &begin, &end) > 0) {
        if (sw_chars_add(room, text->byte + done, begin - done) != 0 ||
            sw_chars_add(room, to, to_bytes) != 0)
            return -1;
        done = end;
    }
    if (sw_chars_add(room, text->byte + done, text->count - done) != 0)
        return -1;
    const struct sw_chars swapped = *text;
    *text = *room;
    *room = swapped;
    return 0;
}

/* Form in a text of a token with this name, replacing *text. */
static int put_out(const struct sw_tokenizer *t, const char *name, size_t bytes,
                   struct sw_chars *text, struct sw_chars *room)
{
    const struct sw_decoding *d = &t->decoding;
    if (d->kind == SW_DECODE_BYTES) {
        const int made = sw_bytes_of_token(name, bytes, text);
        if (made != 0)
            return made < 0 ? -1 : sw_chars_add(text, "", 0);
    }
    text->count = 0;
    if (sw_chars_add(text, name, bytes) != 0)
        return -1;
    for (int32_t i = 0; i < d->replacement_count; i++)
        if (replace(&d->replacement[i].from, d->replacement[i].to, d->replacement[i].to_bytes, text,
                    room) != 0)
            return -1;
    return 0;
}

static int keep_out(struct sw_tokenizer *t, struct sw_token *token, struct sw_chars *text,
                    struct sw_error *err)
{
    token->fallback = t->decoding.falls_back ? byte_named(text->byte, text->count) : -1;
    if (token->fallback >= 0) {
        text->byte[0] = (char)token->fallback;
        text->count = 1;
    }
    if (t->arena.count + text->count + 1 > UINT32_MAX)
        return sw_refuse(t, err, "its tokens make more than 4 GiB of text");
    token->out = (uint32_t)t->arena.count;
    token->out_bytes = (uint32_t)text->count;
    if (sw_chars_add(&t->arena, text->byte, text->count) != 0 ||
        sw_chars_add(&t->arena, "", 1) != 0)
        return sw_out_of_memory(t, err);
    return 0;
}

static int set_outs(struct sw_tokenizer *t, struct sw_error *err)
{
    struct sw_chars text = {0}, room = {0};
    struct sw_text_scratch *scratch = NULL;
    int status = sw_text_scratch_new(t, &scratch, err);
    for (int32_t id = 0; status == 0 && id < t->size; id++) {
        struct sw_token *token = &t->token[id];
        if (!token->exists)
            continue;
        const char *name = t->arena.byte + token->text;
        size_t bytes = token->text_bytes;
        /* an added token matches normalized text and decodes to that; special ones decode as
         * written */
        if (token->normalized && !token->special)
            status = sw_normalize(t, scratch, &name, &bytes, NULL, err);
        if (status == 0 && put_out(t, name, bytes, &text, &room) != 0)
            status = sw_out_of_memory(t, err);
        if (status == 0)
            status = keep_out(t, token, &text, err);
    }
    sw_text_scratch_free(scratch);
    sw_chars_free(&text);
    sw_chars_free(&room);
    return status;
}

int sw_read_decoder(struct sw_tokenizer *t, const json_t *root, struct sw_error *err)
{
    const json_t *decoder = json_object_get(root, "decoder");
    t->decoding.kind =
        decoder == NULL || json_is_null(decoder) ? SW_DECODE_SPACES : SW_DECODE_PLAIN;
    if (sw_read_sequence(t, decoder, "decoder", "decoders", read_part, err) != 0)
        return -1;
    return set_outs(t, err);
}
