/* Text <-> tokens: Hugging Face's tokenizer.json, and bytes as a tokenizer of their own.
 *
 *     struct sw_tokenizer *t;
 *     struct sw_text_scratch *scratch;
 *     struct sw_ids ids = {0};
 *     const struct sw_encode_options options = {.add_special = true};
 *     sw_tokenizer_open_folder("model", &t, &err);
 *     sw_text_scratch_new(t, &scratch, &err);            // one per thread
 *     sw_tokenizer_encode(t, scratch, text, bytes, &options, &ids, &err);
 *     sw_text_decoder_new(t, NULL, &decoder, &err);
 *     sw_text_decoder_feed(decoder, id, &piece, &piece_bytes, &err);   // whole characters only
 *
 * Supports BPE, of bytes (GPT-2, Llama 3, Qwen, SmolLM) or of characters with byte fallback (Llama
 * 2, Mistral, LWM), with these models' normalizers, pre-tokenizers, post-processors and decoders,
 * token for token like PyPI's `tokenizers`. Refuses anything else by name. Ignores `truncation` and
 * `padding`: they are not part of the text.
 *
 * An open tokenizer is immutable: any number of threads may use one, each with its own scratch.
 * Positions and lengths count bytes. A token's number (id) is >= 0. */
#ifndef SW_TOKENIZER_H
#define SW_TOKENIZER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_tokenizer;
struct sw_text_scratch; /* buffers and a word cache; one thread at a time */
struct sw_text_decoder; /* one text decoded token by token */

/* Growing array of tokens. {0} is empty; freed by the caller. */
struct sw_ids {
    int32_t *id; /* [capacity], [count] set */
    size_t count, capacity;
};
/* Makes room for `more`. Returns -1 if memory runs out; the ids stay unchanged. */
int sw_ids_reserve(struct sw_ids *ids, size_t more);
void sw_ids_free(struct sw_ids *ids);

/* Growing text, freed alike; bytes [count], then a 0 that count excludes. */
struct sw_chars {
    char *byte;
    size_t count, capacity;
};
int sw_chars_add(struct sw_chars *chars, const char *text, size_t bytes);
void sw_chars_free(struct sw_chars *chars);

/* ---- open ---- */

/* Reads tokenizer.json at this path and, as `transformers` does, the special and added tokens of
 * its folder's files: tokenizer_config.json, special_tokens_map.json, added_tokens.json,
 * generation_config.json, config.json. Errors, "FILE: error: what; what to do": SW_BAD_INPUT: no
 * such file, no JSON, or a tokenizer that cannot be read exactly; SW_ENVIRONMENT: the file cannot
 * be read, or no memory. */
int sw_tokenizer_open(const char *path, struct sw_tokenizer **out, struct sw_error *err);
/* Reads the tokenizer.json of a model's folder; bytes if the folder has no tokenizer at all.
 * Errors: as above; SW_BAD_INPUT: it has only another form (tokenizer.model, vocab.json ...). */
int sw_tokenizer_open_folder(const char *folder, struct sw_tokenizer **out, struct sw_error *err);
/* Reads a tokenizer.json from memory, called `path` in messages; no files are read. */
int sw_tokenizer_parse(const char *path, const char *text, size_t bytes, struct sw_tokenizer **out,
                       struct sw_error *err);
/* Makes a tokenizer whose tokens are the bytes; nothing begins or ends a text. */
int sw_tokenizer_bytes(struct sw_tokenizer **out, struct sw_error *err);
/* Accepts NULL. */
void sw_tokenizer_free(struct sw_tokenizer *tokenizer);

/* ---- what is in it ---- */

bool sw_tokenizer_is_bytes(const struct sw_tokenizer *t);
/* 1 + the largest id; at most a model's vocab_size. */
int32_t sw_tokenizer_size(const struct sw_tokenizer *t);
/* Token as written in tokenizer.json, 0-terminated ("\304\240the"), for bytes the byte; NULL: no
 * such id. The tokenizer's memory. bytes may be NULL. */
const char *sw_tokenizer_token(const struct sw_tokenizer *t, int32_t id, size_t *bytes);
/* Bytes that the token stands for in a text (" the"), maybe partial characters. NULL: no such
 * token. The tokenizer's memory. */
