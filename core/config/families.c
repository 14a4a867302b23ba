/* Supported families of models, the properties that each fixes, and the effects of config.json's
 * keys: a key that changes the arithmetic is honoured or refused, never ignored. Names and meanings
 * are those of Hugging Face's configuration classes. */
#include "core/base/text.h"
#include "core/config/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* clang-format off */
/*      family   architecture          model_type  has always                reads */
#define FAMILIES(ROW)                                                                                                  \
    ROW(LLAMA,   "LlamaForCausalLM",   "llama",    0,                        SW_READS_ATTENTION_BIAS | SW_READS_MLP_BIAS) \
    ROW(MISTRAL, "MistralForCausalLM", "mistral",  0,                        SW_READS_WINDOW)                          \
    ROW(QWEN2,   "Qwen2ForCausalLM",   "qwen2",    QKV_BIAS,                 SW_READS_WINDOW | SW_READS_WINDOW_SWITCH) \
    ROW(QWEN3,   "Qwen3ForCausalLM",   "qwen3",    HEAD_NORMS,               SW_READS_ATTENTION_BIAS | SW_READS_WINDOW | SW_READS_WINDOW_SWITCH) \
    ROW(OLMO2,   "Olmo2ForCausalLM",   "olmo2",    WHOLE_NORMS | POST_NORMS, SW_READS_ATTENTION_BIAS)                  \
    ROW(GRANITE, "GraniteForCausalLM", "granite",  0,                        SW_READS_ATTENTION_BIAS | SW_READS_MLP_BIAS | SW_READS_MULTIPLIERS) \
    ROW(GEMMA3,  "Gemma3ForCausalLM",  "gemma3_text", HEAD_NORMS | POST_NORMS, SW_READS_ATTENTION_BIAS | SW_READS_LOCAL_LAYERS | SW_READS_LAYER_PATTERN | SW_READS_LOCAL_ROPE | SW_READS_QUERY_SCALAR | SW_READS_SOFTCAPS) \
    ROW(GEMMA2,  "Gemma2ForCausalLM",  "gemma2",   POST_NORMS,               SW_READS_ATTENTION_BIAS | SW_READS_LOCAL_LAYERS | SW_READS_QUERY_SCALAR | SW_READS_SOFTCAPS) \
    ROW(OLMO3,   "Olmo3ForCausalLM",   "olmo3",    WHOLE_NORMS | POST_NORMS, SW_READS_ATTENTION_BIAS | SW_READS_LOCAL_LAYERS | SW_READS_LOCAL_ROPE) \
    ROW(PHI3,    "Phi3ForCausalLM",    "phi3",     FUSED_STORED,             SW_READS_WINDOW | SW_READS_PARTIAL_ROTATION)
/* clang-format on */
enum { QKV_BIAS = 1, HEAD_NORMS = 2, WHOLE_NORMS = 4, POST_NORMS = 8, FUSED_STORED = 16 };

