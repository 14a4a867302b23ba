/* config.json of a checkpoint: every model comes back as it was, in the keys that transformers 4
 * and 5 read, and what a run started from keeps its other keys. */
#include "core/config/config.h"
#include "runner/checkpoint/folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sw_model small(enum sw_family family)
{
    struct sw_model m;
    memset(&m, 0, sizeof m);
    m.vocab_size = 64;
    m.hidden_size = 32;
    m.intermediate_size = 48;
    m.max_position_embeddings = 256;
    m.rms_norm_eps = 1e-6;
    m.initializer_range = 0.041666666666666664;
    m.rope.theta = 500000;
    m.rope.factor = 1;
    m.layers = 3;
    m.heads = 4;
    m.kv_heads = 2;
    m.head_dim = 16;
    m.family = (uint8_t)family;
    m.fused = family == SW_FAMILY_PHI3;
    m.qkv_bias = family == SW_FAMILY_QWEN2;
    m.qk_norm = family == SW_FAMILY_QWEN3;
    m.qk_norm_whole = m.post_norm = family == SW_FAMILY_OLMO2 || family == SW_FAMILY_OLMO3;
    if (family == SW_FAMILY_OLMO3) {
        m.sliding_window = 96;
        m.period = 3;
        m.local = 3;
        m.local_rope = (struct sw_rope){.theta = 23456, .factor = 1};
    }
    if (family == SW_FAMILY_GEMMA2) {
        m.post_norm = m.both_norms = m.norms_plus_one = m.gelu = m.embedding_root = true;
        m.query_pre_attn_scalar = 144;
        m.attention_softcap = 50;
        m.final_softcap = 30.5;
        m.sliding_window = 96;
        m.period = 2;
        m.local = 1;
    }
    if (family == SW_FAMILY_GEMMA3) {
        m.qk_norm = m.post_norm = m.both_norms = true;
        m.norms_plus_one = m.gelu = m.embedding_root = true;
        m.query_pre_attn_scalar = 24;
        m.sliding_window = 96;
        m.period = 2;
        m.local = 1;
        m.local_rope = (struct sw_rope){.theta = 12345, .factor = 1};
    }
    if (family == SW_FAMILY_GRANITE) {
        m.attention_multiplier = 0.0625;
        m.embedding_multiplier = 12;
        m.logits_scaling = 3.3;
    }
    return m;
}

static char *write(const struct sw_model *m, enum sw_stored_dtype dtype, const char *original)
{
    char *text = NULL;
    struct sw_error err = {0};
    if (sw_model_config_json(m, dtype, original, &text, &err) != 0)
        fail_msg("%s", err.message);
    return text;
}

static void expect_model(const char *text, const struct sw_model *wanted)
{
    struct sw_config *config = sw_config_read_text("config.json", text, strlen(text),
                                                   SW_CONFIG_MODEL, NULL, NULL, 0, NULL);
    assert_non_null(config);
    if (sw_config_model(config) == NULL)
        fail_msg("%s\n%s", sw_config_diagnostic(config, 0)->message, text);
    assert_memory_equal(&sw_config_model(config)->shape, wanted, sizeof *wanted);
    sw_config_free(config);
}

/* Every family with every rope, window, bias and head that it has. Read back, and given as the
 * original of the next, it is the same. */
