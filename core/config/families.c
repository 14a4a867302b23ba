/* Supported families of models: the properties that each fixes, the names in config.json that stand
 * for it, and the treatment of keys without a row: a key that changes the arithmetic is honoured or
 * refused, never ignored. Names and meanings are those of Hugging Face's configuration classes. */
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

void sw_model_set_parts(struct sw_model *model)
{
    const int has = families[model->family].has;
    model->qkv_bias = (has & QKV_BIAS) != 0 || model->output_bias;
    model->qk_norm = (has & HEAD_NORMS) != 0;
    model->qk_norm_whole = (has & WHOLE_NORMS) != 0;
    model->post_norm = (has & POST_NORMS) != 0;
    model->fused = (has & FUSED_STORED) != 0;
}

bool sw_model_not_read(struct sw_config *c, const struct section *s, const char *key,
                       uint8_t family)
{
    sw_config_error_at(
        c, sw_section_place(s, key),
        sw_config_format(c, "'%s' does not apply to %s", key, sw_family_architectures[family]),
        "leave it out");
    return false;
}

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
                : sw_config_format(
                      c, "this model cannot be planned; with '%s: %s' it would be another model",
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
