/* Effects of config.json's keys in a family of models: a key that the family does not read, or that
 * it needs and lacks, is reported. */
#include "core/config/internal.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Keys that only a LlamaForCausalLM's file may leave out: for other classes Hugging Face has
 * another default than the field table, so the model would be computed wrongly. */
#define ONLY(family) (1 << SW_FAMILY_##family)
static const struct needed {
    int families;
    const char *key, *fallback; /* Hugging Face's key and default */
    const char *without;        /* meaning of null; NULL: null is no value */
} needed[] = {
    {ONLY(MISTRAL), "num_key_value_heads", "8", "as many as num_attention_heads"},
    {ONLY(QWEN2) | ONLY(QWEN3), "num_key_value_heads", "32", "as many as num_attention_heads"},
    {ONLY(QWEN3), "head_dim", "128", NULL},
    {ONLY(MISTRAL), "sliding_window", "4096", "none"},
    {ONLY(MISTRAL) | ONLY(QWEN2) | ONLY(QWEN3) | ONLY(GRANITE), "rms_norm_eps", "1.0e-6", NULL},
    {ONLY(OLMO2) | ONLY(PHI3), "rms_norm_eps", "1.0e-5", NULL},
    {ONLY(GRANITE), "attention_multiplier", "1.0", NULL},
};

/* Reports missing keys that files of the family need, and marks them. */
static void require_keys(struct sw_config *c, struct section *s, uint8_t family)
{
    for (const struct needed *n = needed; n < needed + COUNT(needed); n++) {
        const struct node *value = sw_node_find(s->map, n->key);
        if ((n->families >> family & 1) == 0 || !sw_section_good(s, n->key, NULL) ||
            sw_section_wrote(s, n->key) || (value != NULL && n->without != NULL))
            continue;
        sw_config_error_at(c, sw_section_place(s, n->key),
                           sw_config_format(c,
                                            value != NULL ? "'%s' has no value, which %s needs"
                                                          : "missing key '%s', which %s needs",
                                            n->key, sw_family_architectures[family]),
                           sw_config_format(c, "write '%s: %s', Hugging Face's default%s%s", n->key,
                                            n->fallback, n->without != NULL ? ", or null for " : "",
                                            n->without != NULL ? n->without : ""));
        s->bad |= UINT64_C(1) << (sw_field_find(s->fields, n->key) - s->fields);
    }
}

/* A multiplier of 1 is none; for attention's scores, none is 1/sqrt(head_dim). */
static bool apply_multipliers(struct sw_config *c, const struct section *s, struct sw_model *m,
                              bool reads)
{
    const struct {
        const char *key;
        double *value;
    } keys[] = {{"embedding_multiplier", &m->embedding_multiplier},
                {"residual_multiplier", &m->residual_multiplier},
                {"logits_scaling", &m->logits_scaling},
                {"attention_multiplier", &m->attention_multiplier}};
    bool good = true;
    for (size_t i = 0; i < COUNT(keys); i++) {
        if (keys[i].value != &m->attention_multiplier && *keys[i].value == 1)
            *keys[i].value = 0;
        if (!reads && *keys[i].value != 0)
            good = sw_model_not_read(c, s, keys[i].key, m->family);
    }
    return good;
}

/* Refuses keys that only few families read. */
static bool check_rare_keys(struct sw_config *c, const struct section *s,
                            const struct sw_model_config *m)
{
    const struct sw_model *shape = &m->shape;
    const struct {
        const char *key;
        enum sw_family_key reads;
        bool there;
    } keys[] = {
        {"sliding_window_pattern", SW_READS_LAYER_PATTERN, m->sliding_window_pattern != 0},
        {"rope_local_base_freq", SW_READS_LOCAL_ROPE, shape->local_rope.theta != 0},
        {"query_pre_attn_scalar", SW_READS_QUERY_SCALAR, shape->query_pre_attn_scalar != 0},
        {"attn_logit_softcapping", SW_READS_SOFTCAPS, shape->attention_softcap != 0},
        {"final_logit_softcapping", SW_READS_SOFTCAPS, shape->final_softcap != 0},
        {"hidden_activation", SW_READS_QUERY_SCALAR, m->hidden_activation != 0},
    };
    for (size_t i = 0; i < COUNT(keys); i++)
        if (keys[i].there && !sw_family_reads(shape->family, keys[i].reads))
            return sw_model_not_read(c, s, keys[i].key, shape->family);
    return true;
}

/* Gemma's class reads hidden_activation and ignores hidden_act. */
static bool apply_activation(struct sw_config *c, const struct section *s,
                             struct sw_model_config *m, bool gemma)
{
    const bool wrote = sw_section_wrote(s, "hidden_activation");
    const char *key = gemma ? "hidden_activation" : "hidden_act";
    if (gemma ? wrote && m->hidden_activation == 0 : m->hidden_act != 0) {
        sw_config_error_at(c, sw_section_place(s, key),
                           sw_config_format(c, "'%s: %s' is not supported: another activation", key,
                                            sw_activation_words[gemma ? 0 : 1]),
                           sw_config_format(c, "%s has %s",
                                            sw_family_architectures[m->shape.family],
                                            sw_activation_words[gemma ? 1 : 0]));
        return false;
    }
    m->hidden_activation = gemma;
    m->hidden_act = 0;
    return true;
}

static bool apply_gemma(struct sw_config *c, const struct section *s, struct sw_model_config *m,
                        bool gemma)
{
    struct sw_model *shape = &m->shape;
    if (!apply_activation(c, s, m, gemma))
        return false;
    if (gemma && shape->query_pre_attn_scalar == 0)
        shape->query_pre_attn_scalar = 256;
    shape->both_norms = shape->norms_plus_one = shape->gelu = shape->embedding_root = gemma;
    return true;
}

static bool apply_keys(struct sw_config *c, const struct section *s, struct sw_model_config *m)
{
    if (!sw_section_good(s, "num_hidden_layers", "rope_scaling", "rope_parameters",
                         "attention_bias", "mlp_bias", "sliding_window", "use_sliding_window",
                         "max_window_layers", "layer_types", "embedding_multiplier",
                         "attention_multiplier", "residual_multiplier", "logits_scaling",
                         "sliding_window_pattern", "rope_local_base_freq", "query_pre_attn_scalar",
                         "attn_logit_softcapping", "final_logit_softcapping", "hidden_activation",
                         "hidden_act", NULL))
        return false;
    const uint8_t family = m->shape.family;
    bool good = true;
    if (m->shape.output_bias && !sw_family_reads(family, SW_READS_ATTENTION_BIAS))
        good = sw_model_not_read(c, s, "attention_bias", m->shape.family);
    if (m->shape.mlp_bias && !sw_family_reads(family, SW_READS_MLP_BIAS))
        good = sw_model_not_read(c, s, "mlp_bias", m->shape.family);
    if (!check_rare_keys(c, s, m) || !sw_model_apply_windows(c, s, m))
        good = false;
    if (!apply_multipliers(c, s, &m->shape, sw_family_reads(family, SW_READS_MULTIPLIERS)))
        good = false;
    sw_model_set_parts(&m->shape);
    m->original_positions = 0; /* a plan writes rope_scaling */
    if (!apply_gemma(c, s, m, sw_family_reads(family, SW_READS_QUERY_SCALAR)))
        good = false;
    if (m->shape.rope.factor == 0)
        m->shape.rope.factor = 1;
    return good;
}

bool sw_model_apply_family(struct sw_config *c, struct section *s, struct sw_model_config *m)
{
    const bool good = apply_keys(c, s, m);
    require_keys(c, s, m->shape.family);
    return good;
}
