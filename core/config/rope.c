/* rope_parameters and rope_scaling: the stretching of rotary angles. */
#include "core/config/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Kinds of rotary positions that are refused, and why. */
static const struct {
    const char *type, *reason;
} rope_refusals[] = {
    {"dynamic", "angles that change with the length of a sequence"},
    {"mrope", "positions of images"},
};

struct rope_text {
    struct sw_rope rope;
    double beta_fast, beta_slow, mscale, mscale_all_dim;
    bool truncate;
    float short_divisors[SW_ROPE_MOST_PAIRS], long_divisors[SW_ROPE_MOST_PAIRS];
    int rope_type, type;
    struct sw_model *model; /* model with the sizes and partial_rotary_factor */
};

/* Reads the share of a head that rotates. Other classes of transformers ignore the key or fail with
 * it. */
static bool read_share(struct sw_config *c, struct node *value, struct sw_model *model)
{
    static const struct field share = {.key = "partial_rotary_factor",
                                       .type = FIELD_REAL,
                                       .min = 0,
                                       .above_min = true,
                                       .max = 1,
                                       .example = "0.75"};
    double told;
    if (!sw_family_reads(model->family, SW_READS_PARTIAL_ROTATION))
        return sw_model_key_fate(c, value) != KEY_REFUSED;
    if (!sw_config_read_field(c, &share, value, &told))
        return false;
    told = told == 1 ? 0 : told;
    if (model->partial_rotary_factor != 0 && model->partial_rotary_factor != told) {
        sw_config_error_at(c, value,
                           "'partial_rotary_factor' is given twice, with different values",
                           "write one of them, or both alike");
        return false;
    }
    model->partial_rotary_factor = told;
    return true;
}

static bool read_partial(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    (void)field;
    return read_share(c, value, &((struct sw_model_config *)base)->shape);
}

static void write_partial(struct writer *w, const struct field *field, const void *base)
{
    const double share = ((const struct sw_model_config *)base)->shape.partial_rotary_factor;
    char text[32];
    if (share != 0)
        w->value(w, field->key, sw_real_format(share, text), STYLE_BARE);
}

static bool read_partial_inside(struct sw_config *c, const struct field *field, struct node *value,
                                void *base)
{
    (void)field;
    return read_share(c, value, ((struct rope_text *)base)->model);
}

/* A list of positive numbers, in fp32 as transformers has them. */
static bool read_divisors(struct sw_config *c, const struct field *field, struct node *value,
                          void *base)
{
    float *divisors = (float *)((char *)base + field->offset);
    int32_t count = 0;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value, "a list of numbers");
    for (const struct node *item = value->first; item != NULL; item = item->next) {
        double number;
        if (item->kind != NODE_SCALAR || !sw_number_parse(item->text, &number))
            return sw_config_wrong_type(c, field, item, "a number");
        if (!(number >= 1e-6 && number <= 1e6)) {
            sw_config_error_at(
                c, item,
                sw_config_format(c, "'%s' has the divisor %s; it is 0.000001 to 1000000",
                                 field->key, sw_config_shown(c, item->text)),
                sw_config_example(c, field));
            return false;
        }
        if (count == SW_ROPE_MOST_PAIRS) {
            sw_config_error_at(c, item,
                               sw_config_format(c, "'%s' has more than %d numbers", field->key,
                                                (int)SW_ROPE_MOST_PAIRS),
                               "one for each pair of elements of a head that rotates");
            return false;
        }
        divisors[count++] = (float)number;
    }
    return true;
}

#define DIVISORS_SCHEMA                                                                            \
    "{\"type\": \"array\", \"maxItems\": 128, \"items\": {\"type\": \"number\", "                  \
    "\"minimum\": 0.000001, \"maximum\": 1000000}}"
#define SHARE_SCHEMA "{\"type\": \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1}"
static const struct field_type partial_type = {.read = read_partial_inside};
static const struct field_type divisors_type = {.read = read_divisors};
const struct field_type sw_type_partial_rotation = {.read = read_partial, .write = write_partial};

static const char *const rope_types[] = {
    [SW_ROPE_PLAIN] = "default", [SW_ROPE_LINEAR] = "linear",     [SW_ROPE_LLAMA3] = "llama3",
    [SW_ROPE_YARN] = "yarn",     [SW_ROPE_LONGROPE] = "longrope", NULL};