#define ARCHITECTURE(family, architecture, type, always, reads)                                    \
    [SW_FAMILY_##family] = (architecture),
#define MODEL_TYPE(family, architecture, type, always, reads) [SW_FAMILY_##family] = (type),
#define ROW(family, architecture, type, always, keys) [SW_FAMILY_##family] = {(always), (keys)},
const char *const sw_family_architectures[] = {FAMILIES(ARCHITECTURE) NULL};
const char *const sw_family_model_types[] = {FAMILIES(MODEL_TYPE) NULL};
static const struct family {
    int has;   /* QKV_BIAS ... */
    int reads; /* SW_READS_... */
} families[] = {FAMILIES(ROW)};

bool sw_family_reads(uint8_t family, enum sw_family_key key)
{
    return (families[family].reads & (int)key) != 0;
}

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

#define EXPERTS "a mixture of experts"
#define LATENT "multi-head latent attention"
#define PARTIAL "rotation of only a part of each head"
#define FUSED "projections stored as one matrix"
#define GEMMA "scaled embeddings, norms that multiply by 1 + weight, and GELU"

/* Popular models, and why no family above covers them. The stem is the part before "For", "LMHead"
 * or "Model". */
static const struct refusal {
    const char *stem, *model_type, *reason;
} refusals[] = {
    {"Baichuan", "baichuan", FUSED},
    {"Bert", "bert", "an encoder"},
    {"Bloom", "bloom", "ALiBi positions, LayerNorm and GELU"},
    {"ChatGLM", "chatglm", FUSED " and " PARTIAL},
    {"Cohere", "cohere", "LayerNorm, and attention beside the MLP"},
    {"Cohere2", "cohere2", "LayerNorm, and attention beside the MLP"},
    {"Dbrx", "dbrx", EXPERTS},
    {"Deepseek", "deepseek", EXPERTS},
    {"DeepseekV2", "deepseek_v2", LATENT " and " EXPERTS},
    {"DeepseekV3", "deepseek_v3", LATENT " and " EXPERTS},
    {"Ernie4_5_Moe", "ernie4_5_moe", EXPERTS},
    {"Falcon", "falcon", "LayerNorm, GELU, and attention beside the MLP"},
    {"GPT2", "gpt2", "learned positions, LayerNorm and GELU"},
    {"GPTBigCode", "gpt_bigcode", "learned positions, LayerNorm and GELU"},
    {"GPTJ", "gptj", "LayerNorm, GELU, and " PARTIAL},
    {"GPTNeoX", "gpt_neox", "LayerNorm, GELU, and " PARTIAL},
    {"Gemma", "gemma", GEMMA},
    {"Gemma3", "gemma3", "a model of text and images without its 'text_config'"},
    {"Gemma3n", "gemma3n", GEMMA ", with embeddings for every layer"},
    {"Glm", "glm", PARTIAL},
    {"Glm4", "glm4", "norms after each block, and " PARTIAL},
    {"Glm4Moe", "glm4_moe", EXPERTS},
    {"GptOss", "gpt_oss", EXPERTS " and attention sinks"},
    {"GraniteMoe", "granitemoe", EXPERTS},
    {"InternLM2", "internlm2", FUSED},
    {"Jamba", "jamba", "state-space layers and " EXPERTS},
    {"KimiK2", "kimi_k2", LATENT " and " EXPERTS},
    {"Llama4", "llama4", EXPERTS},
    {"Llama4", "llama4_text", EXPERTS},
    {"Llava", "llava", "an image encoder"},
    {"MPT", "mpt", "ALiBi positions, LayerNorm and GELU"},
    {"Mamba", "mamba", "state-space layers"},
    {"Mamba2", "mamba2", "state-space layers"},
    {"MiniCPM", "minicpm", "multipliers on embeddings, residuals and logits"},
    {"MiniCPM3", "minicpm3", LATENT},
    {"Mixtral", "mixtral", EXPERTS},
    {"Mllama", "mllama", "cross-attention to images"},
    {"Nemotron", "nemotron", "LayerNorm, squared ReLU, and " PARTIAL},
    {"OPT", "opt", "learned positions, LayerNorm and ReLU"},
    {"Olmo", "olmo", "LayerNorm without weights"},
    {"Olmoe", "olmoe", EXPERTS},
    {"Phi", "phi", "LayerNorm, GELU, and " PARTIAL},
    {"PhiMoE", "phimoe", EXPERTS},
    {"Qwen2Moe", "qwen2_moe", EXPERTS},
    {"Qwen2VL", "qwen2_vl", "an image encoder"},
    {"Qwen2_5_VL", "qwen2_5_vl", "an image encoder"},
    {"Qwen3Moe", "qwen3_moe", EXPERTS},
    {"Qwen3Next", "qwen3_next", "linear attention and " EXPERTS},
    {"SmolLM3", "smollm3", "layers without rotary positions"},
    {"StableLm", "stablelm", "LayerNorm, and " PARTIAL},
    {"Starcoder2", "starcoder2", "LayerNorm and GELU"},
    {"T5", "t5", "an encoder beside the decoder"},
};

/* Keys of a config.json without a row in the field table. Without a reason a key does not change
 * results and is only listed in a note; with one it must have the harmless value (or null). */
static const struct other_key {
    const char *key, *harmless, *reason;
} other_keys[] = {
    {"_attn_implementation", NULL, NULL},
    {"_name_or_path", NULL, NULL},
    {"_sliding_window_pattern", NULL, NULL}, /* derived from layer_types beside it */
    {"add_cross_attention", "false", "cross-attention"},
    {"alibi", "false", "ALiBi positions"},
    {"attention_chunk_size", NULL, "attention in chunks"},
    {"attention_dropout", "0.0", "dropout"},
    {"attn_pdrop", "0.0", "dropout"},
    {"auto_map", NULL, NULL},
    {"bad_words_ids", NULL, NULL},
    {"begin_suppress_tokens", NULL, NULL},
    {"bias", "false", "a bias that its family does not read"},
    {"bos_token_id", NULL, NULL},
    {"chunk_size_feed_forward", NULL, NULL},
    {"clip_qkv", NULL, "clipped q, k and v"},
    {"cross_attention_hidden_size", NULL, "cross-attention"},
    {"cross_attention_layers", NULL, "cross-attention"},
    {"decoder_start_token_id", NULL, NULL},
    {"diversity_penalty", NULL, NULL},
    {"do_sample", NULL, NULL},
    {"dtype", NULL, NULL},
    {"dual_chunk_attention_config", NULL, NULL}, /* sw_model_plain_tokens */
    {"early_stopping", NULL, NULL},
    {"embd_pdrop", "0.0", "dropout"},
    {"encoder_no_repeat_ngram_size", NULL, NULL},
    {"eos_token_id", NULL, NULL},
    {"exponential_decay_length_penalty", NULL, NULL},
    {"finetuning_task", NULL, NULL},
    {"forced_bos_token_id", NULL, NULL},
    {"forced_eos_token_id", NULL, NULL},
    {"hidden_dropout", "0.0", "dropout"},
    {"id2label", NULL, NULL},
    {"is_causal", "true", "attention to what follows"},
    {"is_decoder", NULL, NULL},
    {"is_encoder_decoder", "false", "an encoder beside the decoder"},
    {"is_llama_config", NULL, NULL},
    {"kv_lora_rank", NULL, LATENT},
    {"label2id", NULL, NULL},
    {"length_penalty", NULL, NULL},
    {"lm_head_bias", "false", "a bias of the head"},
    {"logit_scale", "1.0", "a multiplier on logits"},
    {"max_length", NULL, NULL},
    {"max_sequence_length", NULL, NULL},
    {"min_length", NULL, NULL},
    {"moe_intermediate_size", NULL, EXPERTS},
    {"n_routed_experts", NULL, EXPERTS},
    {"n_shared_experts", NULL, EXPERTS},
    {"no_repeat_ngram_size", NULL, NULL},
    {"no_rope_layer_interval", NULL, "layers without rotary positions"},
    {"no_rope_layers", NULL, "layers without rotary positions"},
    {"num_beam_groups", NULL, NULL},
    {"num_beams", NULL, NULL},
    {"num_experts", "0", EXPERTS},
    {"num_experts_per_tok", "0", EXPERTS},
    {"num_local_experts", "0", EXPERTS},
    {"num_nextn_predict_layers", "0", "layers that predict further tokens"},
    {"num_return_sequences", NULL, NULL},
    {"output_attentions", NULL, NULL},
    {"output_hidden_states", NULL, NULL},
    {"output_scores", NULL, NULL},
    {"pad_token_id", NULL, NULL},
    {"partial_rotary_factor", "1.0", PARTIAL},
    {"prefix", NULL, NULL},
    {"pretraining_tp", NULL, NULL},
    {"problem_type", NULL, NULL},
    {"pruned_heads", "{}", "heads that are left out"},
    {"q_lora_rank", NULL, LATENT},
    {"qk_layernorm", "false", "LayerNorm of q and k"},
    {"qk_nope_head_dim", NULL, LATENT},
    {"qk_rope_head_dim", NULL, LATENT},
    {"qkv_bias", "false", "a bias that its family does not read"},
    {"remove_invalid_values", NULL, NULL},
    {"repetition_penalty", NULL, NULL},
    {"resid_pdrop", "0.0", "dropout"},
    {"return_dict", NULL, NULL},
    {"return_dict_in_generate", NULL, NULL},
    {"rope_interleaved", "false", "rotary positions in interleaved pairs"},
    {"rotary_pct", "1.0", PARTIAL},
    {"sep_token_id", NULL, NULL},
    {"suppress_tokens", NULL, NULL},
    {"task_specific_params", NULL, NULL},
    {"temperature", NULL, NULL},
    {"text_config", NULL, "a model inside another"},
    {"tf_legacy_loss", NULL, NULL},
    {"tie_encoder_decoder", NULL, NULL},
    {"tokenizer_class", NULL, NULL},
    {"top_k", NULL, NULL},
    {"top_p", NULL, NULL},
    {"torch_dtype", NULL, NULL},
    {"torchscript", NULL, NULL},
    {"transformers_version", NULL, NULL},
    {"typical_p", NULL, NULL},
    {"unk_token_id", NULL, NULL},
    {"use_bfloat16", NULL, NULL},
    {"use_bidirectional_attention", "false", "attention to what follows"},
    {"use_cache", NULL, NULL},
    {"use_mrope", "false", "rotary positions of images"},
    {"use_parallel_residual", "false", "attention beside the MLP"},
    {"use_qk_norm", "false", "norms of q and k that its family does not read"},
    {"v_head_dim", NULL, LATENT},
    {"vision_config", NULL, "an image encoder"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Names ---- */

static const struct refusal *find_refusal(const char *architecture, const char *model_type)
{
    for (size_t i = 0; i < COUNT(refusals); i++) {
        const struct refusal *r = &refusals[i];
        if (model_type != NULL && strcmp(model_type, r->model_type) == 0)
            return r;
        const size_t stem = strlen(r->stem);
        if (architecture == NULL || strncmp(architecture, r->stem, stem) != 0)
            continue;
        const char *rest = architecture + stem;
        if (strncmp(rest, "For", 3) == 0 || strncmp(rest, "LMHead", 6) == 0 ||
            strcmp(rest, "Model") == 0)
            return r;
    }
    return NULL;
}

/* A copy without the ending common to all architectures; NULL: another ending. */
static const char *stem_of(struct sw_config *c, const char *text)
{
    static const char ending[] = "ForCausalLM";
    const size_t bytes = strlen(text), end = sizeof ending - 1;
    if (bytes <= end || strcmp(text + bytes - end, ending) != 0)
        return NULL;
    return sw_config_copy(c, text, bytes - end);
}

/* True if two names differ in digits only: other versions, not typos. */
static bool is_other_version(const char *a, const char *b)
{
    static const char digits[] = "0123456789_.";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b)
            return false;
        if (*a == '\0')
            return true;
    }
}

/* The name in the table that was probably meant; NULL: none. */
static const char *find_near(struct sw_config *c, const char *text, const char *const *names)
{
    const char *near = NULL, *stem = stem_of(c, text);
    int32_t best = 1000, distance;
    for (; *names != NULL; names++) {
        const char *a = stem != NULL ? stem : text, *b = stem != NULL ? stem_of(c, *names) : *names;
        if (sw_text_is_near(a, b, &distance) && distance < best && !is_other_version(a, b)) {
            best = distance;
            near = *names;
        }
    }
    return near;
}

/* The index of one name; -1: not supported, reported; *refused is set unless it was a typo. */
static int read_name(struct sw_config *c, const struct node *item, const char *const *names,
                     const char *what, bool *refused)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(item->text, names[i]) == 0)
            return i;
    const bool architecture = names == sw_family_architectures;
    const struct refusal *r =
        find_refusal(architecture ? item->text : NULL, architecture ? NULL : item->text);
    const char *near = r == NULL ? find_near(c, item->text, names) : NULL;
    const char *rest = r != NULL      ? sw_config_format(c, ": %s", r->reason)
                       : near != NULL ? sw_config_format(c, "; did you mean '%s'?", near)
                                      : "";
    const char *list = "supported: ";
    for (int i = 0; names[i] != NULL; i++)
        list = sw_config_format(c, "%s%s%s", list, i > 0 ? ", " : "", names[i]);
    sw_config_error_at(c, item,
                       sw_config_format(c, "the %s %s is not supported%s", what,
                                        sw_config_quote(c, item->text), rest),
                       list);
    *refused = near == NULL;
    return -1;
}