static void every_model_comes_back(void **state)
{
    (void)state;
    enum { ROPES = 6 };
    const struct sw_rope ropes[ROPES] = {
        {.theta = 10000, .factor = 1},
        {.theta = 1e6, .factor = 2.5, .scaling = SW_ROPE_LINEAR},
        {.theta = 500000.1,
         .factor = 8,
         .low_freq_factor = 1,
         .high_freq_factor = 4,
         .original_positions = 8192,
         .scaling = SW_ROPE_LLAMA3},
        {.theta = 10000,
         .factor = 4.5,
         .low_freq_factor = 0.5,
         .high_freq_factor = 16,
         .attention_factor = 1.15,
         .original_positions = 64,
         .scaling = SW_ROPE_YARN,
         .truncate = 1},
        {.theta = 10000,
         .factor = 4.5,
         .attention_factor = 1.15,
         .original_positions = 64,
         .scaling = SW_ROPE_LONGROPE},
        {.theta = 10000,
         .factor = 4, /* what files of Phi-3 leave out */
         .attention_factor = sqrt(4.0 / 3),
         .original_positions = 64,
         .scaling = SW_ROPE_LONGROPE},
    };
    int32_t count = 0;
    for (int32_t family = SW_FAMILY_LLAMA; family <= SW_FAMILY_PHI3; family++)
        for (int32_t i = 0; i < ROPES * 2 * 2 * 2 * 2; i++) {
            struct sw_model m = small((enum sw_family)family);
            m.rope = ropes[i % ROPES];
            if (family == SW_FAMILY_PHI3 && m.rope.scaling == SW_ROPE_YARN)
                continue; /* its files call longrope so */
            m.tied = i / ROPES % 2;
            if (sw_family_reads((uint8_t)family, SW_READS_PARTIAL_ROTATION) && i % 4 == 1)
                m.partial_rotary_factor = 0.75;
            for (int32_t j = 0; m.rope.scaling == SW_ROPE_LONGROPE && j < sw_model_rotated(&m) / 2;
                 j++) {
                m.short_divisors[j] = (float)(1 + 0.01 * j);
                m.long_divisors[j] = (float)(1.3 + 7 * j);
            }
            if (i / ROPES / 2 % 2 != 0 && sw_family_reads((uint8_t)family, SW_READS_MLP_BIAS))
                m.mlp_bias = true;
            if (i / ROPES / 4 % 2 != 0 && sw_family_reads((uint8_t)family, SW_READS_ATTENTION_BIAS))
                m.output_bias = m.qkv_bias = true;
            if (i / ROPES / 8 % 2 != 0 && sw_family_reads((uint8_t)family, SW_READS_WINDOW))
                m.sliding_window = 4096;
            if (m.sliding_window != 0 && i % 3 == 1 &&
                sw_family_reads((uint8_t)family, SW_READS_WINDOW_SWITCH)) {
                m.period = 3;
                m.local = i % 2 != 0 ? 4 : 6;
            }
            char *text = write(&m, SW_STORED_F32, NULL), *again;
            expect_model(text, &m);
            again = write(&m, SW_STORED_F32, text);
            assert_string_equal(again, text);
            free(again);
            free(text);
            count++;
        }
    assert_int_equal(count, 10 * 96 - 16);
}

