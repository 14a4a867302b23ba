/* Kinds of a model's layers: which have a window, by layer_types, sliding_window_pattern or the
 * family's default. */
#include "core/config/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_layer_types(struct sw_config *c, const struct field *field, struct node *value,
                             void *base)
{
    struct sw_model_config *model = base;
    if (value->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, value, "a list of strings");
    char *kinds = sw_config_alloc(c, (size_t)value->count + 1);
    if (kinds == NULL)
        return false;
    model->layer_types = SW_LAYERS_FULL;
    model->layer_kinds = kinds;
    for (const struct node *item = value->first; item != NULL; item = item->next) {
        if (item->kind != NODE_SCALAR)
            return sw_config_wrong_type(c, field, item, "a list of strings");
        const bool windowed = strcmp(item->text, "sliding_attention") == 0;
        *kinds++ = windowed ? 'w' : 'f';
        if (windowed) {
            model->layer_types = SW_LAYERS_WINDOWED;
        } else if (strcmp(item->text, "full_attention") != 0) {
            sw_config_error_at(c, item,
                               sw_config_format(c, "'layer_types' has the unsupported type %s",
                                                sw_config_quote(c, item->text)),
                               "supported: full_attention, sliding_attention");
            return false; /* the others would be wrong in the same way */
        }
    }
    return true;
}

static void write_layer_types(struct writer *w, const struct field *field,
                              const struct sw_model *shape)
{
    enum { TYPE_BYTES = sizeof "sliding_attention, " };
    const int32_t layers = shape->layers;
    const bool told = shape->local != 0 || sw_family_reads(shape->family, SW_READS_LOCAL_LAYERS);
    char *text = told ? malloc((size_t)layers * TYPE_BYTES + 3) : NULL;
    size_t used = 0;
    if (text == NULL)
        return;
    for (int32_t l = 0; l < layers; l++)
        used += (size_t)snprintf(text + used, TYPE_BYTES + 2, "%s%s", l == 0 ? "[" : ", ",
                                 sw_model_is_local(shape, l % sw_model_period(shape))
                                     ? "sliding_attention"
                                     : "full_attention");
    memcpy(text + used, "]", 2);
    w->value(w, field->key, text, STYLE_BARE);
    free(text);
}

/* Writes that a window or softcap is absent which the family would have without the key. */
static void write_no_window(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_model *shape = &((const struct sw_model_config *)base)->shape;
    write_layer_types(w, field, shape);
    if (shape->family == SW_FAMILY_MISTRAL && shape->sliding_window == 0)
        w->value(w, "sliding_window", "null", STYLE_BARE);
    if (shape->family == SW_FAMILY_GEMMA2 && shape->attention_softcap == 0)
        w->value(w, "attn_logit_softcapping", "null", STYLE_BARE);
    if (shape->family == SW_FAMILY_GEMMA2 && shape->final_softcap == 0)
        w->value(w, "final_logit_softcapping", "null", STYLE_BARE);
}

const struct field_type sw_type_layer_types = {.read = read_layer_types, .write = write_no_window};

/* ---- Effects of keys ---- */

/* Rejects a list of another length, or layers with a window where none is given: transformers runs
 * no such model. */
static bool check_layer_count(struct sw_config *c, const struct section *s,
                              const struct sw_model_config *m)
{
    const struct node *types = sw_section_place(s, "layer_types");
    if (!sw_section_wrote(s, "layer_types") || types->kind != NODE_SEQUENCE ||
        types->count == m->shape.layers ||
        sw_section_place(s, "num_hidden_layers")->source->is_override)
        return true;
    sw_config_error_at(
        c, types,
        sw_config_format(c, "'layer_types' names %d layers, and 'num_hidden_layers' is %d",
                         (int)types->count, (int)m->shape.layers),
        "write a type for each layer, or leave it out");
    return false;
}

static bool check_layer_types(struct sw_config *c, const struct section *s,
                              const struct sw_model_config *m)
{
    const struct node *types = sw_section_place(s, "layer_types");
    if (!sw_section_wrote(s, "layer_types") || types->kind != NODE_SEQUENCE)
        return true;
    if (!check_layer_count(c, s, m))
        return false;
    if (m->layer_types != SW_LAYERS_WINDOWED || m->use_sliding_window)
        return true;
    sw_config_error_at(c, types,
                       "'layer_types' has sliding_attention, and 'use_sliding_window' is false",
                       "write 'use_sliding_window: true' and a 'sliding_window', or full_attention "
                       "for each layer");
    return false;
}

/* Shortest period of a list of layers, whose last repetition may be cut off. */
static int32_t period_of(const char *kinds, int32_t layers)
{
    int32_t period = 1, l = 1;
    while (l < layers) {
        if (kinds[l] == kinds[l % period])
            l++;
        else
            l = ++period;
    }
    return period;
}

/* Kind of a layer if layer_types is absent, by the rules of the families' classes. */
static char default_kind(const struct sw_model_config *m, int32_t layer)
{
    const int32_t each = m->sliding_window_pattern > 0         ? m->sliding_window_pattern
                         : m->shape.family == SW_FAMILY_GEMMA2 ? 2
                         : m->shape.family == SW_FAMILY_OLMO3  ? 4
                                                               : 6;
    if (sw_family_reads(m->shape.family, SW_READS_WINDOW_SWITCH))
        return layer < m->max_window_layers ? 'f' : 'w';
    return (layer + 1) % each != 0 ? 'w' : 'f';
}

