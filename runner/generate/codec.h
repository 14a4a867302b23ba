/* Text and tokens of a model's folder, as far as generating and scoring need them: what ends a
 * text, encoding a prompt, decoding token by token. Owns what it opens; one thread. */
#ifndef SW_CODEC_H
#define SW_CODEC_H

#include "runner/text/chat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_codec;

/* Whose texts they are. */
struct sw_codec_model {
    const char *folder; /* of its weights, and of its tokenizer where it has one */
    int64_t vocab_size;
    bool was_bytes;   /* it was trained on bytes (data.format) */
    bool wants_bytes; /* --bytes: whatever lies in the folder */
};
/* Each byte is the token of its value where that was asked for and, in a folder without any
 * tokenizer, for a model of bytes: one that was trained so, or of 256 tokens. Where the folder has
 * no tokenizer for another model, or one that cannot be read, texts cannot be given or shown;
 * that is no error here. Errors (SW_BAD_INPUT): bytes for fewer than 256 tokens; (SW_ENVIRONMENT).
 */
int sw_codec_open(const struct sw_codec_model *model, struct sw_codec **out, struct sw_error *err);
void sw_codec_free(struct sw_codec *codec); /* may be NULL */

/* Whether text can be given and shown at all; why not is the error of encoding. */
bool sw_codec_can_read(const struct sw_codec *codec);
/* Why not. */
const struct sw_error *sw_codec_why(const struct sw_codec *codec);
/* A line for people about how the tokenizer was read, i from 0; NULL: no more of them. */
const char *sw_codec_note(const struct sw_codec *codec, int32_t i);
/* The model's tokens that end a text, *count of them, the codec's. */
const int32_t *sw_codec_end_tokens(const struct sw_codec *codec, size_t *count);
/* Whether a text ends with this token. */
bool sw_codec_ends(const struct sw_codec *codec, int32_t token);
/* The most bytes of a text that one token stands for; 0: none does. */
size_t sw_codec_longest(const struct sw_codec *codec);
/* Tokens of a text, malloc'ed; begins: what the model puts before a text comes first. */
int sw_codec_encode(struct sw_codec *codec, const char *text, size_t bytes, bool begins,
                    int32_t **tokens, int64_t *count, struct sw_error *err);
/* The same of a conversation, with what begins an answer; *end: the token that ends it. *bytes: of
 * its text, which becomes no tokens where it has more than most_bytes. Errors: as sw_chat_encode;
 * the tokenizer cannot be read. */
int sw_codec_converse(struct sw_codec *codec, const struct sw_chat_template *chat,
                      const struct sw_chat_talk *talk, size_t most_bytes, size_t *bytes,
                      int32_t **tokens, int64_t *token_count, int32_t *end, struct sw_error *err);
/* The name of the template whose special tokens the tokenizer has, where just one of llama-3 and
 * chatml fits; NULL: nobody knows. For a model that has none of its own. */
const char *sw_codec_template(const struct sw_codec *codec);
/* The bytes that a token stands for, which need not be whole characters; NULL: it is none. */
const char *sw_codec_bytes(const struct sw_codec *codec, int32_t token, size_t *bytes);

/* A text that is written token by token, behind a prompt: always UTF-8, whole characters only. */
struct sw_detokenizer;
/* continues: a prompt stands before it, so that its first space stays. */
int sw_detokenizer_new(const struct sw_codec *codec, bool continues, struct sw_detokenizer **out,
                       struct sw_error *err);
void sw_detokenizer_free(struct sw_detokenizer *detokenizer); /* may be NULL */
int sw_detokenizer_feed(struct sw_detokenizer *detokenizer, int32_t token, struct sw_error *err);
/* No more comes: what is left of an incomplete character is U+FFFD. */
int sw_detokenizer_finish(struct sw_detokenizer *detokenizer, struct sw_error *err);
/* So far, with a 0 behind it; the detokenizer's, until it is fed again. */
const char *sw_detokenizer_text(const struct sw_detokenizer *detokenizer, size_t *bytes);

#endif
