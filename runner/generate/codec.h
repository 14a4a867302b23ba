/* Text and tokens of a model's folder for generating and scoring: end tokens, encoding prompts,
 * decoding token by token. Owns the files it opens; one thread. */
#ifndef SW_CODEC_H
#define SW_CODEC_H

#include "runner/text/chat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_codec;

/* Model whose texts are coded. */
struct sw_codec_model {
    const char *folder; /* folder of its weights, and its tokenizer if any */
    int64_t vocab_size;
    bool was_bytes;   /* true if trained on bytes (data.format) */
    bool wants_bytes; /* --bytes: ignores the folder's tokenizer */
};
/* Opens the folder's tokenizer. Bytes are tokens if requested or, without a tokenizer, for a byte
 * model: trained on bytes, or with 256 tokens. If another model lacks a readable tokenizer, texts
 * cannot be read or shown; that is no error here. Errors (SW_BAD_INPUT): bytes with fewer than 256
 * tokens; (SW_ENVIRONMENT). */
int sw_codec_open(const struct sw_codec_model *model, struct sw_codec **out, struct sw_error *err);
void sw_codec_free(struct sw_codec *codec); /* may be NULL */

/* True if text can be read and shown; else encoding fails with the reason. */
bool sw_codec_can_read(const struct sw_codec *codec);
/* The reason. */
const struct sw_error *sw_codec_why(const struct sw_codec *codec);
/* Note i, from 0, about loading the tokenizer, for people; NULL: no more. */
const char *sw_codec_note(const struct sw_codec *codec, int32_t i);
/* The model's end tokens, *count; the codec's memory. */
const int32_t *sw_codec_end_tokens(const struct sw_codec *codec, size_t *count);
/* True if this token ends a sequence. */
bool sw_codec_ends(const struct sw_codec *codec, int32_t token);
/* Largest number of bytes of one token; 0: none known. */
size_t sw_codec_longest(const struct sw_codec *codec);
/* Tokens of a text, malloc'ed; begins: true to prefix the model's begin tokens. */
int sw_codec_encode(struct sw_codec *codec, const char *text, size_t bytes, bool begins,
                    int32_t **tokens, int64_t *count, struct sw_error *err);
/* Tokens of a conversation and the beginning of an answer; *end: end token of the answer. *bytes:
 * length of the text; above most_bytes no tokens are made. Errors: as sw_chat_encode; the tokenizer
 * cannot be read. */
int sw_codec_converse(struct sw_codec *codec, const struct sw_chat_template *chat,
                      const struct sw_chat_talk *talk, size_t most_bytes, size_t *bytes,
                      int32_t **tokens, int64_t *token_count, int32_t *end, struct sw_error *err);
/* Name of the template for a model without its own, if the tokenizer has the special tokens of
 * exactly one of llama-3 and chatml; NULL: unknown. */
const char *sw_codec_template(const struct sw_codec *codec);
/* Bytes of a token, maybe partial characters; NULL: no such token. */
const char *sw_codec_bytes(const struct sw_codec *codec, int32_t token, size_t *bytes);

/* Text of tokens decoded one by one after a prompt: always UTF-8, whole characters only. */
struct sw_detokenizer;
/* continues: true if a prompt precedes, so that a first space stays. */
int sw_detokenizer_new(const struct sw_codec *codec, bool continues, struct sw_detokenizer **out,
                       struct sw_error *err);
void sw_detokenizer_free(struct sw_detokenizer *detokenizer); /* may be NULL */
int sw_detokenizer_feed(struct sw_detokenizer *detokenizer, int32_t token, struct sw_error *err);
/* Ends the text: an incomplete character becomes U+FFFD. */
int sw_detokenizer_finish(struct sw_detokenizer *detokenizer, struct sw_error *err);
/* Text so far, 0-terminated; the detokenizer's memory until the next token. */
const char *sw_detokenizer_text(const struct sw_detokenizer *detokenizer, size_t *bytes);

#endif
