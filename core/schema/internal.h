/* The engine of field tables, which knows no key but the `name` of a list's item: the arena, the
 * node tree, the diagnostics, rows and what is done by them.
 *
 * Everything hangs on one struct sw_config. Memory running out sets `failed` and is reported once,
 * at the end: until then allocation failures yield "" or NULL, and every user of a NULL node
 * accepts it. */
#ifndef SW_SCHEMA_INTERNAL_H
#define SW_SCHEMA_INTERNAL_H

#include "core/base/json.h"
#include "core/base/words.h"
#include "core/schema/schema.h"

#include <sys/types.h>

enum {
    SW_MAX_DEPTH = 64,
    SW_MAX_NODES = 50000, /* a plan with nine full grids has 47,000 */
    SW_MAX_FILE_BYTES = 16 << 20,
    SW_MAX_DIAGNOSTICS = 64,
    SW_MAX_STORED_DIAGNOSTICS = 4096,
    SW_OVERRIDE_INDEX = 1 << 20 /* --set comes after all files */
};

/* One text that nodes point into: a file, a caller's text, or one --set argument. */
struct source {
    const struct source *next;   /* of the config's list, for nothing but debugging */
    const struct source *parent; /* the source that named this one; NULL: none */
    const char *file;            /* as shown in messages */
    const char *text;
    size_t bytes;
    int32_t index; /* order of the files in the report */
    bool has_identity, is_override;
    dev_t device;
    ino_t inode;
};

enum node_kind {
    NODE_SCALAR,
    NODE_SEQUENCE,
    NODE_MAPPING,
    NODE_BROKEN /* its mistake is already reported: readers say nothing more */
};

struct node {
    enum node_kind kind;
    bool plain; /* a scalar without quotes */
    const struct source *source;
    int32_t line, column;
    const char *text;       /* scalar */
    const struct node *key; /* of an entry of a mapping */
    struct node *first, *last, *next;
    int32_t count;
};

struct stored_diagnostic {
    const struct source *source;
    int32_t line, column, order;
    const char *message, *help;
    bool is_note, is_warning;
};

/* UNKNOWN_MAPPINGS: a mapping, or a null, is nobody's concern. UNKNOWN_ASKED: the hook `fate` is
 * asked. */
enum unknown_keys { UNKNOWN_ERROR, UNKNOWN_MAPPINGS, UNKNOWN_ASKED };

/* What becomes of a key without a row: nobody knows it; it changes nothing that is computed, and a
 * note says so; the same, and nothing is said; or it does, and its value is not supported
 * (reported). */
enum key_fate { KEY_UNKNOWN, KEY_NOTED, KEY_IGNORED, KEY_REFUSED };

struct field;

/* What is asked of those who know the keys (core/config). */
struct sw_key_hooks {
    enum key_fate (*fate)(struct sw_config *c, const struct node *value);
    /* true if the mapping is another program's file, with keys that no list can foresee */
    bool (*is_foreign)(const struct node *map);
    /* What to do about a file that is not there, by the value that names it; NULL: nothing of its
     * own */
    const char *(*no_file)(const struct node *value);
    /* What stands here for another program's key; NULL: nothing known. */
    const char *(*own_name)(const char *key);
    /* Of a key that stands as null: what was read into base before may be forgotten. */
    void (*forget)(struct sw_config *c, const struct field *fields, const struct field *field,
                   void *base);
    /* true if a mapping is of that kind, and not plainly of another (reported at `place`) */
    bool (*is_kind)(struct sw_config *c, const struct node *root, const struct node *place,
                    int32_t kind);
    /* Reads what a reference of that kind names; false: mistakes reported. */
    bool (*describe)(struct sw_config *c, int32_t kind, struct node *root, void *out);
};

struct sw_config {
    struct block *blocks;
    bool failed;
    bool generated; /* by a program, which warned: nothing of that is said again */
    const struct sw_key_hooks *hooks;
    struct sw_keys *keys; /* what they keep while they read */

    struct stored_diagnostic *stored; /* malloc, freed when the reading ends */
    int32_t stored_count, stored_capacity, dropped_errors;
    struct sw_diagnostic *diagnostics;
    int32_t diagnostic_count, error_count;

    int32_t source_count, node_count;
};

