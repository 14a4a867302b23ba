/* core/config: families of models, what their keys mean, and every reason for a refusal. */
#include "config_support.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define M                                                                                          \
    "vocab_size: 32\nintermediate_size: 8\nnum_hidden_layers: 2\nhidden_size: 16\n"                \
    "num_attention_heads: 4\n"
/* Keys that Llamas alone may leave out. */
#define NULL_HEADS "num_key_value_heads: null\n"
#define FULL NULL_HEADS "sliding_window: null\nhead_dim: 4\nrms_norm_eps: 1e-6\n"
#define SUPPORTED                                                                                  \
    " | supported: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "     \
    "Olmo2ForCausalLM, GraniteForCausalLM, Gemma3ForCausalLM, Gemma2ForCausalLM, "                 \
    "Olmo3ForCausalLM, Phi3ForCausalLM\n"
#define TYPES                                                                                      \
    " | supported: llama, mistral, qwen2, qwen3, olmo2, granite, gemma3_text, gemma2, olmo3, "     \
    "phi3\n"

struct one {
    const char *text, *expected;
};

static void check(const struct one *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", M, cases[i].text);
        expect(SW_CONFIG_MODEL, text, cases[i].expected);
    }
}

static void kinds_of_model(void **state)
{
    (void)state;
    static const struct one cases[] = {
        /* Nothing else about such a file matters: one line. */
        {"architectures: [MixtralForCausalLM]\nmodel_type: mixtral\nnum_local_experts: 8\nx: 1\n",
         "t:6:17: the architecture 'MixtralForCausalLM' is not supported: a mixture of "
         "experts" SUPPORTED},
        {"model_type: mixtral\nnum_local_experts: 8\n",
         "t:6:13: the model_type 'mixtral' is not supported: a mixture of experts" TYPES},
        {"model_type: exaone\nx: 1\n", "t:6:13: the model_type 'exaone' is not supported" TYPES},
        {"model_type: qwen4\n", "t:6:13: the model_type 'qwen4' is not supported" TYPES},
        {"model_type: [llama]\n",
         "t:6:13: 'model_type' must be a string, not a list | for example: "
         "model_type: llama\n"},
        {"architectures: [Llama5ForCausalLM]\nx: 1\n",
         "t:6:17: the architecture 'Llama5ForCausalLM' is not supported" SUPPORTED},
        {"architectures: [DeepseekV3ForCausalLM]\n",
         "t:6:17: the architecture 'DeepseekV3ForCausalLM' is not supported: multi-head latent "
         "attention and a mixture of experts" SUPPORTED},
        {"architectures: [GemmaForCausalLM]\n",
         "t:6:17: the architecture 'GemmaForCausalLM' is not supported: scaled embeddings, norms "
         "that multiply by 1 + weight, and GELU" SUPPORTED},
        {"architectures: Gemma3ForConditionalGeneration\n",
         "t:6:16: the architecture 'Gemma3ForConditionalGeneration' is not supported: a "
         "model of text and images without its 'text_config'" SUPPORTED},
        {"architectures: [GPT2LMHeadModel]\n",
         "t:6:17: the architecture 'GPT2LMHeadModel' is not supported: learned positions, "
         "LayerNorm and GELU" SUPPORTED},
        {"architectures: [BertModel]\n",
         "t:6:17: the architecture 'BertModel' is not supported: an encoder" SUPPORTED},
        {"architectures: [LlamaForCausualLM]\n",
         "t:6:17: the architecture 'LlamaForCausualLM' is not supported; did you mean "
         "'LlamaForCausalLM'?" SUPPORTED},
        {"architectures: [SomethingElse]\n",
         "t:6:17: the architecture 'SomethingElse' is not supported" SUPPORTED},
        {"architectures: [LlamaForCausalLM, Qwen2ForCausalLM]\n",
         "t:6:35: 'architectures' names two kinds of model | name one of them\n"},
        {"architectures: [{a: b}]\n", "t:6:17: 'architectures' must be a list of strings, not a "
                                      "mapping | for example: architectures: "
                                      "[LlamaForCausalLM]\n"},
        {"model_type: lama\n",
         "t:6:13: the model_type 'lama' is not supported; did you mean 'llama'?" TYPES},
        {"architectures: [LlamaForCausalLM]\nmodel_type: mistral\n",
         "t:7:13: 'model_type: mistral' contradicts the architecture LlamaForCausalLM | for "
         "example: model_type: llama\n"},
    };
    check(cases, COUNT(cases));
}

