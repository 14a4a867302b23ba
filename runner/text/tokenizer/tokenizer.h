/* Text <-> tokens: Hugging Face's tokenizer.json, and bytes as a tokenizer of their own.
 *
 *     struct sw_tokenizer *t;
 *     struct sw_text_scratch *scratch;
 *     struct sw_ids ids = {0};
 *     sw_tokenizer_open_folder("model", &t, &err);
 *     sw_text_scratch_new(t, &scratch, &err);            // one per thread
 *     sw_tokenizer_encode(t, scratch, text, bytes, &(struct sw_encode_options){.add_special =
 * true}, &ids, &err); sw_text_decoder_new(t, &(struct sw_decode_options){.skip_special = true},
 * &decoder, &err); sw_text_decoder_feed(decoder, id, &piece, &piece_bytes, &err);   // whole
 * characters only
 *
 * What is read: BPE, of bytes (GPT-2, Llama 3, Qwen, SmolLM) or of characters with bytes to fall
 * back on (Llama 2, Mistral, LWM), with the normalizers, pre-tokenizers, post-processors and
 * decoders that these use, token for token as PyPI's `tokenizers` does it. Anything else is refused
 * by its name. `truncation` and `padding` are not looked at: they are no part of the text.
 *
 * A tokenizer does not change once it is open: any number of threads may use one, each with a
 * scratch of its own. Positions and lengths count bytes. A token's number (id) is >= 0. */
#ifndef SW_TOKENIZER_H
#define SW_TOKENIZER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_tokenizer;
struct sw_text_scratch; /* buffers and a cache of words; one thread at a time */
struct sw_text_decoder; /* one text that comes token by token */

/* Tokens, and room for more. {0} is empty; the caller's, who frees it. */
struct sw_ids {
    int32_t *id; /* [capacity], of which [count] are set */
    size_t count, capacity;
};
/* Makes room for `more`. Returns -1 when memory runs out; the ids stay as they are. */
int sw_ids_reserve(struct sw_ids *ids, size_t more);
void sw_ids_free(struct sw_ids *ids);

/* A text that grows, the same way; bytes [count], with a 0 behind them that count leaves out. */
struct sw_chars {
    char *byte;
    size_t count, capacity;
};
int sw_chars_add(struct sw_chars *chars, const char *text, size_t bytes);
void sw_chars_free(struct sw_chars *chars);

/* ---- open ---- */

/* tokenizer.json at this path, with what the other files of its folder say about special and added
 * tokens, as `transformers` reads them: tokenizer_config.json, special_tokens_map.json,
 * added_tokens.json, generation_config.json, config.json. Errors, "FILE: error: what; what to do":
 * SW_BAD_INPUT: no such file, no JSON, or a tokenizer that cannot be read exactly; SW_ENVIRONMENT:
 * the file cannot be read, or no memory. */
int sw_tokenizer_open(const char *path, struct sw_tokenizer **out, struct sw_error *err);
/* The tokenizer of a model's folder: its tokenizer.json; bytes when it has no tokenizer at all.
 * Errors: as above; SW_BAD_INPUT: the folder has a tokenizer of another form only
 * (tokenizer.model, vocab.json ...). */
int sw_tokenizer_open_folder(const char *folder, struct sw_tokenizer **out, struct sw_error *err);
/* The same of a text in memory, whose name in messages is `path`; no files are looked at. */
int sw_tokenizer_parse(const char *path, const char *text, size_t bytes, struct sw_tokenizer **out,
                       struct sw_error *err);
/* Each byte is the token of its value; nothing begins or ends a text. */
int sw_tokenizer_bytes(struct sw_tokenizer **out, struct sw_error *err);
/* NULL: nothing happens. */
void sw_tokenizer_free(struct sw_tokenizer *tokenizer);

/* ---- what is in it ---- */

bool sw_tokenizer_is_bytes(const struct sw_tokenizer *t);
/* 1 + the largest id; a model's vocab_size is at least that. */
int32_t sw_tokenizer_size(const struct sw_tokenizer *t);
/* The token as tokenizer.json writes it, 0-terminated ("\304\240the"); NULL: no token has this id.
 * The tokenizer's memory. bytes may be NULL. For bytes, the byte itself. */
const char *sw_tokenizer_token(const struct sw_tokenizer *t, int32_t id, size_t *bytes);
/* The bytes it stands for in a text (" the"), which need not be whole characters. NULL: no such
 * token. The tokenizer's memory. */
