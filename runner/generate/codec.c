#include "runner/generate/codec.h"

#include "core/base/tokenizer_file.h"
#include "runner/text/chat_messages.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_VALUES = 256 };

struct sw_codec {
    struct sw_tokenizer *tokenizer; /* NULL: not readable, see `why` */
    struct sw_text_scratch *scratch;
    struct sw_error why;
    size_t longest; /* most bytes of one token */
};

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for a text");
}

static int open_tokenizer(const struct sw_codec_model *model, struct sw_tokenizer **out,
                          struct sw_error *err)
{
    const struct sw_place place = {.file = model->folder};
    const bool none = sw_tokenizer_file(model->folder) == NULL;
    if (model->wants_bytes)
        return sw_tokenizer_bytes(out, err);
    if (none && model->vocab_size != BYTE_VALUES && !model->was_bytes)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "there is no tokenizer, and the model has %" PRId64
                          " tokens, not the 256 of bytes; put its tokenizer.json there, or say "
                          "--bytes to take and show each byte as a token",
                          model->vocab_size);
    return sw_tokenizer_open_folder(model->folder, out, err);
}

static size_t longest_token(const struct sw_tokenizer *t)
{
    size_t longest = 0;
    for (int32_t id = 0; id < sw_tokenizer_size(t); id++) {
        size_t bytes = 0;
        if (sw_tokenizer_token_bytes(t, id, &bytes) != NULL && bytes > longest)
            longest = bytes;
    }
    return longest;
}

int sw_codec_open(const struct sw_codec_model *model, struct sw_codec **out, struct sw_error *err)
{
    if (model->wants_bytes && model->vocab_size < BYTE_VALUES)
        return sw_fail(err, SW_BAD_INPUT,
                       "--bytes needs a vocab_size of at least 256, the model has %" PRId64,
                       model->vocab_size);
    struct sw_codec *codec = calloc(1, sizeof *codec);
    if (codec == NULL)
        return out_of_memory(err);
    /* an unreadable tokenizer does not prevent using tokens */
    if (open_tokenizer(model, &codec->tokenizer, &codec->why) != 0)
        codec->tokenizer = NULL;
    if (codec->why.status == SW_ENVIRONMENT) {
        sw_fail_as(err, &codec->why);
        sw_codec_free(codec);
        return -1;
    }
    if (codec->tokenizer != NULL &&
        sw_text_scratch_new(codec->tokenizer, &codec->scratch, err) != 0) {
        sw_codec_free(codec);
        return -1;
    }
    if (codec->tokenizer != NULL)
        codec->longest = longest_token(codec->tokenizer);
    *out = codec;
    return 0;
}

void sw_codec_free(struct sw_codec *codec)
{
    if (codec == NULL)
        return;
    sw_text_scratch_free(codec->scratch);
    sw_tokenizer_free(codec->tokenizer);
    free(codec);
}

bool sw_codec_can_read(const struct sw_codec *codec)
{
    return codec->tokenizer != NULL;
}

const struct sw_error *sw_codec_why(const struct sw_codec *codec)
{
    return &codec->why;
}

const char *sw_codec_note(const struct sw_codec *codec, int32_t i)
{
    return codec->tokenizer != NULL ? sw_tokenizer_note(codec->tokenizer, i) : NULL;
}

size_t sw_codec_longest(const struct sw_codec *codec)
{
    return codec->longest;
}

const int32_t *sw_codec_end_tokens(const struct sw_codec *codec, size_t *count)
{
    *count = 0;
    return codec->tokenizer != NULL ? sw_tokenizer_eos(codec->tokenizer, count) : NULL;
}

bool sw_codec_ends(const struct sw_codec *codec, int32_t token)
{
    size_t count;
    const int32_t *ends = sw_codec_end_tokens(codec, &count);
    for (size_t i = 0; i < count; i++)
        if (ends[i] == token)
            return true;
    return false;
}