static void keys_that_change_the_arithmetic(void **state)
{
    (void)state;
    static const struct one cases[] = {
        {"num_local_experts: 8\n",
         "t:6:20: 'num_local_experts: 8' is not supported: a mixture of experts | this model "
         "cannot be planned; with 'num_local_experts: 0' it would be another model\n"},
        {"v_head_dim: 128\n",
         "t:6:13: 'v_head_dim: 128' is not supported: multi-head latent attention | a model that "
         "uses it cannot be planned; null says that it is not used\n"},
        {"partial_rotary_factor: 0.5\n",
         "t:6:24: 'partial_rotary_factor: 0.5' is not supported: rotation of only a part of each "
         "head | this model cannot be planned; with 'partial_rotary_factor: 1.0' it would be "
         "another model\n"},
        {"attention_dropout: 0.1\n",
         "t:6:20: 'attention_dropout: 0.1' is not supported: dropout | this model cannot be "
         "planned; with 'attention_dropout: 0.0' it would be another model\n"},
        {"is_causal: false\n",
         "t:6:12: 'is_causal: false' is not supported: attention to what follows | this model "
         "cannot be planned; with 'is_causal: true' it would be another model\n"},
        {"logit_scale: 0.5\n",
         "t:6:14: 'logit_scale: 0.5' is not supported: a multiplier on logits | this model cannot "
         "be planned; with 'logit_scale: 1.0' it would be another model\n"},
        {"dtype: bfloat16\ntorch_dtype: torch.float16\n",
         "t:1:1: note: ignored keys: dtype, torch_dtype\n"
         "t:6:8: warning: 'dtype: bfloat16' differs from 'torch_dtype: float16' | dtype is taken, "
         "as transformers does from 4.56 on: write one of them\n"},
        {"rope_interleaved: true\n",
         "t:6:19: 'rope_interleaved: true' is not supported: rotary positions in interleaved pairs "
         "| this model cannot be planned; with 'rope_interleaved: false' it would be another "
         "model\n"},
        {"residual_multiplier: 0.22\n",
         "t:6:22: 'residual_multiplier' does not apply to LlamaForCausalLM | leave it out\n"},
        {"attention_multiplier: 1.0\n",
         "t:6:23: 'attention_multiplier' does not apply to LlamaForCausalLM | leave it out\n"},
        {"embedding_multiplier: 1.0\nlogits_scaling: 1\n", ""},
        {"vision_config: {a: 1}\n",
         "t:6:16: 'vision_config' is not supported: an image encoder | a model that uses it cannot "
         "be planned; null says that it is not used\n"},
        {"pruned_heads: {1: [2]}\n",
         "t:6:15: 'pruned_heads' is not supported: heads that are left out | this model cannot be "
         "planned; with 'pruned_heads: {}' it would be another model\n"},
        /* Their harmless values are no more than noted. */
        {"num_local_experts: 0\nattention_dropout: 0\nrope_interleaved: False\nq_lora_rank: null\n"
         "pruned_heads: {}\npartial_rotary_factor: 1\n",
         "t:1:1: note: ignored keys: num_local_experts, attention_dropout, rope_interleaved, "
         "q_lora_rank, pruned_heads\n"},
        {"quantization_config: {bits: 4}\n",
         "t:6:22: 'quantization_config' is not supported | leave it out or write "
         "'quantization_config: null'\n"},
        /* What only other families read. */
        {"sliding_window: 4096\n",
         "t:6:17: 'sliding_window' does not apply to LlamaForCausalLM | leave it out\n"},
        {"use_sliding_window: true\n",
         "t:6:21: 'use_sliding_window' does not apply to LlamaForCausalLM | leave it out\n"},
        {"layer_types: [sliding_attention]\n",
         "t:6:14: 'layer_types' does not apply to LlamaForCausalLM | leave it out\n"},
        {"model_type: mistral\nattention_bias: true\nmlp_bias: true\n" FULL,
         "t:7:17: 'attention_bias' does not apply to MistralForCausalLM | leave it out\n"
         "t:8:11: 'mlp_bias' does not apply to MistralForCausalLM | leave it out\n"},
        {"model_type: mistral\nsliding_window: 64\nuse_sliding_window: false\n" NULL_HEADS
         "rms_norm_eps: 1e-6\n",
         "t:8:21: 'use_sliding_window' does not apply to MistralForCausalLM | leave it out\n"},
        {"model_type: qwen2\nuse_sliding_window: true\n" FULL,
         "t:7:21: 'use_sliding_window: true' needs a 'sliding_window' | for example: "
         "sliding_window: 4096\n"},
        {"model_type: qwen3\nlayer_types: [full_attention, linear_attention]\n" FULL,
         "t:7:31: 'layer_types' has the unsupported type 'linear_attention' | supported: "
         "full_attention, sliding_attention\n"},
        {"model_type: qwen3\nlayer_types: [[a]]\n" FULL,
         "t:7:15: 'layer_types' must be a list of strings, not a list | for example: layer_types: "
         "[full_attention, full_attention]\n"},
        {"model_type: qwen3\nlayer_types: [full_attention]\n" FULL,
         "t:7:14: 'layer_types' names 1 layers, and 'num_hidden_layers' is 2 | write a type for "
         "each layer, or leave it out\n"},
        {"model_type: qwen3\nuse_sliding_window: false\nlayer_types: [full_attention, "
         "sliding_attention]\n" FULL,
         "t:8:14: 'layer_types' has sliding_attention, and 'use_sliding_window' is false | write "
         "'use_sliding_window: true' and a 'sliding_window', or full_attention for each layer\n"},
        {"model_type: qwen3\nlayer_types: full_attention\n" FULL,
         "t:7:14: 'layer_types' must be a list of strings, not the string 'full_attention' | for "
         "example: layer_types: [full_attention, full_attention]\n"},
        {"attention_bias: 1\n",
         "t:6:17: 'attention_bias' must be 'true' or 'false', not the number 1 "
         "| for example: attention_bias: false\n"},
        {"attention_bias: 'true'\n",
         "t:6:17: 'attention_bias' must be 'true' or 'false', not the string 'true' | write it "
         "without quotes\n"},
        {"attention_bias: ture\n",
         "t:6:17: 'attention_bias' must be 'true' or 'false', not the string 'ture'; did you mean "
         "'true'?\n"},
    };
    check(cases, COUNT(cases));
}

