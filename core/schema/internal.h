/* The engine of field tables, which knows no key but the `name` of a list's item: the arena, the
 * node tree, the diagnostics, and the rows with their operations.
 *
 * One struct sw_config owns everything. Running out of memory sets `failed` and is reported once,
 * at the end: until then failed allocations yield "" or NULL, and every user of a node accepts
 * NULL. */
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

/* A text that nodes point into: a file, a caller's text, or one --set argument. */
struct source {
    const struct source *next;   /* list of all sources, to be seen in a debugger only */
    const struct source *parent; /* source that names this one; NULL: none */
    const char *file;            /* name in messages */
    const char *text;
    size_t bytes;
    int32_t index; /* index of the file in the report */
    bool has_identity, is_override;
    dev_t device;
    ino_t inode;
};

enum node_kind {
    NODE_SCALAR,
    NODE_SEQUENCE,
    NODE_MAPPING,
    NODE_BROKEN /* already reported: readers stay silent */
};

struct node {
    enum node_kind kind;
    bool plain; /* true for a scalar without quotes */
    const struct source *source;
    int32_t line, column;
    const char *text;       /* text of a scalar */
    const struct node *key; /* key of a mapping's entry */
    struct node *first, *last, *next;
    int32_t count;
};

struct stored_diagnostic {
    const struct source *source;
    int32_t line, column, order;
    const char *message, *help;
    bool is_note, is_warning;
};

/* UNKNOWN_MAPPINGS: unknown keys with a mapping or null are ignored. UNKNOWN_ASKED: the hook `fate`
 * decides. */
enum unknown_keys { UNKNOWN_ERROR, UNKNOWN_MAPPINGS, UNKNOWN_ASKED };

/* Treatment of a key without a row: unknown (an error); without effect on results, and a note says
 * so; the same without a note; or with an effect that is not supported (reported). */
enum key_fate { KEY_UNKNOWN, KEY_NOTED, KEY_IGNORED, KEY_REFUSED };

struct field;

/* Questions to the owner of the keys (core/config). */
struct sw_key_hooks {
    enum key_fate (*fate)(struct sw_config *c, const struct node *value);
    /* true if the mapping is another program's file, whose keys no list can foresee */
    bool (*is_foreign)(const struct node *map);
    /* Help for a missing file, by the value that names it; NULL: no special help */
    const char *(*no_file)(const struct node *value);
    /* Our name for another program's key; NULL: unknown. */
    const char *(*own_name)(const char *key);
    /* For a key that is null: forgets the value that was read into base before. */
    void (*forget)(struct sw_config *c, const struct field *fields, const struct field *field,
                   void *base);
    /* True if a mapping may be of that kind; false: plainly of another (reported at `place`) */
    bool (*is_kind)(struct sw_config *c, const struct node *root, const struct node *place,
                    int32_t kind);
    /* Reads the file or mapping that a reference of that kind names; false: mistakes reported. */
    bool (*describe)(struct sw_config *c, int32_t kind, struct node *root, void *out);
};

struct sw_config {
    struct block *blocks;
    bool failed;
    bool generated; /* true if a program wrote the text, and has given the warnings already */
    const struct sw_key_hooks *hooks;
    struct sw_keys *keys; /* state of the keys' owner */

    struct stored_diagnostic *stored; /* malloc'ed, freed when reading ends */
    int32_t stored_count, stored_capacity, dropped_errors;
    struct sw_diagnostic *diagnostics;
    int32_t diagnostic_count, error_count;

    int32_t source_count, node_count;
};

