/* What the files of core/config share: what they keep while they read, the tables, the types. */
#ifndef SW_CONFIG_INTERNAL_H
#define SW_CONFIG_INTERNAL_H

#include "core/config/config.h"
#include "core/schema/internal.h"

/* What the keys' side of a struct sw_config keeps. */
struct sw_keys {
    bool is_yaml;
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
    struct sw_stage_made *stage; /* of a run with stages: the one that is read; NULL: no such run */
    struct sw_config **later;    /* the stages behind the first; [later_count] */
    int32_t later_count;
};

/* tables.c, tables_profile.c, tables_run.c, tables_training.c, tables_plan.c */
#define SW_BIG 1e30                /* a limit for reals that keeps products finite */
#define SW_MANY 9007199254740992.0 /* 2^53: integers that a double holds exactly */
#define SW_PLAN_SCHEMA "shardwright.plan/1"
#define SW_NAME_EXPECTS                                                                            \
    "1 to 64 letters, digits, '.', '_' or '-', starting with a letter, digit or '_'"

#define SW_STAGE_EXPECTS                                                                           \
    "1 to 64 letters, digits, '_' or '-', starting with a letter, and not 'checkpoints'"

extern const struct field sw_model_fields[], sw_accelerator_fields[], sw_profile_fields[],
    sw_older_constants[], sw_cluster_fields[], sw_curve_fields[], sw_run_fields[],
    sw_optimizer_fields[], sw_lora_fields[], sw_plan_fields[], sw_link_fields[], sw_fabric_fields[];
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
#define SW_SKINNY_GEMM_SCHEMA                                                                      \
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
/* launcher.c: the tables of a list of launchers */
enum { MAX_FIELDS = 64 }; /* struct section has 64 bits */
struct tables {
    struct field cluster[MAX_FIELDS + 1], run[MAX_FIELDS + 1], plan[MAX_FIELDS + 1];
    struct field stage[MAX_FIELDS + 1];
    const char *words[SW_MAX_LAUNCHERS + 1];
};
void sw_tables_make(struct tables *out, const struct sw_launchers *launchers);
/* NULL: no table. */
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

/* read.c */
/* A config that files can be read into; NULL: no memory (err filled). */
struct sw_config *sw_config_begin(enum sw_config_kind kind, const struct sw_launchers *launchers,
                                  struct sw_error *err);
/* Sorts what was found; NULL: no memory (err filled, c freed). */
struct sw_config *sw_config_end(struct sw_config *c, struct sw_error *err);

/* kinds.c */
const char *sw_config_kind_name(enum sw_config_kind kind);

/* elsewhere.c: the key that means what other software calls so; NULL: none */
const char *sw_key_elsewhere(const char *key);

/* families.c */
/* Reads architectures and model_type, two of the fields. Of a model that is refused nothing else
 * matters: its reason is reported; a family that is wrong (a typo, a contradiction) is reported
 * too. */
enum family_fate { FAMILY_KNOWN, FAMILY_WRONG, FAMILY_REFUSED };
enum family_fate sw_model_read_family(struct sw_config *c, const struct field *fields,
                                      const struct node *root, struct sw_model *model);
/* What becomes of a key of a model that has no row: nobody knows it, it changes nothing that is
 * computed, or it does and its value is not supported (reported). */
enum key_fate sw_model_key_fate(struct sw_config *c, const struct node *value);
/* true if it is a file from a hub, which has keys that no list can foresee */
bool sw_model_is_hugging_face(const struct node *map);
/* What to do about a file that is not there; NULL: nothing of its own. */
const char *sw_model_no_file(const struct node *value);
/* Tokens up to which a model with a dual_chunk_attention_config has plain attention: a chunk
 * without its part that is local (vLLM, "dual_chunk_attention"). 0: it has none. */
int64_t sw_model_plain_tokens(const struct node *root);
/* What the family fixes and what it makes of the keys that were read; false: reported. Keys that
 * its files must have and this one lacks are reported and become bad. */