int sw_codec_encode(struct sw_codec *codec, const char *text, size_t bytes, bool begins,
                    int32_t **tokens, int64_t *count, struct sw_error *err)
{
    const struct sw_encode_options options = {.add_special = begins};
    struct sw_ids ids = {0};
    if (codec->tokenizer == NULL)
        return sw_fail_as(err, &codec->why);
    /* even an empty text gives a pointer to free */
    if (sw_ids_reserve(&ids, 1) != 0 || sw_tokenizer_encode(codec->tokenizer, codec->scratch, text,
                                                            bytes, &options, &ids, err) != 0) {
        sw_ids_free(&ids);
        return out_of_memory(err);
    }
    *tokens = ids.id;
    *count = (int64_t)ids.count;
    return 0;
}

int sw_codec_converse(struct sw_codec *codec, const struct sw_chat_template *chat,
                      const struct sw_chat_talk *talk, size_t most_bytes, size_t *bytes,
                      int32_t **tokens, int64_t *token_count, int32_t *end, struct sw_error *err)
{
    struct sw_ids ids = {0};
    if (codec->tokenizer == NULL)
        return sw_fail_as(err, &codec->why);
    if (sw_ids_reserve(&ids, 1) != 0)
        return out_of_memory(err);
    if (sw_chat_encode(chat, codec->tokenizer, codec->scratch, talk, most_bytes, bytes, &ids,
                       err) != 0) {
        sw_ids_free(&ids);
        return -1;
    }
    *end = sw_chat_end(chat, codec->tokenizer, codec->scratch);
    *tokens = ids.id;
    *token_count = (int64_t)ids.count;
    return 0;
}

const char *sw_codec_template(const struct sw_codec *codec)
{
    return sw_chat_template_by_tokens(codec->tokenizer);
}

const char *sw_codec_bytes(const struct sw_codec *codec, int32_t token, size_t *bytes)
{
    return codec->tokenizer != NULL ? sw_tokenizer_token_bytes(codec->tokenizer, token, bytes)
                                    : NULL;
}

/* ---- Token by token ---- */

struct sw_detokenizer {
    struct sw_text_decoder *decoder; /* NULL: the codec cannot read */
    struct sw_chars text;
};

int sw_detokenizer_new(const struct sw_codec *codec, bool continues, struct sw_detokenizer **out,
                       struct sw_error *err)
{
    const struct sw_decode_options options = {.skip_special = true, .continues = continues};
    struct sw_detokenizer *s = calloc(1, sizeof *s);
    if (s == NULL || sw_chars_add(&s->text, "", 0) != 0) {
        free(s);
        return out_of_memory(err);
    }
    if (codec->tokenizer != NULL &&
        sw_text_decoder_new(codec->tokenizer, &options, &s->decoder, err) != 0) {
        sw_detokenizer_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void sw_detokenizer_free(struct sw_detokenizer *s)
{
    if (s == NULL)
        return;
    sw_text_decoder_free(s->decoder);
    sw_chars_free(&s->text);
    free(s);
}

static int add(struct sw_detokenizer *s, const char *piece, size_t bytes, struct sw_error *err)
{
    return bytes == 0 || sw_chars_add(&s->text, piece, bytes) == 0 ? 0 : out_of_memory(err);
}

int sw_detokenizer_feed(struct sw_detokenizer *s, int32_t token, struct sw_error *err)
{
    const char *piece = NULL;
    size_t bytes = 0;
    if (s->decoder == NULL)
        return 0;
    return sw_text_decoder_feed(s->decoder, token, &piece, &bytes, err) != 0
               ? -1
               : add(s, piece, bytes, err);
}

int sw_detokenizer_finish(struct sw_detokenizer *s, struct sw_error *err)
{
    const char *piece = NULL;
    size_t bytes = 0;
    if (s->decoder == NULL)
        return 0;
    return sw_text_decoder_finish(s->decoder, &piece, &bytes, err) != 0 ? -1
                                                                        : add(s, piece, bytes, err);
}

const char *sw_detokenizer_text(const struct sw_detokenizer *s, size_t *bytes)
{
    *bytes = s->text.count;
    return s->text.byte != NULL ? s->text.byte : "";
}