const char *sw_tokenizer_token_bytes(const struct sw_tokenizer *t, int32_t id, size_t *bytes);
/* The id of a token as tokenizer.json writes it; -1: none. */
int32_t sw_tokenizer_id(const struct sw_tokenizer *t, const char *token, size_t bytes);
/* Whether it is one of the added tokens that carry "special": true. */
bool sw_tokenizer_is_special(const struct sw_tokenizer *t, int32_t id);
/* What the post-processor puts before a text, *count tokens. The tokenizer's memory. */
const int32_t *sw_tokenizer_begin(const struct sw_tokenizer *t, size_t *count);
/* The token that begins a text; -1: none is named. */
int32_t sw_tokenizer_bos(const struct sw_tokenizer *t);
/* The tokens that end a text, *count of them (0: none is named): eos_token_id of
 * generation_config.json; without that file, of config.json; where neither has one, the tokenizer's
 * eos_token. An id may be one of the model's that the tokenizer lacks. The tokenizer's memory. */
const int32_t *sw_tokenizer_eos(const struct sw_tokenizer *t, size_t *count);
/* A line for people about how it was read, i from 0: "FILE: note: ..."; NULL: no more of them. */
const char *sw_tokenizer_note(const struct sw_tokenizer *t, int32_t i);

/* ---- text -> tokens ---- */

int sw_text_scratch_new(const struct sw_tokenizer *t, struct sw_text_scratch **out,
                        struct sw_error *err);
void sw_text_scratch_free(struct sw_text_scratch *scratch);

struct sw_text_span {
    size_t begin, end; /* positions in the text, begin <= end */
};
/* Spans, and room for more. {0} is empty; the caller's, who frees it. */
struct sw_text_spans {
    struct sw_text_span *span; /* [capacity], of which [count] are set */
    size_t count, capacity;
};
void sw_text_spans_free(struct sw_text_spans *spans);

struct sw_encode_options {
    bool add_special;   /* what the post-processor puts round a text: <s> and the like */
    bool plain_special; /* special tokens that stand in the text are plain text */
    /* Only within these spans special tokens are plain text: what users wrote, between the parts of
     * a chat template. [literal_count], sorted, apart from each other; NULL with 0. In a text that
     * is no UTF-8 they are plain everywhere then. */
    const struct sw_text_span *literal;
    size_t literal_count;
    /* NULL, or receives for each token that is added to *ids the part of the text that it stands
     * for, whole characters, as `tokenizers` says it: neighbours that share a character overlap,
     * the characters that a normalizer joins are the first of them, and 0, 0 is what the
     * post-processor adds. The text is UTF-8 then (SW_BAD_INPUT). */
    struct sw_text_spans *offsets;
};
/* Adds the text's tokens to *ids. Bytes that are no UTF-8 count as U+FFFD, as Python's
 * errors='replace' has them; for bytes each is its own token. options may be NULL: none is set.
 * Errors (the ids are then as before): SW_BAD_INPUT: a pattern of tokenizer.json takes too long on
 * this text, or the tokenizer has no token for it; SW_ENVIRONMENT: no memory. */
int sw_tokenizer_encode(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const struct sw_encode_options *options,
                        struct sw_ids *ids, struct sw_error *err);

/* ---- tokens -> text ---- */

struct sw_decode_options {
    bool skip_special; /* leave special tokens out */
    /* Goes on a text that is there: the space that some tokenizers drop at the beginning stays. */
    bool continues;
};
/* Adds the text of the tokens to *text: always UTF-8, U+FFFD for what is none. Numbers that are no
 * token are left out. options may be NULL. Errors: SW_ENVIRONMENT: no memory. */
int sw_tokenizer_decode(const struct sw_tokenizer *t, const int32_t *ids, size_t count,
                        const struct sw_decode_options *options, struct sw_chars *text,
                        struct sw_error *err);

/* The same token by token. The tokenizer must outlive the decoder. options may be NULL. */
int sw_text_decoder_new(const struct sw_tokenizer *t, const struct sw_decode_options *options,
                        struct sw_text_decoder **out, struct sw_error *err);
void sw_text_decoder_free(struct sw_text_decoder *decoder);
/* Takes a token; *text is what it completes, [*bytes], whole characters only, perhaps none. It is
 * the decoder's and lives until the next call. All pieces together are what sw_tokenizer_decode
 * gives; where byte tokens ("<0xE4>") make no UTF-8, the characters that were complete by then stay
 * as they were given. Errors: SW_ENVIRONMENT: no memory. */
int sw_text_decoder_feed(struct sw_text_decoder *decoder, int32_t id, const char **text,
                         size_t *bytes, struct sw_error *err);
/* The end: what is left of an incomplete character, as U+FFFD. The decoder is as new then. */
int sw_text_decoder_finish(struct sw_text_decoder *decoder, const char **text, size_t *bytes,
                           struct sw_error *err);

#endif
