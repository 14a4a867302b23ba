/* Shared by the files of this folder: a loaded tokenizer, and a thread's scratch. */
#ifndef SW_TOKENIZER_INTERNAL_H
#define SW_TOKENIZER_INTERNAL_H

#include "core/base/hash.h"
#include "runner/text/tokenizer/pattern.h"
#include "runner/text/tokenizer/tokenizer.h"

#include <jansson.h>

enum {
    SW_TEXT_STAGES = 16,             /* most normalizers, or pre-tokenizers, in a row */
    SW_TEXT_MOST_IDS = 1 << 22,      /* ids are below this */
    SW_TEXT_ADDED_BYTES = 512,       /* longest added token */
    SW_TEXT_CONFIG_BYTES = 16 << 20, /* largest file beside tokenizer.json */
    SW_TEXT_FILE_BYTES = 128 << 20,  /* largest tokenizer.json */
    SW_TEXT_CONTENT_BYTES = 64,      /* longest text a normalizer or decoder inserts */
    SW_TEXT_SHOWN_BYTES = 60         /* longest text shown in a message */
};

struct sw_beside; /* special.h */

/* ---- vocabulary ---- */

struct sw_token {
    uint32_t text, text_bytes; /* text in tokenizer.json, in the arena */
    uint32_t word, word_bytes; /* its form in the model's input */
    uint32_t out, out_bytes;   /* its form in a decoded text */
    bool exists, special, normalized,
        is_model;     /* is_model: true if in the model's vocabulary and reachable */
    int16_t fallback; /* byte of a "<0x..>" token; -1: no such token */
    int32_t added;    /* 1 + index among the added tokens as read; 0: not added */
};

/* Map of texts -> ids: open addressing, [slots] a power of two, -1: empty. The key is the token's
 * text, or its word. */
struct sw_word_map {
    int32_t *slot;
    uint32_t slots, used;
    bool by_word;
};

/* ---- merges ---- */

struct sw_merge {
    uint64_t pair; /* left id << 32 | right id; SW_NO_PAIR: empty slot */
    uint32_t rank;
    int32_t id;
};
#define SW_NO_PAIR UINT64_MAX

/* First slot to search for a pair; slots is a power of two. */
static inline uint32_t sw_merge_slot(uint64_t pair, uint32_t slots)
{
    const uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    return (uint32_t)((hash ^ hash >> 32) * 0x9fb21c651e98df25u >> 32) & (slots - 1);
}

struct sw_bpe {
    struct sw_merge *merge; /* open addressing, [merges_slots] */
    uint32_t merge_slots;
    int32_t *symbol;   /* [65536] characters below U+10000 -> id, -1: none; NULL for byte models */
    int32_t byte[256]; /* byte models: the byte's token; else "<0xHH>"; -1: none */
    bool of_bytes, falls_back, ignore_merges, fuse_unknown;
    int32_t unknown; /* -1: none, drop them; -2: named but missing */
    /* Bloom filter of the character pairs that are adjacent in some token, three bits per word. No
     * merge crosses any other pair, so texts are split there; false positives are one in ten
     * thousands. NULL: not known. */
    uint64_t *joined; /* [SW_JOINED_WORDS] */
    bool bytes_merge; /* byte fallback tokens merge: not beside unknown characters */
};
enum { SW_JOINED_BITS = 16, SW_JOINED_WORDS = 1 << SW_JOINED_BITS };

static inline uint64_t *sw_joined_word(const struct sw_bpe *bpe, uint32_t left, uint32_t right,
                                       uint64_t *bits)
{
    const uint64_t hash = sw_hash_mix((uint64_t)left << 32 | right);
    *bits = (uint64_t)1 << (hash & 63) | (uint64_t)1 << (hash >> 6 & 63) |
            (uint64_t)1 << (hash >> 12 & 63);
    return &bpe->joined[hash >> (64 - SW_JOINED_BITS)];
}

/* ---- added tokens ---- */

struct sw_added {
    int32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
    bool in_plain, in_normal; /* searched before, after normalizing */
};

