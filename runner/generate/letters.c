#include "runner/generate/letters.h"

#include "core/base/tokenizer_file.h"
#include "runner/text/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_VALUES = 256 };

struct sw_letters {
    struct sw_tokenizer *tokenizer; /* NULL: it cannot be read, `why` */
    struct sw_text_scratch *scratch;
    struct sw_error why;
};

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for a text");
}

static int open_tokenizer(const struct sw_letters_model *model, struct sw_tokenizer **out,
                          struct sw_error *err)
{
    const struct sw_place place = {.file = model->folder};
    const bool none = sw_tokenizer_file(model->folder) == NULL;
    if (model->wants_bytes)
        return sw_tokenizer_bytes(out, err);
    if (none && model->vocab_size != BYTE_VALUES && !model->was_bytes)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "no tokenizer lies there, and the model has %" PRId64
                          " tokens, not the 256 of bytes; put its tokenizer.json there, or say "
                          "--bytes to take and show each byte as a token",
                          model->vocab_size);
    return sw_tokenizer_open_folder(model->folder, out, err);
}

int sw_letters_open(const struct sw_letters_model *model, struct sw_letters **out,
                    struct sw_error *err)
{
    if (model->wants_bytes && model->vocab_size < BYTE_VALUES)
        return sw_fail(err, SW_BAD_INPUT,
                       "--bytes needs a vocab_size of at least 256, the model has %" PRId64,
                       model->vocab_size);
    struct sw_letters *letters = calloc(1, sizeof *letters);
    if (letters == NULL)
        return out_of_memory(err);
    /* one that cannot be read is no obstacle to those who give and take tokens */
    if (open_tokenizer(model, &letters->tokenizer, &letters->why) != 0)
        letters->tokenizer = NULL;
    if (letters->why.status == SW_ENVIRONMENT) {
        sw_fail_as(err, &letters->why);
        sw_letters_free(letters);
        return -1;
    }
    if (letters->tokenizer != NULL &&
        sw_text_scratch_new(letters->tokenizer, &letters->scratch, err) != 0) {
        sw_letters_free(letters);
        return -1;
    }
    *out = letters;
    return 0;
}

void sw_letters_free(struct sw_letters *letters)
{
    if (letters == NULL)
        return;
    sw_text_scratch_free(letters->scratch);
    sw_tokenizer_free(letters->tokenizer);
    free(letters);
}

bool sw_letters_can_read(const struct sw_letters *letters)
{
    return letters->tokenizer != NULL;
}

const struct sw_error *sw_letters_why(const struct sw_letters *letters)
{
    return &letters->why;
}

bool sw_letters_ends(const struct sw_letters *letters, int32_t token)
{
    size_t count = 0;
    const int32_t *ends =
        letters->tokenizer != NULL ? sw_tokenizer_eos(letters->tokenizer, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (ends[i] == token)
            return true;
    return false;
}

int sw_letters_encode(struct sw_letters *letters, const char *text, size_t bytes, bool begins,
                      int32_t **tokens, int64_t *count, struct sw_error *err)
{
    const struct sw_encode_options options = {.add_special = begins};
    struct sw_ids ids = {0};
    if (letters->tokenizer == NULL)
        return sw_fail_as(err, &letters->why);
    /* also of an empty text, there is something to free */
    if (sw_ids_reserve(&ids, 1) != 0 ||
        sw_tokenizer_encode(letters->tokenizer, letters->scratch, text, bytes, &options, &ids,
                            err) != 0) {
        sw_ids_free(&ids);
        return out_of_memory(err);
    }
    *tokens = ids.id;
    *count = (int64_t)ids.count;
    return 0;
}

int sw_letters_converse(struct sw_letters *letters, const struct sw_chat_template *chat,
                        const struct sw_chat_message *message, size_t count, int32_t **tokens,
                        int64_t *token_count, int32_t *end, struct sw_error *err)
{
    const char *text = sw_chat_template_end(chat);
    struct sw_ids ids = {0};
    if (letters->tokenizer == NULL)
        return sw_fail_as(err, &letters->why);
    if (sw_chat_encode(chat, letters->tokenizer, letters->scratch, message, count, true, &ids,
                       err) != 0) {
        sw_ids_free(&ids);
        return -1;
    }
    *end = sw_tokenizer_id(letters->tokenizer, text, strlen(text));
    *tokens = ids.id;
    *token_count = (int64_t)ids.count;
    return 0;
}

const struct sw_chat_template *sw_letters_template(const struct sw_letters *letters)
{
    static const char *const names[] = {"llama-3", "chatml"};
    static const char *const tokens[] = {"<|start_header_id|>", "<|im_start|>"};
    const char *found = NULL;
    for (size_t i = 0; letters->tokenizer != NULL && i < sizeof names / sizeof names[0]; i++)
        if (sw_tokenizer_is_special(
                letters->tokenizer,
                sw_tokenizer_id(letters->tokenizer, tokens[i], strlen(tokens[i])))) {
            if (found != NULL)
                return NULL;
            found = names[i];
        }
    return found != NULL ? sw_chat_template_find(found, NULL) : NULL;
}

const char *sw_letters_bytes(const struct sw_letters *letters, int32_t token, size_t *bytes)
{
    return letters->tokenizer != NULL ? sw_tokenizer_token_bytes(letters->tokenizer, token, bytes)
                                      : NULL;
}

/* ---- Token by token ---- */

struct sw_spelling {
    struct sw_text_decoder *decoder; /* NULL: of letters that cannot be read */
    struct sw_chars text;
};

int sw_spelling_new(const struct sw_letters *letters, bool continues, struct sw_spelling **out,
                    struct sw_error *err)
{
    const struct sw_decode_options options = {.skip_special = true, .continues = continues};
    struct sw_spelling *s = calloc(1, sizeof *s);
    if (s == NULL || sw_chars_add(&s->text, "", 0) != 0) {
        free(s);
        return out_of_memory(err);
    }
    if (letters->tokenizer != NULL &&
        sw_text_decoder_new(letters->tokenizer, &options, &s->decoder, err) != 0) {
        sw_spelling_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void sw_spelling_free(struct sw_spelling *s)
{
    if (s == NULL)
        return;
    sw_text_decoder_free(s->decoder);
    sw_chars_free(&s->text);
    free(s);
}

static int add(struct sw_spelling *s, const char *piece, size_t bytes, struct sw_error *err)
{
    return bytes == 0 || sw_chars_add(&s->text, piece, bytes) == 0 ? 0 : out_of_memory(err);
}

int sw_spelling_feed(struct sw_spelling *s, int32_t token, struct sw_error *err)
{
    const char *piece = NULL;
    size_t bytes = 0;
    if (s->decoder == NULL)
        return 0;
    return sw_text_decoder_feed(s->decoder, token, &piece, &bytes, err) != 0
               ? -1
               : add(s, piece, bytes, err);
}

int sw_spelling_finish(struct sw_spelling *s, struct sw_error *err)
{
    const char *piece = NULL;
    size_t bytes = 0;
    if (s->decoder == NULL)
        return 0;
    return sw_text_decoder_finish(s->decoder, &piece, &bytes, err) != 0 ? -1
                                                                        : add(s, piece, bytes, err);
}

const char *sw_spelling_text(const struct sw_spelling *s, size_t *bytes)
{
    *bytes = s->text.count;
    return s->text.byte != NULL ? s->text.byte : "";
}