/* Where Hugging Face's class has another default than we would take. */
static void keys_that_only_llama_leaves_out(void **state)
{
    (void)state;
#define NEEDS(family, key, help)                                                                   \
    "t:1:1: missing key '" key "', which " family "ForCausalLM needs | write '" key ": " help "\n"
#define NEEDS_HEADS(family, count)                                                                 \
    NEEDS(family, "num_key_value_heads",                                                           \
          count "', Hugging Face's default, or null for as many as num_attention_heads")
#define NEEDS_EPS(family) NEEDS(family, "rms_norm_eps", "1.0e-6', Hugging Face's default")
    static const struct one cases[] = {
        {"", ""},
        {"model_type: llama\narchitectures: [LlamaForCausalLM]\n", ""},
        {"model_type: mistral\n",
         NEEDS_HEADS("Mistral", "8")
             NEEDS("Mistral", "sliding_window", "4096', Hugging Face's default, or null for none")
                 NEEDS_EPS("Mistral")},
        {"architectures: [Qwen2ForCausalLM]\n", NEEDS_HEADS("Qwen2", "32") NEEDS_EPS("Qwen2")},
        {"model_type: qwen3\n",
         NEEDS_HEADS("Qwen3", "32") NEEDS("Qwen3", "head_dim", "128', Hugging Face's default")
             NEEDS_EPS("Qwen3")},
        /* With null, these two have no meaning; the others do. */
        {"model_type: qwen3\nhead_dim: null\nrms_norm_eps:\n" NULL_HEADS,
         "t:7:11: 'head_dim' has no value, which Qwen3ForCausalLM needs | write 'head_dim: 128', "
         "Hugging Face's default\n"
         "t:8:14: 'rms_norm_eps' has no value, which Qwen3ForCausalLM needs | write 'rms_norm_eps: "
         "1.0e-6', Hugging Face's default\n"},
        {"model_type: mistral\n" FULL, ""},
        {"model_type: mistral\nhead_dim: null\nsliding_window: null\nrms_norm_eps: "
         "1e-6\n" NULL_HEADS,
         ""},
        {"model_type: qwen2\nrms_norm_eps: 1e-6\n" NULL_HEADS, ""},
        /* One mistake, one line; and with all others. */
        {"model_type: mistral\nsliding_windw: 8\nrms_norm_eps: x\nmlp_bias: true\n" NULL_HEADS,
         "t:7:1: unknown key 'sliding_windw'; did you mean 'sliding_window'?\n"
         "t:8:15: 'rms_norm_eps' must be a number, not the string 'x' | for example: rms_norm_eps: "
         "1.0e-5\n"},
        {"model_type: mistral\nrms_norm_eps: 1e-6\nmlp_bias: true\n" NULL_HEADS,
         NEEDS("Mistral", "sliding_window",
               "4096', Hugging Face's default, or null for none") "t:8:11: 'mlp_bias' does not "
                                                                  "apply to MistralForCausalLM | "
                                                                  "leave it out\n"},
    };
    check(cases, COUNT(cases));
    /* A head is not guessed: no word about 16 / 3. */
    expect(SW_CONFIG_MODEL,
           "vocab_size: 32\nintermediate_size: 8\nnum_hidden_layers: 2\nhidden_size: 16\n"
           "num_attention_heads: 3\nmodel_type: qwen3\nrms_norm_eps: 1e-6\n" NULL_HEADS,
           NEEDS("Qwen3", "head_dim", "128', Hugging Face's default"));
}