/* Texts of tokens as a tree, one byte per node, for the longest match at a position. */
struct sw_tree {
    struct sw_tree_node {
        int32_t child, next; /* -1: none */
        int32_t added;       /* token that ends here; -1: none */
        unsigned char byte;
    } * node;
    int32_t count, capacity;
    bool first[256]; /* first bytes of tokens */
};

/* ---- stages ---- */

enum sw_normal_kind { SW_NORMAL_PREPEND, SW_NORMAL_REPLACE, SW_NORMAL_UNICODE };
struct sw_normal {
    enum sw_normal_kind kind;
    struct sw_pattern pattern;
    char content[SW_TEXT_CONTENT_BYTES + 1];
    size_t content_bytes;
    bool compose, compatible; /* NFC, NFKC; NFKC, NFKD */
    uint64_t *unsafe; /* a bit per character: normalization may change it or its predecessor */
};

enum sw_behavior {
    SW_SPLIT_REMOVED,
    SW_SPLIT_ISOLATED,
    SW_SPLIT_WITH_PREVIOUS,
    SW_SPLIT_WITH_NEXT,
    SW_SPLIT_CONTIGUOUS
};
enum sw_prefix { SW_PREFIX_NEVER, SW_PREFIX_FIRST, SW_PREFIX_ALWAYS };

/* A pre-tokenizer: replaces each ' ' with `mark` and puts `mark` before the text, then splits. */
struct sw_pre {
    bool replaces; /* true: replaces spaces */
    char mark[8];
    size_t mark_bytes;
    enum sw_prefix prefix; /* condition for putting mark before a text without it */
    bool splits, inverted;
    enum sw_behavior behavior;
    struct sw_pattern pattern;
};

enum sw_text_decoder_kind {
    SW_DECODE_BYTES,     /* concatenated bytes of tokens */
    SW_DECODE_PLAIN,     /* texts of tokens, with byte fallback */
    SW_DECODE_METASPACE, /* the first token's marks are removed */
    SW_DECODE_SPACES     /* no decoder: spaces between tokens */
};
enum { SW_DECODE_REPLACEMENTS = 8 };
struct sw_decoding {
    int32_t parts; /* decoders read so far */
    bool fused;
    struct { /* replaced first, in each token's text */
        struct sw_pattern from;
        char to[SW_TEXT_CONTENT_BYTES + 1];
        size_t to_bytes;
    } replacement[SW_DECODE_REPLACEMENTS];
    int32_t replacement_count;
    enum sw_text_decoder_kind kind;
    bool falls_back;
    char strip[8]; /* one character; up to `strip_count` are removed at the text's start */
    size_t strip_bytes;
    int32_t strip_count;
    char mark[8]; /* metaspace */
    size_t mark_bytes;
    bool keeps_first;
};

/* Added tokens whose ids in a file differ from the assigned ones. */
struct sw_misnumbered {
    int32_t count, id; /* id, claimed, file: the first one's */
    int64_t claimed;
    const char *file; /* NULL: tokenizer.json */
};

struct sw_tokenizer {
    char *path;
    bool is_bytes;
    struct sw_token *token; /* [size] */
    int32_t size;
    struct sw_chars arena;
    struct sw_word_map names, words; /* token text -> id; text of the model's tokens -> id */
    struct sw_bpe bpe;
    struct sw_added *added;
    int32_t added_count, added_capacity;
    int32_t next_added; /* next free id for an added token */
    struct sw_misnumbered misnumbered;
    struct sw_tree plain_tree, normal_tree; /* searched before and after normalizing */
    struct sw_normal normal[SW_TEXT_STAGES];
    int32_t normal_count;
    struct sw_pre pre[SW_TEXT_STAGES];
    int32_t pre_count;
    struct sw_decoding decoding;
    struct sw_ids before, after; /* tokens the post-processor puts around a text */
    bool trims_offsets;          /* true if offsets exclude spaces at a token's ends */
    bool keeps_prefix;           /* true to keep one before the first token */
    bool splits_special;         /* true if special tokens in a text are always plain text */
    int32_t bos;
    struct sw_ids eos;
    struct sw_beside *beside; /* during loading; NULL: no files are read */
    char **note;              /* [notes] */
    int32_t notes;
};