/* The family of a list of architectures (or of one); -1: reported. */
static int read_architectures(struct sw_config *c, const struct field *field,
                              const struct node *value, bool *refused)
{
    if (value->kind == NODE_SEQUENCE && value->count == 0)
        sw_config_error_at(c, value, "'architectures' is an empty list",
                           sw_config_example(c, field));
    const bool is_list = value->kind == NODE_SEQUENCE;
    const struct node *item = is_list ? value->first : value;
    int family = -1;
    for (bool first = true; item != NULL; first = false, item = is_list ? item->next : NULL) {
        if (item->kind != NODE_SCALAR) {
            sw_config_wrong_type(c, field, item, "a list of strings");
            return -1;
        }
        const int one = read_name(c, item, sw_family_architectures, "architecture", refused);
        if (one >= 0 && !first && one != family)
            sw_config_error_at(c, item, "'architectures' names two kinds of model",
                               "name one of them");
        if (one < 0 || (!first && one != family))
            return -1;
        family = one;
    }
    return family;
}

enum family_fate sw_model_read_family(struct sw_config *c, const struct field *fields,
                                      const struct node *root, struct sw_model *model)
{
    const struct node *names = sw_node_find(root, "architectures");
    const struct node *type = sw_node_find(root, "model_type");
    const bool has_names = names != NULL && !sw_node_is_null(names);
    const bool has_type = type != NULL && !sw_node_is_null(type);
    int named = SW_FAMILY_LLAMA, typed = SW_FAMILY_LLAMA;
    bool refused = false;
    if (has_names)
        named = read_architectures(c, sw_field_find(fields, "architectures"), names, &refused);
    if (has_type && !refused) {
        typed = -1;
        if (type->kind == NODE_SCALAR)
            typed = read_name(c, type, sw_family_model_types, "model_type", &refused);
        else
            sw_config_wrong_type(c, sw_field_find(fields, "model_type"), type, "a string");
    }
    if (refused)
        return FAMILY_REFUSED;
    if (named < 0 || typed < 0)
        return FAMILY_WRONG;
    if (has_names && has_type && named != typed) {
        sw_config_error_at(
            c, type,
            sw_config_format(c, "'model_type: %s' contradicts the architecture %s", type->text,
                             sw_family_architectures[named]),
            sw_config_format(c, "for example: model_type: %s", sw_family_model_types[named]));
        return FAMILY_WRONG;
    }
    model->family = (uint8_t)(has_names ? named : typed);
    return FAMILY_KNOWN;
}

