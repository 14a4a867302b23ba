/* Tokens to text. Decoding a whole text is a decoder that waits for the end of each run of byte
 * tokens, like `tokenizers`; a stream cannot wait. */
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

struct sw_text_decoder {
    const struct sw_tokenizer *t;
    struct sw_decode_options options;
    bool waits;           /* true to judge a run of byte tokens as a whole */
    bool began;           /* true after the first token */
    int32_t strip_left;   /* characters to remove at the start */
    struct sw_chars open; /* bytes of an incomplete character */
    struct sw_chars out;
};

/* Appends characters, except those removed at the start. */
static int emit(struct sw_text_decoder *d, const char *text, size_t bytes)
{
    const struct sw_decoding *how = &d->t->decoding;
    while (d->strip_left > 0 && bytes > 0) {
        if (bytes < how->strip_bytes || memcmp(text, how->strip, how->strip_bytes) != 0) {
            d->strip_left = 0;
            break;
        }
        d->strip_left--;
        text += how->strip_bytes;
        bytes -= how->strip_bytes;
    }
    return sw_chars_add(&d->out, text, bytes);
}

/* Emits whole characters; at the end incomplete ones too. */
static int settle(struct sw_text_decoder *d, bool at_end)
{
    const unsigned char *p = (const unsigned char *)d->open.byte;
    size_t at = 0;
    while (at < d->open.count) {
        const size_t left = d->open.count - at;
        const size_t good = sw_utf8_valid(d->open.byte + at, left);
        if (good > 0) {
            if (emit(d, d->open.byte + at, good) != 0)
                return -1;
            at += good;
            continue;
        }
        const int32_t measure = sw_utf8_measure(p + at, left);
        if (measure == 0 && !at_end)
            break;
        /* a byte token that makes no character is one U+FFFD */
        const size_t bad = measure == 0 ? left : (size_t)-measure;
        for (size_t i = 0; i < (d->t->decoding.falls_back ? bad : 1); i++)
            if (emit(d, SW_UTF8_REPLACEMENT, 3) != 0)
                return -1;
        at += bad;
    }
    if (d->open.count > 0)
        memmove(d->open.byte, d->open.byte + at, d->open.count - at);
    d->open.count -= at;
    return 0;
}

/* Ends a run of byte tokens: all of it is text, or each byte is U+FFFD. */
static int end_run(struct sw_text_decoder *d)
{
    if (!d->waits || !d->t->decoding.falls_back)
        return settle(d, true);
    const size_t count = d->open.count;
    if (sw_utf8_valid(d->open.byte, count) == count) {
        d->open.count = 0;
        return emit(d, d->open.byte, count);
    }
    for (size_t i = 0; i < count; i++)
        if (emit(d, SW_UTF8_REPLACEMENT, 3) != 0)
            return -1;
    d->open.count = 0;
    return 0;
}

/* Removes the first token's marks, anywhere in it. */
static int feed_first_of_metaspace(struct sw_text_decoder *d, const struct sw_token *token)
{
    const struct sw_decoding *how = &d->t->decoding;
    const char *text = d->t->arena.byte + token->text, *end = text + token->text_bytes;
    while (text < end) {
        const char *mark = memmem(text, (size_t)(end - text), how->mark, how->mark_bytes);
        const char *stop = mark == NULL ? end : mark;
        if (emit(d, text, (size_t)(stop - text)) != 0)
            return -1;
        text = mark == NULL ? end : mark + how->mark_bytes;
    }
    return 0;
}

static int feed(struct sw_text_decoder *d, int32_t id)
{
    const struct sw_tokenizer *t = d->t;
    if (id < 0 || id >= t->size || !t->token[id].exists)
        return 0;
    const struct sw_token *token = &t->token[id];
    if (token->special && d->options.skip_special)
        return 0;
    const bool first = !d->began && !d->options.continues;
    d->began = true;
    const char *out = t->arena.byte + token->out;
    switch (t->decoding.kind) {
    case SW_DECODE_BYTES:
        return sw_chars_add(&d->open, out, token->out_bytes) != 0 ||
               (!d->waits && settle(d, false));
    case SW_DECODE_PLAIN:
        if (t->decoding.falls_back && token->fallback >= 0) {
            const char byte = (char)token->fallback;
            return sw_chars_add(&d->open, &byte, 1) != 0 || (!d->waits && settle(d, false) != 0);
        }
        return end_run(d) != 0 || emit(d, out, token->out_bytes);
    case SW_DECODE_METASPACE:
        if (first && !t->decoding.keeps_first)
            return feed_first_of_metaspace(d, token);
        return emit(d, out, token->out_bytes);
    case SW_DECODE_SPACES:
        return (!first && emit(d, " ", 1) != 0) || emit(d, out, token->out_bytes) != 0;
    }
    return 0;
}

static void begin(struct sw_text_decoder *d)
{
    d->began = false;
    d->open.count = 0;
    d->strip_left = d->options.continues ? 0 : d->t->decoding.strip_count;
}

static int fail(const struct sw_text_decoder *d, struct sw_error *err)
{
    return sw_out_of_memory(d->t, err);
}

int sw_tokenizer_decode(const struct sw_tokenizer *t, const int32_t *ids, size_t count,
                        const struct sw_decode_options *options, struct sw_chars *text,
                        struct sw_error *err)
{
    struct sw_text_decoder d = {.t = t, .waits = true};
    int status = 0;
    if (options != NULL)
        d.options = *options;
    begin(&d);
    for (size_t i = 0; status == 0 && i < count; i++)
        status = feed(&d, ids[i]);
    if (status == 0)
        status = end_run(&d);
    if (status == 0)
        status = sw_chars_add(text, d.out.count > 0 ? d.out.byte : "", d.out.count);
    if (status != 0)
        fail(&d, err);
    sw_chars_free(&d.open);
    sw_chars_free(&d.out);
    return status == 0 ? 0 : -1;
}

int sw_text_decoder_new(const struct sw_tokenizer *t, const struct sw_decode_options *options,
                        struct sw_text_decoder **out, struct sw_error *err)
{
    struct sw_text_decoder *d = calloc(1, sizeof *d);
    if (d == NULL)
        return sw_out_of_memory(t, err);
    d->t = t;
    if (options != NULL)
        d->options = *options;
    begin(d);
    *out = d;
    return 0;
}

void sw_text_decoder_free(struct sw_text_decoder *d)
{
    if (d == NULL)
        return;
    sw_chars_free(&d->open);
    sw_chars_free(&d->out);
    free(d);
}

/* Returns the collected text. */
static void hand_out(struct sw_text_decoder *d, const char **text, size_t *bytes)
{
    *text = d->out.count > 0 ? d->out.byte : "";
    *bytes = d->out.count;
}

int sw_text_decoder_feed(struct sw_text_decoder *d, int32_t id, const char **text, size_t *bytes,
                         struct sw_error *err)
{
    d->out.count = 0;
    if (feed(d, id) != 0)
        return fail(d, err);
    hand_out(d, text, bytes);
    return 0;
}

int sw_text_decoder_finish(struct sw_text_decoder *d, const char **text, size_t *bytes,
                           struct sw_error *err)
{
    d->out.count = 0;
    if (end_run(d) != 0)
        return fail(d, err);
    begin(d);
    hand_out(d, text, bytes);
    return 0;
}