static void looks_like_this(void **state)
{
    (void)state;
    struct sw_model m = small(SW_FAMILY_QWEN3);
    m.rope = (struct sw_rope){.theta = 500000,
                              .factor = 8,
                              .low_freq_factor = 1,
                              .high_freq_factor = 4,
                              .original_positions = 8192,
                              .scaling = SW_ROPE_LLAMA3};
    char *text = write(&m, SW_STORED_BF16, NULL);
    assert_string_equal(text, "{\n"
                              "  \"architectures\": [\"Qwen3ForCausalLM\"],\n"
                              "  \"model_type\": \"qwen3\",\n"
                              "  \"vocab_size\": 64,\n"
                              "  \"hidden_size\": 32,\n"
                              "  \"intermediate_size\": 48,\n"
                              "  \"num_hidden_layers\": 3,\n"
                              "  \"num_attention_heads\": 4,\n"
                              "  \"num_key_value_heads\": 2,\n"
                              "  \"head_dim\": 16,\n"
                              "  \"max_position_embeddings\": 256,\n"
                              "  \"hidden_act\": \"silu\",\n"
                              "  \"rms_norm_eps\": 1e-06,\n"
                              "  \"initializer_range\": 0.041666666666666664,\n"
                              "  \"tie_word_embeddings\": false,\n"
                              "  \"rope_theta\": 500000.0,\n"
                              "  \"rope_scaling\": {\n"
                              "    \"rope_type\": \"llama3\",\n"
                              "    \"factor\": 8.0,\n"
                              "    \"low_freq_factor\": 1.0,\n"
                              "    \"high_freq_factor\": 4.0,\n"
                              "    \"original_max_position_embeddings\": 8192\n"
                              "  },\n"
                              "  \"rope_parameters\": {\n"
                              "    \"rope_type\": \"llama3\",\n"
                              "    \"rope_theta\": 500000.0,\n"
                              "    \"factor\": 8.0,\n"
                              "    \"low_freq_factor\": 1.0,\n"
                              "    \"high_freq_factor\": 4.0,\n"
                              "    \"original_max_position_embeddings\": 8192\n"
                              "  },\n"
                              "  \"attention_bias\": false,\n"
                              "  \"attention_dropout\": 0.0,\n"
                              "  \"sliding_window\": null,\n"
                              "  \"use_sliding_window\": false,\n"
                              "  \"max_window_layers\": 3,\n"
                              "  \"bos_token_id\": null,\n"
                              "  \"eos_token_id\": null,\n"
                              "  \"dtype\": \"bfloat16\",\n"
                              "  \"torch_dtype\": \"bfloat16\"\n"
                              "}\n");
    free(text);
}

static char *read_published(const char *name)
{
    char path[300], *text = calloc(1, 65536);
    snprintf(path, sizeof path, "tests/oracle/published_configs/%s.json", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(text);
    assert_non_null(file);
    assert_true(fread(text, 1, 65535, file) > 0);
    fclose(file);
    return text;
}

static struct sw_model model_of(const char *text)
{
    struct sw_config *config = sw_config_read_text("config.json", text, strlen(text),
                                                   SW_CONFIG_MODEL, NULL, NULL, 0, NULL);
    assert_non_null(config);
    assert_non_null(sw_config_model(config));
    const struct sw_model model = sw_config_model(config)->shape;
    sw_config_free(config);
    return model;
}

static void expect_line(const char *text, const char *line, bool there)
{
    if ((strstr(text, line) != NULL) != there)
        fail_msg("%s '%s' in\n%s", there ? "no" : "there is", line, text);
}

static void published_ones_keep_their_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-3.1-405b", "llama-3.1-70b",   "llama-3.1-8b",
                                        "llama-3.2-1b",   "mistral-7b-v0.1", "mistral-7b-v0.3",
                                        "qwen2.5-7b",     "qwen3-8b",        "smollm2-1.7b",
                                        "smollm2-135m",   "smollm2-360m",    "yi-6b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *original = read_published(names[i]);
        const struct sw_model m = model_of(original);
        char *text = write(&m, SW_STORED_F32, original), *again, *copy = NULL;
        expect_model(text, &m);
        expect_line(text, "\"bos_token_id\": null", false);
        expect_line(text, "\"transformers_version\": \"4.", true);
        expect_line(text, "\"torch_dtype\": \"float32\"", true);
        expect_line(text, "\"dtype\": \"float32\"", true);
        expect_line(text, "\"shardwright_original_dtype\": \"bfloat16\"", true);
        assert_int_equal(sw_model_original_dtype(text), SW_STORED_BF16);
        assert_int_equal(sw_model_original_dtype(original), SW_STORED_DTYPES);
        again = write(&m, SW_STORED_F32, text);
        assert_string_equal(again, text);
        assert_int_equal(sw_model_config_copy(&m, SW_STORED_BF16, text, &copy, NULL), 0);
        expect_line(copy, "shardwright", false);
        expect_line(copy, "\"torch_dtype\": \"bfloat16\"", true);
        expect_line(copy, "\"dtype\": \"bfloat16\"", true);
        expect_model(copy, &m);
        free(copy);
        assert_int_equal(sw_model_config_copy(&m, SW_STORED_DTYPES, original, &copy, NULL), 0);
        expect_line(copy, "\"torch_dtype\": \"bfloat16\"", true);
        expect_line(copy, "\"dtype\": \"bfloat16\"", false);
        free(copy);
        free(again);
        free(text);
        free(original);
    }
}

