/* What the files of core/config share: the arena, the node tree, the diagnostics, the field tables.
 *
 * Everything hangs on one struct sw_config. Memory running out sets `failed` and is reported once,
 * at the end: until then allocation failures yield "" or NULL, and every user of a NULL node
 * accepts it. */
#ifndef SW_CONFIG_INTERNAL_H
#define SW_CONFIG_INTERNAL_H

#include "core/base/json.h"
#include "core/config/config.h"

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

struct sw_config {
    struct block *blocks;
    bool failed, is_yaml;
    enum sw_config_kind kind;
    struct sw_model_config *model;
    struct sw_accelerator_config *accelerator;
    struct sw_cluster_config *cluster;
    struct sw_profile_config *profile;
    struct sw_curve_file *curve;
    struct sw_fabric_config *fabric;
    const struct node *profile_at; /* the last 'profile' that was read */
    struct sw_run_config *run;     /* of a plan: inside it */
    struct sw_plan_config *plan;
    struct sw_place digest_place; /* of a plan */
    /* for checks between files: the cluster's mapping, and whether the model says how long its
     * sequences may be; NULL, false: not told */
    const struct node *cluster_root;
    bool knows_longest;
    int64_t plain_tokens; /* sw_model_plain_tokens of the model */
    const struct sw_launchers *launchers;
    struct tables *tables;

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
/* Something that is allowed, and hardly meant. Nothing happens in a plan: what it says was read,
 * and warned of, when it was written. */
void sw_config_warn_at(struct sw_config *c, const struct node *node, const char *message,
                       const char *help);
void sw_config_finish_diagnostics(struct sw_config *c);

/* paths.c */
/* The path that `path` means in a text of that source; in the arena. */
const char *sw_config_resolve(struct sw_config *c, const struct source *source, const char *path);
const char *sw_config_join(struct sw_config *c, const char *directory, const char *path);
/* True if a path has nothing that a shell would expand: '~' in front, $NAME or ${NAME}. No file
 * means these, and a folder called '~' is what nobody wants: reported. A plan's paths were checked
 * when it was written. */
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
/* The decimal unit of bytes, seconds or FLOP in which `number` comes nearest to `wanted`. */
/* The quantity as it is spelled ("80 GB"), of a text with a unit that there is not but that looks
 * like one ("80 gb", "80G", "400 Gbps"); NULL: it looks like none. Returns buffer. */
const char *sw_quantity_meant(const char *text, char dimension, char *buffer, size_t bytes);
const char *sw_quantity_nearest_unit(char dimension, double number, double wanted);
/* A decimal number that fills the whole text; no inf, nan, hexadecimal. */
bool sw_number_parse(const char *text, double *out);

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
    FIELD_BANDWIDTH, /* double, as are the next three */
    FIELD_SECONDS,
    FIELD_FLOPS,
    FIELD_SHARE,    /* double: a percentage or a fraction */
    FIELD_SECTION,  /* a mapping read with `fields` */
    FIELD_SETTINGS, /* the place of the launchers' sections: sw_tables_make */
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
    bool quoted;          /* FIELD_WORD: in quotes, for it looks like something else */
    const char *fallback; /* the default as it would be written; NULL: the bytes stay as they are */
    double min, max;      /* numbers and quantities, both included; 0,0: not limited */
    bool above_min;       /* min itself is not allowed */
    double least, most;   /* quantities: what is outside was hardly meant; 0,0: nothing is */
    const char *zero_word;            /* integers: a word that means 0 ("auto") */
    const char *const *words;         /* FIELD_WORD, ends with NULL: stored as an index;
                                         integers: words beside numbers, stored as -1, -2, ... */
    const struct sw_word *vocabulary; /* FIELD_WORD instead of `words`: stored as its value */
    bool decided;                     /* of its vocabulary all but "auto" */
    bool (*accept)(const char *text);
    const char *expects;        /* what `accept` wants, in words */
    const struct field *fields; /* of the keys inside */
    const struct field_type *custom;
    const char *schema;            /* FIELD_CUSTOM: its JSON Schema, where `custom` has none */
    enum sw_config_kind kind;      /* of a reference */
    const struct field *described; /* its keys, where they are none of sw_config_fields */
    const char *example;           /* a value that can be pasted */
    const char *about;
};

struct section {
    struct node *map; /* NULL: not written */
    const struct field *fields;
    uint64_t bad;     /* bit i: fields[i] has no usable value */
    uint64_t written; /* bit i: fields[i] stands in the text */
};

/* UNKNOWN_SETTINGS: a mapping is the section of a launcher that nobody named. */
enum unknown_keys { UNKNOWN_ERROR, UNKNOWN_SETTINGS, UNKNOWN_HUGGING_FACE };