/* ---- a thread's own ---- */

enum { SW_CACHE_SLOTS = 1 << 16, SW_CACHE_BYTES = 24, SW_CACHE_IDS = 8 };
struct sw_cached {
    char text[SW_CACHE_BYTES];
    int32_t id[SW_CACHE_IDS];
    uint8_t bytes, count; /* bytes 0: empty entry */
};

struct sw_symbol {
    int32_t id;
    uint32_t previous, next; /* symbols; UINT32_MAX: none */
};

/* Positions in the given text, for each byte of a text derived from it, of the character that the
 * byte stands for. */
struct sw_origins {
    size_t *at; /* [capacity], [count] set */
    size_t count, capacity;
};

struct sw_text_scratch {
    struct sw_matcher matcher;
    struct sw_cached *cache; /* [SW_CACHE_SLOTS] */
    struct sw_symbol *symbol;
    uint64_t *heap; /* rank << 32 | symbol */
    size_t symbol_capacity;
    struct sw_chars repaired, normal[2], stage[SW_TEXT_STAGES];
    uint32_t *character; /* for normalizing */
    size_t character_capacity;
    /* Set while offsets are requested; else NULL, and no origins are kept. */
    struct sw_text_spans *offsets;
    const char *given; /* text that offsets refer to */
    struct sw_origins given_origin, normal_origin[2], stage_origin[SW_TEXT_STAGES];
};

/* ---- vocabulary (vocabulary.c) ---- */

int32_t sw_word_find(const struct sw_tokenizer *t, const struct sw_word_map *map, const char *text,
                     size_t bytes);
/* Makes a map of all tokens or, by_word, of the model's. -1: no memory. */
int sw_word_map_make(const struct sw_tokenizer *t, bool by_word, struct sw_word_map *map);
/* Adds a token of t whose text is not in the map. -1: no memory. */
int sw_word_map_add(const struct sw_tokenizer *t, struct sw_word_map *map, int32_t id);
/* Adds a token; its text is copied. Errors: the id is taken, or out of range. */
int sw_token_add(struct sw_tokenizer *t, int64_t id, const char *text, size_t bytes,
                 struct sw_error *err);