static void rotary_positions(void **state)
{
    (void)state;
#define LLAMA3 "low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_position_embeddings: 8192"
    static const struct one cases[] = {
        {"rope_scaling: {rope_type: mrope, factor: 4.0}\n",
         "t:6:27: 'rope_type: mrope' is not supported: positions of images | this model cannot be "
         "planned; with 'rope_scaling: null' it would be another model\n"},
        {"rope_scaling: {type: dynamic, factor: 2.0}\n",
         "t:6:22: 'type: dynamic' is not supported: angles that change with the length of a "
         "sequence | this model cannot be planned; with 'rope_scaling: null' it would be another "
         "model\n"},
        {"rope_parameters: {rope_type: longrope}\n",
         "t:6:18: 'rope_parameters' of type longrope has no 'short_factor' | for example: "
         "short_factor: [1.0, 1.05, 1.1, 2.0]\n"
         "t:6:18: 'rope_parameters' of type longrope has no 'long_factor' | for example: "
         "long_factor: [1.0, 1.5, 4.0, 30.0]\n"},
        {"rope_scaling: {type: su, short_factor: [1, 2], long_factor: [2, 4, 8]}\n",
         "t:6:15: 'short_factor' and 'long_factor' have 2 and 3 numbers, not 2 | one for each pair "
         "of elements of a head that rotates\n"},
        {"rope_scaling: {type: longrope, short_factor: [1, 0], long_factor: [2, 4]}\n",
         "t:6:50: 'short_factor' has the divisor 0; it is 0.000001 to 1000000 | for example: "
         "short_factor: [1.0, 1.05, 1.1, 2.0]\n"},
        {"rope_scaling: {type: longrope, short_factor: 1, long_factor: [2, 4]}\n",
         "t:6:46: 'short_factor' must be a list of numbers, not the number 1 | for example: "
         "short_factor: [1.0, 1.05, 1.1, 2.0]\n"},
        {"rope_scaling: {type: longrope, short_factor: [1, 2], long_factor: [2, 4], "
         "original_max_position_embeddings: 1}\n",
         "t:6:15: 'rope_scaling' of type longrope has the original length 1 | give "
         "'original_max_position_embeddings', at least 2\n"},
        {"rope_scaling: {type: yarn, factor: 2, short_factor: [1, 2]}\n",
         "t:6:53: 'rope_scaling' of type yarn does not use 'short_factor' | leave it out\n"},
        {"rope_scaling: {type: yarn, original_max_position_embeddings: 1000000}\n",
         "t:6:15: 'rope_scaling' of type yarn would have the factor 0.002048 | give 'factor', at "
         "least 1\n"},
        {"rope_theta: 1\nrope_scaling: {type: yarn, factor: 2}\n",
         "t:7:15: yarn needs a 'rope_theta' above 1 | for example: rope_theta: 10000.0\n"},
        {"rope_scaling: {type: yarn, factor: 2, original_max_position_embeddings: 8}\n"
         "original_max_position_embeddings: 16\n",
         "t:6:73: 'rope_scaling.original_max_position_embeddings: 8' contradicts "
         "'original_max_position_embeddings: 16' | transformers 4 reads the one, 5 the other: "
         "write "
         "one of them, or both alike\n"},
        {"rope_scaling: {rope_type: llama4}\n",
         "t:6:27: 'rope_type' must be one of default, linear, llama3, yarn, longrope, not 'llama4' "
         "| for example: "
         "rope_type: llama3\n"},
        {"rope_scaling: 8\n",
         "t:6:15: 'rope_scaling' must be a mapping, not the number 8 | for example: rope_scaling: "
         "{rope_type: llama3, factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, "
         "original_max_position_embeddings: 8192}\n"},
        {"rope_scaling: {factor: 8.0}\n",
         "t:6:15: missing key 'rope_type' | for example: rope_type: llama3\n"},
        {"rope_scaling: {type: linear, rope_type: llama3}\n",
         "t:6:22: 'type' contradicts 'rope_type' | write one of them\n"},
        {"rope_scaling: {type: linear}\n",
         "t:6:15: 'rope_scaling' of type linear has no 'factor' | for example: factor: 8.0\n"},
        {"rope_scaling: {type: linear, factor: 2, low_freq_factor: 1}\n",
         "t:6:58: 'rope_scaling' of type linear does not use 'low_freq_factor' | leave it out\n"},
        {"rope_scaling: {rope_type: llama3, factor: 0.5, " LLAMA3 "}\n",
         "t:6:43: 'factor' must be at least 1, not 0.5 | for example: factor: 8.0\n"},
        {"rope_scaling: {rope_type: llama3, factor: 8, low_freq_factor: 4, high_freq_factor: 4, "
         "original_max_position_embeddings: 8192}\n",
         "t:6:84: 'high_freq_factor' must be more than 'low_freq_factor' | for example: "
         "low_freq_factor: 1.0, high_freq_factor: 4.0\n"},
        {"rope_scaling: {rope_type: llama3, factor: 8, rope_theta: 1, " LLAMA3 "}\n",
         "t:6:46: unknown key 'rope_theta' | known keys: rope_type, type, factor, low_freq_factor, "
         "high_freq_factor, original_max_position_embeddings, attention_factor, beta_fast, "
         "beta_slow, mscale, mscale_all_dim, truncate, short_factor, long_factor, "
         "partial_rotary_factor\n"},
        {"rope_parameters: {rope_theta: 1e4, partial_rotary_factor: 0.25}\n",
         "t:6:59: 'partial_rotary_factor: 0.25' is not supported: rotation of only a part of each "
         "head | this model cannot be planned; with 'partial_rotary_factor: 1.0' it would be "
         "another model\n"},
#define PHI3 "model_type: phi3\nrms_norm_eps: 1e-5\n"
        {PHI3 "partial_rotary_factor: 0.3\n",
         "t:8:24: 'partial_rotary_factor' lets 1 of a head's 4 elements rotate; rotary positions "
         "turn pairs of elements | an even number of elements, at least 2, can rotate\n"},
        {PHI3 "partial_rotary_factor: 1.5\n",
         "t:8:24: 'partial_rotary_factor' must be at most 1, not 1.5 | for example: "
         "partial_rotary_factor: 0.75\n"},
        {PHI3 "partial_rotary_factor: 0.5\nrope_parameters: {partial_rotary_factor: 0.75}\n",
         "t:9:42: 'partial_rotary_factor' is given twice, with different values | write one of "
         "them, or both alike\n"},
        {PHI3 "partial_rotary_factor: 0.5\nrope_scaling: {type: yarn, short_factor: [1], "
              "long_factor: [2]}\n",
         ""},
        {"rope_theta: 10000\nrope_parameters: {rope_theta: 5e5}\n",
         "t:7:31: 'rope_parameters.rope_theta: 5e5' contradicts 'rope_theta: 10000' | transformers "
         "4 reads the one, 5 the other: write one of them, or both alike\n"},
        {"rope_theta: 10000\nrope_parameters: {rope_theta: 1e4}\n", ""},
        {"rope_scaling: {rope_type: llama3, factor: 8, " LLAMA3
         "}\noriginal_max_position_embeddings: 4096\n",
         "t:6:125: 'rope_scaling.original_max_position_embeddings: 8192' contradicts "
         "'original_max_position_embeddings: 4096' | transformers 4 reads the one, 5 the other: "
         "write one of them, or both alike\n"},
        {"rope_parameters: {rope_type: default}\nrope_scaling: {type: linear, factor: 2}\n",
         "t:7:15: 'rope_scaling' differs from 'rope_parameters' | write one of them\n"},
    };
    check(cases, COUNT(cases));
}