const char *sw_rope_type_name(const struct sw_rope *rope)
{
    return rope_types[rope->scaling];
}

#define AT(member) .offset = offsetof(struct rope_text, member)
#define FACTOR(name, member, least, sample, text)                                                  \
    {                                                                                              \
        .key = name, .type = FIELD_REAL, AT(member), .min = 0, .above_min = least, .max = 1e6,     \
        .example = sample, .about = text                                                           \
    }
/* The first row exists in rope_parameters only. */
const struct field sw_rope_fields[] = {
    {.key = "rope_theta",
     .type = FIELD_REAL,
     AT(rope.theta),
     .min = 0,
     .above_min = true,
     .max = SW_BIG,
     .example = "10000.0",
     .about = "base of the rotary angles"},
    {.key = "rope_type",
     .type = FIELD_WORD,
     AT(rope_type),
     .words = rope_types,
     .example = "llama3",
     .about = "how the angles are stretched beyond the original length"},
    {.key = "type",
     .type = FIELD_WORD,
     AT(type),
     .words = rope_types,
     .example = "linear",
     .about = "older spelling of rope_type"},
    {.key = "factor",
     .type = FIELD_REAL,
     AT(rope.factor),
     .min = 1,
     .max = 1e6,
     .example = "8.0",
     .about = "linear, llama3, yarn, longrope: by how much; default, of yarn and longrope: "
              "max_position_embeddings / original_max_position_embeddings"},
    FACTOR("low_freq_factor", rope.low_freq_factor, true, "1.0",
           "llama3: wavelengths above original / this are stretched"),
    FACTOR("high_freq_factor", rope.high_freq_factor, true, "4.0",
           "llama3: wavelengths below original / this stay as they are"),
    {.key = "original_max_position_embeddings",
     .type = FIELD_INTEGER64,
     AT(rope.original_positions),
     .min = 1,
     .max = SW_MANY,
     .example = "8192",
     .about =
         "llama3, yarn, longrope: longest sequence before the stretching; default, of yarn and "
         "longrope: the key of that name beside, else max_position_embeddings"},
    FACTOR("attention_factor", rope.attention_factor, true, "1.2",
           "yarn, longrope: of cosines and sines; default: from factor, mscale and mscale_all_dim, "
           "of longrope sqrt(1 + ln factor / ln original)"),
    FACTOR("beta_fast", beta_fast, false, "32.0",
           "yarn: pairs that turn more often within the original length keep their angles; default "
           "32"),
    FACTOR("beta_slow", beta_slow, false, "1.0",
           "yarn: pairs that turn less often are stretched in full; default 1"),
    FACTOR("mscale", mscale, false, "1.0",
           "yarn: with mscale_all_dim, another attention_factor (DeepSeek)"),
    FACTOR("mscale_all_dim", mscale_all_dim, false, "0.8",
           "yarn: divides what mscale makes of attention_factor"),
    {.key = "truncate",
     .type = FIELD_BOOL,
     AT(truncate),
     .example = "false",
     .about = "yarn: whether the bounds of the ramp are rounded to whole pairs; default true"},
    {.key = "short_factor",
     .type = FIELD_CUSTOM,
     AT(short_divisors),
     .custom = &divisors_type,
     .schema = DIVISORS_SCHEMA,
     .example = "[1.0, 1.05, 1.1, 2.0]",
     .about =
         "longrope: divisors of the angle of each pair, where sequences are no longer than the "
         "original length"},
    {.key = "long_factor",
     .type = FIELD_CUSTOM,
     AT(long_divisors),
     .custom = &divisors_type,
     .schema = DIVISORS_SCHEMA,
     .example = "[1.0, 1.5, 4.0, 30.0]",
     .about = "longrope: the same where they may be longer: the run's sequence_length, serving's "
              "max_tokens"},
    {.key = "partial_rotary_factor",
     .type = FIELD_CUSTOM,
     .offset = FIELD_NOWHERE,
     .custom = &partial_type,
     .schema = SHARE_SCHEMA,
     .example = "0.75",
     .about = "share of a head, its first elements, that rotates; less than 1: Phi-3 only"},
    {.key = NULL},
};
#undef AT
#undef FACTOR