/* Reads a mapping (NULL: nothing written) into the struct at base. Values that are not written get
 * their row's fallback; without one the bytes stay as they are. */
struct section sw_config_read_section(struct sw_config *c, struct node *map,
                                      const struct field *fields, void *base,
                                      enum unknown_keys unknown);
bool sw_config_read_field(struct sw_config *c, const struct field *field, struct node *value,
                          void *base);
/* Whether every one of the named fields (ending with NULL) has a usable value. */
bool sw_section_good(const struct section *section, const char *key, ...);
/* Whether the key stands in the text with a value. */
bool sw_section_wrote(const struct section *section, const char *key);
/* Where to point when the value of `key` is wrong: the value, or the mapping when it is a default.
 */
const struct node *sw_section_place(const struct section *section, const char *key);
/* The row that an unknown key was probably meant for: what other software calls it, else the most
 * like it; NULL: none. written: the mapping of a model's file with keys of many kinds, where only
 * slips of two letters count, and only for rows that it does not have; else NULL. */
const struct field *sw_field_meant(const struct field *fields, const char *key,
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

/* tables.c, tables_profile.c, tables_run.c, tables_plan.c */
#define SW_BIG 1e30                /* a limit for reals that keeps products finite */
#define SW_MANY 9007199254740992.0 /* 2^53: integers that a double holds exactly */
#define SW_PLAN_SCHEMA "shardwright.plan/1"
#define SW_NAME_EXPECTS                                                                            \
    "1 to 64 letters, digits, '.', '_' or '-', starting with a letter, digit or '_'"

extern const struct field sw_model_fields[], sw_accelerator_fields[], sw_profile_fields[],
    sw_older_constants[], sw_cluster_fields[], sw_curve_fields[], sw_run_fields[], sw_plan_fields[],
    sw_link_fields[], sw_fabric_fields[];
/* Points as their readers take them, but for their order. */
#define SW_SHARE_SCHEMA "{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1}"
#define SW_POSITIVE_SCHEMA "{\"type\": \"number\", \"exclusiveMinimum\": 0}"
#define SW_BELOW_BIG_SCHEMA                                                                        \
    "{\"type\": \"number\", \"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1e30}"
#define SW_SIZE_SCHEMA "{\"type\": \"number\", \"minimum\": 1, \"exclusiveMaximum\": 1e30}"
#define SW_SCALE_SCHEMA "{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 100}"
#define SW_CURVE_OF_SCHEMA(fraction)                                                               \
    "{\"anyOf\": [" fraction ", {\"type\": \"array\", \"maxItems\": 32, \"items\": "               \
    "{\"type\": \"array\", \"prefixItems\": [" SW_POSITIVE_SCHEMA ", " fraction                    \
    "], \"items\": false, \"minItems\": 2}}]}"
#define SW_CURVE_SCHEMA SW_CURVE_OF_SCHEMA(SW_SHARE_SCHEMA)
/* How far prices by a grid are off, measured where it has no point; @p at is the member, AT() of
 * the table's own struct. */
#define SW_ERROR_OF(at, word, grid, sizes)                                                         \
    {                                                                                              \
        .key = (word), .type = FIELD_REAL, at, .brief = true, .fallback = "0", .min = 0,           \
        .max = SW_MAX_PRODUCTS_SCALE, .example = "0.05",                                           \
        .about = "median error of prices by '" grid "' for " sizes "; 0: not known"                \
    }
/* Without a default: 0 is an error, too. */
#define SW_SIGNED_ERROR_OF(owner, member, word, of)                                                \
    {                                                                                              \
        .key = (word), .type = FIELD_REAL, .offset = offsetof(struct owner, member.mean),          \
        .place = offsetof(struct owner, member.at), .min = -1, .max = SW_MAX_PRODUCTS_SCALE,       \
        .example = "0.012",                                                                        \
        .about = "of the same as in '" of "', mean of measured / predicted time less 1: above 0 "  \
                 "where they take longer than predicted; left out: not known"                      \
    }
#define SW_COLLECTIVES_SCHEMA                                                                      \
    "{\"type\": \"array\", \"maxItems\": 512, \"items\": {\"type\": \"array\", "                   \
    "\"prefixItems\": [{\"enum\": [\"all_gather\", \"reduce_scatter\", \"all_reduce\", "           \
    "\"all_to_all\"]}, {\"type\": \"integer\", \"minimum\": 2}, " SW_POSITIVE_SCHEMA               \
    ", " SW_SHARE_SCHEMA "], \"items\": false, \"minItems\": 4}}"
#define SW_FEW_ROWS_SCHEMA                                                                         \
    "{\"type\": \"array\", \"maxItems\": 32, \"items\": {\"type\": \"array\", "                    \
    "\"prefixItems\": [" SW_BELOW_BIG_SCHEMA ", " SW_BELOW_BIG_SCHEMA ", " SW_BELOW_BIG_SCHEMA     \
    "], \"items\": false, \"minItems\": 3}}"
#define SW_PRODUCTS_SCHEMA                                                                         \
    "{\"type\": \"array\", \"minItems\": 8, \"maxItems\": 1024, \"items\": {\"type\": \"array\", " \
    "\"prefixItems\": [" SW_SIZE_SCHEMA ", " SW_SIZE_SCHEMA ", " SW_SIZE_SCHEMA                    \
    ", " SW_SHARE_SCHEMA "], \"items\": false, \"minItems\": 4}}"
#define SW_PRODUCTS_EXAMPLE                                                                        \
    "[[1, 1024, 1024, 0.2], [1, 1024, 4096, 0.5], [1, 4096, 1024, 0.5], [1, 4096, 4096, 0.7]]"
#define SW_ATTENTION_EXAMPLE                                                                       \
    "[[1, 128, 64, 0.3], [1, 128, 128, 0.4], [1, 512, 64, 0.4], [1, 512, 128, 0.5]]"
#define SW_PRODUCTS_ABOUT                                                                          \
    "what matrix products in bf16 reach: points [rows, columns, depth, share of the least time "   \
    "that peak and memory_bandwidth allow], a full grid, the depth ascending first, then "         \
    "columns, then rows"
/* NULL: no table. Of a cluster, a run and a plan the launchers' keys are in struct tables only. */
const struct field *sw_config_fields(enum sw_config_kind kind);
/* The keys of what a reference names. */
const struct field *sw_field_described(const struct field *field);

/* launcher.c: the tables of a list of launchers */
enum { MAX_FIELDS = 64 }; /* struct section has 64 bits */
struct tables {
    struct field cluster[MAX_FIELDS + 1], run[MAX_FIELDS + 1], plan[MAX_FIELDS + 1];
    const char *words[SW_MAX_LAUNCHERS + 1];
};
void sw_tables_make(struct tables *out, const struct sw_launchers *launchers);
const struct field *sw_tables_of(const struct tables *tables, enum sw_config_kind kind);
enum unknown_keys sw_unknown_settings(const struct sw_config *c);
/* Of the first launcher that has one of this type in its section, the section's key; "": none. */
const char *sw_launcher_key_with(const struct sw_launchers *launchers,
                                 const struct field_type *type);
/* Where the time limit of the cluster's launcher stands in a mapping; one without goes by the first
 * that has one. NULL: nowhere. */
const struct node *sw_launcher_time(const struct sw_cluster_config *cluster,
                                    const struct node *root);
/* A key of a section, or of a mapping in it, that a run writes as null: what the cluster says is
 * forgotten. Nothing for other tables. */
void sw_launcher_clear(const struct sw_launchers *launchers, const struct field *fields,
                       const struct field *field, void *base);
const char *sw_config_kind_name(enum sw_config_kind kind);

/* families.c */
/* Reads architectures and model_type. Of a model that is refused nothing else matters: its reason
 * is reported; a family that is wrong (a typo, a contradiction) is reported too. */
enum family_fate { FAMILY_KNOWN, FAMILY_WRONG, FAMILY_REFUSED };
enum family_fate sw_model_read_family(struct sw_config *c, const struct node *root,
                                      struct sw_model *model);
/* What becomes of a key of a model that has no row: nobody knows it, it changes nothing that is
 * computed, or it does and its value is not supported (reported). */
enum key_fate { KEY_UNKNOWN, KEY_NOTED, KEY_REFUSED };
enum key_fate sw_model_key_fate(struct sw_config *c, const struct node *value);
/* Tokens up to which a model with a dual_chunk_attention_config has plain attention: a chunk
 * without its part that is local (vLLM, "dual_chunk_attention"). 0: it has none. */
int64_t sw_model_plain_tokens(const struct node *root);
/* What the family fixes and what it makes of the keys that were read; false: reported. Keys that
 * its files must have and this one lacks are reported and become bad. */
bool sw_model_apply_family(struct sw_config *c, struct section *section,
                           struct sw_model_config *model);
extern const struct field_type sw_type_architectures, sw_type_model_type, sw_type_layer_types;

/* rope.c */
/* Compares what stands in two places, outside of and inside of rope_parameters or rope_scaling, and
 * sets rope.theta; false: they differ (reported). */
bool sw_model_check_rope(struct sw_config *c, const struct node *root, struct sw_model *model);
extern const struct field sw_rope_fields[]; /* of rope_parameters; from the second: rope_scaling */
extern const struct field_type sw_type_rope_parameters, sw_type_rope_scaling;

/* custom.c: the values that are no scalars */
extern const struct field_type sw_type_unsupported, sw_type_curve, sw_type_link_curve,
    sw_type_collectives, sw_type_few_rows, sw_type_products, sw_type_attention_grid,
    sw_type_products_by_kind, sw_type_links, sw_type_rules, sw_type_betas, sw_type_reference;

/* profile.c */
#define SW_PROFILE_AUTO "auto"
extern const struct field_type sw_type_profile;
/* Gives a described cluster its profile: the one written, else the one measured for it, else the
 * accelerator's older constants, else the default. false: a file that it takes has mistakes. */
bool sw_config_settle_profile(struct sw_config *c, struct sw_cluster_config *cluster);
bool sw_config_describe_profile(struct sw_config *c, struct node *root,
                                struct sw_profile_config *out);

/* recompute.c: of a run, and of a plan, where it is decided */
extern const struct field_type sw_type_recompute, sw_type_decided_recompute;

/* plausible.c: warnings of what is allowed and hardly meant */
/* Of a quantity as it stands in the text; unit: what follows its number, "" without. */
void sw_config_warn_of_quantity(struct sw_config *c, const struct field *field,
                                const struct node *value, double number, const char *unit);
void sw_config_warn_of_cluster(struct sw_config *c, const struct node *root,
                               const struct sw_cluster_config *cluster);
void sw_config_warn_of_run(struct sw_config *c, const struct node *root,
                           const struct sw_run_config *run);

/* checks.c: what the texts of a description may look like */
bool sw_text_is_not_empty(const char *text);
/* 1 to `max` letters, digits and `others`, all of them ASCII */
bool sw_text_consists_of(const char *text, const char *others, size_t max);

bool sw_text_is_node_range(const char *text);
/* "4", "3-4". Returns -1 for anything else. */
int sw_node_range_parse(const char *text, int32_t *least, int32_t *most);
bool sw_text_is_word(const char *text); /* letters, digits and _ . , : = + @ / % -, no - first */
bool sw_text_is_module(const char *text);
bool sw_text_is_image(const char *text);
bool sw_text_is_mount(const char *text);
bool sw_text_is_absolute_path(const char *text);
bool sw_text_is_variable(const char *text);
bool sw_text_is_line(const char *text);  /* not empty, nothing in it that is not seen */
bool sw_text_is_value(const char *text); /* a line, or empty */
bool sw_text_is_option(const char *text);
size_t sw_option_name_length(const char *text);

/* settings.c: the values of launchers' sections that are no scalars, and fabrics */
extern const struct field_type sw_type_texts, sw_type_lines, sw_type_environment, sw_type_fabric;
bool sw_config_describe_fabric(struct sw_config *c, struct node *root,
                               struct sw_fabric_config *out);

/* describe.c: a tree into a description, with the checks between fields; false: mistakes reported
 */
bool sw_config_describe_model(struct sw_config *c, struct node *root, struct sw_model_config *out);
bool sw_config_describe_accelerator(struct sw_config *c, struct node *root,
                                    struct sw_accelerator_config *out);
bool sw_config_describe_cluster(struct sw_config *c, struct node *root,
                                struct sw_cluster_config *out);
bool sw_config_describe_run(struct sw_config *c, struct node *root, struct sw_run_config *out);
bool sw_config_describe_plan(struct sw_config *c, struct node *root, struct sw_plan_config *out);
bool sw_config_describe_curve(struct sw_config *c, struct node *root, struct sw_curve_file *out);

/* read.c: whether a mapping is of that kind, and not plainly of another (reported at `place`). */
bool sw_config_is_kind(struct sw_config *c, const struct node *root, const struct node *place,
                       enum sw_config_kind kind);
/* The mapping that a value means: itself, or the file that it names. NULL: reported. */
struct node *sw_config_follow(struct sw_config *c, const struct field *field, struct node *value);

/* override.c */
void sw_config_apply_override(struct sw_config *c, struct node *root, const struct field *fields,
                              const char *text, int32_t index);

/* write.c */
/* The shortest digits that read back as the same double. */
const char *sw_real_format(double value, char buffer[32]);

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
/* Whether two structs are written alike; false without memory. */
bool sw_config_same_fields(const struct field *fields, const void *a, const void *b);

/* schema.c */
/* The JSON Schema of a mapping. */
void sw_config_schema_object(struct sw_json *j, const char *key, bool open_ended,
                             const struct field *fields);

#endif
