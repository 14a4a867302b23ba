/* Any text as tokenizer.json, and any text behind a line "%%" to encode with it. A refusal is one
 * line; what is accepted encodes to tokens that it has, the same with the cache and without,
 * decodes to UTF-8, gives token by token what it gives at once, and offsets of whole characters. */
#include "runner/text/tokenizer/tokenizer.h"
#include "runner/text/tokenizer/utf8.h"
#include "tests/fuzz/support.h"

#include <stdlib.h>
#include <string.h>

static void check_message(const struct sw_error *err)
{
    fuzz_require(err->status == SW_BAD_INPUT, "no mistake of the file", err->message);
    fuzz_require(strcmp(err->file, "main.yaml") == 0, "another place", err->file);
    fuzz_require(err->message[0] != '\0' && strlen(err->message) < 500, "no message", err->message);
    fuzz_require_plain(err->message);
}

static void check_text(const char *text, size_t bytes)
{
    fuzz_require(sw_utf8_valid(text, bytes) == bytes, "decodes to no UTF-8", "");
}

static void check_decoding(const struct sw_tokenizer *t, const struct sw_ids *ids)
{
    struct sw_chars whole = {0}, streamed = {0};
    struct sw_text_decoder *d;
    struct sw_error err = {0};
    fuzz_require(sw_tokenizer_decode(t, ids->id, ids->count, NULL, &whole, &err) == 0,
                 "does not decode", err.message);
    check_text(whole.byte, whole.count);
    fuzz_require(sw_text_decoder_new(t, NULL, &d, &err) == 0, "no decoder", err.message);
    for (size_t i = 0; i <= ids->count; i++) {
        const char *text;
        size_t bytes;
        const int status = i < ids->count ? sw_text_decoder_feed(d, ids->id[i], &text, &bytes, &err)
                                          : sw_text_decoder_finish(d, &text, &bytes, &err);
        fuzz_require(status == 0, "does not stream", err.message);
        check_text(text, bytes);
        fuzz_require(sw_chars_add(&streamed, text, bytes) == 0, "no memory", "");
    }
    /* a stream may show a character of a run of bytes that ends badly */
    if (memmem(whole.byte, whole.count, SW_UTF8_REPLACEMENT, 3) == NULL)
        fuzz_require(streamed.count == whole.count &&
                         memcmp(streamed.byte, whole.byte, whole.count) == 0,
                     "a stream decodes to another text", "");
    sw_text_decoder_free(d);
    sw_chars_free(&whole);
    sw_chars_free(&streamed);
}

/* Offsets lie in the text at whole characters, one for each token, and change none. */
static void check_offsets(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                          const char *text, size_t bytes, const struct sw_encode_options *options,
                          const struct sw_ids *ids)
{
    struct sw_encode_options more = options != NULL ? *options : (struct sw_encode_options){0};
    struct sw_text_spans offsets = {0};
    struct sw_ids again = {0};
    struct sw_error err = {0};
    more.offsets = &offsets;
    if (sw_tokenizer_encode(t, scratch, text, bytes, &more, &again, &err) != 0) {
        check_message(&err);
        fuzz_require(sw_utf8_valid(text, bytes) != bytes, "no offsets", err.message);
    } else {
        fuzz_require(
            offsets.count == ids->count && again.count == ids->count &&
                (ids->count == 0 || memcmp(ids->id, again.id, ids->count * sizeof *ids->id) == 0),
            "other tokens with offsets", "");
        for (size_t i = 0; i < offsets.count; i++) {
            const struct sw_text_span at = offsets.span[i];
            fuzz_require(at.begin <= at.end && at.end <= bytes, "offsets outside of the text", "");
            fuzz_require(sw_utf8_valid(text + at.begin, at.end - at.begin) == at.end - at.begin,
                         "offsets within a character", "");
        }
    }
    sw_text_spans_free(&offsets);
    sw_ids_free(&again);
}

static void check_encoding(const struct sw_tokenizer *t, const char *text, size_t bytes,
                           const struct sw_encode_options *options)
{
    struct sw_text_scratch *scratch;
    struct sw_ids ids = {0}, again = {0};
    struct sw_error err = {0};
    fuzz_require(sw_text_scratch_new(t, &scratch, &err) == 0, "no scratch", err.message);
    if (sw_tokenizer_encode(t, scratch, text, bytes, options, &ids, &err) != 0) {
        check_message(&err);
        fuzz_require(ids.count == 0, "tokens beside an error", "");
    } else {
        for (size_t i = 0; i < ids.count; i++)
            fuzz_require(sw_tokenizer_token(t, ids.id[i], NULL) != NULL, "no such token", "");
        fuzz_require(sw_tokenizer_encode(t, scratch, text, bytes, options, &again, &err) == 0,
                     "not twice", err.message);
        fuzz_require(
            ids.count == again.count &&
                (ids.count == 0 || memcmp(ids.id, again.id, ids.count * sizeof *ids.id) == 0),
            "other tokens the second time", "");
        check_decoding(t, &ids);
        check_offsets(t, scratch, text, bytes, options, &ids);
    }
    sw_ids_free(&ids);
    sw_ids_free(&again);
    sw_text_scratch_free(scratch);
}

static void check_tokens(const struct sw_tokenizer *t)
{
    const int32_t size = sw_tokenizer_size(t);
    for (int32_t id = 0; id < size; id++) {
        size_t bytes;
        const char *token = sw_tokenizer_token(t, id, &bytes);
        if (token != NULL)
            fuzz_require(sw_tokenizer_id(t, token, bytes) == id, "another id", token);
    }
}

void fuzz_one(const uint8_t *data, size_t bytes)
{
    int32_t count;
    struct sw_tokenizer *t;
    struct sw_error err = {0};
    const struct fuzz_file *file = fuzz_files(data, bytes, &count);
    if (sw_tokenizer_parse("main.yaml", file[0].text, file[0].bytes, &t, &err) != 0) {
        check_message(&err);
        return;
    }
    check_tokens(t);
    for (int32_t i = 1; i < count; i++) {
        /* as long as a fuzzer's regular expressions may be slow in its length */
        const size_t most = file[i].bytes < 512 ? file[i].bytes : 512;
        const struct sw_text_span literal = {most / 3, most / 2};
        check_encoding(t, file[i].text, most, NULL);
        check_encoding(t, file[i].text, most,
                       &(struct sw_encode_options){
                           .add_special = true, .literal = &literal, .literal_count = 1});
    }
    sw_tokenizer_free(t);
}