const char *sw_tokenizer_token_bytes(const struct sw_tokenizer *t, int32_t id, size_t *bytes);
/* Id of a token as written in tokenizer.json; -1: none. */
int32_t sw_tokenizer_id(const struct sw_tokenizer *t, const char *token, size_t bytes);
/* True if it is an added token with "special": true. */
bool sw_tokenizer_is_special(const struct sw_tokenizer *t, int32_t id);
/* Tokens that the post-processor puts before a text, *count. The tokenizer's memory. */
const int32_t *sw_tokenizer_begin(const struct sw_tokenizer *t, size_t *count);
/* Token that begins a text; -1: none is named. */
int32_t sw_tokenizer_bos(const struct sw_tokenizer *t);
/* Tokens that end a text, *count (0: none is named): eos_token_id of generation_config.json; if
 * that file is absent, of config.json; if it has none, the tokenizer's eos_token. An id may be one
 * that only the model has. The tokenizer's memory. */
const int32_t *sw_tokenizer_eos(const struct sw_tokenizer *t, size_t *count);
/* Note i, from 0, about loading, for people: "FILE: note: ..."; NULL: no more. */
const char *sw_tokenizer_note(const struct sw_tokenizer *t, int32_t i);

/* ---- text -> tokens ---- */

int sw_text_scratch_new(const struct sw_tokenizer *t, struct sw_text_scratch **out,
                        struct sw_error *err);
void sw_text_scratch_free(struct sw_text_scratch *scratch);

struct sw_text_span {
    size_t begin, end; /* positions in the text, begin <= end */
};
/* Growing array of spans. {0} is empty; freed by the caller. */
struct sw_text_spans {
    struct sw_text_span *span; /* [capacity], [count] set */
    size_t count, capacity;
};
void sw_text_spans_free(struct sw_text_spans *spans);

struct sw_encode_options {
    bool add_special;   /* true to add the post-processor's tokens, such as <s> */
    bool plain_special; /* true if special tokens in the text are plain text */
    /* Spans in which special tokens are plain text: users' texts between the parts of a chat
     * template. [literal_count], sorted, disjoint; NULL if 0. In a text that is not UTF-8 they are
     * then plain everywhere. */
    const struct sw_text_span *literal;
    size_t literal_count;
    /* NULL, or gets for each token added to *ids its part of the text, whole characters, as
     * `tokenizers` has it: neighbours that share a character overlap; several characters joined by
     * a normalizer count as the first one; post-processor tokens get 0, 0. Needs UTF-8
     * (SW_BAD_INPUT). */
    struct sw_text_spans *offsets;
};
/* Appends the text's tokens to *ids. Bytes that are not UTF-8 count as U+FFFD, like Python's
 * errors='replace'; with byte tokens each is its own. options may be NULL: none. Errors (ids
 * unchanged): SW_BAD_INPUT: a pattern of tokenizer.json takes too long on this text, or the
 * tokenizer has no token for it; SW_ENVIRONMENT: no memory. */
int sw_tokenizer_encode(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const struct sw_encode_options *options,
                        struct sw_ids *ids, struct sw_error *err);

/* ---- tokens -> text ---- */

struct sw_decode_options {
    bool skip_special; /* true to leave special tokens out */
    /* True if the text continues another one: keeps the leading space that some tokenizers drop. */
    bool continues;
};
/* Appends the tokens' text to *text: always UTF-8, with U+FFFD for invalid bytes. Skips ids without
 * a token. options may be NULL. Errors: SW_ENVIRONMENT: no memory. */
int sw_tokenizer_decode(const struct sw_tokenizer *t, const int32_t *ids, size_t count,
                        const struct sw_decode_options *options, struct sw_chars *text,
                        struct sw_error *err);

/* Decodes token by token. The tokenizer must outlive the decoder. options may be NULL. */
int sw_text_decoder_new(const struct sw_tokenizer *t, const struct sw_decode_options *options,
                        struct sw_text_decoder **out, struct sw_error *err);
void sw_text_decoder_free(struct sw_text_decoder *decoder);
/* Feeds a token; *text: the whole characters it completes, [*bytes], possibly none, valid until the
 * next call. Concatenated, the pieces equal sw_tokenizer_decode's text, except that after byte
 * tokens ("<0xE4>") that turn out invalid, characters already returned stay. Errors:
 * SW_ENVIRONMENT: no memory. */
int sw_text_decoder_feed(struct sw_text_decoder *decoder, int32_t id, const char **text,
                         size_t *bytes, struct sw_error *err);
/* Ends the text: returns an incomplete character as U+FFFD and resets the decoder. */
int sw_text_decoder_finish(struct sw_text_decoder *decoder, const char **text, size_t *bytes,
                           struct sw_error *err);

#endif
