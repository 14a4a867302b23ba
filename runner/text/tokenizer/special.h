/* Special and added tokens, and chat templates, of the files beside tokenizer.json, one from
 * another as `transformers` takes them (from_pretrained of PreTrainedTokenizerBase, __init__ of
 * PreTrainedTokenizerFast in version 4 and of TokenizersBackend in version 5). A folder is read as
 * the version does that wrote it: marks of version 5 are the key 'backend', the class
 * TokenizersBackend, and a list 'extra_special_tokens', none of which version 4 can load; what
 * names no class at all is read as version 5 does. */
#ifndef SW_SPECIAL_H
#define SW_SPECIAL_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Classes with special tokens of their own. frames: version 4 puts bos and eos round a text by
 * add_bos_token and add_eos_token, whatever tokenizer.json says. */
struct sw_tokenizer_class {
    const char *name, *bos, *eos, *unk, *pad, *mask; /* mask: in version 5 only */
    const char *normalizer, *pre_tokenizer;          /* types of version 5's own; NULL: none */
    bool frames, adds_bos;
    bool of_pieces; /* a sentencepiece model's, not bytes */
    bool is_plain;  /* version 5 takes no flags of special tokens */
};

/* Files of a folder, read. */
struct sw_beside {
    char *folder;
    json_t *config; /* tokenizer_config.json, with what counts of special_tokens_map.json */
    json_t *added;  /* added_tokens.json; NULL: not there, or not looked at */
    json_t *model;  /* config.json; NULL: not there */
    json_t *list, *first_list; /* special tokens without a name; NULL: none */
    const char *list_key, *unlike;
    bool is_version_5, has_list;            /* has_list: added_tokens_decoder is there */
    const struct sw_tokenizer_class *class; /* NULL: none of these */
};

int sw_beside_open(const char *folder, struct sw_beside **out, struct sw_error *err);
void sw_beside_free(struct sw_beside *beside); /* may be NULL */
const char *sw_beside_folder(const struct sw_beside *beside);
/* Compares the class with root, tokenizer.json. Errors: the class that is named is another
 * tokenizer in version 5. */
int sw_beside_settle(struct sw_beside *beside, const json_t *root, struct sw_error *err);
/* Class that version 5 takes by the kind of model, though tokenizer.json is another one; NULL:
 * none.
 */
const char *sw_beside_unlike(const struct sw_beside *beside);
/* true if the folder is read as transformers 5 reads it, not 4. */
bool sw_beside_is_version_5(const struct sw_beside *beside);
/* true if the folder is read as version 4 does, and 5 would make another tokenizer of its pieces.
 */
bool sw_beside_is_older_piece(const struct sw_beside *beside);
/* tokenizer_config.json with what counts of special_tokens_map.json; an object. */
const json_t *sw_beside_config(const struct sw_beside *beside);
/* config.json; NULL: none. */
const json_t *sw_beside_model(const struct sw_beside *beside);
/* {"bos_token": "<s>" or {"content": "<s>", ...}, ...}: named special tokens. The caller's;
 * NULL: *err. */
json_t *sw_beside_named(const struct sw_beside *beside, struct sw_error *err);
/* [{"token": {"content": ..., flags}, "id": claimed or missing, "file": name}]: tokens that are
 * added after those of tokenizer.json (`in_file`, may be NULL), in order. The caller's. */
int sw_beside_tokens(const struct sw_beside *beside, const json_t *in_file, json_t **out,
                     struct sw_error *err);
/* true if version 5 makes the tokenizer anew, without the added tokens of tokenizer.json. */
bool sw_beside_replaces(const struct sw_beside *beside);
/* true if version 4 puts bos (eos) round a text, whatever tokenizer.json says; false: *bos and *eos
 * are as they were. */
bool sw_beside_frames(const struct sw_beside *beside, bool *bos, bool *eos);
/* Space before a text: by add_prefix_space, or as tokenizer.json has it (`written`). alone: its
 * only pre-tokenizer is ByteLevel; bytes: its last one is. */
enum sw_beside_prefix {
    SW_BESIDE_AS_WRITTEN,
    SW_BESIDE_NO_PREFIX,
    SW_BESIDE_PREFIX,
    SW_BESIDE_FIRST,  /* before a whole text, but not before what follows a token in it */
    SW_BESIDE_UNCLEAR /* two files say different things */
};
enum sw_beside_prefix sw_beside_prefix(const struct sw_beside *beside, bool alone, bool bytes,
                                       bool written);
/* Fails with SW_BAD_INPUT at the first place of `text` in the folder's file. */
int sw_beside_refuse(const struct sw_beside *beside, const char *file, const char *text,
                     struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Place of the text in the file, between quotation marks, or (value) of what follows it there;
 * line 0: nowhere. */
struct sw_place sw_text_place_of(const char *path, const char *text, bool value);

/* ---- one token: a text, or an object with content and flags (special.c) ---- */

/* The token's text; NULL: neither a text nor an object with one. */
const json_t *sw_special_text(const json_t *token);
/* The token as an object with all of its flags; `special` if it shall be special whatever it says.
 */
json_t *sw_special_whole(const json_t *token, bool special);
/* true if the list has this very token. */
bool sw_special_holds(const json_t *list, const json_t *token);

/* ---- chat templates of a folder (chat_files.c) ---- */

struct sw_chat_text {
    char *name, *text; /* name: as messages have it; text NULL: there is none */
    size_t bytes;
};
struct sw_chat_texts {
    struct sw_chat_text plain, tool_use; /* tool_use: where a conversation has tools */
    bool several;                        /* true if they have names */
    bool of_processor;                   /* true if they are of chat_template.json */
};
void sw_chat_text_free(struct sw_chat_text *text);
/* Finds the folder's templates; both without a text: it has none. The caller's, who frees both also
 * after an error. */
int sw_chat_find(const struct sw_beside *beside, struct sw_chat_texts *out, struct sw_error *err);

#endif