static const struct sw_model *read_model(struct sw_config **config, const char *text)
{
    *config = read_named("t", text, SW_CONFIG_MODEL, NULL);
    char *got = report(*config);
    assert_string_equal(got, "");
    free(got);
    assert_non_null(sw_config_model(*config));
    return &sw_config_model(*config)->shape;
}

/* The same model, said in several ways. */
static void rotary_positions_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {
        M "rope_theta: 500000\nrope_scaling: {rope_type: llama3, factor: 8, " LLAMA3 "}\n",
        M "rope_theta: 500000\nrope_scaling: {type: llama3, rope_type: llama3, factor: 8, " LLAMA3
          "}\n",
        M "rope_parameters: {rope_type: llama3, rope_theta: 500000, factor: 8, " LLAMA3 "}\n",
        M "rope_theta: 500000\nrope_parameters: {rope_type: llama3, factor: 8, " LLAMA3 "}\n",
        M "rope_parameters: {rope_type: llama3, rope_theta: 500000, factor: 8, " LLAMA3 "}\n"
          "rope_scaling: {rope_type: llama3, factor: 8, " LLAMA3 "}\n",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct sw_config *c;
        const struct sw_rope *r = &read_model(&c, texts[i])->rope;
        assert_int_equal(r->scaling, SW_ROPE_LLAMA3);
        assert_true(r->theta == 5e5 && r->factor == 8 && r->low_freq_factor == 1 &&
                    r->high_freq_factor == 4);
        assert_int_equal(r->original_positions, 8192);
        sw_config_free(c);
    }
    struct sw_config *c;
    const struct sw_rope *r =
        &read_model(&c, M "rope_scaling: {type: linear, factor: 2.5}\n")->rope;
    assert_true(r->scaling == SW_ROPE_LINEAR && r->factor == 2.5 && r->theta == 1e4);
    sw_config_free(c);
    r = &read_model(&c, M "rope_scaling: {rope_type: default}\nrope_parameters: null\n")->rope;
    assert_true(r->scaling == SW_ROPE_PLAIN && r->factor == 1);
    sw_config_free(c);
    r = &read_model(&c, M)->rope;
    assert_true(r->scaling == SW_ROPE_PLAIN && r->factor == 1 && r->original_positions == 0);
    sw_config_free(c);
}