/* Accepts both keys unread: sw_model_read_family has read them before. */
static bool read_names(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    (void)c;
    (void)field;
    (void)value;
    (void)base;
    return true;
}

static void write_architectures(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_model_config *model = base;
    char text[64];
    snprintf(text, sizeof text, "[%s]", sw_family_architectures[model->shape.family]);
    w->value(w, field->key, text, STYLE_BARE);
}

static void schema_names(struct sw_json *j, const char *const *names)
{
    sw_json_array(j, "enum");
    for (int i = 0; names[i] != NULL; i++)
        sw_json_text(j, NULL, names[i]);
    sw_json_end(j);
}

static void schema_architectures(struct sw_json *j, const struct field *field)
{
    (void)field;
    sw_json_text(j, "type", "array");
    sw_json_inline(j, "items");
    schema_names(j, sw_family_architectures);
    sw_json_end(j);
}

static void schema_model_type(struct sw_json *j, const struct field *field)
{
    (void)field;
    schema_names(j, sw_family_model_types);
}

const struct field_type sw_type_architectures = {read_names, write_architectures,
                                                 schema_architectures, INSIDE_NOTHING, NULL};
const struct field_type sw_type_model_type = {read_names, NULL, schema_model_type, INSIDE_NOTHING,
                                              NULL};

