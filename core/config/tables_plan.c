/* The keys of a plan file. */
#include "core/config/internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST_DIGITS = 16 };

static const char *const residual_words[] = {"sp", "sp,tp", NULL};
static const char *const embed_words[] = {"rules", "fsdp", NULL};
static const char *const schema_words[] = {SW_PLAN_SCHEMA, NULL};

static bool digest_of(const struct node *value, uint64_t *digest)
{
    if (value == NULL || value->kind != NODE_SCALAR || strlen(value->text) != DIGEST_DIGITS ||
        strspn(value->text, "0123456789abcdef") != DIGEST_DIGITS)
        return false;
    *digest = strtoull(value->text, NULL, 16);
    return true;
}

static bool read_digest(struct sw_config *c, const struct field *field, struct node *value,
                        void *base)
{
    uint64_t digest;
    if (!digest_of(value, &digest))
        return sw_config_wrong_type(c, field, value, "16 hexadecimal digits");
    memcpy((char *)base + field->offset, &digest, sizeof digest);
    return true;
}

static void write_digest(struct writer *w, const struct field *field, const void *base)
{
    uint64_t digest;
    char text[DIGEST_DIGITS + 1];
    memcpy(&digest, (const char *)base + field->offset, sizeof digest);
    if (digest == 0 && field->brief)
        return;
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    w->value(w, field->key, text, STYLE_QUOTED);
}

static const struct field_type digest_type = {read_digest, write_digest, NULL, INSIDE_NOTHING,
                                              NULL};
#define DIGEST_SCHEMA "{\"type\": \"string\", \"pattern\": \"^[0-9a-f]{16}$\"}"

/* Writes six digits, which suffice for a prediction. */
static bool read_estimate(struct sw_config *c, const struct field *field, struct node *value,
                          void *base)
{
    struct field plain = *field;
    plain.type = FIELD_REAL;
    return sw_config_read_field(c, &plain, value, base);
}

static void write_estimate(struct writer *w, const struct field *field, const void *base)
{
    double estimate;
    char text[32];
    memcpy(&estimate, (const char *)base + field->offset, sizeof estimate);
    snprintf(text, sizeof text, "%.6g", estimate);
    w->value(w, field->key, text, STYLE_BARE);
}

static const struct field_type estimate_type = {read_estimate, write_estimate, NULL, INSIDE_NOTHING,
                                                NULL};

/* The path with its %XX undone; NULL: no memory. */
static char *path_of(struct sw_config *c, const char *text)
{
    char *path = sw_config_alloc(c, strlen(text) + 1), *to = path;
    while (path != NULL && *text != '\0') {
        char digits[3] = "";
        if (text[0] == '%' && strspn(text + 1, "0123456789ABCDEF") >= 2)
            memcpy(digits, text + 1, 2);
        const char byte = (char)strtoul(digits, NULL, 16);
        *to++ = byte != '\0' ? byte : *text;
        text += byte != '\0' ? 3 : 1;
    }
    return path;
}

static bool read_inputs(struct sw_config *c, const struct field *field, struct node *value,
                        void *base)
{
    struct sw_plan_inputs *inputs = &((struct sw_plan_config *)base)->inputs;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value, "a list of mappings");
    if (value->count > SW_PLAN_MAX_INPUTS) {
        sw_config_error_at(c, value,
                           sw_config_format(c, "%d inputs; at most %d are allowed",
                                            (int)value->count, SW_PLAN_MAX_INPUTS),
                           NULL);
        return false;
    }
    for (const struct node *item = value->first; item != NULL; item = item->next) {
        struct sw_plan_input *input = &inputs->input[inputs->count];
        const struct node *path = sw_node_find(item, "path");
        if (item->kind != NODE_MAPPING || item->count != 2 || path == NULL ||
            path->kind != NODE_SCALAR || path->text[0] == '\0' ||
            !digest_of(sw_node_find(item, "digest"), &input->digest)) {
            sw_config_error_at(c, item, "an input is not a digest and a path",
                               sw_config_example(c, field));
            return false;
        }
        input->path = path_of(c, path->text);
        inputs->count += input->path != NULL;
    }
    return true;
}

/* Writes characters that a YAML reader could misread as %XX. */
static void write_inputs(struct writer *w, const struct field *field, const void *base)
{
    static const struct field digest = {.key = "digest",
                                        .offset = offsetof(struct sw_plan_input, digest)};
    const struct sw_plan_inputs *inputs = &((const struct sw_plan_config *)base)->inputs;
    if (inputs->count == 0) {
        w->value(w, field->key, "[]", STYLE_BARE);
        return;
    }
    w->open(w, field->key);
    for (int32_t i = 0; i < inputs->count; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        for (const char *p = inputs->input[i].path; out != NULL && *p != '\0'; p++) {
            const unsigned char byte = (unsigned char)*p;
            fprintf(out,
                    byte < 0x20 || byte > 0x7e || byte == '%' || byte == '\'' ? "%%%02X" : "%c",
                    byte);
        }
        const bool good = out != NULL && fclose(out) == 0;
        w->open_item(w, good ? text : "");
        write_digest(w, &digest, &inputs->input[i]);
        w->value(w, "path", good ? text : "", STYLE_QUOTED);
        w->close(w);
        free(text);
    }
    w->close(w);
}