static void families_fix_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct sw_model expected; /* the five flags and the family */
    } cases[] = {
        {"", {.family = SW_FAMILY_LLAMA}},
        {"attention_bias: true\n",
         {.family = SW_FAMILY_LLAMA, .qkv_bias = true, .output_bias = true}},
        {"mlp_bias: true\n", {.family = SW_FAMILY_LLAMA, .mlp_bias = true}},
        {"model_type: mistral\n" FULL, {.family = SW_FAMILY_MISTRAL}},
        {"architectures: [Qwen2ForCausalLM]\n" FULL, {.family = SW_FAMILY_QWEN2, .qkv_bias = true}},
        {"architectures: Qwen3ForCausalLM\nmodel_type: qwen3\n" FULL,
         {.family = SW_FAMILY_QWEN3, .qk_norm = true}},
        {"model_type: qwen3\nattention_bias: true\n" FULL,
         {.family = SW_FAMILY_QWEN3, .qk_norm = true, .qkv_bias = true, .output_bias = true}},
        {"model_type: olmo2\nrms_norm_eps: 1e-6\n",
         {.family = SW_FAMILY_OLMO2, .qk_norm_whole = true, .post_norm = true}},
        {"model_type: gemma3_text\n",
         {.family = SW_FAMILY_GEMMA3, .qk_norm = true, .post_norm = true, .both_norms = true}},
        {"model_type: gemma2\nhidden_act: gelu_pytorch_tanh\n",
         {.family = SW_FAMILY_GEMMA2, .post_norm = true, .both_norms = true}},
        {"model_type: olmo3\n",
         {.family = SW_FAMILY_OLMO3, .qk_norm_whole = true, .post_norm = true}},
        {"model_type: granite\nrms_norm_eps: 1e-6\nattention_multiplier: 0.25\nlogits_scaling: 8\n"
         "embedding_multiplier: 1\nmlp_bias: true\n",
         {.family = SW_FAMILY_GRANITE,
          .mlp_bias = true,
          .attention_multiplier = 0.25,
          .logits_scaling = 8}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512];
        struct sw_config *c;
        snprintf(text, sizeof text, "%s%s", M, cases[i].text);
        const struct sw_model *m = read_model(&c, text), *e = &cases[i].expected;
        assert_int_equal(m->family, e->family);
        assert_true(m->qkv_bias == e->qkv_bias && m->output_bias == e->output_bias &&
                    m->mlp_bias == e->mlp_bias && m->qk_norm == e->qk_norm &&
                    m->qk_norm_whole == e->qk_norm_whole && m->post_norm == e->post_norm &&
                    m->both_norms == e->both_norms && m->gelu == e->both_norms &&
                    m->norms_plus_one == e->both_norms && m->embedding_root == e->both_norms);
        assert_true(m->embedding_multiplier == e->embedding_multiplier &&
                    m->attention_multiplier == e->attention_multiplier &&
                    m->residual_multiplier == e->residual_multiplier &&
                    m->logits_scaling == e->logits_scaling);
        sw_config_free(c);
    }
}

/* As the files of the larger Gemma 3 are: keys of the class left out, the text inside, and what
 * --set says of the model is said of the text. */
static void text_parts_are_models(void **state)
{
    (void)state;
    static const char text[] =
        "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", "
        "\"text_config\": {\"hidden_size\": 2560, \"model_type\": \"gemma3_text\", "
        "\"num_hidden_layers\": 34, \"rope_scaling\": {\"factor\": 8.0, \"rope_type\": "
        "\"linear\"}, "
        "\"sliding_window\": 1024}, \"vision_config\": {\"num_hidden_layers\": 27}}";
    static const struct sw_override set[] = {{"num_hidden_layers=5"}, {"sliding_window_pattern=3"}};
    for (int32_t changes = 0; changes <= 2; changes += 2) {
        struct sw_config *c = sw_config_read_text("config.json", text, sizeof text - 1,
                                                  SW_CONFIG_MODEL, NULL, set, changes, NULL);
        assert_non_null(sw_config_model(c));
        const struct sw_model *m = &sw_config_model(c)->shape;
        assert_int_equal(m->family, SW_FAMILY_GEMMA3);
        assert_int_equal(m->layers, changes ? 5 : 34);
        assert_int_equal(m->period, changes ? 3 : 6);
        assert_int_equal(m->local, changes ? 3 : 31);
        assert_int_equal(m->vocab_size, 262208);
        assert_int_equal(m->kv_heads, 4);
        assert_int_equal(m->sliding_window, 1024);
        assert_true(m->tied && m->rope.factor == 8 && m->local_rope.theta == 1e4);
        sw_config_free(c);
    }
}

/* As Qwen2Config decides which layers have a window. */
static void windows_count_where_they_are_used(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t window;
        uint64_t local; /* 0: all layers, where there is a window */
    } cases[] = {
        {"use_sliding_window: false\nsliding_window: 64\n", 0, 0}, /* a Llama */
        {"model_type: mistral\nsliding_window: 64\n", 64, 0},
        {"model_type: mistral\nsliding_window: null\n", 0, 0},
        {"model_type: qwen2\nsliding_window: 64\n", 0, 0},
        {"model_type: qwen2\nsliding_window: 64\nuse_sliding_window: true\n", 0, 0},
        {"model_type: qwen2\nsliding_window: 64\nuse_sliding_window: true\nmax_window_layers: 1\n",
         64, 2},
        {"model_type: qwen2\nsliding_window: 64\nuse_sliding_window: true\nmax_window_layers: 2\n",
         0, 0},
        {"model_type: qwen3\nsliding_window: 64\nuse_sliding_window: true\nmax_window_layers: 0\n"
         "layer_types: [full_attention, full_attention]\n",
         0, 0},
        {"model_type: qwen3\nsliding_window: 64\nuse_sliding_window: true\n"
         "layer_types: [full_attention, sliding_attention]\n",
         64, 2},
        {"model_type: qwen3\nsliding_window: 64\nuse_sliding_window: true\nmax_window_layers: 0\n",
         64, 0},
        {"model_type: qwen3\nsliding_window: 64\nuse_sliding_window: true\n"
         "layer_types: [sliding_attention, sliding_attention]\n",
         64, 0},
        {"model_type: gemma2\nsliding_window: 64\n", 64, 1},
        {"model_type: gemma2\n", 4096, 1},
        {"model_type: gemma2\nlayer_types: [full_attention, full_attention]\n", 0, 0},
        {"model_type: gemma2\nsliding_window: 64\nlayer_types: [full_attention, "
         "sliding_attention]\n",
         64, 2},
        {"model_type: olmo3\n", 4096, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512];
        struct sw_config *c;
        snprintf(text, sizeof text, "%s%s%s", M, cases[i].text,
                 NULL_HEADS "head_dim: 4\nrms_norm_eps: 1e-6\n");
        const struct sw_model *m = read_model(&c, text);
        assert_int_equal(m->sliding_window, cases[i].window);
        assert_int_equal(m->local, cases[i].local);
        assert_true(m->period == (cases[i].local != 0 && m->family != SW_FAMILY_OLMO3 ? 2 : 0));
        sw_config_free(c);
    }
}

