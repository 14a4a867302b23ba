/* config.json of a checkpoint. Transformers 4 reads rope_theta, rope_scaling and torch_dtype, 5
 * reads rope_parameters and dtype; each ignores the other's, so both are written. */
#include "core/base/json.h"
#include "core/config/config.h"
#include "runner/checkpoint/folder.h"
#include "runner/checkpoint/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Transformers keeps unknown keys; core/config notes them. */
#define ORIGINAL_DTYPE "shardwright_original_dtype"

static const char *const dtype_words[SW_STORED_DTYPES] = {
    [SW_STORED_F32] = "float32",
    [SW_STORED_BF16] = "bfloat16",
    [SW_STORED_F16] = "float16",
    [SW_STORED_F64] = "float64",
};

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for config.json");
}

/* ---- The keys ---- */

struct keys {
    json_t *object;
    bool failed; /* true: out of memory */
};

/* Sets a key; takes over the value. */
static void set(struct keys *k, const char *key, json_t *value)
{
    if (json_object_set_new(k->object, key, value) != 0)
        k->failed = true;
}

static void set_unless_there(struct keys *k, const char *key, json_t *value)
{
    if (json_object_get(k->object, key) != NULL)
        json_decref(value);
    else
        set(k, key, value);
}

static double share_of(const struct sw_model *model)
{
    return model->partial_rotary_factor != 0 ? model->partial_rotary_factor : 1;
}