/* ---- Keys ---- */

static bool is_harmless(const struct node *value, const char *harmless)
{
    double a, b;
    if (sw_node_is_null(value))
        return true;
    if (harmless == NULL)
        return false;
    if (value->kind != NODE_SCALAR)
        return value->count == 0 && strcmp(harmless, "{}") == 0;
    if (sw_number_parse(value->text, &a) && sw_number_parse(harmless, &b))
        return a == b;
    return strcasecmp(value->text, harmless) == 0;
}

enum key_fate sw_model_key_fate(struct sw_config *c, const struct node *value)
{
    const char *key = value->key->text;
    for (size_t i = 0; i < COUNT(other_keys); i++) {
        const struct other_key *k = &other_keys[i];
        if (strcmp(key, k->key) != 0)
            continue;
        if (k->reason == NULL || value->kind == NODE_BROKEN || is_harmless(value, k->harmless))
            return KEY_NOTED;
        const char *shown =
            value->kind == NODE_SCALAR
                ? sw_config_format(c, "%s: %s", key, sw_config_shown(c, value->text))
                : key;
        sw_config_error_at(
            c, value, sw_config_format(c, "'%s' is not supported: %s", shown, k->reason),
            k->harmless == NULL
                ? "a model that uses it cannot be planned; null says that it is not used"
                : sw_config_format(c, "this model cannot be planned; '%s: %s' would be another one",
                                   key, k->harmless));
        return KEY_REFUSED;
    }
    return KEY_UNKNOWN;
}