static const struct field_type inputs_type = {read_inputs, write_inputs, NULL, INSIDE_NOTHING,
                                              NULL};

/* A mapping, never a path: a plan is self-contained. */
static bool read_run(struct sw_config *c, const struct field *field, struct node *value, void *base)
{
    (void)field;
    return c->hooks->describe(c, SW_CONFIG_RUN, value, &((struct sw_plan_config *)base)->run);
}

static void write_run(struct writer *w, const struct field *field, const void *base)
{
    w->open(w, field->key);
    sw_config_write_fields(w, field->described, &((const struct sw_plan_config *)base)->run);
    w->close(w);
}

static void schema_run(struct sw_json *j, const struct field *field)
{
    sw_json_array(j, "allOf");
    sw_config_schema_object(j, NULL, false, field->described);
    sw_json_end(j);
}

static const struct field_type run_type = {read_run, write_run, schema_run, INSIDE_DESCRIPTION,
                                           NULL};

#define AT(member) .offset = offsetof(struct sw_plan_config, member)
static const struct field decision_fields[] = {
    {.key = "mesh_dim",
     .type = FIELD_TEXT,
     AT(mesh_dim),
     .required = true,
     .accept = sw_text_is_not_empty,
     .expects = "four sizes",
     .example = "'1,64,1,1'",
     .about = "sizes of dp,fsdp,tp,sp"},
    {.key = "axis_order",
     .type = FIELD_TEXT,
     AT(axis_order),
     .required = true,
     .accept = sw_text_is_not_empty,
     .expects = "the four axes",
     .example = "'dp,fsdp,sp,tp'",
     .about = "axes, the outermost first: the last one runs over neighbouring ranks"},
    {.key = "micro_batch_size",
     .type = FIELD_INTEGER64,
     AT(micro_batch_size),
     .required = true,
     .min = 1,
     .max = SW_MANY,
     .example = "1",
     .about = "number of sequences per data-parallel rank and micro-step"},
    {.key = "accumulation_steps",
     .type = FIELD_INTEGER64,
     AT(accumulation_steps),
     .required = true,
     .min = 1,
     .max = SW_MANY,
     .example = "1",
     .about = "number of micro-steps of one step"},
    {.key = "recompute",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .custom = &sw_type_decided_recompute,
     .required = true,
     .expects = "`none`, `full` or a mapping {values, layers, rest}",
     .example = "none",
     .about = "what backward computes again: these values in the first layers, those of rest in "
              "the others"},
    {.key = "strategy",
     .type = FIELD_WORD,
     AT(strategy),
     .required = true,
     .vocabulary = sw_words_strategy,
     .decided = true,
     .example = "ring",
     .about = "how ranks of sp attend to each other's keys"},
    {.key = "layout",
     .type = FIELD_WORD,
     AT(layout),
     .required = true,
     .vocabulary = sw_words_layout,
     .example = "zigzag",
     .about = "which part of a sequence a rank of sp holds"},
    {.key = "inner_ring",
     .type = FIELD_INTEGER32,
     .brief = true,
     AT(inner_ring),
     .fallback = "0",
     .min = 0,
     .max = 1 << 30,
     .example = "8",
     .about = "ranks of sp, those of a node, that pass keys around among themselves while the next "
              "ones come from the node before; 0: one ring"},
    {.key = "residual_seq",
     .type = FIELD_WORD,
     AT(residual_seq),
     .required = true,
     .words = residual_words,
     .quoted = true,
     .example = "'sp'",
     .about = "axes that split the sequence between the blocks of a layer"},
    {.key = "zero",
     .type = FIELD_INTEGER32,
     AT(zero),
     .brief = true,
     .fallback = "3",
     .min = 1,
     .max = 3,
     .example = "1",
     .about = "what is split over the axes of embed: 1: masters and moments; 2: gradients, too; 3: "
              "weights, too"},
    {.key = "embed",
     .type = FIELD_WORD,
     AT(embed),
     .brief = true,
     .fallback = "rules",
     .words = embed_words,
     .example = "fsdp",
     .about = "axes that split weights: as the run's rules say, or fsdp alone"},
    {.key = "moments_over_dp",
     .type = FIELD_BOOL,
     AT(moments_over_dp),
     .brief = true,
     .fallback = "false",
     .example = "true",
     .about = "whether dp splits fp32 weights and moments, behind what splits the weights that "
              "products read"},
    {.key = "reshard_after_forward",
     .type = FIELD_BOOL,
     AT(reshard_after_forward),
     .brief = true,
     .fallback = "true",
     .example = "false",
     .about = "whether gathered weights are freed behind forward"},
    {.key = NULL},
};