/* Decides which layers are local, with a window; if none is, the model has no window. */
static bool apply_layer_kinds(struct sw_config *c, const struct section *s,
                              struct sw_model_config *m)
{
    struct sw_model *shape = &m->shape;
    const int32_t layers = shape->layers,
                  told = m->layer_kinds != NULL ? (int32_t)strlen(m->layer_kinds) : 0;
    const char *const key = told > 0                         ? "layer_types"
                            : m->sliding_window_pattern != 0 ? "sliding_window_pattern"
                                                             : "max_window_layers";
    char *kinds = sw_config_alloc(c, (size_t)layers + 1);
    if (kinds == NULL || !check_layer_count(c, s, m))
        return false;
    const int32_t repeat = told > 0 ? period_of(m->layer_kinds, told) : 1;
    for (int32_t l = 0; l < layers; l++)
        kinds[l] = told > 0 ? m->layer_kinds[l % repeat] : default_kind(m, l);
    const int32_t period = period_of(kinds, layers);
    if (period > SW_MOST_PERIOD) {
        sw_config_error_at(
            c, sw_section_place(s, key),
            sw_config_format(c, "'%s' does not repeat within %d layers", key, period),
            "supported: periods of up to 64 layers");
        return false;
    }
    for (int32_t l = 0; l < period && l < layers; l++)
        shape->local |= (uint64_t)(kinds[l] == 'w') << l;
    shape->period = (uint8_t)(period > 1 ? period : 0);
    m->sliding_window_pattern = 0; /* a plan writes layer_types */
    m->layer_kinds = NULL;
    if (shape->local == 0)
        shape->sliding_window = 0;
    return true;
}

/* Qwen's: use_sliding_window enables sliding_window. */
static bool apply_window_switch(struct sw_config *c, const struct section *s,
                                struct sw_model_config *m)
{
    struct sw_model *shape = &m->shape;
    if (!check_layer_types(c, s, m))
        return false;
    if (m->use_sliding_window && shape->sliding_window == 0) {
        sw_config_error_at(c, sw_section_place(s, "use_sliding_window"),
                           "'use_sliding_window: true' needs a 'sliding_window'",
                           "for example: sliding_window: 4096");
        return false;
    }
    if (!m->use_sliding_window)
        shape->sliding_window = 0;
    else if (!apply_layer_kinds(c, s, m))
        return false;
    if (shape->period == 0)
        shape->local = 0; /* all layers have the window */
    return true;
}

static bool apply_window(struct sw_config *c, const struct section *s, struct sw_model_config *m)
{
    const uint8_t family = m->shape.family;
    const bool switches = sw_family_reads(family, SW_READS_WINDOW_SWITCH),
               reads = sw_family_reads(family, SW_READS_WINDOW);
    const bool off = sw_section_wrote(s, "use_sliding_window") && !m->use_sliding_window;
    bool good = true;
    if (switches) {
        good = apply_window_switch(c, s, m);
    } else {
        if (m->shape.sliding_window != 0 && !reads && !off)
            good = sw_model_not_read(c, s, "sliding_window", family);
        else if (m->use_sliding_window || (off && m->shape.sliding_window != 0 && reads))
            good = sw_model_not_read(c, s, "use_sliding_window", family);
        if (m->layer_types == SW_LAYERS_WINDOWED)
            good = sw_model_not_read(c, s, "layer_types", family);
        if (off)
            m->shape.sliding_window = 0;
    }
    /* Sets keys as a plan writes them. */
    m->use_sliding_window = switches && m->shape.sliding_window != 0;
    m->max_window_layers = m->use_sliding_window ? 0 : SW_MAX_WINDOW_LAYERS;
    return good;
}

/* Sets the rotary positions of local layers, if they have their own. */
static bool apply_local_rope(struct sw_config *c, const struct section *s, struct sw_model *shape)
{
    struct sw_rope *local = &shape->local_rope;
    if (local->scaling != SW_ROPE_PLAIN) {
        sw_config_error_at(c, sw_section_place(s, "rope_parameters"),
                           "'rope_parameters.sliding_attention' is not supported: angles that are "
                           "stretched in layers with a window",
                           "supported: rope_type: default");
        return false;
    }
    if (local->theta == 0)
        local->theta = shape->family == SW_FAMILY_OLMO3 ? shape->rope.theta : 10000;
    local->factor = 1;
    if (shape->local == 0)
        *local = (struct sw_rope){0};
    return true;
}

/* Gemma's and OLMo 3's: some layers are local unless the file says otherwise. */
static bool apply_local_layers(struct sw_config *c, const struct section *s,
                               struct sw_model_config *m)
{
    if (sw_section_wrote(s, "use_sliding_window") && !m->use_sliding_window)
        return sw_model_not_read(c, s, "use_sliding_window", m->shape.family);
    m->use_sliding_window = false;
    m->max_window_layers = SW_MAX_WINDOW_LAYERS;
    if (!apply_layer_kinds(c, s, m))
        return false;
    if (m->shape.local != 0 && m->shape.sliding_window == 0) {
        sw_config_error_at(c, sw_section_place(s, "sliding_window"),
                           "layers of sliding_attention need a 'sliding_window'",
                           "for example: sliding_window: 4096");
        return false;
    }
    return !sw_family_reads(m->shape.family, SW_READS_LOCAL_ROPE) ||
           apply_local_rope(c, s, &m->shape);
}

bool sw_model_apply_windows(struct sw_config *c, const struct section *s, struct sw_model_config *m)
{
    return sw_family_reads(m->shape.family, SW_READS_LOCAL_LAYERS) ? apply_local_layers(c, s, m)
                                                                   : apply_window(c, s, m);
}