/* Numbers that 15 digits don't tell come back; what a run changed is told; a window that the
 * original says in its own keys stays, and another replaces them. */
static void changes_are_written(void **state)
{
    (void)state;
    char *original = read_published("qwen2.5-7b");
    struct sw_model m = model_of(original);
    char *text = write(&m, SW_STORED_F32, original);
    expect_line(text, "\"sliding_window\": 131072", true);
    expect_line(text, "\"use_sliding_window\": false", true);
    free(text);
    m.rope.theta = 1e7;
    m.sliding_window = 1024;
    m.initializer_range = 0.1 + 0.2;
    text = write(&m, SW_STORED_F32, original);
    expect_model(text, &m);
    expect_line(text, "\"rope_theta\": 10000000.0", true);
    expect_line(text, "\"initializer_range\": 0.30000000000000004", true);
    expect_line(text, "\"sliding_window\": 1024", true);
    expect_line(text, "\"use_sliding_window\": true", true);
    expect_line(text, "\"max_window_layers\": 0", true);
    free(text);
    free(original);

    m = small(SW_FAMILY_QWEN2);
    text = write(
        &m, SW_STORED_F32,
        "{\"dtype\": \"float16\", \"layer_types\": [\"full_attention\"], \"rope_parameters\": "
        "{\"rope_theta\": 7.0, \"rope_type\": \"default\"}, \"x\": [1, {\"y\": [true, false, "
        "2.5, \"\\u00e9\\\"\"]}]}");
    expect_model(text, &m);
    expect_line(text, "layer_types", false);
    expect_line(text, "\"rope_theta\": 7.0", false);
    expect_line(text, "\"shardwright_original_dtype\": \"float16\"", true);
    expect_line(text, "[true, false, 2.5, \"\xc3\xa9\\\"\"]", true);
    free(text);
}

static void expect_refused(const struct sw_model *m, const char *original, enum sw_status status,
                           const char *wanted)
{
    char *text = NULL, said[SW_ERROR_TEXT_BYTES];
    struct sw_error err = {0};
    assert_int_equal(sw_model_config_json(m, SW_STORED_F32, original, &text, &err), -1);
    assert_string_equal(sw_error_format(&err, NULL, said), wanted);
    assert_int_equal(err.status, status);
    assert_null(text);
}