static const struct field prediction_fields[] = {
    {.key = "step_seconds",
     .type = FIELD_CUSTOM,
     AT(prediction.step_seconds),
     .required = true,
     .custom = &estimate_type,
     .min = 0,
     .max = SW_BIG,
     .example = "1.5",
     .schema = "{\"type\": \"number\", \"minimum\": 0}",
     .about = "predicted time of one step, in seconds"},
    {.key = "memory_total",
     .type = FIELD_INTEGER64,
     AT(prediction.memory_total),
     .required = true,
     .min = 0,
     .max = SW_MANY,
     .example = "42949672960",
     .about = "predicted memory of one accelerator in bytes, reserved memory included"},
    {.key = "arena_bytes",
     .type = FIELD_INTEGER64,
     AT(prediction.arena_bytes),
     .required = true,
     .min = 0,
     .max = SW_MANY,
     .example = "37580963840",
     .about = "bytes that each rank allocates; exact, not predicted"},
    {.key = "save_seconds",
     .type = FIELD_CUSTOM,
     AT(prediction.save_seconds),
     .custom = &estimate_type,
     .min = 0,
     .max = SW_BIG,
     .example = "20.5",
     .schema = "{\"type\": \"number\", \"minimum\": 0}",
     .about =
         "predicted time of a checkpoint, from the step until it is safely written, in seconds"},
    {.key = NULL},
};

/* In the order of enum sw_program_kind. */
static const struct field program_fields[] = {
    {.key = "train",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_TRAIN]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of a step"},
    {.key = "evaluate",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_EVALUATE]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of the loss of a batch that is held out"},
    {.key = "save",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_SAVE]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of what moves the state to the ranks that write a checkpoint"},
    {.key = "prefill",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_PREFILL]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of a chunk of every prompt, where the run has serve"},
    {.key = "decode",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_DECODE]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of one token more of every sequence, where the run has serve"},
    {.key = "score",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_SCORE]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of the log-probabilities of a chunk of every sequence, where the run has serve"},
    {.key = "read",
     .type = FIELD_CUSTOM,
     AT(program[SW_PROGRAM_READ]),
     .brief = true,
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "of single tokens of prompts: of their ends or, where prefill mixes, of many; where "
              "there is such a program"},
    {.key = NULL},
};
_Static_assert(sizeof program_fields / sizeof program_fields[0] == SW_PROGRAM_KINDS + 1,
               "a digest for every program");

const struct field sw_plan_fields[] = {
    {.key = "schema",
     .type = FIELD_WORD,
     .offset = FIELD_NOWHERE,
     .required = true,
     .words = schema_words,
     .example = SW_PLAN_SCHEMA,
     .about = "version of this form"},
    {.key = "digest",
     .type = FIELD_CUSTOM,
     AT(digest),
     .required = true,
     .elsewhere = true, /* digest of the whole text, which is written first */
     .custom = &digest_type,
     .example = "'0123456789abcdef'",
     .schema = DIGEST_SCHEMA,
     .about = "FNV-1a 64 of all bytes of the file but these digits"},
    {.key = "decision",
     .type = FIELD_SECTION,
     .offset = 0,
     .required = true,
     .fields = decision_fields,
     .example = "{mesh_dim: '1,64,1,1', axis_order: 'dp,fsdp,sp,tp'}",
     .about = "every choice that the search made"},
    {.key = "prediction",
     .type = FIELD_SECTION,
     .offset = 0,
     .required = true,
     .fields = prediction_fields,
     .example = "{step_seconds: 1.5}",
     .about = "what the plan costs"},
    {.key = "programs",
     .type = FIELD_SECTION,
     .offset = 0,
     .required = true,
     .fields = program_fields,
     .example = "{train: '0123456789abcdef', evaluate: 'fedcba9876543210', save: "
                "'0123456789abcdef'}",
     .about = "digests of the programs that the runner must make of the plan"},
    {.key = "inputs",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .required = true,
     .custom = &inputs_type,
     .example = "[{digest: '0123456789abcdef', path: '../runs/a.yaml'}]",
     .schema = "{\"type\": \"array\", \"maxItems\": 4, \"items\": {\"type\": \"object\", "
               "\"properties\": {\"digest\": {\"type\": \"string\"}, \"path\": {\"type\": "
               "\"string\"}}, \"required\": [\"digest\", \"path\"]}}",
     .about = "files that the plan was written from: the digest of their bytes, and the path seen "
              "from the plan with odd bytes as %XX"},
    {.key = "run",
     .type = FIELD_CUSTOM,
     .offset = 0,
     .required = true,
     .custom = &run_type,
     .kind = SW_CONFIG_RUN,
     .described = sw_run_fields,
     .example = "{name: quickstart}",
     .about = "the whole run, with every default"},
    {.key = NULL},
};
#undef AT