int64_t sw_model_plain_tokens(const struct node *root)
{
    const struct node *dual = sw_node_find(root, "dual_chunk_attention_config");
    const struct node *chunk = sw_node_find(dual, "chunk_size");
    const struct node *local = sw_node_find(dual, "local_size");
    double tokens = 0, near = 0;
    if (chunk == NULL || chunk->kind != NODE_SCALAR || !sw_number_parse(chunk->text, &tokens))
        return 0;
    if (local != NULL && local->kind == NODE_SCALAR && sw_number_parse(local->text, &near))
        tokens -= near;
    return tokens >= 1 && tokens < SW_MANY ? (int64_t)tokens : 0;
}

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

/* ---- Effects of keys in a family ---- */

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

/* Reports a key with an effect that the family does not read. */
static bool not_read(struct sw_config *c, const struct section *s, const char *key, uint8_t family)
{
    sw_config_error_at(
        c, sw_section_place(s, key),
        sw_config_format(c, "'%s' does not apply to %s", key, sw_family_architectures[family]),
        "leave it out");
    return false;
}

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
        sw_config_error_at(c, sw_section_place(s, key),
                           sw_config_format(c, "'%s' repeats nothing in %d layers", key, period),
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

static bool apply_window(struct sw_config *c, const struct section *s, struct sw_model_config *m,
                         int reads)
{
    const uint8_t family = m->shape.family;
    const bool off = sw_section_wrote(s, "use_sliding_window") && !m->use_sliding_window;
    bool good = true;
    if ((reads & SW_READS_WINDOW_SWITCH) != 0) {
        good = apply_window_switch(c, s, m);
    } else {
        if (m->shape.sliding_window != 0 && (reads & SW_READS_WINDOW) == 0 && !off)
            good = not_read(c, s, "sliding_window", family);
        else if (m->use_sliding_window ||
                 (off && m->shape.sliding_window != 0 && (reads & SW_READS_WINDOW) != 0))
            good = not_read(c, s, "use_sliding_window", family);
        if (m->layer_types == SW_LAYERS_WINDOWED)
            good = not_read(c, s, "layer_types", family);
        if (off)
            m->shape.sliding_window = 0;
    }
    /* Sets keys as a plan writes them. */
    m->use_sliding_window = (reads & SW_READS_WINDOW_SWITCH) != 0 && m->shape.sliding_window != 0;
    m->max_window_layers = m->use_sliding_window ? 0 : SW_MAX_WINDOW_LAYERS;
    return good;
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
            good = not_read(c, s, keys[i].key, m->family);
    }
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
                               struct sw_model_config *m, int reads)
{
    if (sw_section_wrote(s, "use_sliding_window") && !m->use_sliding_window)
        return not_read(c, s, "use_sliding_window", m->shape.family);
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
    return (reads & SW_READS_LOCAL_ROPE) == 0 || apply_local_rope(c, s, &m->shape);
}