static json_t *divisors_array(const float *divisors)
{
    json_t *array = json_array();
    for (int32_t j = 0; j < SW_ROPE_MOST_PAIRS && divisors[j] != 0; j++)
        if (json_array_append_new(array, json_real((double)divisors[j])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* Object for rope_scaling or, with the base of the angles, rope_parameters. NULL: no memory. */
static json_t *rope_object(const struct sw_model *model, const struct sw_rope *rope, bool theta)
{
    const bool yarn = rope->scaling == SW_ROPE_YARN, longrope = rope->scaling == SW_ROPE_LONGROPE;
    struct keys k = {.object = json_object()};
    set(&k, "rope_type", json_string(sw_rope_type_name(rope)));
    if (theta)
        set(&k, "rope_theta", json_real(rope->theta));
    if (theta && sw_family_reads(model->family, SW_READS_PARTIAL_ROTATION))
        set(&k, "partial_rotary_factor", json_real(share_of(model)));
    if (rope->scaling != SW_ROPE_PLAIN)
        set(&k, "factor", json_real(rope->factor));
    if (rope->scaling == SW_ROPE_LLAMA3) {
        set(&k, "low_freq_factor", json_real(rope->low_freq_factor));
        set(&k, "high_freq_factor", json_real(rope->high_freq_factor));
    }
    if (rope->scaling == SW_ROPE_LLAMA3 || yarn || longrope)
        set(&k, "original_max_position_embeddings", json_integer(rope->original_positions));
    if (yarn || longrope)
        set(&k, "attention_factor", json_real(rope->attention_factor));
    if (yarn) {
        set(&k, "beta_fast", json_real(rope->high_freq_factor));
        set(&k, "beta_slow", json_real(rope->low_freq_factor));
        set(&k, "truncate", json_boolean(rope->truncate));
    }
    if (longrope) {
        set(&k, "short_factor", divisors_array(model->short_divisors));
        set(&k, "long_factor", divisors_array(model->long_divisors));
    }
    if (!k.failed)
        return k.object;
    json_decref(k.object);
    return NULL;
}

/* Phi-3's class in transformers 4 takes exactly three keys and derives the others; if that would
 * differ from the model, writes all. NULL: no memory. */
static json_t *phi3_scaling(const struct sw_model *m)
{
    const struct sw_rope *rope = &m->rope;
    const double factor = (double)m->max_position_embeddings / (double)rope->original_positions;
    if (rope->factor != (factor < 1 ? 1 : factor) ||
        rope->attention_factor !=
            sw_longrope_attention_factor(rope->factor, rope->original_positions))
        return rope_object(m, rope, false);
    struct keys k = {.object = json_object()};
    set(&k, "type", json_string("longrope"));
    set(&k, "short_factor", divisors_array(m->short_divisors));
    set(&k, "long_factor", divisors_array(m->long_divisors));
    if (!k.failed)
        return k.object;
    json_decref(k.object);
    return NULL;
}

/* Sets the keys of rotary positions, in all versions' forms. */
static void set_rope(struct keys *k, const struct sw_model *m)
{
    const bool longrope = m->rope.scaling == SW_ROPE_LONGROPE;
    const bool shares = sw_family_reads(m->family, SW_READS_PARTIAL_ROTATION);
    set(k, "rope_theta", json_real(m->rope.theta));
    if (m->rope.scaling == SW_ROPE_PLAIN)
        set(k, "rope_scaling", json_null());
    else
        set(k, "rope_scaling",
            longrope && m->family == SW_FAMILY_PHI3 ? phi3_scaling(m)
                                                    : rope_object(m, &m->rope, false));
    set(k, "rope_parameters", rope_object(m, &m->rope, true));
    if (shares)
        set(k, "partial_rotary_factor", json_real(share_of(m)));
    if (m->rope.scaling == SW_ROPE_YARN || longrope)
        set(k, "original_max_position_embeddings", json_integer(m->rope.original_positions));
}

static void set_sizes(struct keys *k, const struct sw_model *m)
{
    set(k, "architectures", json_pack("[s]", sw_family_architectures[m->family]));
    set(k, "model_type", json_string(sw_family_model_types[m->family]));
    set(k, "vocab_size", json_integer(m->vocab_size));
    set(k, "hidden_size", json_integer(m->hidden_size));
    set(k, "intermediate_size", json_integer(m->intermediate_size));
    set(k, "num_hidden_layers", json_integer(m->layers));
    set(k, "num_attention_heads", json_integer(m->heads));
    set(k, "num_key_value_heads", json_integer(m->kv_heads));
    set(k, "head_dim", json_integer(m->head_dim));
    set(k, "max_position_embeddings", json_integer(m->max_position_embeddings));
    if (sw_family_reads(m->family, SW_READS_QUERY_SCALAR)) {
        (void)json_object_del(k->object, "hidden_act");
        set(k, "hidden_activation", json_string("gelu_pytorch_tanh"));
    } else {
        set(k, "hidden_act", json_string("silu"));
    }
    set(k, "rms_norm_eps", json_real(m->rms_norm_eps));
    set(k, "initializer_range", json_real(m->initializer_range));
    set(k, "tie_word_embeddings", json_boolean(m->tied));
}

static void set_multipliers(struct keys *k, const struct sw_model *m)
{
    const double embedding = m->embedding_multiplier, residual = m->residual_multiplier;
    set(k, "embedding_multiplier", json_real(embedding != 0 ? embedding : 1));
    set(k, "attention_multiplier", json_real(m->attention_multiplier));
    set(k, "residual_multiplier", json_real(residual != 0 ? residual : 1));
    set(k, "logits_scaling", json_real(m->logits_scaling != 0 ? m->logits_scaling : 1));
}

static void set_layer_types(struct keys *k, const struct sw_model *m)
{
    json_t *types = json_array();
    const int32_t period = sw_model_period(m);
    for (int32_t l = 0; l < m->layers; l++)
        if (json_array_append_new(types, json_string(sw_model_is_local(m, l % period)
                                                         ? "sliding_attention"
                                                         : "full_attention")) != 0)
            k->failed = true;
    set(k, "layer_types", types);
}

/* Sets rotary positions for both kinds of layers. */
static void set_local_rope(struct keys *k, const struct sw_model *m)
{
    json_t *ropes = json_object();
    const struct sw_rope *local = m->local != 0 ? &m->local_rope : &m->rope;
    if (json_object_set_new(ropes, "full_attention", rope_object(m, &m->rope, true)) != 0 ||
        json_object_set_new(ropes, "sliding_attention", rope_object(m, local, true)) != 0)
        k->failed = true;
    set(k, "rope_parameters", ropes);
    if (m->family == SW_FAMILY_GEMMA3)
        set(k, "rope_local_base_freq", json_real(local->theta));
}

static json_t *softcap(double cap)
{
    return cap != 0 ? json_real(cap) : json_null();
}

/* Sets the kinds of layers and their keys, in all transformers versions' forms. */
static void set_local_layers(struct keys *k, const struct sw_model *m)
{
    const int32_t period = sw_model_period(m);
    set_layer_types(k, m);
    set(k, "sliding_window",
        m->sliding_window != 0 ? json_integer(m->sliding_window) : json_null());
    if (sw_family_reads(m->family, SW_READS_LOCAL_ROPE))
        set_local_rope(k, m);
    if (sw_family_reads(m->family, SW_READS_SOFTCAPS)) {
        set(k, "attn_logit_softcapping", softcap(m->attention_softcap));
        set(k, "final_logit_softcapping", softcap(m->final_softcap));
    }
    if (sw_family_reads(m->family, SW_READS_LAYER_PATTERN) && m->local != 0 &&
        m->local == (UINT64_C(1) << (period - 1)) - 1)
        set(k, "sliding_window_pattern", json_integer(period));
    else
        (void)json_object_del(k->object, "sliding_window_pattern");
    if (!sw_family_reads(m->family, SW_READS_QUERY_SCALAR))
        return;
    /* transformers 5 requires an integer */
    const double scalar = m->query_pre_attn_scalar;
    set(k, "query_pre_attn_scalar",
        scalar == floor(scalar) ? json_integer((json_int_t)scalar) : json_real(scalar));
}

/* Layers before the first with a window: max_window_layers. */
static int32_t layers_before_window(const struct sw_model *m)
{
    int32_t layer = 0;
    while (m->local != 0 && !sw_model_is_local(m, layer))
        layer++;
    return m->sliding_window != 0 ? layer : m->layers;
}

/* keep_window: true if the original's keys mean this window. */
static void set_attention(struct keys *k, const struct sw_model *m, bool keep_window)
{
    set_rope(k, m);
    if (sw_family_reads(m->family, SW_READS_LOCAL_LAYERS))
        set_local_layers(k, m);
    if (sw_family_reads(m->family, SW_READS_ATTENTION_BIAS))
        set(k, "attention_bias", json_boolean(m->output_bias));
    if (sw_family_reads(m->family, SW_READS_MLP_BIAS))
        set(k, "mlp_bias", json_boolean(m->mlp_bias));
    if (sw_family_reads(m->family, SW_READS_MULTIPLIERS))
        set_multipliers(k, m);
    set_unless_there(k, "attention_dropout", json_real(0));
    if (!sw_family_reads(m->family, SW_READS_WINDOW) || keep_window)
        return;
    const bool window = m->sliding_window != 0;
    (void)json_object_del(k->object, "layer_types");
    if (m->local != 0)
        set_layer_types(k, m);
    set(k, "sliding_window", window ? json_integer(m->sliding_window) : json_null());
    if (!sw_family_reads(m->family, SW_READS_WINDOW_SWITCH))
        return;
    set(k, "use_sliding_window", json_boolean(window));
    set(k, "max_window_layers", json_integer(layers_before_window(m)));
}

static void set_dtype(struct keys *k, enum sw_stored_dtype dtype, bool keep_original)
{
    const char *was = json_string_value(json_object_get(k->object, "dtype"));
    if (was == NULL)
        was = json_string_value(json_object_get(k->object, "torch_dtype"));
    /* A checkpoint's own text as the next original must stay unchanged. */
    if (!keep_original)
        (void)json_object_del(k->object, ORIGINAL_DTYPE);
    else if (was != NULL && dtype != SW_STORED_DTYPES && strcmp(was, dtype_words[dtype]) != 0)
        set_unless_there(k, ORIGINAL_DTYPE, json_string(was));
    if (dtype == SW_STORED_DTYPES)
        return;
    set(k, "dtype", json_string(dtype_words[dtype]));
    set(k, "torch_dtype", json_string(dtype_words[dtype]));
}

/* ---- Text ---- */

/* Writes the shortest digits that read back as the same double; never as an integer, which a strict
 * class would refuse. */
static void write_real(struct sw_json *j, const char *key, double value)
{
    char text[40];
    int length = 0;
    for (int digits = 15; digits <= 17; digits++) {
        length = snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (strpbrk(text, ".e") == NULL)
        length += snprintf(text + length, sizeof text - (size_t)length, ".0");
    sw_json_raw(j, key, text, (size_t)length);
}

/* Writes a string that may contain NULs. */
static int write_string(struct sw_json *j, const char *key, const json_t *value)
{
    const char *text = json_string_value(value);
    char *dumped = NULL;
    if (strlen(text) == json_string_length(value)) {
        sw_json_text(j, key, text);
        return 0;
    }
    if ((dumped = json_dumps(value, JSON_ENCODE_ANY)) == NULL)
        return -1;
    sw_json_raw(j, key, dumped, strlen(dumped));
    free(dumped);
    return 0;
}

static int write_value(struct sw_json *j, const char *key, json_t *value)
{
    const char *name, *big = sw_json_big(value);
    json_t *inner;
    size_t i;
    int status = 0;
    if (big != NULL) {
        sw_json_raw(j, key, big, strlen(big));
        return 0;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        if (j->depth == SW_JSON_DEPTH)
            return -1;
        if (sw_json_is_object(value))
            sw_json_object(j, key);
        else
            sw_json_array(j, key);
        json_object_foreach(value, name, inner) status |= write_value(j, name, inner);
        json_array_foreach(value, i, inner) status |= write_value(j, NULL, inner);
        sw_json_end(j);
        break;
    case JSON_STRING:
        status = write_string(j, key, value);
        break;
    case JSON_INTEGER:
        sw_json_integer(j, key, json_integer_value(value));
        break;
    case JSON_REAL:
        write_real(j, key, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        sw_json_bool(j, key, json_is_true(value));
        break;
    case JSON_NULL:
        sw_json_null(j, key);
        break;
    }
    return status;
}

static int write_text(json_t *root, char **out, struct sw_error *err)
{
    size_t bytes = 0;
    char *text = NULL;
    struct sw_json j = {.out = open_memstream(&text, &bytes), .style = SW_JSON_SPACES};
    if (j.out == NULL)
        return out_of_memory(err);
    const int depth = write_value(&j, NULL, root);
    fputc('\n', j.out);
    const bool failed = ferror(j.out) != 0;
    if (fclose(j.out) != 0 || failed || depth != 0) {
        free(text);
        return depth == 0
                   ? out_of_memory(err)
                   : sw_fail(err, SW_BAD_INPUT, "config.json is nested deeper than %d levels",
                             (int)SW_JSON_DEPTH);
    }
    *out = text;
    return 0;
}

/* ---- Reading back ---- */

/* Reads the model that a text describes. Errors: memory. */
static int read_model(const char *text, bool *described, struct sw_model *model,
                      struct sw_error *err)
{
    struct sw_config *config =
        sw_config_read_text("config.json", text, strlen(text), SW_CONFIG_MODEL, NULL, NULL, 0, err);
    if (config == NULL)
        return -1;
    const struct sw_model_config *m = sw_config_model(config);
    *described = m != NULL;
    if (m != NULL)
        *model = m->shape;
    sw_config_free(config);
    return 0;
}

/* Checks that the text reads back as the same model. */
static int check(const char *text, const struct sw_model *model, struct sw_error *err)
{
    struct sw_model again;
    bool described;
    if (read_model(text, &described, &again, err) != 0)
        return -1;
    if (described && memcmp(&again, model, sizeof again) == 0)
        return 0;
    char difference[160];
    const char *what = described ? sw_model_difference(&again, model, difference) : NULL;
    return sw_fail(err, SW_ENVIRONMENT, "the model has no config.json%s%s",
                   what != NULL ? ": read back, its " : "", what != NULL ? what : "");
}

/* Takes the text part of a multimodal model, whose tokens stand outside it. */
static void take_text_part(json_t **root)
{
    static const char *const outside[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    json_t *text = json_object_get(*root, "text_config");
    if (!sw_json_is_object(text))
        return;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        json_t *value = json_object_get(*root, outside[i]);
        if (value != NULL && json_object_get(text, outside[i]) == NULL)
            (void)json_object_set(text, outside[i], value);
    }
    json_incref(text);
    json_decref(*root);
    *root = text;
}

static int read_original(const char *original, const struct sw_model *model, json_t **root,
                         bool *keep_window, struct sw_error *err)
{
    struct sw_json_mistake why;
    struct sw_model was = {0};
    bool described;
    *root = sw_json_load(original, strlen(original), 0, &why);
    if (*root == NULL) {
        const struct sw_place place = {"config.json", why.line, why.column};
        return why.what == NULL
                   ? out_of_memory(err)
                   : sw_fail_at(err, SW_BAD_INPUT, place, "not valid JSON: %s", why.what);
    }
    if (!sw_json_is_object(*root))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){"config.json", 1, 1},
                          "is not a mapping");
    if (read_model(original, &described, &was, err) != 0)
        return -1;
    take_text_part(root);
    *keep_window = described && was.family == model->family && was.layers == model->layers &&
                   was.sliding_window == model->sliding_window && was.local == model->local &&
                   was.period == model->period;
    return 0;
}

static int config_json(const struct sw_model *model, enum sw_stored_dtype dtype,
                       const char *original, bool keep_original_dtype, char **out,
                       struct sw_error *err)
{
    struct keys k = {0};
    char *text = NULL;
    bool keep_window = false;
    int status = -1;
    *out = NULL;
    if (original == NULL)
        k.object = json_object();
    else if (read_original(original, model, &k.object, &keep_window, err) != 0)
        goto out;
    set_sizes(&k, model);
    set_attention(&k, model, keep_window);
    if (original == NULL) { /* not the class's defaults: the tokenizer is unknown */
        set(&k, "bos_token_id", json_null());
        set(&k, "eos_token_id", json_null());
        if (model->family == SW_FAMILY_PHI3) /* default 32000 may exceed the vocabulary */
            set(&k, "pad_token_id", json_null());
    }
    set_dtype(&k, dtype, keep_original_dtype);
    if (k.failed) {
        out_of_memory(err);
        goto out;
    }
    if (write_text(k.object, &text, err) != 0 || check(text, model, err) != 0)
        goto out;
    *out = text;
    text = NULL;
    status = 0;
out:
    free(text);
    json_decref(k.object);
    return status;
}

int sw_model_config_json(const struct sw_model *model, enum sw_stored_dtype dtype,
                         const char *original, char **out, struct sw_error *err)
{
    return config_json(model, dtype, original, true, out, err);
}

int sw_model_config_copy(const struct sw_model *model, enum sw_stored_dtype dtype,
                         const char *original, char **out, struct sw_error *err)
{
    return config_json(model, dtype, original, false, out, err);
}

enum sw_stored_dtype sw_model_original_dtype(const char *config)
{
    enum sw_stored_dtype found = SW_STORED_DTYPES;
    json_t *root = sw_json_load(config, strlen(config), 0, NULL);
    const char *word = json_string_value(json_object_get(root, ORIGINAL_DTYPE));
    for (int i = 0; word != NULL && i < SW_STORED_DTYPES; i++)
        if (dtype_words[i] != NULL && strcmp(word, dtype_words[i]) == 0)
            found = (enum sw_stored_dtype)i;
    json_decref(root);
    return found;
}