/* arena.c */
void *sw_config_alloc(struct sw_config *c, size_t bytes); /* zeroed; NULL: out of memory */
const char *sw_config_copy(struct sw_config *c, const char *text, size_t bytes); /* never NULL */
const char *sw_config_format(struct sw_config *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* 'text' with control characters escaped and at most 60 characters, safe for a terminal. */
const char *sw_config_quote(struct sw_config *c, const char *text);
/* Like sw_config_quote, without quotes. */
const char *sw_config_shown(struct sw_config *c, const char *text);
/* Writes a text so that YAML reads it back as that text, also inside [ ] and { }. */
void sw_config_write_text(FILE *out, const char *text);
/* A path (or several), without quotes, not shortened. */
const char *sw_config_shown_path(struct sw_config *c, const char *path);
void sw_config_release(struct sw_config *c);

/* diagnostics.c */
void sw_config_error(struct sw_config *c, const struct source *source, int32_t line, int32_t column,
                     const char *message, const char *help);
void sw_config_error_at(struct sw_config *c, const struct node *node, const char *message,
                        const char *help);
void sw_config_note_at(struct sw_config *c, const struct node *node, const char *message);
/* Warns of a value that is allowed but hardly meant. Silent for generated texts. */
void sw_config_warn_at(struct sw_config *c, const struct node *node, const char *message,
                       const char *help);
/* Stores a diagnostic of another config, which lives as long, with this message. */
void sw_config_take_message(struct sw_config *c, const struct stored_diagnostic *other,
                            const char *message);
void sw_config_finish_diagnostics(struct sw_config *c);

/* paths.c */
/* Resolves `path` as it stands in a text of that source; in the arena. */
const char *sw_config_resolve(struct sw_config *c, const struct source *source, const char *path);
const char *sw_config_join(struct sw_config *c, const char *directory, const char *path);
/* True if a path has nothing that a shell would expand: '~' in front, $NAME or ${NAME}. Such files
 * are not expanded here, and nobody wants a folder '~': reported, except in generated texts. */
bool sw_config_path_is_plain(struct sw_config *c, const struct node *value);
const char *sw_config_directory_of(struct sw_config *c, const char *file);

/* document.c */
bool sw_config_check_characters(struct sw_config *c, const struct source *source);
struct source *sw_config_new_source(struct sw_config *c, const char *file, const char *text,
                                    size_t bytes);
/* The tree of a text; NULL: no YAML (reported). */
struct node *sw_config_parse(struct sw_config *c, struct source *source);
/* The tree of a file; failures to open it are reported at `named_by`, which names it (NULL: at the
 * file). */
struct node *sw_config_load(struct sw_config *c, const char *path, const struct node *named_by);
/* A node without contents; NULL: out of memory, or the config has the most nodes allowed
 * (reported). */
struct node *sw_node_new(struct sw_config *c, const struct source *source, enum node_kind kind,
                         int32_t line, int32_t column);
/* Appends a child; its own `next` is overwritten. */
void sw_node_append(struct node *parent, struct node *child);
/* Reports duplicate keys and removes the later ones. */
void sw_node_check_duplicates(struct sw_config *c, struct node *map);
bool sw_node_is_null(const struct node *node);
struct node *sw_node_find(const struct node *map, const char *key);
/* "a list", "a mapping", "the string 'x'", "the number 3" */
const char *sw_node_describe(struct sw_config *c, const struct node *node);

/* document_json.c */
/* True if the text is JSON, or claims to be by its file's name and its first character. */
bool sw_config_is_json(const struct source *source);
/* Like sw_config_parse; a NUL in a string becomes U+FFFD. */
struct node *sw_config_parse_json(struct sw_config *c, const struct source *source);

/* quantity.c */
enum quantity_status { QUANTITY_OK, QUANTITY_NO_NUMBER, QUANTITY_BAD_UNIT, QUANTITY_OVERFLOW };
enum quantity_status sw_quantity_scan(const char *text, char dimension, double *out,
                                      const char **unit);
const char *sw_quantity_units(char dimension); /* "B, kB, MB, ..." */
/* Correct spelling of a quantity ("80 GB") whose unit is misspelled ("80 gb", "80G", "400 Gbps");
 * NULL: no unit resembles it. Returns buffer. */
const char *sw_quantity_meant(const char *text, char dimension, char *buffer, size_t bytes);
/* The decimal unit of bytes, seconds or FLOP with which `number` is nearest to `wanted`. */
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
    FIELD_WORD,      /* one of `words`, stored as its index */
    FIELD_BYTES,     /* int64_t */
    FIELD_BANDWIDTH, /* double, as the next five */
    FIELD_SECONDS,
    FIELD_FLOPS,
    FIELD_DURATION, /* seconds; minutes and more are usual */
    FIELD_POWER,    /* watts */
    FIELD_SHARE,    /* double: a percentage or a fraction */
    FIELD_SECTION,  /* a mapping read with `fields` */
    FIELD_SETTINGS, /* position of sections defined elsewhere: nothing is read */
    FIELD_CUSTOM    /* by `custom` */
};