int sw_out_of_memory(const struct sw_tokenizer *t, struct sw_error *err);
/* Fails with SW_BAD_INPUT at the tokenizer's file. */
int sw_refuse(const struct sw_tokenizer *t, struct sw_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- parts of tokenizer.json ---- */

int sw_read_model(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);
int sw_read_added(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);
int sw_read_normalizer(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);
int sw_read_pre_tokenizer(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);
int sw_read_post_processor(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);
/* Sets every token's form in a text; call after all tokens are added. */
int sw_read_decoder(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);
/* Loads a JSON file of a folder; *root NULL: no such file. */
int sw_text_load_json(const char *folder, const char *name, json_t **root, struct sw_error *err);
/* Reads the rest of the files beside tokenizer.json, after all tokens are added: bos, eos, tokens
 * around a text. */
int sw_read_beside(struct sw_tokenizer *t, const json_t *root, struct sw_error *err);

/* Adds a note about loading for people: "FILE: note: ...". file: name in the folder; NULL: the
 * tokenizer's own. -1: no memory, *err. */
int sw_tokenizer_add_note(struct sw_tokenizer *t, const char *file, struct sw_error *err,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "the WHAT 'TYPE' is not supported; supported are KNOWN" */
int sw_refuse_type(const struct sw_tokenizer *t, const char *type, const char *what,
                   const char *known, struct sw_error *err);
/* {"String": ...} or {"Regex": ...} */
int sw_read_pattern(const struct sw_tokenizer *t, const json_t *value, const char *where,
                    struct sw_pattern *out, struct sw_error *err);
/* Reads a bool member; `usual` if absent. */
int sw_read_flag(const struct sw_tokenizer *t, const json_t *object, const char *key, bool usual,
                 bool *out, struct sw_error *err);
/* Reads a text member of at most `most` bytes. out [most + 1]. */
int sw_read_text(const struct sw_tokenizer *t, const json_t *object, const char *key, size_t most,
                 char *out, size_t *bytes, struct sw_error *err);
/* "type" of a part; NULL with *err set. */
const char *sw_read_type(const struct sw_tokenizer *t, const json_t *object, const char *where,
                         struct sw_error *err);
/* Calls `read` for each member (at `key`) of a part of type Sequence, or for the part itself. NULL
 * (null or absent): no call. */
typedef int sw_read_part(struct sw_tokenizer *t, const json_t *part, const char *type,
                         struct sw_error *err);
int sw_read_sequence(struct sw_tokenizer *t, const json_t *part, const char *where, const char *key,
                     sw_read_part *read, struct sw_error *err);

/* ---- encoding ---- */

/* Byte of a character in the printable byte alphabet (GPT-2's); -1: not in it. */
int32_t sw_byte_of_character(uint32_t character);
uint32_t sw_character_of_byte(int32_t byte);

/* Decodes a token's printable characters to bytes, replacing *out. 1: done; 0: a character is not
 * in the alphabet; -1: no memory. */
int sw_bytes_of_token(const char *text, size_t bytes, struct sw_chars *out);

int sw_tree_add(struct sw_tree *tree, const char *text, size_t bytes, int32_t added);
/* Adds the tokens to search for to both trees, after the normalizers were read. */
int sw_added_prepare(struct sw_tokenizer *t, struct sw_error *err);
/* Callbacks: `token` for each added token in the text, `rest` for the text between. */
struct sw_added_visitor {
    void *self;
    int (*rest)(void *self, const char *text, size_t begin, size_t end);
    int (*token)(void *self, int32_t id, size_t begin, size_t end);
};
int sw_added_split(const struct sw_tokenizer *t, const struct sw_tree *tree, const char *text,
                   size_t bytes, const struct sw_encode_options *options,
                   const struct sw_added_visitor *visitor);

/* *text: the result, which is the given text or one in the scratch. *origin: its bytes' origins;
 * origin or *origin NULL: not requested. */
int sw_normalize(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char **text,
                 size_t *bytes, const size_t **origin, struct sw_error *err);
int sw_normal_prepare(struct sw_normal *normal);

/* origin: of the text's bytes; NULL: offsets are not requested. */
int sw_pre_tokenize(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char *text,
                    size_t bytes, const size_t *origin, bool first, struct sw_ids *ids,
                    struct sw_error *err);

/* Encodes one piece. */
int sw_bpe_encode(const struct sw_tokenizer *t, struct sw_text_scratch *scratch, const char *text,
                  size_t bytes, struct sw_ids *ids, struct sw_error *err);
/* True if the character at text (for byte models the byte) has a token; *bytes: its length. */
bool sw_bpe_has(const struct sw_tokenizer *t, const char *text, size_t *bytes);
void sw_bpe_free(struct sw_bpe *bpe);

/* ---- offsets (offsets.c); -1: no memory ---- */

int sw_origins_copy(struct sw_origins *origins, const size_t *from, size_t bytes);
int sw_origins_fill(struct sw_origins *origins, size_t at, size_t bytes);
/* Sets a text's origins to its own character positions. */
int sw_origins_of_text(struct sw_origins *origins, const char *text, size_t bytes);
/* Adds a token's offsets, from the character that begins at `first` to the one at `last`. */
int sw_offsets_add(struct sw_text_scratch *scratch, size_t first, size_t last);
/* Adds the offsets of the tokens id [count] of a piece. */
int sw_offsets_of_piece(const struct sw_tokenizer *t, struct sw_text_scratch *scratch,
                        const char *text, size_t bytes, const size_t *origin, const int32_t *id,
                        size_t count);
/* Removes spaces from the offsets span [count] of the tokens id [count], the text's first ones. */
void sw_offsets_strip(const struct sw_tokenizer *t, const char *text, const int32_t *id,
                      struct sw_text_span *span, size_t count);
int sw_text_spans_add(struct sw_text_spans *spans, size_t begin, size_t end);

#endif
