/* Special and added tokens, and chat templates, in the files beside tokenizer.json, resolved as in
 * `transformers` (from_pretrained of PreTrainedTokenizerBase, __init__ of PreTrainedTokenizerFast
 * in version 4 and of TokenizersBackend in version 5). A folder is read like the version that wrote
 * it does: marks of version 5 are the key 'backend', the class TokenizersBackend, and a list
 * 'extra_special_tokens', all unreadable for version 4; a folder that names no class is read like
 * version 5. */
#ifndef SW_SPECIAL_H
#define SW_SPECIAL_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Classes with special tokens of their own. frames: version 4 puts bos and eos around a text by
 * add_bos_token and add_eos_token, ignoring tokenizer.json. */
struct sw_tokenizer_class {
    const char *name, *bos, *eos, *unk, *pad, *mask; /* mask: version 5 only */
    const char *normalizer, *pre_tokenizer;          /* version 5's own types; NULL: none */
    bool frames, adds_bos;
    bool of_pieces; /* true for a sentencepiece model, false for bytes */
    bool is_plain;  /* true if version 5 ignores flags of special tokens */
};

/* A folder's files, loaded. */
struct sw_beside {
    char *folder;
    json_t *config;            /* tokenizer_config.json, merged with special_tokens_map.json */
    json_t *added;             /* added_tokens.json; NULL: absent, or not read */
    json_t *model;             /* config.json; NULL: absent */
    json_t *list, *first_list; /* unnamed special tokens; NULL: none */
    const char *list_key, *unlike;
    bool is_version_5, has_list;            /* has_list: added_tokens_decoder exists */
    const struct sw_tokenizer_class *class; /* NULL: not one of these */
};

int sw_beside_open(const char *folder, struct sw_beside **out, struct sw_error *err);
void sw_beside_free(struct sw_beside *beside); /* may be NULL */
const char *sw_beside_folder(const struct sw_beside *beside);
/* Compares the class with root, tokenizer.json. Errors: version 5 makes another tokenizer for the
 * named class. */
int sw_beside_settle(struct sw_beside *beside, const json_t *root, struct sw_error *err);
/* Class that version 5 chooses by the model type although tokenizer.json differs; NULL: none. */
const char *sw_beside_unlike(const struct sw_beside *beside);
/* True if the folder is read like transformers 5, not 4. */
bool sw_beside_is_version_5(const struct sw_beside *beside);
/* True if the folder is read like version 4, and version 5 would make another sentencepiece
 * tokenizer. */
bool sw_beside_is_older_piece(const struct sw_beside *beside);
/* tokenizer_config.json merged with special_tokens_map.json; an object. */
const json_t *sw_beside_config(const struct sw_beside *beside);
/* config.json; NULL: none. */
const json_t *sw_beside_model(const struct sw_beside *beside);
/* {"bos_token": "<s>" or {"content": "<s>", ...}, ...}: named special tokens, freed by the caller;
 * NULL with *err set. */
json_t *sw_beside_named(const struct sw_beside *beside, struct sw_error *err);
/* [{"token": {"content": ..., flags}, "id": claimed or absent, "file": name}]: tokens added after
 * those of tokenizer.json (`in_file`, may be NULL), in order; freed by the caller. */
int sw_beside_tokens(const struct sw_beside *beside, const json_t *in_file, json_t **out,
                     struct sw_error *err);
/* True if version 5 makes the tokenizer anew, without tokenizer.json's added tokens. */
bool sw_beside_replaces(const struct sw_beside *beside);
/* True if version 4 puts bos (eos) around a text, ignoring tokenizer.json; false: *bos and *eos are
 * unchanged. */
bool sw_beside_frames(const struct sw_beside *beside, bool *bos, bool *eos);
/* Space before a text: by add_prefix_space, or as in tokenizer.json (`written`). alone: its only
 * pre-tokenizer is ByteLevel; bytes: its last one is. */
enum sw_beside_prefix {
    SW_BESIDE_AS_WRITTEN,
    SW_BESIDE_NO_PREFIX,
    SW_BESIDE_PREFIX,
    SW_BESIDE_FIRST,  /* before a whole text, but not after a token within it */
    SW_BESIDE_UNCLEAR /* two files disagree */
};
enum sw_beside_prefix sw_beside_prefix(const struct sw_beside *beside, bool alone, bool bytes,
                                       bool written);
/* Fails with SW_BAD_INPUT at the first place of `text` in the folder's file. */
int sw_beside_refuse(const struct sw_beside *beside, const char *file, const char *text,
                     struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Place of a quoted text in the file or, if `value`, of the value after it; line 0: not found. */
struct sw_place sw_text_place_of(const char *path, const char *text, bool value);

/* ---- one token: a text, or an object with content and flags (special.c) ---- */

/* The token's text; NULL: neither a text nor an object with one. */
const json_t *sw_special_text(const json_t *token);
/* The token as an object with all flags; `special`: forces that flag. */
json_t *sw_special_whole(const json_t *token, bool special);
/* True if the list has an identical token. */
bool sw_special_holds(const json_t *list, const json_t *token);

/* ---- chat templates of a folder (chat_files.c) ---- */

struct sw_chat_text {
    char *name, *text; /* name: for messages; text NULL: no template */
    size_t bytes;
};
struct sw_chat_texts {
    struct sw_chat_text plain, tool_use; /* tool_use: for conversations with tools */
    bool several;                        /* true if they have names */
    bool of_processor;                   /* true if from chat_template.json */
};
void sw_chat_text_free(struct sw_chat_text *text);
/* Finds the folder's templates; both without text: none. The caller frees both, also after an
 * error. */
int sw_chat_find(const struct sw_beside *beside, struct sw_chat_texts *out, struct sw_error *err);

#endif