struct field;
struct writer;

/* Values that --set can step into with a '.'. */
enum inside {
    INSIDE_NOTHING,
    INSIDE_ANY_KEY,
    INSIDE_FIELDS,
    INSIDE_DESCRIPTION,
    INSIDE_ITEMS /* list of mappings: by name, or by index from 0 */
};

/* Functions that read, write and describe a value that is no scalar. */
struct field_type {
    bool (*read)(struct sw_config *c, const struct field *field, struct node *value, void *base);
    void (*write)(struct writer *w, const struct field *field, const void *base); /* NULL: never */
    void (*schema)(struct sw_json *j, const struct field *field); /* NULL: field->schema */
    enum inside inside;
    bool (*empty)(const void *at); /* true if there is nothing to write; NULL: there always is */
};

#define FIELD_NOWHERE ((size_t)-1)

/* One row of a field table: parsing, did-you-mean, defaults and the schema all come from it. */
struct field {
    const char *key;
    enum field_form type;
    size_t offset; /* offset in the struct; FIELD_NOWHERE: checked, not stored */
    size_t place;  /* offset of the struct sw_place for the value's position; 0: none */
    bool required;
    bool elsewhere;           /* true if written as part of another field */
    bool old;                 /* true for keys of older files: read, but neither written nor
                                 described */
    bool brief;               /* true if not written when empty or a scalar's default; a section:
                                 when all of it is left out */
    bool commas;              /* FIELD_TEXT: true if a list may stand, which becomes one text with
                                 commas */
    bool in_bits;             /* FIELD_BANDWIDTH: true if bits are usual, too */
    bool quoted;              /* FIELD_WORD: true if written in quotes, since it looks like another
                                 type */
    const char *fallback;     /* default as it would be written; NULL: the bytes stay unchanged */
    double min, max;          /* limits of numbers and quantities, both included; 0,0: none */
    bool above_min;           /* true if min itself is not allowed */
    double least, most;       /* quantities: usual range, outside of which a warning is given; 0,0:
                                 none */
    const char *zero_word;    /* integers: a word for 0 ("auto"); references: for no
                                 reference */
    const char *const *words; /* FIELD_WORD, ends with NULL: stored as an index;
                                 integers: words beside numbers, stored as -1, -2, ... */
    const struct sw_word *vocabulary; /* FIELD_WORD instead of `words`: stored as its value */
    bool decided;                     /* true for all words of its vocabulary but "auto" */
    bool (*accept)(const char *text);
    const char *expects;        /* description of texts that `accept` takes */
    const struct field *fields; /* rows of the mapping's keys */
    const struct field_type *custom;
    const char *schema;            /* FIELD_CUSTOM: its JSON Schema, if `custom` has none */
    int32_t kind;                  /* kind of a reference, as the hooks number them */
    const struct field *described; /* rows of the mapping it refers to */
    const char *folder;            /* file to read if a folder is named; NULL: none */
    const char *example;           /* example that can be pasted */
    const char *about;
};

struct section {
    struct node *map; /* NULL: no mapping in the text */
    const struct field *fields;
    uint64_t bad;     /* bit i: fields[i] has no usable value */
    uint64_t written; /* bit i: fields[i] is in the text */
};

/* Reads a mapping (NULL: absent) into the struct at base. Absent values get their row's fallback;
 * without one the bytes stay unchanged. */