/* True if the type is refused, in either spelling; reported. */
static bool is_rope_refused(struct sw_config *c, const struct field *field,
                            const struct node *value)
{
    static const char *const keys[] = {"rope_type", "type"};
    for (size_t k = 0; k < COUNT(keys); k++) {
        const struct node *type = sw_node_find(value, keys[k]);
        for (size_t i = 0; type != NULL && type->kind == NODE_SCALAR && i < COUNT(rope_refusals);
             i++)
            if (strcmp(type->text, rope_refusals[i].type) == 0) {
                sw_config_error_at(
                    c, type,
                    sw_config_format(c, "'%s: %s' is not supported: %s", keys[k], type->text,
                                     rope_refusals[i].reason),
                    sw_config_format(
                        c,
                        "this model cannot be planned; with '%s: null' it would be another model",
                        field->key));
                return true;
            }
    }
    return false;
}

/* Checks that every key which the type needs is there, and none that it does not read. */
static bool check_rope(struct sw_config *c, const struct field *field, const struct section *s,
                       const struct rope_text *text)
{
    enum {
        LINEAR = 1 << SW_ROPE_LINEAR,
        LLAMA3 = 1 << SW_ROPE_LLAMA3,
        YARN = 1 << SW_ROPE_YARN,
        LONGROPE = 1 << SW_ROPE_LONGROPE
    };
    static const struct {
        const char *key;
        int needed, read; /* types that need it; that read it, if present */
    } keys[] = {
        {"factor", LINEAR | LLAMA3, YARN | LONGROPE},
        {"low_freq_factor", LLAMA3, 0},
        {"high_freq_factor", LLAMA3, 0},
        {"original_max_position_embeddings", LLAMA3, YARN | LONGROPE},
        {"attention_factor", 0, YARN | LONGROPE},
        {"beta_fast", 0, YARN},
        {"beta_slow", 0, YARN},
        {"mscale", 0, YARN},
        {"mscale_all_dim", 0, YARN},
        {"truncate", 0, YARN},
        {"short_factor", LONGROPE, 0},
        {"long_factor", LONGROPE, 0},
    };
    const enum sw_rope_scaling type = (enum sw_rope_scaling)text->rope.scaling;
    bool good = true;
    for (size_t i = 0; i < COUNT(keys); i++) {
        const bool needed = (keys[i].needed >> type & 1) != 0;
        if ((keys[i].read >> type & 1) != 0 || needed == sw_section_wrote(s, keys[i].key))
            continue;
        good = false;
        if (needed)
            sw_config_error_at(c, s->map,
                               sw_config_format(c, "'%s' of type %s has no '%s'", field->key,
                                                rope_types[type], keys[i].key),
                               sw_config_example(c, sw_field_find(s->fields, keys[i].key)));
        else
            sw_config_error_at(c, sw_section_place(s, keys[i].key),
                               sw_config_format(c, "'%s' of type %s does not use '%s'", field->key,
                                                rope_types[type], keys[i].key),
                               "leave it out");
    }
    if (good && type == SW_ROPE_LLAMA3 &&
        text->rope.low_freq_factor >= text->rope.high_freq_factor) {
        sw_config_error_at(c, sw_section_place(s, "high_freq_factor"),
                           "'high_freq_factor' must be more than 'low_freq_factor'",
                           "for example: low_freq_factor: 1.0, high_freq_factor: 4.0");
        good = false;
    }
    return good;
}