bool sw_model_apply_family(struct sw_config *c, struct section *section,
                           struct sw_model_config *model);
extern const struct field_type sw_type_architectures, sw_type_model_type, sw_type_layer_types;
extern const char *const sw_activation_words[];

/* text_part.c */
/* The mapping inside a model of text and images that describes the text (noted), with what --set
 * says of the model; else the root. */
struct node *sw_model_text_part(struct sw_config *c, struct node *root);
/* Adds what the family's class has for keys that the mapping leaves out. */
void sw_model_add_defaults(struct sw_config *c, struct node *root, uint8_t family);

/* rope.c */
/* Compares what stands in two places, outside of and inside of rope_parameters or rope_scaling, and
 * sets rope.theta; false: they differ (reported). */
bool sw_model_check_rope(struct sw_config *c, const struct node *root, struct sw_model *model);
/* The part of a head that rotates is of pairs, and longrope's lists have a number for each; false:
 * reported. Behind head_dim is known. */
bool sw_model_check_rotation(struct sw_config *c, const struct section *section,
                             const struct sw_model *model);
extern const struct field_type sw_type_partial_rotation;
extern const struct field sw_rope_fields[]; /* of rope_parameters; from the second: rope_scaling */
extern const struct field_type sw_type_rope_parameters, sw_type_rope_scaling;

/* custom.c: the values that are no scalars */
extern const struct field_type sw_type_unsupported, sw_type_curve, sw_type_link_curve,
    sw_type_collectives, sw_type_skinny_gemm, sw_type_products, sw_type_attention_grid,
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
void sw_config_warn_of_cluster(struct sw_config *c, const struct node *root,
                               const struct sw_cluster_config *cluster);
void sw_config_warn_of_run(struct sw_config *c, const struct node *root,
                           const struct sw_run_config *run);

/* checks.c: what the texts of a description may look like */
bool sw_text_is_not_empty(const char *text);
/* 1 to `max` letters, digits and `others`, all of them ASCII */
bool sw_text_consists_of(const char *text, const char *others, size_t max);

bool sw_text_is_stage(const char *text);
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

/* data.c: files of data, one or a list, and their weights */
extern const struct field_type sw_type_paths, sw_type_weights;
/* The keys of `data` go together; false: they do not (reported). */
bool sw_config_check_data(struct sw_config *c, const struct node *root,
                          const struct sw_run_config *run);

/* stages.c: a stage is the run's mapping with the stage's in its place, key by key */
enum { SW_MAX_STAGES = 64 };
struct sw_stage_made {
    const char *name;
    int32_t index, count; /* from 0 */
    bool continue_schedule;
    const struct node *map, *root;
    int32_t last_line;                   /* of the file, that may be the mapping's */
    const struct sw_run_config *earlier; /* the stage before; NULL: none */
};
/* Keys that a stage may have, of the tables of a run and a model. */
void sw_stages_make_table(struct field out[MAX_FIELDS + 1], const struct field *run);
/* Names stages that have no name, as --set and messages call them. */
void sw_stages_name(struct sw_config *c, struct node *root);
/* Takes `stages` out of a run's mapping and puts the keys of stage `index` in the run's place.
 * Returns how many there are; 0: none, or none that can be read (reported). */
int32_t sw_stages_take(struct sw_config *c, struct node *root, int32_t index,
                       const struct sw_run_config *earlier);
/* Gives a run that was read as a stage what it has as such: folders, where it begins. false: a
 * mistake, reported. */
bool sw_stages_settle(struct sw_config *c, struct sw_run_config *run);
/* Warns of each --set that no stage takes, since every stage says its own. */
void sw_stages_check_override(struct sw_config *c, const struct sw_override *overrides,
                              int32_t override_count);
/* Adds what was said of another stage, once. */
void sw_stages_take_messages(struct sw_config *c, struct sw_config *later);
/* Names the keys of a stage, which the run's tables tell of. */
void sw_stages_write_reference(FILE *out);
extern const struct field_type sw_type_stages;

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

#endif