struct section sw_config_read_section(struct sw_config *c, struct node *map,
                                      const struct field *fields, void *base,
                                      enum unknown_keys unknown);
bool sw_config_read_field(struct sw_config *c, const struct field *field, struct node *value,
                          void *base);
/* True if every one of the named fields (ending with NULL) has a usable value. */
bool sw_section_good(const struct section *section, const char *key, ...);
/* True if the text has the key with a value. */
bool sw_section_wrote(const struct section *section, const char *key);
/* Node to point at when the value of `key` is wrong: the value, or the mapping if it is a
 * default. */
const struct node *sw_section_place(const struct section *section, const char *key);
/* The row that an unknown key probably means: by another program's name for it, else the most
 * similar one; NULL: none. written: the mapping of another program's file with keys of many kinds,
 * where only rows that it lacks count, and only typos of two letters; else NULL. */
const struct field *sw_field_meant(struct sw_config *c, const struct field *fields, const char *key,
                                   const struct node *written);
bool sw_config_wrong_type(struct sw_config *c, const struct field *field, const struct node *value,
                          const char *expected);
/* Reports a text that field->accept rejects. Both suggest a similar word from `expected` or
 * `expects`, if quoted there or accepted. */
bool sw_config_wrong_text(struct sw_config *c, const struct field *field, const struct node *value);
const char *sw_config_example(struct sw_config *c, const struct field *field);
/* Word i of a FIELD_WORD and its stored value; NULL: no more. Old words don't count. */
const char *sw_field_word(const struct field *field, int32_t i, int32_t *value);
const struct field *sw_field_find(const struct field *fields, const char *key);
/* Default of a number or a quantity, in bytes, seconds, ... or a fraction; 0: none. */
double sw_field_default_number(const struct field *field);
/* plausible.c */
/* Warns of a quantity as written; unit: text behind its number, "" without. */
void sw_config_warn_of_quantity(struct sw_config *c, const struct field *field,
                                const struct node *value, double number, const char *unit);

/* follow.c */
/* The mapping that a value stands for: itself, or the file that it names. NULL: reported. */
struct node *sw_config_follow(struct sw_config *c, const struct field *field, struct node *value);

/* override.c */
/* known: keys for a message where any key may stand, but none does. */
void sw_config_apply_override(struct sw_config *c, struct node *root, const struct field *fields,
                              const struct field *known, const char *text, int32_t index);

/* write.c */
/* Style of a value: bare, in quotes if ambiguous, always in quotes. */
enum style { STYLE_BARE, STYLE_TEXT, STYLE_QUOTED };

/* Destination of written values: a YAML file, or a list of paths and values. */
struct writer {
    /* Opens a mapping inside the one that is written. */
    void (*open)(struct writer *w, const char *key);
    /* Opens one mapping of a list, on one line; name: tells it from the others. */
    void (*open_item)(struct writer *w, const char *name);
    void (*close)(struct writer *w); /* closes either */
    void (*value)(struct writer *w, const char *key, const char *text, enum style style);
};
/* Writes a struct by its table. */
void sw_config_write_fields(struct writer *w, const struct field *fields, const void *base);
/* Writes a struct as YAML, each line indented by so many spaces. */
void sw_config_write_yaml(FILE *out, int32_t indent, const struct field *fields, const void *base);
/* Visits a struct as paths and values; prefix: of all paths, may be "". */
void sw_config_visit_fields(const char *prefix, const struct field *fields, const void *base,
                            sw_config_visitor visit, void *context);
/* True if two structs would be written alike; false if out of memory. */
bool sw_config_same_fields(const struct field *fields, const void *a, const void *b);

/* schema.c */
/* The JSON Schema of a mapping. */
void sw_config_schema_object(struct sw_json *j, const char *key, bool open_ended,
                             const struct field *fields);
/* JSON Schema of a text, or a list of texts. */
void sw_config_schema_texts(struct sw_json *j);

#endif
