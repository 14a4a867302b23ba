/* Shared by the files of core/config: their state while reading, tables, types. */
#ifndef SW_CONFIG_INTERNAL_H
#define SW_CONFIG_INTERNAL_H

#include "core/config/config.h"
#include "core/schema/internal.h"

/* State of the keys' owner in a struct sw_config. */
struct sw_keys {
    bool is_yaml;
    enum sw_config_kind kind;
    struct sw_model_config *model;
    struct sw_accelerator_config *accelerator;
    struct sw_cluster_config *cluster;
    struct sw_profile_config *profile;
    struct sw_curve_file *curve;
    struct sw_fabric_config *fabric;
    const struct node *profile_at; /* last 'profile' that was read */
    struct sw_run_config *run;     /* run of a plan */
    struct sw_plan_config *plan;
    struct sw_place digest_place; /* digest of a plan */
    /* for checks between files: the cluster's mapping, and true if the model gives the most
     * positions of a sequence; NULL, false: not given */
    const struct node *cluster_root;
    bool knows_longest;
    int64_t plain_tokens; /* sw_model_plain_tokens of the model */
    const struct sw_launchers *launchers;
    struct tables *tables;
    struct sw_stage_made *stage; /* stage that is read, of a run with stages; NULL: none */
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
/* Points as their readers take them; the order is not expressed. */
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
/* Error of prices by a grid, measured away from its points; @p at is the member, AT() of the
 * table's own struct. */
#define SW_ERROR_OF(at, word, grid, sizes)                                                         \
    {                                                                                              \
        .key = (word), .type = FIELD_REAL, at, .brief = true, .fallback = "0", .min = 0,           \
        .max = SW_MAX_PRODUCTS_SCALE, .example = "0.05",                                           \
        .about = "median error of prices by '" grid "' for " sizes "; 0: not known"                \
    }
/* No default: 0 is an error, too. */
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
/* The key of the first launcher's section that has one of this type, with the section; "": none. */
const char *sw_launcher_key_with(const struct sw_launchers *launchers,
                                 const struct field_type *type);
/* Position of the time limit of the cluster's launcher in a mapping; without a launcher, of the
 * first that has one. NULL: none. */
const struct node *sw_launcher_time(const struct sw_cluster_config *cluster,
                                    const struct node *root);
/* Clears the cluster's value of a key in a section, or of a mapping in it, that a run writes as
 * null. No effect for other tables. */
void sw_launcher_clear(const struct sw_launchers *launchers, const struct field *fields,
                       const struct field *field, void *base);

/* read.c */
/* A config that files can be read into; NULL: no memory (err filled). */
struct sw_config *sw_config_begin(enum sw_config_kind kind, const struct sw_launchers *launchers,
                                  struct sw_error *err);
/* Sorts the diagnostics; NULL: no memory (err filled, c freed). */
struct sw_config *sw_config_end(struct sw_config *c, struct sw_error *err);

/* kinds.c */
const char *sw_config_kind_name(enum sw_config_kind kind);

/* elsewhere.c: our key for another program's; NULL: none */
const char *sw_key_elsewhere(const char *key);

/* families.c */
/* Reads architectures and model_type, two of the fields. For a refused model only the reason is
 * reported; a wrong family (a typo, a contradiction) is reported, too. */
enum family_fate { FAMILY_KNOWN, FAMILY_WRONG, FAMILY_REFUSED };
enum family_fate sw_model_read_family(struct sw_config *c, const struct field *fields,
                                      const struct node *root, struct sw_model *model);
/* Treatment of a model's key without a row: unknown, without effect on results, or with one that is
 * not supported (reported). */
enum key_fate sw_model_key_fate(struct sw_config *c, const struct node *value);
/* true for a file from a hub, whose keys no list can foresee */
bool sw_model_is_hugging_face(const struct node *map);
/* Help for a missing file; NULL: no special help. */
const char *sw_model_no_file(const struct node *value);
/* Tokens up to which a model with dual_chunk_attention_config has plain attention: a chunk without
 * its local part (vLLM, "dual_chunk_attention"). 0: no such config. */
int64_t sw_model_plain_tokens(const struct node *root);
/* Sets the properties that each model of the family has. */
void sw_model_set_parts(struct sw_model *model);
/* Reports a key with an effect that the family does not read; returns false. */
bool sw_model_not_read(struct sw_config *c, const struct section *s, const char *key,
                       uint8_t family);
extern const struct field_type sw_type_architectures, sw_type_model_type;
extern const char *const sw_activation_words[];

/* family_keys.c */
/* Applies the family's fixed properties and its reading of the keys; false: reported. Keys that its
 * files need and this one lacks are reported and become bad. */
bool sw_model_apply_family(struct sw_config *c, struct section *section,
                           struct sw_model_config *model);

/* layer_kinds.c */
/* Decides which layers have a window, and their rotary positions. Returns false if a key is wrong
 * or does not apply to the family (reported). */
bool sw_model_apply_windows(struct sw_config *c, const struct section *s,
                            struct sw_model_config *m);
extern const struct field_type sw_type_layer_types;

/* text_part.c */
/* The mapping that describes the text part of a model of text and images (noted), with --set's
 * values for the model; else the root. */
struct node *sw_model_text_part(struct sw_config *c, struct node *root);
/* Adds the family's class defaults for absent keys. */
void sw_model_add_defaults(struct sw_config *c, struct node *root, uint8_t family);

/* rope.c */
/* Compares the values outside and inside of rope_parameters or rope_scaling, and sets rope.theta;
 * false: they differ (reported). */
bool sw_model_check_rope(struct sw_config *c, const struct node *root, struct sw_model *model);
/* Checks that the rotated part of a head is pairs, and that longrope's lists have a number for
 * each; false: reported. Needs head_dim. */
bool sw_model_check_rotation(struct sw_config *c, const struct section *section,
                             const struct sw_model *model);
extern const struct field_type sw_type_partial_rotation;
extern const struct field sw_rope_fields[]; /* rope_parameters; from the second: rope_scaling */
extern const struct field_type sw_type_rope_parameters, sw_type_rope_scaling;

/* custom.c: values that are no scalars */
extern const struct field_type sw_type_unsupported, sw_type_curve, sw_type_link_curve,
    sw_type_collectives, sw_type_skinny_gemm, sw_type_products, sw_type_attention_grid,
    sw_type_products_by_kind, sw_type_links, sw_type_rules, sw_type_betas, sw_type_reference;

/* profile.c */
#define SW_PROFILE_AUTO "auto"
extern const struct field_type sw_type_profile;
/* Sets a cluster's profile: the written one, else the one measured for it, else the accelerator's
 * older constants, else the default. false: a file for it has mistakes. */
bool sw_config_settle_profile(struct sw_config *c, struct sw_cluster_config *cluster);
bool sw_config_describe_profile(struct sw_config *c, struct node *root,
                                struct sw_profile_config *out);

/* recompute.c: for a run, and for a plan, where it is decided */
extern const struct field_type sw_type_recompute, sw_type_decided_recompute;

/* plausible.c: warnings of values that are allowed but hardly meant */
void sw_config_warn_of_cluster(struct sw_config *c, const struct node *root,
                               const struct sw_cluster_config *cluster);
void sw_config_warn_of_run(struct sw_config *c, const struct node *root,
                           const struct sw_run_config *run);

/* checks.c: checks of texts */
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
bool sw_text_is_line(const char *text);  /* not empty, no invisible characters */
bool sw_text_is_value(const char *text); /* a line, or empty */
bool sw_text_is_option(const char *text);
size_t sw_option_name_length(const char *text);

/* data.c: files of data, one or a list, and their weights */
extern const struct field_type sw_type_paths, sw_type_weights;
/* Checks the keys of `data` against each other; false: reported. */
bool sw_config_check_data(struct sw_config *c, const struct node *root,
                          const struct sw_run_config *run);

/* stages.c: a stage is the run's mapping with the stage's keys replaced */
enum { SW_MAX_STAGES = 64 };
struct sw_stage_made {
    const char *name;
    int32_t index, count; /* from 0 */
    bool continue_schedule;
    const struct node *map, *root;
    int32_t last_line;                   /* last line of the file that may belong to the mapping */
    const struct sw_run_config *earlier; /* earlier stage; NULL: none */
};
/* Builds the table of keys that a stage may have, from those of a run and a model. */
void sw_stages_make_table(struct field out[MAX_FIELDS + 1], const struct field *run);
/* Gives unnamed stages the names that --set and messages use. */
void sw_stages_name(struct sw_config *c, struct node *root);
/* Removes `stages` from a run's mapping and puts the keys of stage `index` in the run's place.
 * Returns the number of stages; 0: none, or none readable (reported). */
int32_t sw_stages_take(struct sw_config *c, struct node *root, int32_t index,
                       const struct sw_run_config *earlier);
/* Sets folders and start of a run that was read as a stage. false: a mistake, reported. */
bool sw_stages_settle(struct sw_config *c, struct sw_run_config *run);
/* Warns of each --set without effect, since every stage sets the key itself. */
void sw_stages_check_override(struct sw_config *c, const struct sw_override *overrides,
                              int32_t override_count);
/* Adds the messages of another stage, each once. */
void sw_stages_take_messages(struct sw_config *c, struct sw_config *later);
/* Lists the keys of a stage, which the run's tables describe. */
void sw_stages_write_reference(FILE *out);
extern const struct field_type sw_type_stages;

/* settings.c: values of launchers' sections that are no scalars, and fabrics */
extern const struct field_type sw_type_texts, sw_type_lines, sw_type_environment, sw_type_fabric;
bool sw_config_describe_fabric(struct sw_config *c, struct node *root,
                               struct sw_fabric_config *out);

/* describe.c: reads a tree into a description, with the checks between fields; false: mistakes
 * reported */
bool sw_config_describe_model(struct sw_config *c, struct node *root, struct sw_model_config *out);
bool sw_config_describe_accelerator(struct sw_config *c, struct node *root,
                                    struct sw_accelerator_config *out);
bool sw_config_describe_cluster(struct sw_config *c, struct node *root,
                                struct sw_cluster_config *out);
bool sw_config_describe_run(struct sw_config *c, struct node *root, struct sw_run_config *out);
bool sw_config_describe_plan(struct sw_config *c, struct node *root, struct sw_plan_config *out);
bool sw_config_describe_curve(struct sw_config *c, struct node *root, struct sw_curve_file *out);

#endif