/* Lists that repeat within 64 layers, and keys that only their family reads. */
static void kinds_of_layers_are_told(void **state)
{
    (void)state;
    static const char qwen[] = "vocab_size: 256\nhidden_size: 64\nintermediate_size: 128\n"
                               "num_attention_heads: 4\nnum_key_value_heads: 4\nhead_dim: 16\n"
                               "rms_norm_eps: 1e-6\nmodel_type: qwen2\nuse_sliding_window: true\n"
                               "sliding_window: 64\n";
    char text[512];
    struct sw_config *c;
    snprintf(text, sizeof text, "%snum_hidden_layers: 64\nmax_window_layers: 40\n", qwen);
    const struct sw_model *m = read_model(&c, text);
    assert_int_equal(m->period, 64);
    assert_true(m->local == UINT64_MAX << 40 && m->sliding_window == 64);
    assert_true(m->local_rope.theta == 0);
    sw_config_free(c);
    snprintf(text, sizeof text, "%snum_hidden_layers: 80\nmax_window_layers: 40\n", qwen);
    expect(SW_CONFIG_MODEL, text,
           "t:12:20: 'max_window_layers' does not repeat within 80 layers | supported: periods of "
           "up to 64 layers\n");
    static const struct one cases[] = {
        {"attn_logit_softcapping: 50\n",
         "t:6:25: 'attn_logit_softcapping' does not apply to LlamaForCausalLM | leave it out\n"},
        {"final_logit_softcapping: 30\nattn_logit_softcapping: null\n",
         "t:6:26: 'final_logit_softcapping' does not apply to LlamaForCausalLM | leave it out\n"},
        {"hidden_act: gelu_pytorch_tanh\n",
         "t:6:13: 'hidden_act: gelu_pytorch_tanh' is not supported: another activation | "
         "LlamaForCausalLM has silu\n"},
        {"model_type: gemma2\nhidden_activation: silu\n",
         "t:7:20: 'hidden_activation: silu' is not supported: another activation | "
         "Gemma2ForCausalLM has gelu_pytorch_tanh\n"},
        {"model_type: gemma2\nsliding_window: null\n",
         "t:7:17: layers of sliding_attention need a 'sliding_window' | for example: "
         "sliding_window: 4096\n"},
        {"model_type: gemma2\nuse_sliding_window: false\n",
         "t:7:21: 'use_sliding_window' does not apply to Gemma2ForCausalLM | leave it out\n"},
        {"model_type: gemma2\nsliding_window_pattern: 2\n",
         "t:7:25: 'sliding_window_pattern' does not apply to Gemma2ForCausalLM | leave it out\n"},
        {"model_type: gemma2\nrope_local_base_freq: 100\n",
         "t:7:23: 'rope_local_base_freq' does not apply to Gemma2ForCausalLM | leave it out\n"},
        {"model_type: olmo3\nrope_parameters: {sliding_attention: {rope_type: linear, factor: 2},\n"
         "  full_attention: {rope_type: default}}\n",
         "t:7:18: 'rope_parameters.sliding_attention' is not supported: angles that are stretched "
         "in layers with a window | supported: rope_type: default\n"},
        {"model_type: olmo3\nrope_theta: 1e4\nrope_parameters: {full_attention: {rope_theta: "
         "5e5}}\n",
         "t:8:48: 'rope_parameters.full_attention.rope_theta: 5e5' contradicts 'rope_theta: 1e4' | "
         "transformers 4 reads the one, 5 the other: write one of them, or both alike\n"},
    };
    check(cases, COUNT(cases));
    m = read_model(&c, M "model_type: gemma2\nattn_logit_softcapping: null\n");
    assert_true(m->attention_softcap == 0 && m->final_softcap == 30 && m->tied);
    sw_config_free(c);
    m = read_model(&c, M "model_type: olmo3\nrope_scaling: {rope_type: linear, factor: 2}\n");
    assert_true(m->rope.factor == 2 && m->rope.theta == 5e5 && m->local_rope.theta == 5e5 &&
                m->local_rope.scaling == SW_ROPE_PLAIN);
    sw_config_free(c);
}