static void refuses(void **state)
{
    (void)state;
    struct sw_model m = small(SW_FAMILY_LLAMA);
    char deep[200];
    expect_refused(&m, "{\"a\": 1,\n  x}", SW_BAD_INPUT,
                   "config.json:2:3: error: not valid JSON: wrong syntax");
    expect_refused(&m, "{\"a\": 1, \"a\": 2, }", SW_BAD_INPUT,
                   "config.json:1:18: error: not valid JSON: wrong syntax");
    expect_refused(&m, "[]", SW_BAD_INPUT, "config.json:1:1: error: is not a mapping");
    snprintf(deep, sizeof deep, "{\"a\": %.40s1%.40s}", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
             "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    expect_refused(&m, deep, SW_BAD_INPUT, "error: config.json is nested deeper than 32 levels");
    m.sliding_window = 7; /* which no Llama has */
    expect_refused(
        &m, NULL, SW_ENVIRONMENT,
        "error: the model has no config.json: read back, its sliding_window is 0, not 7");
}

static void tells_the_first_difference(void **state)
{
    (void)state;
    const struct sw_model m = small(SW_FAMILY_LLAMA);
    static const struct {
        size_t offset, bytes;
        const char *wanted;
    } cases[] = {
#define AT(member) offsetof(struct sw_model, member), sizeof(((struct sw_model *)NULL)->member)
        {AT(vocab_size), "vocab_size is 65, not 64"},
        {AT(hidden_size), "hidden_size is 33, not 32"},
        {AT(intermediate_size), "intermediate_size is 49, not 48"},
        {AT(layers), "num_hidden_layers is 2, not 3"},
        {AT(heads), "num_attention_heads is 5, not 4"},
        {AT(kv_heads), "num_key_value_heads is 3, not 2"},
        {AT(head_dim), "head_dim is 17, not 16"},
        {AT(tied), "tie_word_embeddings is true, not false"},
        {AT(qkv_bias), "bias of q, k and v is true, not false"},
        {AT(output_bias), "bias of attention's output is true, not false"},
        {AT(mlp_bias), "mlp_bias is true, not false"},
        {AT(qk_norm), "norm of q and k is true, not false"},
        {AT(qk_norm_whole), "norm of all heads of q and k is true, not false"},
        {AT(post_norm), "norms behind attention and MLP is true, not false"},
        {AT(embedding_multiplier), "embedding_multiplier is 4.94065645841247e-324, not 0"},
        {AT(attention_multiplier), "attention_multiplier is 4.94065645841247e-324, not 0"},
        {AT(residual_multiplier), "residual_multiplier is 4.94065645841247e-324, not 0"},
        {AT(logits_scaling), "logits_scaling is 4.94065645841247e-324, not 0"},
        {AT(sliding_window), "sliding_window is 1, not 0"},
        {AT(rope.attention_factor), "rope's attention_factor is 4.94065645841247e-324, not 0"},
        {AT(rope.truncate), "rope's truncate is 1, not 0"},
        {AT(partial_rotary_factor), "partial_rotary_factor is 4.94065645841247e-324, not 0"},
        {AT(fused), "projections in one tensor is true, not false"},
        {AT(short_divisors),
         "rope's short_factor is the list c01cd06959834324, not the list 7da144b97d054b25"},
        {AT(long_divisors),
         "rope's long_factor is the list c01cd06959834324, not the list 7da144b97d054b25"},
        {AT(rope.original_positions), "rope's original_max_position_embeddings is 1, not 0"},
        {AT(rope.scaling), "rope_type is linear, not default"},
        {AT(rms_norm_eps), "rms_norm_eps is 9.9999999999999974e-07, not 1e-06"},
        {AT(rope.theta), "rope_theta is 500000.00000000006, not 500000"},
        {AT(rope.factor), "rope's factor is 1.0000000000000002, not 1"},
        {AT(rope.low_freq_factor), "rope's low_freq_factor is 4.94065645841247e-324, not 0"},
        {AT(rope.high_freq_factor), "rope's high_freq_factor is 4.94065645841247e-324, not 0"},
        {AT(family), NULL},
        {AT(max_position_embeddings), NULL},
        {AT(initializer_range), NULL},
#undef AT
    };
    char buffer[160];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sw_model other = m;
        ((unsigned char *)&other)[cases[i].offset] ^= 1; /* the lowest bit */
        const char *said = sw_model_difference(&other, &m, buffer);
        if (cases[i].wanted == NULL)
            assert_null(said);
        else
            assert_string_equal(said, cases[i].wanted);
    }
    assert_null(sw_model_difference(&m, &m, buffer));
    struct sw_model both = m;
    both.vocab_size = 1;
    both.rope.theta = 2;
    assert_string_equal(sw_model_difference(&m, &both, buffer), "vocab_size is 64, not 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_comes_back),
                                       cmocka_unit_test(looks_like_this),
                                       cmocka_unit_test(published_ones_keep_their_keys),
                                       cmocka_unit_test(changes_are_written),
                                       cmocka_unit_test(refuses),
                                       cmocka_unit_test(tells_the_first_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