/* Peng et al. 2023, with DeepSeek's weights. */
static double yarn_scale(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

double sw_longrope_attention_factor(double factor, int64_t original)
{
    return factor <= 1 ? 1 : sqrt(1 + log(factor) / log((double)original));
}

/* Fills in the defaults of yarn and longrope, as in transformers 5. */
static bool settle_rope(struct sw_config *c, const struct field *field, const struct section *s,
                        const struct sw_model_config *m, struct rope_text *text)
{
    struct sw_rope *rope = &text->rope;
    const bool is_yarn = rope->scaling == SW_ROPE_YARN, phi = m->shape.family == SW_FAMILY_PHI3;
    if (rope->original_positions == 0)
        rope->original_positions = m->original_positions > 0 ? m->original_positions
                                   : phi                     ? SW_PHI3_ORIGINAL_POSITIONS
                                                             : m->shape.max_position_embeddings;
    if (rope->factor == 0)
        rope->factor = (double)m->shape.max_position_embeddings / (double)rope->original_positions;
    if (is_yarn && rope->factor < 1) {
        sw_config_error_at(c, s->map,
                           sw_config_format(c, "'%s' of type yarn would have the factor %g",
                                            field->key, rope->factor),
                           "give 'factor', at least 1");
        return false;
    }
    if (!is_yarn && rope->original_positions < 2) {
        sw_config_error_at(
            c, s->map,
            sw_config_format(c, "'%s' of type longrope has the original length 1", field->key),
            "give 'original_max_position_embeddings', at least 2");
        return false;
    }
    rope->factor = rope->factor < 1 ? 1 : rope->factor;
    if (!is_yarn) {
        if (rope->attention_factor == 0)
            rope->attention_factor =
                sw_longrope_attention_factor(rope->factor, rope->original_positions);
        return true;
    }
    if (rope->attention_factor == 0)
        rope->attention_factor = text->mscale != 0 && text->mscale_all_dim != 0
                                     ? yarn_scale(rope->factor, text->mscale) /
                                           yarn_scale(rope->factor, text->mscale_all_dim)
                                     : yarn_scale(rope->factor, 1);
    rope->high_freq_factor = text->beta_fast != 0 ? text->beta_fast : 32;
    rope->low_freq_factor = text->beta_slow != 0 ? text->beta_slow : 1;
    rope->truncate = !sw_section_wrote(s, "truncate") || text->truncate;
    return true;
}

/* Older names: longrope was su, and Phi-3's yarn is longrope. */
static void rename_types(struct node *value, uint8_t family)
{
    for (struct node *entry = value->first; entry != NULL; entry = entry->next)
        if (entry->kind == NODE_SCALAR &&
            (strcmp(entry->key->text, "type") == 0 || strcmp(entry->key->text, "rope_type") == 0) &&
            (strcmp(entry->text, "su") == 0 ||
             (family == SW_FAMILY_PHI3 && strcmp(entry->text, "yarn") == 0)))
            entry->text = rope_types[SW_ROPE_LONGROPE];
}

/* True if longrope's lists are accepted: for all layers, and equal if given twice. */
static bool take_divisors(struct sw_config *c, const struct node *value, struct sw_model *model,
                          const struct sw_rope *rope, const struct rope_text *text)
{
    const size_t bytes = sizeof model->short_divisors;
    if (rope != &model->rope) {
        sw_config_error_at(c, value, "'longrope' is not supported in layers with a window alone",
                           "supported there: default, linear, llama3, yarn");
        return false;
    }
    if (rope->factor != 0 && (memcmp(model->short_divisors, text->short_divisors, bytes) != 0 ||
                              memcmp(model->long_divisors, text->long_divisors, bytes) != 0)) {
        sw_config_error_at(c, value, "'rope_scaling' differs from 'rope_parameters'",
                           "write one of them");
        return false;
    }
    memcpy(model->short_divisors, text->short_divisors, bytes);
    memcpy(model->long_divisors, text->long_divisors, bytes);
    return true;
}

static bool read_one_rope(struct sw_config *c, const struct field *field, struct node *value,
                          struct sw_model_config *m, struct sw_rope *rope)
{
    const bool is_scaling = strcmp(field->key, "rope_scaling") == 0;
    struct rope_text text = {.rope.theta = rope->theta, .model = &m->shape};
    if (value->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, value, "a mapping");
    rename_types(value, m->shape.family);
    if (is_rope_refused(c, field, value))
        return false;
    struct section s = sw_config_read_section(c, value, sw_rope_fields + (is_scaling ? 1 : 0),
                                              &text, UNKNOWN_ERROR);
    if (s.bad != 0)
        return false;
    if (sw_section_wrote(&s, "type") && sw_section_wrote(&s, "rope_type") &&
        text.type != text.rope_type) {
        sw_config_error_at(c, sw_section_place(&s, "type"), "'type' contradicts 'rope_type'",
                           "write one of them");
        return false;
    }
    if (is_scaling && !sw_section_wrote(&s, "type") && !sw_section_wrote(&s, "rope_type")) {
        sw_config_error_at(c, value, "missing key 'rope_type'",
                           sw_config_example(c, sw_field_find(s.fields, "rope_type")));
        return false;
    }
    text.rope.scaling = sw_section_wrote(&s, "rope_type") ? text.rope_type : text.type;
    if (!check_rope(c, field, &s, &text))
        return false;
    const bool longrope = text.rope.scaling == SW_ROPE_LONGROPE;
    if ((longrope || text.rope.scaling == SW_ROPE_YARN) && !settle_rope(c, field, &s, m, &text))
        return false;
    if (longrope && !take_divisors(c, value, &m->shape, rope, &text))
        return false;
    if (text.rope.scaling == SW_ROPE_PLAIN)
        text.rope.factor = 1;
    /* Only rope_parameters was read before, and sets a factor. */
    if (rope->factor != 0 && memcmp(rope, &text.rope, sizeof *rope) != 0) {
        sw_config_error_at(c, value, "'rope_scaling' differs from 'rope_parameters'",
                           "write one of them");
        return false;
    }
    *rope = text.rope;
    return true;
}

/* Reads the section, or in rope_parameters the mapping for each kind of layers. */
static bool read_rope(struct sw_config *c, const struct field *field, struct node *value,
                      void *base)
{
    struct sw_model_config *m = base;
    struct sw_model *shape = &m->shape;
    struct node *full = NULL, *local = NULL;
    if (value->kind != NODE_MAPPING || !sw_family_reads(shape->family, SW_READS_LOCAL_ROPE))
        return read_one_rope(c, field, value, m, &shape->rope);
    for (struct node *entry = value->first; entry != NULL; entry = entry->next) {
        full = strcmp(entry->key->text, "full_attention") == 0 ? entry : full;
        local = strcmp(entry->key->text, "sliding_attention") == 0 ? entry : local;
    }
    if (full == NULL)
        return read_one_rope(c, field, value, m, &shape->rope);
    return read_one_rope(c, field, full, m, &shape->rope) &&
           (local == NULL || read_one_rope(c, field, local, m, &shape->local_rope));
}

/* Chooses between two spellings of a number, of which transformers 4 reads one and 5 the other;
 * NULL: they differ (reported). --set wins over a file. */
static const struct node *pick_spelling(struct sw_config *c, const struct node *outside,
                                        const struct node *inside, const char *section)
{
    double a, b;
    if (outside == NULL || outside->kind != NODE_SCALAR || sw_node_is_null(outside) ||
        !sw_number_parse(outside->text, &a))
        return inside;
    if (inside == NULL || inside->kind != NODE_SCALAR || !sw_number_parse(inside->text, &b) ||
        a == b)
        return outside;
    if (outside->source->is_override != inside->source->is_override)
        return outside->source->is_override ? outside : inside;
    sw_config_error_at(
        c, inside,
        sw_config_format(c, "'%s.%s: %s' contradicts '%s: %s'", section, inside->key->text,
                         sw_config_shown(c, inside->text), outside->key->text,
                         sw_config_shown(c, outside->text)),
        "transformers 4 reads the one, 5 the other: write one of them, or both alike");
    return NULL;
}

bool sw_model_check_rope(struct sw_config *c, const struct node *root, struct sw_model *model)
{
    static const char length[] = "original_max_position_embeddings";
    static const char *const sections[] = {"rope_parameters", "rope_scaling"};
    const struct node *told = sw_node_find(root, sections[0]);
    const struct node *full = sw_node_find(told, "full_attention"); /* one mapping for each kind of
                                                                       layers */
    const struct node *base = sw_node_find(full != NULL ? full : told, "rope_theta");
    const char *where = full != NULL ? "rope_parameters.full_attention" : sections[0];
    const struct node *theta =
        base == NULL ? NULL : pick_spelling(c, sw_node_find(root, "rope_theta"), base, where);
    bool good = base == NULL || theta != NULL;
    if (theta != NULL)
        (void)sw_number_parse(theta->text, &model->rope.theta);
    const bool has_original = model->rope.scaling >= SW_ROPE_LLAMA3;
    for (size_t i = 0; i < COUNT(sections) && has_original; i++) {
        const struct node *inside = sw_node_find(sw_node_find(root, sections[i]), length);
        good = (inside == NULL ||
                pick_spelling(c, sw_node_find(root, length), inside, sections[i]) != NULL) &&
               good;
    }
    return good;
}

static int32_t count_divisors(const float *divisors)
{
    int32_t count = 0;
    while (count < SW_ROPE_MOST_PAIRS && divisors[count] != 0)
        count++;
    return count;
}

bool sw_model_check_rotation(struct sw_config *c, const struct section *s,
                             const struct sw_model *model)
{
    const int32_t rotated = sw_model_rotated(model);
    const bool parameters = sw_section_wrote(s, "rope_parameters");
    const struct node *at = sw_section_place(s, parameters ? "rope_parameters" : "rope_scaling");
    if (rotated < 2 || rotated % 2 != 0) {
        sw_config_error_at(
            c,
            sw_section_wrote(s, "partial_rotary_factor")
                ? sw_section_place(s, "partial_rotary_factor")
                : at,
            sw_config_format(c,
                             "'partial_rotary_factor' lets %d of a head's %d elements rotate; "
                             "rotary positions turn pairs of elements",
                             rotated, model->head_dim),
            "an even number of elements, at least 2, can rotate");
        return false;
    }
    if (model->rope.scaling == SW_ROPE_YARN && model->rope.theta <= 1) {
        sw_config_error_at(c, at, "yarn needs a 'rope_theta' above 1",
                           "for example: rope_theta: 10000.0");
        return false;
    }
    const int32_t few = count_divisors(model->short_divisors),
                  many = count_divisors(model->long_divisors);
    if (model->rope.scaling != SW_ROPE_LONGROPE || (few == rotated / 2 && many == rotated / 2))
        return true;
    sw_config_error_at(c, at,
                       sw_config_format(c,
                                        "'short_factor' and 'long_factor' have %d and %d numbers, "
                                        "not %d",
                                        few, many, rotated / 2),
                       "one for each pair of elements of a head that rotates");
    return false;
}

static void write_divisors(struct writer *w, const char *key, const float *divisors)
{
    char text[SW_ROPE_MOST_PAIRS * 34 + 3], number[32];
    size_t used = 0;
    for (int32_t j = 0, count = count_divisors(divisors); j < count; j++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", j > 0 ? ", " : "[",
                                 sw_real_format((double)divisors[j], number));
    snprintf(text + used, sizeof text - used, "]");
    w->value(w, key, text, STYLE_BARE);
}

static void write_real(struct writer *w, const char *key, double value)
{
    char text[32];
    w->value(w, key, sw_real_format(value, text), STYLE_BARE);
}

static void write_rope_scaling(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_model *model = &((const struct sw_model_config *)base)->shape;
    const struct sw_rope *rope = &model->rope;
    char text[32];
    if (rope->scaling == SW_ROPE_PLAIN)
        return;
    w->open(w, field->key);
    w->value(w, "rope_type", rope_types[rope->scaling], STYLE_BARE);
    write_real(w, "factor", rope->factor);
    if (rope->scaling == SW_ROPE_LLAMA3) {
        write_real(w, "low_freq_factor", rope->low_freq_factor);
        write_real(w, "high_freq_factor", rope->high_freq_factor);
    }
    if (rope->scaling != SW_ROPE_LINEAR) {
        snprintf(text, sizeof text, "%" PRId64, rope->original_positions);
        w->value(w, "original_max_position_embeddings", text, STYLE_BARE);
    }
    if (rope->scaling == SW_ROPE_YARN || rope->scaling == SW_ROPE_LONGROPE)
        write_real(w, "attention_factor", rope->attention_factor);
    if (rope->scaling == SW_ROPE_YARN) {
        write_real(w, "beta_fast", rope->high_freq_factor);
        write_real(w, "beta_slow", rope->low_freq_factor);
        w->value(w, "truncate", rope->truncate ? "true" : "false", STYLE_BARE);
    }
    if (rope->scaling == SW_ROPE_LONGROPE) {
        write_divisors(w, "short_factor", model->short_divisors);
        write_divisors(w, "long_factor", model->long_divisors);
    }
    w->close(w);
}

static void schema_rope(struct sw_json *j, const struct field *field)
{
    sw_json_array(j, "anyOf");
    sw_json_inline(j, NULL);
    sw_json_text(j, "type", "null");
    sw_json_end(j);
    sw_config_schema_object(j, NULL, false, field->fields);
    sw_json_end(j);
}

const struct field_type sw_type_rope_parameters = {read_rope, NULL, schema_rope, INSIDE_FIELDS,
                                                   NULL};
const struct field_type sw_type_rope_scaling = {read_rope, write_rope_scaling, schema_rope,
                                                INSIDE_FIELDS, NULL};