/* arena.c */
void *sw_config_alloc(struct sw_config *c, size_t bytes); /* zeroed; NULL when memory runs out */
const char *sw_config_copy(struct sw_config *c, const char *text, size_t bytes); /* never NULL */
const char *sw_config_format(struct sw_config *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* 'text' with control characters escaped and at most 60 characters, safe for a terminal. */
const char *sw_config_quote(struct sw_config *c, const char *text);
/* The same without the quotes. */
const char *sw_config_shown(struct sw_config *c, const char *text);
/* Writes a text so that YAML reads it back as that text, also inside [ ] and { }. */
void sw_config_write_text(FILE *out, const char *text);
/* A path (or several) without the quotes and not shortened. */
const char *sw_config_shown_path(struct sw_config *c, const char *path);
void sw_config_release(struct sw_config *c);

/* diagnostics.c */
void sw_config_error(struct sw_config *c, const struct source *source, int32_t line, int32_t column,
                     const char *message, const char *help);
void sw_config_error_at(struct sw_config *c, const struct node *node, const char *message,
                        const char *help);
void sw_config_note_at(struct sw_config *c, const struct node *node, const char *message);
/* Something that is allowed, and hardly meant. Nothing happens in what is generated. */
void sw_config_warn_at(struct sw_config *c, const struct node *node, const char *message,
                       const char *help);
/* Stores one of another config, which lives as long, with this message. */
void sw_config_take_message(struct sw_config *c, const struct stored_diagnostic *other,
                            const char *message);
void sw_config_finish_diagnostics(struct sw_config *c);

/* paths.c */
/* The path that `path` means in a text of that source; in the arena. */
const char *sw_config_resolve(struct sw_config *c, const struct source *source, const char *path);
const char *sw_config_join(struct sw_config *c, const char *directory, const char *path);
/* True if a path has nothing that a shell would expand: '~' in front, $NAME or ${NAME}. No file
 * means these, and a folder called '~' is what nobody wants: reported, but in what is generated. */
bool sw_config_path_is_plain(struct sw_config *c, const struct node *value);
const char *sw_config_directory_of(struct sw_config *c, const char *file);

/* document.c */
bool sw_config_check_characters(struct sw_config *c, const struct source *source);
struct source *sw_config_new_source(struct sw_config *c, const char *file, const char *text,
                                    size_t bytes);
/* The tree of a text; NULL when it is no YAML (reported). */
struct node *sw_config_parse(struct sw_config *c, struct source *source);
/* The tree of a file; mistakes in opening it are reported where `named_by` names it (NULL: at the
 * file). */
struct node *sw_config_load(struct sw_config *c, const char *path, const struct node *named_by);
/* A node without contents; NULL: memory ran out, or the config has as many as it may (reported). */
struct node *sw_node_new(struct sw_config *c, const struct source *source, enum node_kind kind,
                         int32_t line, int32_t column);
/* Puts the child behind the others; its own `next` is forgotten. */
void sw_node_append(struct node *parent, struct node *child);
/* Reports keys that stand twice and takes the later ones out. */
void sw_node_check_duplicates(struct sw_config *c, struct node *map);
bool sw_node_is_null(const struct node *node);
struct node *sw_node_find(const struct node *map, const char *key);
/* "a list", "a mapping", "the string 'x'", "the number 3" */
const char *sw_node_describe(struct sw_config *c, const struct node *node);

/* document_json.c */
/* true if the text is JSON, or claims to be by its file's name and its first character */
bool sw_config_is_json(const struct source *source);
/* As sw_config_parse. A NUL in a string becomes U+FFFD. */
struct node *sw_config_parse_json(struct sw_config *c, const struct source *source);

/* quantity.c */
enum quantity_status { QUANTITY_OK, QUANTITY_NO_NUMBER, QUANTITY_BAD_UNIT, QUANTITY_OVERFLOW };
enum quantity_status sw_quantity_scan(const char *text, char dimension, double *out,
                                      const char **unit);
const char *sw_quantity_units(char dimension); /* "B, kB, MB, ..." */
/* The quantity as it is spelled ("80 GB"), of a text with a unit that there is not but that looks
 * like one ("80 gb", "80G", "400 Gbps"); NULL: it looks like none. Returns buffer. */
const char *sw_quantity_meant(const char *text, char dimension, char *buffer, size_t bytes);
/* The decimal unit of bytes, seconds or FLOP in which `number` comes nearest to `wanted`. */
const char *sw_quantity_nearest_unit(char dimension, double number, double wanted);
/* A decimal number that fills the whole text; no inf, nan, hexadecimal. */
bool sw_number_parse(const char *text, double *out);
/* The shortest digits that read back as the same double. */
const char *sw_real_format(double value, char buffer[32]);

/* fields.c */
enum field_form {
    FIELD_INTEGER32,
    FIELD_INTEGER64,
    FIELD_UNSIGNED64,
    FIELD_REAL,
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_PATH,
    FIELD_WORD,      /* one of `words`, stored as its index in an enum */
    FIELD_BYTES,     /* int64_t */
    FIELD_BANDWIDTH, /* double, as are the next five */
    FIELD_SECONDS,
    FIELD_FLOPS,
    FIELD_DURATION, /* seconds, of minutes and more */
    FIELD_POWER,    /* watts */
    FIELD_SHARE,    /* double: a percentage or a fraction */
    FIELD_SECTION,  /* a mapping read with `fields` */
    FIELD_SETTINGS, /* the place of sections that others give: nothing is read */
    FIELD_CUSTOM    /* as `custom` says */
};

struct field;
struct writer;

/* What --set may step into with a '.'. */
enum inside {
    INSIDE_NOTHING,
    INSIDE_ANY_KEY,
    INSIDE_FIELDS,
    INSIDE_DESCRIPTION,
    INSIDE_ITEMS /* of a list of mappings: by their name, or counted from 0 */
};

/* How a value that is no scalar is read, written and described. */
struct field_type {
    bool (*read)(struct sw_config *c, const struct field *field, struct node *value, void *base);
    void (*write)(struct writer *w, const struct field *field, const void *base); /* NULL: never */
    void (*schema)(struct sw_json *j, const struct field *field); /* NULL: field->schema */
    enum inside inside;
    bool (*empty)(const void *at); /* whether there is nothing to write; NULL: there always is */
};

#define FIELD_NOWHERE ((size_t)-1)

/* One row of a field table: parsing, did-you-mean, defaults and the schema all come from it. */
struct field {
    const char *key;
    enum field_form type;
    size_t offset; /* in the struct that the table describes; FIELD_NOWHERE: checked, not kept */
    size_t place;  /* there, the struct sw_place that tells where the value stands; 0: none */
    bool required;
    bool elsewhere;       /* written as a part of another field */
    bool old;             /* of older files: read, but neither written nor described */
    bool brief;           /* not written when it is empty, or a scalar's default;
                             a section: when nothing in it would be */
    bool commas;          /* FIELD_TEXT: a list may stand, which becomes one text with commas */
    bool in_bits;         /* FIELD_BANDWIDTH: people tell it in bits, too */
    bool quoted;          /* FIELD_WORD: in quotes, for it looks like something else */
    const char *fallback; /* the default as it would be written; NULL: the bytes stay as they are */
    double min, max;      /* numbers and quantities, both included; 0,0: not limited */
    bool above_min;       /* min itself is not allowed */
    double least, most;   /* quantities: what is outside was hardly meant; 0,0: nothing is */
    const char *zero_word;            /* integers: a word that means 0 ("auto"); references: that
                                         names nothing */
    const char *const *words;         /* FIELD_WORD, ends with NULL: stored as an index;
                                         integers: words beside numbers, stored as -1, -2, ... */
    const struct sw_word *vocabulary; /* FIELD_WORD instead of `words`: stored as its value */
    bool decided;                     /* of its vocabulary all but "auto" */
    bool (*accept)(const char *text);
    const char *expects;        /* what `accept` wants, in words */
    const struct field *fields; /* of the keys inside */
    const struct field_type *custom;
    const char *schema;            /* FIELD_CUSTOM: its JSON Schema, where `custom` has none */
    int32_t kind;                  /* of a reference, as the hooks count them */
    const struct field *described; /* the keys of what it names */
    const char *folder;            /* the file in a folder that it may name instead; NULL: none */
    const char *example;           /* a value that can be pasted */
    const char *about;
};

struct section {
    struct node *map; /* NULL: not written */
    const struct field *fields;
    uint64_t bad;     /* bit i: fields[i] has no usable value */
    uint64_t written; /* bit i: fields[i] stands in the text */
};

/* Reads a mapping (NULL: nothing written) into the struct at base. Values that are not written get
 * their row's fallback; without one the bytes stay as they are. */
struct section sw_config_read_section(struct sw_config *c, struct node *map,
                                      const struct field *fields, void *base,
                                      enum unknown_keys unknown);
bool sw_config_read_field(struct sw_config *c, const struct field *field, struct node *value,
                          void *base);
/* True if every one of the named fields (ending with NULL) has a usable value. */
bool sw_section_good(const struct section *section, const char *key, ...);
/* True if the key stands in the text with a value. */
bool sw_section_wrote(const struct section *section, const char *key);
/* Where to point when the value of `key` is wrong: the value, or the mapping when it is a default.
 */
const struct node *sw_section_place(const struct section *section, const char *key);
/* The row that an unknown key was probably meant for: what other software calls it, else the most
 * like it; NULL: none. written: the mapping of another program's file, with keys of many kinds,
 * where only slips of two letters count, and only for rows that it does not have; else NULL. */
const struct field *sw_field_meant(struct sw_config *c, const struct field *fields, const char *key,
                                   const struct node *written);
bool sw_config_wrong_type(struct sw_config *c, const struct field *field, const struct node *value,
                          const char *expected);
/* The same of a text that field->accept does not take. Both suggest a word that `expected` or
 * `expects` names, in quotes or because it is taken, where the value is like it. */
bool sw_config_wrong_text(struct sw_config *c, const struct field *field, const struct node *value);
const char *sw_config_example(struct sw_config *c, const struct field *field);
/* Word i of a FIELD_WORD and what is stored for it; NULL: there is none. Old words don't count. */
const char *sw_field_word(const struct field *field, int32_t i, int32_t *value);
const struct field *sw_field_find(const struct field *fields, const char *key);
/* The default of a number or a quantity, in bytes, seconds, ... or a fraction; 0 without one. */
double sw_field_default_number(const struct field *field);
/* plausible.c */
/* Of a quantity as it stands in the text; unit: what follows its number, "" without. */
void sw_config_warn_of_quantity(struct sw_config *c, const struct field *field,
                                const struct node *value, double number, const char *unit);

/* follow.c */
/* The mapping that a value means: itself, or the file that it names. NULL: reported. */
struct node *sw_config_follow(struct sw_config *c, const struct field *field, struct node *value);

/* override.c */
/* known: what a message lists where any key may stand, but none does. */
void sw_config_apply_override(struct sw_config *c, struct node *root, const struct field *fields,
                              const struct field *known, const char *text, int32_t index);

/* write.c */
/* How a value stands: as it is, in quotes where any text could be misread, always in quotes. */
enum style { STYLE_BARE, STYLE_TEXT, STYLE_QUOTED };

/* Where written values go: a YAML file, or a list of paths and values. */
struct writer {
    /* A mapping inside the one that is written. */
    void (*open)(struct writer *w, const char *key);
    /* One mapping of a list, in one line; name: what tells it from the others. */
    void (*open_item)(struct writer *w, const char *name);
    void (*close)(struct writer *w); /* either */
    void (*value)(struct writer *w, const char *key, const char *text, enum style style);
};
/* Writes what a struct holds, by its table. */
void sw_config_write_fields(struct writer *w, const struct field *fields, const void *base);
/* The same as YAML, each line indented by so many spaces. */
void sw_config_write_yaml(FILE *out, int32_t indent, const struct field *fields, const void *base);
/* The same as paths and values; prefix: of all paths, may be "". */
void sw_config_visit_fields(const char *prefix, const struct field *fields, const void *base,
                            sw_config_visitor visit, void *context);
/* True if two structs are written alike; false without memory. */
bool sw_config_same_fields(const struct field *fields, const void *a, const void *b);

/* schema.c */
/* The JSON Schema of a mapping. */
void sw_config_schema_object(struct sw_json *j, const char *key, bool open_ended,
                             const struct field *fields);
/* Of a text, or a list of them. */
void sw_config_schema_texts(struct sw_json *j);

#endif