/* Refuses keys that only few families read. */
static bool check_rare_keys(struct sw_config *c, const struct section *s,
                            const struct sw_model_config *m, int reads)
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
        if (keys[i].there && (reads & (int)keys[i].reads) == 0)
            return not_read(c, s, keys[i].key, shape->family);
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
    const struct family *family = &families[m->shape.family];
    bool good = true;
    if (m->shape.output_bias && (family->reads & SW_READS_ATTENTION_BIAS) == 0)
        good = not_read(c, s, "attention_bias", m->shape.family);
    if (m->shape.mlp_bias && (family->reads & SW_READS_MLP_BIAS) == 0)
        good = not_read(c, s, "mlp_bias", m->shape.family);
    const bool local = (family->reads & SW_READS_LOCAL_LAYERS) != 0;
    if (!check_rare_keys(c, s, m, family->reads) ||
        !(local ? apply_local_layers : apply_window)(c, s, m, family->reads))
        good = false;
    if (!apply_multipliers(c, s, &m->shape, (family->reads & SW_READS_MULTIPLIERS) != 0))
        good = false;
    m->shape.qkv_bias = (family->has & QKV_BIAS) != 0 || m->shape.output_bias;
    m->shape.qk_norm = (family->has & HEAD_NORMS) != 0;
    m->shape.qk_norm_whole = (family->has & WHOLE_NORMS) != 0;
    m->shape.post_norm = (family->has & POST_NORMS) != 0;
    m->shape.fused = (family->has & FUSED_STORED) != 0;
    m->original_positions = 0; /* a plan writes rope_scaling */
    if (!apply_gemma(c, s, m, (family->reads & SW_READS_QUERY_SCALAR) != 0))
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

/* True for a file from a hub, whose keys no list can foresee. */
bool sw_model_is_hugging_face(const struct node *map)
{
    const char *dot = strrchr(map->source->file, '.');
    return (dot != NULL && strcmp(dot, ".json") == 0) || sw_node_find(map, "model_type") != NULL ||
           sw_node_find(map, "torch_dtype") != NULL ||
           sw_node_find(map, "transformers_version") != NULL;
}

/* True for a model's name on Hugging Face, OWNER/NAME, false for a path. */
static bool is_of_a_hub(const struct node *value)
{
    const char *slash = strchr(value->text, '/'), *dot = strrchr(value->text, '.');
    return value->key != NULL && strcmp(value->key->text, "model") == 0 && slash != NULL &&
           slash != value->text && slash[1] != '\0' && strchr(slash + 1, '/') == NULL &&
           value->text[0] != '.' && value->text[0] != '~' &&
           (dot == NULL ||
            (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0 && strcmp(dot, ".json") != 0));
}

const char *sw_model_no_file(const struct node *value)
{
    return is_of_a_hub(value)
               ? "models are not downloaded here: save its config.json, and name that file"
               : NULL;
}
