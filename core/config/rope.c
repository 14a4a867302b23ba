/* rope_parameters and rope_scaling: how the rotary angles are stretched. */
#include "core/config/internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Kinds of rotary positions that are refused, and why. */
static const struct {
    const char *type, *reason;
} rope_refusals[] = {
    {"dynamic", "angles that change with the length of a sequence"},
    {"longrope", "a factor for every wavelength"},
    {"mrope", "positions of images"},
    {"su", "a factor for every wavelength"},
    {"yarn", "a factor by wavelength with a temperature on attention"},
};

struct rope_text {
    struct sw_rope rope;
    int rope_type, type;
};

static bool read_partial(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    (void)field;
    (void)base;
    return sw_model_key_fate(c, value) != KEY_REFUSED;
}

static const struct field_type partial_type = {.read = read_partial};

static const char *const rope_types[] = {
    [SW_ROPE_PLAIN] = "default", [SW_ROPE_LINEAR] = "linear", [SW_ROPE_LLAMA3] = "llama3", NULL};

#define AT(member) .offset = offsetof(struct rope_text, member)
/* The first row is of rope_parameters only. */
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
     .about = "linear, llama3: by how much"},
    {.key = "low_freq_factor",
     .type = FIELD_REAL,
     AT(rope.low_freq_factor),
     .min = 0,
     .above_min = true,
     .max = 1e6,
     .example = "1.0",
     .about = "llama3: wavelengths above original / this are stretched"},
    {.key = "high_freq_factor",
     .type = FIELD_REAL,
     AT(rope.high_freq_factor),
     .min = 0,
     .above_min = true,
     .max = 1e6,
     .example = "4.0",
     .about = "llama3: wavelengths below original / this stay as they are"},
    {.key = "original_max_position_embeddings",
     .type = FIELD_INTEGER64,
     AT(rope.original_positions),
     .min = 1,
     .max = SW_MANY,
     .example = "8192",
     .about = "llama3: longest sequence before the stretching"},
    {.key = "partial_rotary_factor",
     .type = FIELD_CUSTOM,
     .offset = FIELD_NOWHERE,
     .custom = &partial_type,
     .schema = "{\"const\": 1}",
     .example = "1.0",
     .about = "share of a head that rotates; only 1"},
    {.key = NULL},
};
#undef AT

/* A type that is refused, in either spelling; reported. */
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
                        c, "this model cannot be planned; '%s: null' would be another one",
                        field->key));
                return true;
            }
    }
    return false;
}

/* Every key that the type needs is there, and none that it does not read. */
static bool check_rope(struct sw_config *c, const struct field *field, const struct section *s,
                       const struct rope_text *text)
{
    static const struct {
        const char *key;
        bool linear, llama3;
    } needs[] = {
        {"factor", true, true},
        {"low_freq_factor", false, true},
        {"high_freq_factor", false, true},
        {"original_max_position_embeddings", false, true},
    };
    const enum sw_rope_scaling type = (enum sw_rope_scaling)text->rope.scaling;
    bool good = true;
    for (size_t i = 0; i < COUNT(needs); i++) {
        const bool needed = (type == SW_ROPE_LINEAR && needs[i].linear) ||
                            (type == SW_ROPE_LLAMA3 && needs[i].llama3);
        if (needed == sw_section_wrote(s, needs[i].key))
            continue;
        good = false;
        if (needed)
            sw_config_error_at(c, s->map,
                               sw_config_format(c, "'%s' of type %s has no '%s'", field->key,
                                                rope_types[type], needs[i].key),
                               sw_config_example(c, sw_field_find(s->fields, needs[i].key)));
        else
            sw_config_error_at(c, sw_section_place(s, needs[i].key),
                               sw_config_format(c, "'%s' of type %s does not use '%s'", field->key,
                                                rope_types[type], needs[i].key),
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

static bool read_one_rope(struct sw_config *c, const struct field *field, struct node *value,
                          struct sw_rope *rope)
{
    const bool is_scaling = strcmp(field->key, "rope_scaling") == 0;
    struct rope_text text = {.rope.theta = rope->theta};
    if (value->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, value, "a mapping");
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
    if (text.rope.scaling == SW_ROPE_PLAIN)
        text.rope.factor = 1;
    /* Only rope_parameters is read before, and leaves a factor. */
    if (rope->factor != 0 && memcmp(rope, &text.rope, sizeof *rope) != 0) {
        sw_config_error_at(c, value, "'rope_scaling' differs from 'rope_parameters'",
                           "write one of them");
        return false;
    }
    *rope = text.rope;
    return true;
}

/* Reads the section, or the mapping of each kind of layers in rope_parameters. */
static bool read_rope(struct sw_config *c, const struct field *field, struct node *value,
                      void *base)
{
    struct sw_model *shape = &((struct sw_model_config *)base)->shape;
    struct node *full = NULL, *local = NULL;
    if (value->kind != NODE_MAPPING || !sw_family_reads(shape->family, SW_READS_LOCAL_ROPE))
        return read_one_rope(c, field, value, &shape->rope);
    for (struct node *entry = value->first; entry != NULL; entry = entry->next) {
        full = strcmp(entry->key->text, "full_attention") == 0 ? entry : full;
        local = strcmp(entry->key->text, "sliding_attention") == 0 ? entry : local;
    }
    if (full == NULL)
        return read_one_rope(c, field, value, &shape->rope);
    return read_one_rope(c, field, full, &shape->rope) &&
           (local == NULL || read_one_rope(c, field, local, &shape->local_rope));
}

/* A number written in two places, of which transformers 4 reads the one and 5 the other. Returns
 * the one that counts, NULL: the two differ (reported). --set counts before a file. */
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
    const struct node *base = sw_node_find(sw_node_find(root, sections[0]), "rope_theta");
    const struct node *theta =
        base == NULL ? NULL : pick_spelling(c, sw_node_find(root, "rope_theta"), base, sections[0]);
    bool good = base == NULL || theta != NULL;
    if (theta != NULL)
        (void)sw_number_parse(theta->text, &model->rope.theta);
    for (size_t i = 0; i < COUNT(sections) && model->rope.scaling == SW_ROPE_LLAMA3; i++) {
        const struct node *inside = sw_node_find(sw_node_find(root, sections[i]), length);
        good = (inside == NULL ||
                pick_spelling(c, sw_node_find(root, length), inside, sections[i]) != NULL) &&
               good;
    }
    return good;
}

static void write_rope_scaling(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_rope *rope = &((const struct sw_model_config *)base)->shape.rope;
    char text[32];
    if (rope->scaling == SW_ROPE_PLAIN)
        return;
    w->open(w, field->key);
    w->value(w, "rope_type", rope_types[rope->scaling], STYLE_BARE);
    w->value(w, "factor", sw_real_format(rope->factor, text), STYLE_BARE);
    if (rope->scaling == SW_ROPE_LLAMA3) {
        w->value(w, "low_freq_factor", sw_real_format(rope->low_freq_factor, text), STYLE_BARE);
        w->value(w, "high_freq_factor", sw_real_format(rope->high_freq_factor, text), STYLE_BARE);
        snprintf(text, sizeof text, "%" PRId64, rope->original_positions);
        w->value(w, "original_max_position_embeddings", text, STYLE_BARE);
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