static void sequences_may_be_longer_than_a_window(void **state)
{
    (void)state;
#define RUN(length)                                                                                \
    "name: r\ncluster: " CLUSTER "\nglobal_batch_size: 8\nsequence_length: " length "\nmodel:\n"   \
    "  {model_type: mistral, sliding_window: 4096, vocab_size: 256, hidden_size: 64,\n"            \
    "   intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4,\n"                   \
    "   num_key_value_heads: 4, rms_norm_eps: 1e-6}\n"
    expect(SW_CONFIG_RUN, RUN("4096"), "");
    expect(SW_CONFIG_RUN, RUN("4097"), "");
}

/* --set reaches the keys inside of rope_scaling, and takes the whole away. */
static void parts_can_be_overridden(void **state)
{
    (void)state;
    static const char text[] =
        "name: r\ncluster: " CLUSTER
        "\nglobal_batch_size: 8\nsequence_length: 8\nmodel: {vocab_size: 256, "
        "hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
        "num_attention_heads: 4, rope_scaling: {type: linear, factor: 2}}\n";
    static const char *const factor[] = {"model.rope_scaling.factor=4", NULL};
    static const char *const none[] = {"model.rope_scaling=null", NULL};
    static const char *const typo[] = {"model.rope_scaling.fctor=4", NULL};
    struct sw_config *c = read_named("t", text, SW_CONFIG_RUN, factor);
    assert_non_null(sw_config_run(c));
    assert_true(sw_config_run(c)->model.shape.rope.factor == 4);
    sw_config_free(c);
    c = read_named("t", text, SW_CONFIG_RUN, none);
    assert_non_null(sw_config_run(c));
    assert_int_equal(sw_config_run(c)->model.shape.rope.scaling, SW_ROPE_PLAIN);
    sw_config_free(c);
    expect_named("t", SW_CONFIG_RUN, text, typo,
                 "--set:1:20: unknown key 'fctor'; did you mean 'factor'?\n");
}

/* --set says the base of the angles outside of rope_parameters, where a file of transformers 5 has
 * it inside. */
static void set_counts_before_rope_parameters(void **state)
{
    (void)state;
    static const char *const texts[] = {
        M "rope_parameters: {rope_type: default, rope_theta: 500000}\n",
        M "model_type: olmo3\nrope_parameters: {full_attention: {rope_theta: 500000}, "
          "sliding_attention: {rope_theta: 30000}}\n"};
    const struct sw_override set = {"rope_theta=1000000"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct sw_error err = {0};
        struct sw_config *c = sw_config_read_text("t", texts[i], strlen(texts[i]), SW_CONFIG_MODEL,
                                                  NULL, &set, 1, &err);
        assert_non_null(c);
        assert_non_null(sw_config_model(c));
        assert_true(sw_config_model(c)->shape.rope.theta == 1000000);
        assert_true(i == 0 || sw_config_model(c)->shape.local_rope.theta == 30000);
        sw_config_free(c);
    }
}

/* Every key of the configuration classes of transformers 4 and 5, with its default, has a fate: it
 * is read, noted or refused by name (config_keys.py). */
static void keys_of_transformers_are_known(void **state)
{
    FILE *file = fopen("tests/oracle/fixtures/config_keys.txt", "re");
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    (void)state;
    assert_non_null(file);
    for (; getline(&line, &room, file) > 0; count++) {
        char text[4096], family[32];
        int used = 0;
        struct sw_error err = {0};
        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(sscanf(line, "%31s %n", family, &used), 1);
        const int32_t length =
            (int32_t)snprintf(text, sizeof text,
                              "{\"vocab_size\": 32, \"intermediate_size\": 8, "
                              "\"num_hidden_layers\": 2, \"hidden_size\": 16, "
                              "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
                              "\"head_dim\": 4, \"sliding_window\": null, \"rms_norm_eps\": 1e-6, "
                              "\"architectures\": [\"%sForCausalLM\"], %s}",
                              family, line + used);
        struct sw_config *c =
            sw_config_read_text("t", text, (size_t)length, SW_CONFIG_MODEL, NULL, NULL, 0, &err);
        assert_non_null(c);
        if (sw_config_model(c) == NULL)
            fail_msg("%s: %s", line, sw_config_diagnostic(c, 0)->message);
        sw_config_free(c);
    }
    free(line);
    fclose(file);
    assert_true(count > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_model),
        cmocka_unit_test(keys_that_change_the_arithmetic),
        cmocka_unit_test(keys_that_only_llama_leaves_out),
        cmocka_unit_test(rotary_positions),
        cmocka_unit_test(set_counts_before_rope_parameters),
        cmocka_unit_test(keys_of_transformers_are_known),
        cmocka_unit_test(rotary_positions_are_read),
        cmocka_unit_test(families_fix_what_they_are),
        cmocka_unit_test(text_parts_are_models),
        cmocka_unit_test(windows_count_where_they_are_used),
        cmocka_unit_test(kinds_of_layers_are_told),
        cmocka_unit_test(sequences_may_be_longer_than_a_window),
        cmocka_unit_test(parts_can_be_overridden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
